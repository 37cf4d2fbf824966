import { GatewayError } from "../errors.ts";
import { splice } from "../protocol/json/splice.ts";
import type { Replacement } from "../protocol/json/splice.ts";
import { defaultLimits } from "../protocol/message.ts";
import type {
  Message,
  NotificationMessage,
  RequestId,
  RequestMessage,
  ResultMessage,
} from "../protocol/message.ts";
import { parse } from "../protocol/parse.ts";

// What we assemble from messages that were accepted is not bounded a second time; wrapping takes it deeper.
const ownLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: 1000 };

/** Reads what a bridge has put together or read before; observing, because a lenient route may have let it in. */
export function toMessage(json: string | Buffer): Message {
  const bytes = typeof json === "string" ? Buffer.from(json) : json;
  const outcome = parse(bytes, { revision: "unknown", mode: "observe", limits: ownLimits });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new GatewayError("internal", "the bridge made something that is no message", {
    cause: outcome.ok ? "a batch" : outcome.failure,
  });
}

/** The same for a request. */
export function toRequest(json: string | Buffer): RequestMessage {
  const message = toMessage(json);
  if (message.kind !== "request") throw new GatewayError("internal", "the bridge made no request");
  return message;
}

/** The same for a result. */
export function toResult(json: string | Buffer): ResultMessage {
  const message = toMessage(json);
  if (message.kind !== "result") throw new GatewayError("internal", "the bridge made no result");
  return message;
}

/** Makes a request with the given JSON text as its params. */
export function requestMessage(id: RequestId, method: string, paramsJson: string): RequestMessage {
  return toRequest(
    `{"jsonrpc":"2.0","id":${id.json},"method":${JSON.stringify(method)},"params":${paramsJson}}`,
  );
}

/** Makes a notification with the given JSON text as its params. */
export function notificationMessage(method: string, paramsJson: string): NotificationMessage {
  const made = toMessage(`{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${paramsJson}}`);
  if (made.kind !== "notification") throw new GatewayError("internal", "the bridge made no notification");
  return made;
}

/** The same message with some spans replaced, read anew. */
export function respell(message: Message, replacements: readonly Replacement[]): Message {
  return toMessage(splice(message.bytes, message.outline, replacements));
}
