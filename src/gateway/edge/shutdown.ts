import { GatewayError } from "../../errors.ts";

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
