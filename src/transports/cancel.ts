import { GatewayError } from "../errors.ts";
import type { CancelReason, Exchange } from "../exchange.ts";
import type { Message } from "../protocol/message.ts";
import { parseText } from "../protocol/parse.ts";

/** The error that a cancelled wait ends with. */
export function cancelledError(reason: CancelReason): GatewayError {
  if (reason === "timeout")
    return new GatewayError("upstream_timeout", "the upstream did not answer in time");
  if (reason === "shutdown") return new GatewayError("shutting_down", "the gateway is shutting down");
  return new GatewayError("cancelled", `nobody waits for the answer any more (${reason})`);
}

/** The notification that tells an upstream to stop working on a request; none for what cannot be cancelled. */
export function cancelledNotification(exchange: Exchange): Message | undefined {
  const { message, revision, cancellation } = exchange;
  // MCP, Cancellation: `initialize` must not be cancelled.
  if (message.id === undefined || message.method === "initialize") return undefined;
  const params = `{"requestId":${message.id.json},"reason":"${cancellation.reason ?? "cancelled"}"}`;
  const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`;
  const outcome = parseText(text, { revision, mode: "enforce" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}
