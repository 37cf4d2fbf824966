import { setImmediate as nextTurn } from "node:timers/promises";

import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import { sleep, settlesWithin } from "../../lib/timeout.ts";
import type { GatewayContext } from "../context.ts";
import type { HttpListener } from "./listener.ts";

/** Another instance, or this one after a restart, accepts work again within a few seconds. */
const retryAfter = 5;

/** The error for work that arrives after the shutdown began. */
export function lateError(): GatewayError {
  return new GatewayError("shutting_down", "the gateway is shutting down", { details: { retryAfter } });
}

/** The error for a call that did not finish within `shutdown.grace`. */
export function cutError(): GatewayError {
  return new GatewayError(
    "shutting_down",
    "the gateway shut down before the server answered; the server may have executed the call",
  );
}

/** How long the last answers may take to be written: clients of a busy machine read late. */
const flushMs = 3000;

/**
 * Finishes everything that clients wait for: normally within the grace period, with an error after it. The
 * listener accepts connections until then, because clients answer questions of running calls on new ones, because
 * it may serve the probes too, and because a load balancer may not have noticed: other gateways serve what comes late.
 */
export async function endWork(
  { openWork, handedOver, clock, setTimer }: Pick<GatewayContext, "openWork" | "handedOver" | "clock" | "setTimer">,
  { grace, readinessDelay }: Config["shutdown"],
  listener: HttpListener | undefined,
): Promise<void> {
  if (listener !== undefined && readinessDelay > 0) await sleep(readinessDelay, setTimer);
  // From here on, the next process serves new connections.
  if (listener?.outlivesProcess === true) await listener.stop(grace);
  openWork.close();
  const until = clock.now() + grace;
  const left = (): number => Math.max(0, until - clock.now());
  await settlesWithin(openWork.whenIdle(), grace, setTimer);
  if (listener?.outlivesProcess === false) await listener.stop(left());
  await settlesWithin(handedOver.whenIdle(), left(), setTimer);
  openWork.cancel();
  // Cancelled exchanges write their own answers, and are recorded as cancelled.
  await nextTurn();
  await nextTurn();
  openWork.abandon();
  await settlesWithin(openWork.whenEmpty(), flushMs, setTimer);
}
