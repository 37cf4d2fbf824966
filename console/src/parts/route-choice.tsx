import { type Signal, useSignal } from "@preact/signals";

import { note, place } from "../state/route.ts";
import { session } from "../state/session.ts";

/** The route that a view is about; at first the one that the address names, or the first one. */
export function useRoute(): Signal<string> {
  const state = session.peek();
  const names = state.type === "in" ? state.about.routes.map(({ name }) => name) : [];
  const named = place.peek().query.get("route");
  return useSignal(names.find((name) => name === named) ?? names[0] ?? "");
}

/** Chooses a route where there are several; the address names it, unless the view says otherwise. */
export function RouteChoice({
  route,
  onChoose = () => note({ route: route.value }),
}: {
  readonly route: Signal<string>;
  readonly onChoose?: () => void;
}) {
  const state = session.value;
  const routes = state.type === "in" ? state.about.routes : [];
  if (routes.length < 2) return null;
  return (
    <label class="row-flex soft">
      Route
      <select
        class="field"
        value={route.value}
        onChange={({ currentTarget }) => {
          route.value = currentTarget.value;
          onChoose();
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
