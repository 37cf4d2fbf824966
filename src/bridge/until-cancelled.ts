import type { Cancellation } from "../core/cancellation.ts";
import type { SetTimer } from "../core/exchange.ts";
import { cancelledError } from "../transports/transport.ts";

/** Waits for a promise that others may share; rejects on cancellation. */
export function untilCancelled<Value>(cancellation: Cancellation, promise: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const off = cancellation.onCancel((reason) => {
      reject(cancelledError(reason));
    });
    void promise.then(resolve, reject).finally(off);
  });
}

/** Waits some milliseconds; rejects on cancellation. */
export function delayUnlessCancelled(
  cancellation: Cancellation,
  milliseconds: number,
  setTimer: SetTimer,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = setTimer(milliseconds, resolve);
  return untilCancelled(cancellation, promise).finally(stop);
}
