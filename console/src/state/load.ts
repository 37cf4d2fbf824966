import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** Something that is being fetched. What was there before stays while it is fetched again. */
export interface Loaded<Value> {
  readonly value?: Value;
  readonly error?: Error;
  readonly isLoading: boolean;
}

/** Fetches when a key changes; an older answer never replaces a newer one. */
export function useLoaded<Value>(
  key: string,
  fetchValue: (signal: AbortSignal) => Promise<Value>,
): Signal<Loaded<Value>> {
  const state = useSignal<Loaded<Value>>({ isLoading: true });
  useEffect(() => {
    const stop = new AbortController();
    const { error: _error, ...before } = state.peek();
    state.value = { ...before, isLoading: true };
    fetchValue(stop.signal).then(
      (value) => {
        if (!stop.signal.aborted) state.value = { value, isLoading: false };
      },
      (error: unknown) => {
        if (stop.signal.aborted) return;
        const { value } = state.peek();
        const problem = error instanceof Error ? error : new Error(String(error));
        state.value = { ...(value === undefined ? {} : { value }), error: problem, isLoading: false };
      },
    );
    return () => {
      stop.abort();
    };
  }, [key]);
  return state;
}
