import { GatewayError } from "../errors.ts";
import { type Replacement, splice } from "../protocol/json/edit.ts";
import {
  defaultLimits,
  type Message,
  type NotificationMessage,
  type RequestId,
  type RequestMessage,
  type ResultMessage,
} from "../protocol/message.ts";
import { parse } from "../protocol/parse.ts";

// What we assemble from messages that were accepted is not bounded a second time; wrapping takes it deeper.
const synthesisLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: 1000 };

/** Reads what a bridge has put together or read before; observing, because a lenient route may have let it in. */
export function synthesizeMessage(json: string | Buffer): Message {
  const bytes = typeof json === "string" ? Buffer.from(json) : json;
  const outcome = parse(bytes, { revision: "unknown", mode: "observe", limits: synthesisLimits });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new GatewayError("internal", "the bridge made something that is no message", {
    cause: outcome.ok ? "a batch" : outcome.failure,
  });
}

/** The same for a request. */
export function synthesizeRequest(json: string | Buffer): RequestMessage {
  const message = synthesizeMessage(json);
  if (message.kind !== "request") throw new GatewayError("internal", "the bridge made no request");
  return message;
}

/** The same for a result. */
export function synthesizeResult(json: string | Buffer): ResultMessage {
  const message = synthesizeMessage(json);
  if (message.kind !== "result") throw new GatewayError("internal", "the bridge made no result");
  return message;
}

/** Makes a request with the given JSON text as its params. */
export function createRequest(id: RequestId, method: string, paramsJson: string): RequestMessage {
  return synthesizeRequest(
    `{"jsonrpc":"2.0","id":${id.json},"method":${JSON.stringify(method)},"params":${paramsJson}}`,
  );
}

/** Makes a notification with the given JSON text as its params. */
export function createNotification(method: string, paramsJson: string): NotificationMessage {
  const made = synthesizeMessage(`{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${paramsJson}}`);
  if (made.kind !== "notification") throw new GatewayError("internal", "the bridge made no notification");
  return made;
}

/** The same message with some spans replaced, read anew. */
export function withReplacements(message: Message, replacements: readonly Replacement[]): Message {
  return synthesizeMessage(splice(message.bytes, message.outline, replacements));
}
