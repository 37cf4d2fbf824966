import type { SetTimer } from "../../exchange.ts";

/** Something that wants to be reminded now and then that it has been quiet. */
export interface KeepAliveTarget {
  keepAlive(): void;
}

/** One timer for all open streams. */
export interface KeepAlive {
  add(stream: KeepAliveTarget): void;
  delete(stream: KeepAliveTarget): void;
  /** Beats at another interval, from the next beat on. */
  setInterval(intervalMs: number): void;
  close(): void;
}

/** Calls every stream's `beat` each interval; runs no timer while there are none. */
export function createKeepAlive(startMs: number, setTimer: SetTimer): KeepAlive {
  const streams = new Set<KeepAliveTarget>();
  let intervalMs = startMs;
  let stop: (() => void) | undefined;
  function tick(): void {
    stop = streams.size === 0 ? undefined : setTimer(intervalMs, tick);
    for (const stream of streams) stream.keepAlive();
  }
  return {
    add: (stream) => {
      streams.add(stream);
      stop ??= setTimer(intervalMs, tick);
    },
    delete: (stream) => {
      streams.delete(stream);
    },
    setInterval: (nextMs) => {
      intervalMs = nextMs;
    },
    close: () => {
      stop?.();
      streams.clear();
    },
  };
}
