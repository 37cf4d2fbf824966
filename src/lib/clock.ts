/** Sources of time, passed in so that tests and replay are exact. */
export interface Clock {
  /** Monotonic milliseconds, for durations. */
  readonly now: () => number;
  /** Milliseconds since 1970, for display and expiry dates. */
  readonly wall: () => number;
}

export const systemClock: Clock = { now: () => performance.now(), wall: () => Date.now() };

/** Starts a one-shot timer and returns the function that cancels it. */
export type SetTimer = (milliseconds: number, callback: () => void) => () => void;

/** Node's timers; they do not keep the process alive. */
export const systemTimer: SetTimer = (milliseconds, callback) => {
  const timer = setTimeout(callback, milliseconds);
  timer.unref();
  return () => clearTimeout(timer);
};
