import { type Signal, useSignal } from "@preact/signals";

import { session } from "../state/session.ts";

/** The route that a view is about; at first the only or first one. */
export function useRoute(): Signal<string> {
  const state = session.peek();
  return useSignal(state.type === "in" ? (state.about.routes[0]?.name ?? "") : "");
}

/** Chooses a route. */
export function RouteChoice({ route }: { readonly route: Signal<string> }) {
  const state = session.value;
  const routes = state.type === "in" ? state.about.routes : [];
  return (
    <label class="row-flex soft">
      Route
      <select class="field" value={route.value} onChange={({ currentTarget }) => (route.value = currentTarget.value)}>
        {routes.map(({ name }) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
