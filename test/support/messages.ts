import type { HeaderLookup } from "../../src/protocol/http/mirrored-headers.ts";
import type { Message, MethodMessage, RequestMessage, ResultMessage } from "../../src/protocol/message.ts";
import { parseMessage } from "../../src/protocol/parse.ts";

/** Parses a value that the test knows to be a message. */
export function messageOf(value: unknown): Message {
  const outcome = parseMessage(value, { revision: "unknown", mode: "observe" });
  if (!outcome.ok) throw new Error(`not a message: ${outcome.failure.message}`);
  return outcome.message;
}

/** Parses a request. */
export function requestOf(method: string, params?: unknown, id: string | number = 1): RequestMessage {
  const message = messageOf({ jsonrpc: "2.0", id, method, ...(params === undefined ? {} : { params }) });
  if (message.kind !== "request") throw new Error(`not a request but a ${message.kind}`);
  return message;
}

/** Parses a notification. */
export function notificationOf(method: string, params?: unknown): MethodMessage & { kind: "notification" } {
  const message = messageOf({ jsonrpc: "2.0", method, ...(params === undefined ? {} : { params }) });
  if (message.kind !== "notification") throw new Error(`not a notification but a ${message.kind}`);
  return message;
}

/** Parses a result. */
export function resultOf(result: unknown, id: string | number = 1): ResultMessage {
  const message = messageOf({ jsonrpc: "2.0", id, result });
  if (message.kind !== "result") throw new Error(`not a result but a ${message.kind}`);
  return message;
}

/** Looks headers up as HTTP does: by any case, lines of one name joined by commas. */
export function headersOf(...lines: readonly (readonly [name: string, value: string])[]): HeaderLookup {
  const joined = new Map<string, string>();
  for (const [name, value] of lines) {
    const key = name.toLowerCase();
    const before = joined.get(key);
    joined.set(key, before === undefined ? value : `${before}, ${value}`);
  }
  return (name) => joined.get(name);
}

/** The `_meta` of a modern request. */
export function envelopeOf(extra: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    ...extra,
  };
}
