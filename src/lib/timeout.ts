import type { SetTimer } from "./clock.ts";

/** Resolves after some milliseconds. */
export function delay(milliseconds: number, setTimer: SetTimer): Promise<void> {
  return new Promise((resolve) => {
    setTimer(milliseconds, resolve);
  });
}

/** Waits for a promise at most so long and says whether it resolved in time. Rejects as the promise does. */
export async function settlesWithin(
  awaited: Promise<unknown>,
  milliseconds: number,
  setTimer: SetTimer,
): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const cancel = setTimer(milliseconds, () => {
    resolve(false);
  });
  try {
    return await Promise.race([awaited.then(() => true), promise]);
  } finally {
    cancel();
  }
}
