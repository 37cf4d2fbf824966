import type { RequestId } from "@modelcontextprotocol/server";

import { isObject } from "../lib/is-object.ts";

/** An object whose members are not checked, such as one from the CLI. */
export type UnknownRecord = Readonly<Record<string, unknown>>;

/** Acknowledges a notification or a response, which have no JSON-RPC answer. */
export const ack = '{"jsonrpc":"2.0","result":{}}';

/** A message classified by its shape, or why it is not JSON-RPC 2.0. */
export type IncomingMessage =
  | { readonly kind: "request"; readonly id: RequestId; readonly message: UnknownRecord }
  | { readonly kind: "notification" | "response"; readonly message: UnknownRecord }
  | { readonly kind: "invalid"; readonly id: RequestId | undefined; readonly problem: string };

/** The JSON text of a JSON-RPC error; without an id if none could be read. */
export function errorText(id: RequestId | undefined, code: number, message: string, data?: UnknownRecord): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message, data } });
}

/** The id of a message, if it has a valid one. */
export function idOf(message: unknown): RequestId | undefined {
  const id = isObject(message) ? message["id"] : undefined;
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

/** Classifies a message by its shape. */
export function classifyMessage(message: unknown): IncomingMessage {
  const id = idOf(message);
  const invalid = (problem: string): IncomingMessage => ({ kind: "invalid", id, problem });
  if (!isObject(message)) return invalid(`the message is ${typeName(message)}, not an object`);
  const { jsonrpc, method } = message;
  if (jsonrpc !== "2.0") return invalid('the member "jsonrpc" is not "2.0"');
  if (method !== undefined && typeof method !== "string")
    return invalid(`the member "method" is ${typeName(method)}, not a string`);
  if (message["id"] !== undefined && id === undefined)
    return invalid(`the member "id" is ${typeName(message["id"])}, not a string or a number`);
  if (method !== undefined)
    return id === undefined ? { kind: "notification", message } : { kind: "request", id, message };
  if (!("result" in message) && !("error" in message)) return invalid('"method", "result" and "error" are all missing');
  return id === undefined ? invalid('the response has no "id"') : { kind: "response", message };
}

/** The type of a value, for error messages. */
export function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return typeof value;
}
