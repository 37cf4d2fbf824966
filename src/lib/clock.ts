/** Sources of time, passed in so that tests and replay are exact. */
export interface Clock {
  /** Monotonic milliseconds, for durations. */
  readonly now: () => number;
  /** Milliseconds since 1970, for display and expiry dates. */
  readonly wall: () => number;
}

export const systemClock: Clock = { now: () => performance.now(), wall: () => Date.now() };

/**
 * A clock that goes slower the more share it: rates that are counted with it add up to the whole over all of them. It
 * never goes back, however many come and go.
 */
export function createSharedPace(now: () => number, sharers: () => number): () => number {
  let last = now();
  let paced = 0;
  return () => {
    const present = now();
    paced += (present - last) / Math.max(1, sharers());
    last = present;
    return paced;
  };
}

/** Starts a one-shot timer and returns the function that cancels it. */
export type SetTimer = (milliseconds: number, callback: () => void) => () => void;

/** Node's timers; they do not keep the process alive. */
export const systemTimer: SetTimer = (milliseconds, callback) => {
  const timer = setTimeout(callback, milliseconds);
  timer.unref();
  return () => {
    clearTimeout(timer);
  };
};
