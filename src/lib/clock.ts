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

/** Keeps this process alive until the returned function is called. */
export function keepProcessAlive(): () => void {
  const interval = setInterval(() => {}, 2 ** 31 - 1);
  return () => clearInterval(interval);
}

/**
 * Does some work that may wait for timers that do not keep the process alive: it would end first, with exit code 13, if
 * nothing else is left to do in it.
 */
export async function keepAliveDuring<Result>(work: () => Promise<Result>): Promise<Result> {
  const release = keepProcessAlive();
  try {
    return await work();
  } finally {
    release();
  }
}
