import { GatewayError } from "../../errors.ts";
import { splice } from "../../protocol/json/splice.ts";
import type { Replacement } from "../../protocol/json/splice.ts";
import { defaultLimits } from "../../protocol/message.ts";
import type { Message, NotificationMessage, RequestId, RequestMessage } from "../../protocol/message.ts";
import { parse } from "../../protocol/parse.ts";

// What we assemble from messages that were accepted is not bounded a second time.
const ownLimits = {
  ...defaultLimits,
  maxBytes: Number.MAX_SAFE_INTEGER,
  maxDepth: defaultLimits.maxDepth + 8,
};

/** Makes a request with the given JSON text as its params. */
export function requestMessage(id: RequestId, method: string, paramsJson: string): RequestMessage {
  const text = `{"jsonrpc":"2.0","id":${id.json},"method":${JSON.stringify(method)},"params":${paramsJson}}`;
  const made = readOwn(Buffer.from(text));
  if (made.kind !== "request") throw new GatewayError("internal", "what was made is no request");
  return made;
}

/** Makes a notification with the given JSON text as its params. */
export function notificationMessage(method: string, paramsJson: string): NotificationMessage {
  const text = `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${paramsJson}}`;
  const made = readOwn(Buffer.from(text));
  if (made.kind !== "notification") throw new GatewayError("internal", "what was made is no notification");
  return made;
}

/** The same message with some spans replaced, read anew. */
export function respell(message: Message, replacements: readonly Replacement[]): Message {
  return readOwn(splice(message.bytes, message.outline, replacements));
}

/** Reads bytes that the bridge itself has put together or has read before. */
export function readOwn(bytes: Buffer): Message {
  const outcome = parse(bytes, { revision: "unknown", mode: "observe", limits: ownLimits });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new GatewayError("internal", "what was made is no message", {
    cause: outcome.ok ? "a batch" : outcome.failure,
  });
}
