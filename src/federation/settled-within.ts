import type { SetTimer } from "../core/exchange.ts";
import { GatewayError } from "../errors.ts";

/**
 * Waits for all promises, but not longer than this; if one is required, then on until the first succeeds or all have
 * failed. Returns for each why it failed, or undefined if it succeeded.
 */
export function settledWithin(
  promises: readonly Promise<unknown>[],
  ms: number,
  setTimer: SetTimer,
  needsOne: boolean,
): Promise<readonly (string | undefined)[]> {
  const failures: (string | undefined)[] = promises.map(() => "the server did not answer in time");
  return new Promise((resolve) => {
    let left = promises.length;
    let isLate = false;
    const hasOne = (): boolean => failures.includes(undefined);
    const stop = setTimer(ms, () => {
      isLate = true;
      if (!needsOne || hasOne()) resolve([...failures]);
    });
    const settled = (index: number, failure: string | undefined): void => {
      failures[index] = failure;
      if (--left > 0 && !(isLate && hasOne())) return;
      stop();
      resolve([...failures]);
    };
    for (const [index, promise] of promises.entries()) {
      promise.then(
        () => {
          settled(index, undefined);
        },
        (error: unknown) => {
          settled(index, GatewayError.from(error).message);
        },
      );
    }
  });
}
