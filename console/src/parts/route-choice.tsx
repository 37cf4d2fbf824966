import { type Signal, useSignal } from "@preact/signals";

import { place } from "../state/route.ts";
import { session } from "../state/session.ts";

/** The route that a view is about; at first the one that the address names, or the first one. */
export function useRoute(): Signal<string> {
  const state = session.peek();
  const names = state.type === "in" ? state.about.routes.map(({ name }) => name) : [];
  const named = place.peek().query.get("route");
  return useSignal(names.find((name) => name === named) ?? names[0] ?? "");
}

/** Chooses a route. */
export function RouteChoice({ route, onChoose }: { readonly route: Signal<string>; readonly onChoose?: () => void }) {
  const state = session.value;
  const routes = state.type === "in" ? state.about.routes : [];
  return (
    <label class="row-flex soft">
      Route
      <select
        class="field"
        value={route.value}
        onChange={({ currentTarget }) => {
          route.value = currentTarget.value;
          onChoose?.();
        }}
      >
        {routes.map(({ name }) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
