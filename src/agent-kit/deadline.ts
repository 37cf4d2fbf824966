import type { SetTimer } from "../core/exchange.ts";

/** Waits for some work, but not for ever: false when the time is over first. Rejects as the work does. */
export async function endsWithin(work: Promise<unknown>, milliseconds: number, setTimer: SetTimer): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const stopTimer = setTimer(milliseconds, () => {
    resolve(false);
  });
  try {
    return await Promise.race([work.then(() => true), promise]);
  } finally {
    stopTimer();
  }
}
