import type { RequestId } from "@modelcontextprotocol/server";

/** What a notification or a response is acknowledged with: no JSON-RPC message, for none is due. */
export const ack = '{"jsonrpc":"2.0","result":{}}';

/** A message by its shape, or what keeps it from being a JSON-RPC 2.0 message. */
export type IncomingMessage =
  | { readonly kind: "request"; readonly id: RequestId; readonly message: JsonObject }
  | { readonly kind: "notification" | "response"; readonly message: JsonObject }
  | { readonly kind: "invalid"; readonly id: RequestId | undefined; readonly problem: string };

/** The JSON text of a JSON-RPC error; without an id where none could be read. */
export function errorText(id: RequestId | undefined, code: number, message: string, data?: JsonObject): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, data } });
}

/** The id of a message, if it has one that JSON-RPC allows. */
export function idOf(message: unknown): RequestId | undefined {
  const id = isJsonObject(message) ? message["id"] : undefined;
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

/** Tells by shape alone what a message is. */
export function classifyMessage(message: unknown): IncomingMessage {
  const id = idOf(message);
  if (!isJsonObject(message))
    return { kind: "invalid", id, problem: `the message is ${typeName(message)}, not an object` };
  const { jsonrpc, method } = message;
  if (jsonrpc !== "2.0") return { kind: "invalid", id, problem: 'the member "jsonrpc" is not "2.0"' };
  if (method !== undefined && typeof method !== "string") {
    return { kind: "invalid", id, problem: `the member "method" is ${typeName(method)}, not a text` };
  }
  if (message["id"] !== undefined && id === undefined) {
    return {
      kind: "invalid",
      id,
      problem: `the member "id" is ${typeName(message["id"])}, not a text or a number`,
    };
  }
  if (method !== undefined)
    return id === undefined ? { kind: "notification", message } : { kind: "request", id, message };
  if (!("result" in message) && !("error" in message)) {
    return { kind: "invalid", id, problem: 'there is no "method" and neither "result" nor "error"' };
  }
  return id === undefined
    ? { kind: "invalid", id, problem: 'the response has no "id"' }
    : { kind: "response", message };
}

/** A JSON object whose members nobody has looked at yet. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Whether a value is an object with members: no array and not null. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What a value is, in the word that a person would use for it. */
export function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return typeof value;
}
