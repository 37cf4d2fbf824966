import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";

import { Loading, Problem } from "./parts/notices.tsx";

/** A view whose code is fetched when it is first shown. */
export function lazyView(load: () => Promise<ComponentType>): ComponentType {
  let fetched: ComponentType | undefined;
  return function LazyView() {
    const view = useSignal<ComponentType | undefined>(fetched);
    const problem = useSignal<Error | undefined>(undefined);
    useEffect(() => {
      load().then(
        (found) => {
          fetched = found;
          view.value = found;
        },
        (error: unknown) => {
          // After an update of the gateway the old parts are gone.
          problem.value = new Error(`This view could not be loaded; reload the page. (${String(error)})`);
        },
      );
    }, []);
    const Found = view.value;
    if (Found !== undefined) return <Found />;
    return (
      <main class="view">
        {problem.value === undefined ? <Loading what="Fetching the view…" /> : <Problem error={problem.value} />}
      </main>
    );
  };
}
