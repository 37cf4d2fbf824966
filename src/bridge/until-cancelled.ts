import type { Exchange } from "../core/exchange.ts";
import { cancelledError } from "../transports/transport.ts";

/** Waits for something that others may wait for too, but no longer than somebody waits for the exchange. */
export function untilCancelled<Value>({ cancellation }: Exchange, awaited: Promise<Value>): Promise<Value> {
  const { promise, resolve, reject } = Promise.withResolvers<Value>();
  const off = cancellation.onCancel((reason) => {
    reject(cancelledError(reason));
  });
  awaited.then(resolve, reject).finally(off);
  return promise;
}
