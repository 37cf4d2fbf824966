import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { ApiError } from "./api.ts";

/** Something that is being fetched. What was there before stays while it is fetched again. */
export interface Loaded<Value> {
  readonly value?: Value;
  readonly error?: Error;
  readonly isLoading: boolean;
}

/** How soon a gateway that does not answer is asked again. */
const retryMs = 2000;

/**
 * Fetches when a key changes; an older answer never replaces a newer one. A gateway that does not answer is asked again
 * until it does.
 */
export function useLoaded<Value>(
  key: string,
  fetchValue: (signal: AbortSignal) => Promise<Value>,
): Signal<Loaded<Value>> {
  const state = useSignal<Loaded<Value>>({ isLoading: true });
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = (): void => {
      fetchValue(stop.signal).then(
        (value) => {
          if (!stop.signal.aborted) state.value = { value, isLoading: false };
        },
        (error: unknown) => {
          if (stop.signal.aborted) return;
          const { value } = state.peek();
          const problem = error instanceof Error ? error : new Error(String(error));
          state.value = { ...(value === undefined ? {} : { value }), error: problem, isLoading: false };
          if (error instanceof ApiError && error.isUnreachable) timer = setTimeout(load, retryMs);
        },
      );
    };
    const { error: _error, ...before } = state.peek();
    state.value = { ...before, isLoading: true };
    load();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key]);
  return state;
}

const refreshMs = 10_000;
/** Counting may take the gateway's reading thread at most this part of the time; the map is counted once more. */
const busyShare = 0.01;

/** Fetches when a key changes, and again after a while: later where it takes long, and not where nobody looks. */
export function useRefreshed<Value>(
  key: string,
  fetchValue: (signal: AbortSignal) => Promise<Value>,
): Signal<Loaded<Value>> {
  const round = useSignal(0);
  const startedAt = useRef(0);
  const loaded = useLoaded(`${key} ${round.value}`, (signal) => {
    startedAt.current = performance.now();
    return fetchValue(signal);
  });
  const { isLoading } = loaded.value;
  useEffect(() => {
    if (isLoading) return undefined;
    const tookMs = performance.now() - startedAt.current;
    const next = (): void => {
      if (document.hidden) timer = setTimeout(next, refreshMs);
      else round.value++;
    };
    let timer = setTimeout(next, Math.max(refreshMs, tookMs / busyShare));
    return () => clearTimeout(timer);
  }, [isLoading]);
  return loaded;
}
