import type { SetTimer } from "./clock.ts";

/** Resolves after some milliseconds. */
export function sleep(milliseconds: number, setTimer: SetTimer): Promise<void> {
  return new Promise((resolve) => setTimer(milliseconds, resolve));
}

/** Waits for a promise at most so long and says whether it resolved in time. Rejects as the promise does. */
export async function settlesWithin(
  awaited: Promise<unknown>,
  milliseconds: number,
  setTimer: SetTimer,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const cancel = setTimer(milliseconds, () => resolve(false));
  try {
    return await Promise.race([awaited.then(() => true), promise]);
  } finally {
    cancel();
  }
}

/** The longest delay of Node's timers; longer ones fire at once. */
const longestTimer = 2 ** 31 - 1;

/** Whether a timer can wait that many milliseconds. */
export function isTimerSpan(milliseconds: number): boolean {
  return milliseconds >= 0 && milliseconds <= longestTimer;
}
