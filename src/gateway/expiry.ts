import type { Clock, Principal, SetTimer } from "../exchange.ts";

/** Node's timers hold 31 bits. */
const longestMs = 2 ** 31 - 1;

/** Of two sets of credentials those that hold for longer. */
export function longerOf(one: Principal, other: Principal): Principal {
  const never = Number.POSITIVE_INFINITY;
  return (other.expiresAt ?? never) >= (one.expiresAt ?? never) ? other : one;
}

/**
 * Calls back when the credentials of a caller have expired. Who that is is asked again when the time comes: newer
 * credentials may have been shown meanwhile. The answer stops the waiting.
 */
export function onExpiry(
  principalOf: () => Principal,
  { clock, setTimer }: { readonly clock: Clock; readonly setTimer: SetTimer },
  callback: () => void,
): () => void {
  let stop = (): void => {};
  const wait = (): void => {
    const { expiresAt } = principalOf();
    if (expiresAt === undefined) return;
    const leftMs = expiresAt - clock.wall();
    if (leftMs <= 0) callback();
    else stop = setTimer(Math.min(leftMs, longestMs), wait);
  };
  wait();
  return () => {
    stop();
  };
}
