import { setImmediate as nextTurn } from "node:timers/promises";

import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import { sleep, settlesWithin } from "../../lib/timeout.ts";
import type { GatewayContext } from "../context.ts";
import type { HttpListener } from "./listener.ts";

/** Another instance, or this one after a restart, takes work again within a few seconds. */
const retryAfter = 5;

/** The error for work that came after the gateway had begun to shut down. */
export function lateError(): GatewayError {
  return new GatewayError("shutting_down", "the gateway is shutting down", { details: { retryAfter } });
}

/** The error for a call that `shutdown.grace` was too short for. */
export function cutError(): GatewayError {
  return new GatewayError(
    "shutting_down",
    "the gateway shut down before the answer came; the server may have carried out the call",
  );
}

/** How long the last answers may take to be written: clients of a busy machine read late. */
const flushMs = 3000;

/**
 * Brings everything that clients wait for to its end: as usual within the grace period, after that with an error. The
 * listener accepts connections until then, because clients answer questions of running calls on new ones, and because
 * it may serve the probes too.
 */
export async function endWork(
  { openWork, setTimer }: Pick<GatewayContext, "openWork" | "setTimer">,
  { grace, readinessDelay }: Config["shutdown"],
  listener: HttpListener | undefined,
): Promise<void> {
  if (listener !== undefined && readinessDelay > 0) await sleep(readinessDelay, setTimer);
  openWork.close();
  await settlesWithin(openWork.whenIdle(), grace, setTimer);
  listener?.stop();
  openWork.cancel();
  // What can be cancelled answers by itself, and the recording says so.
  await nextTurn();
  await nextTurn();
  openWork.abandon();
  await settlesWithin(openWork.whenEmpty(), flushMs, setTimer);
}
