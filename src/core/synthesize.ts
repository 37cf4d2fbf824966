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

// Messages were within the limits when they came in; wrapping them may exceed size or depth.
const synthesisLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: 1000 };

/** Parses a message that the gateway has written. Lenient, because a lenient route may have let its parts in. */
export function synthesizeMessage(json: string | Buffer): Message {
  const bytes = typeof json === "string" ? Buffer.from(json) : json;
  const outcome = parse(bytes, { revision: "unknown", mode: "observe", limits: synthesisLimits });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new GatewayError("internal", "the gateway wrote an invalid message", {
    cause: outcome.ok ? "a batch" : outcome.failure,
  });
}

/** Parses a request that the gateway has written. */
export function synthesizeRequest(json: string | Buffer): RequestMessage {
  return expectKind(synthesizeMessage(json), "request");
}

/** Parses a result that the gateway has written. */
export function synthesizeResult(json: string | Buffer): ResultMessage {
  return expectKind(synthesizeMessage(json), "result");
}

/** Makes a request from the JSON text of its params. */
export function createRequest(id: RequestId, method: string, paramsJson: string): RequestMessage {
  return synthesizeRequest(
    `{"jsonrpc":"2.0","id":${id.json},"method":${JSON.stringify(method)},"params":${paramsJson}}`,
  );
}

/** Makes a notification from the JSON text of its params. */
export function createNotification(method: string, paramsJson: string): NotificationMessage {
  const json = `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${paramsJson}}`;
  return expectKind(synthesizeMessage(json), "notification");
}

/** The same message with some spans replaced; its kind must stay the same. */
export function withReplacements<Kind extends Message>(message: Kind, replacements: readonly Replacement[]): Kind {
  const edited = synthesizeMessage(splice(message.bytes, message.outline, replacements));
  return expectKind(edited, message.kind) as Kind;
}

function expectKind<Kind extends Message["kind"]>(message: Message, kind: Kind): Extract<Message, { kind: Kind }> {
  if (message.kind !== kind) throw new GatewayError("internal", `the gateway wrote a ${message.kind}, not a ${kind}`);
  return message as Extract<Message, { kind: Kind }>;
}
