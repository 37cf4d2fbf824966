import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";

import { Loading, Problem } from "./parts/notices.tsx";
import { ApiError, get } from "./state/api.ts";

/** How soon it is tried again, where the gateway did not answer. */
const retryMs = 2000;

/** A view whose code is fetched when it is first shown. */
export function lazyView(load: () => Promise<ComponentType>): ComponentType {
  let fetched: ComponentType | undefined;
  return function LazyView() {
    const view = useSignal<ComponentType | undefined>(fetched);
    const problem = useSignal<Error | undefined>(undefined);
    useEffect(() => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      let isOver = false;
      const attempt = async (): Promise<void> => {
        try {
          fetched = await load();
          view.value = fetched;
        } catch (error) {
          // The gateway may be restarting. Where it answers, its old parts are gone after an update.
          const reason = await get("session").catch((thrown: unknown) => thrown);
          if (isOver) return;
          const isAway = reason instanceof ApiError && reason.isUnreachable;
          if (isAway || problem.peek() === undefined) timer = setTimeout(() => void attempt(), retryMs);
          problem.value = isAway
            ? reason
            : new Error(`This view could not be loaded; reload the page. (${String(error)})`);
        }
      };
      void attempt();
      return () => {
        isOver = true;
        clearTimeout(timer);
      };
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
