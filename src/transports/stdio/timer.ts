import type { SetTimer } from "../../core/exchange.ts";

/** Resolves after some milliseconds. */
export async function pause(milliseconds: number, setTimer: SetTimer): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  setTimer(milliseconds, resolve);
  await promise;
}

/** Waits for a promise that never rejects, at most so long; says whether it resolved in time. */
export async function settlesWithin(
  awaited: Promise<unknown>,
  milliseconds: number,
  setTimer: SetTimer,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const cancel = setTimer(milliseconds, () => resolve(false));
  void awaited.then(() => resolve(true));
  const inTime = await promise;
  cancel();
  return inTime;
}

/** Keeps this process alive until the returned function is called: the timers handed in may not. */
export function keepProcessAlive(): () => void {
  const longest = 2 ** 31 - 1;
  const hold = setInterval(() => {}, longest);
  return () => clearInterval(hold);
}
