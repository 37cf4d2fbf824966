import type { Outline } from "./json/outline.ts";
import { decodeString, typeAt } from "./json/read.ts";

/** Which way a message travels. A message of unknown direction is never routed (SC-043). */
export type Direction = "client-to-server" | "server-to-client" | "internal" | "unknown";

/** The opposite way; internal and unknown have none and stay as they are. */
export function reverseDirection(direction: Direction): Direction {
  if (direction === "client-to-server") return "server-to-client";
  if (direction === "server-to-client") return "client-to-server";
  return direction;
}

/**
 * A JSON-RPC id that keeps its type and its digits.
 * `key` tells 1 from "1" and two big integers from each other; `json` is the exact source text to echo.
 */
export interface RequestId {
  /** `s:` + the string, or `n:` + the canonical decimal digits. */
  readonly key: string;
  /** The id as it stood in the source, quotes and all. */
  readonly json: string;
}

/** Something worth telling about a message; by itself it never changes traffic. */
export interface Diagnostic {
  readonly code: string;
  readonly severity: "info" | "warn" | "error";
  /** JSON Pointer of the place, where there is one. */
  readonly path?: string;
  readonly message: string;
  readonly data?: unknown;
}

/** What every parsed message has, whatever its kind. */
interface MessageBase {
  /** The UTF-8 bytes that hold this message; for a batch member, the bytes of the whole batch. */
  readonly bytes: Buffer;
  /** Where the message and its known members stand in `bytes`. */
  readonly outline: Outline;
  /** Findings that did not make the message invalid. */
  readonly diagnostics: readonly Diagnostic[];
}

export interface RequestMessage extends MessageBase {
  readonly kind: "request";
  readonly id: RequestId;
  readonly method: string;
}

export interface NotificationMessage extends MessageBase {
  readonly kind: "notification";
  readonly id: undefined;
  readonly method: string;
}

export interface ResultMessage extends MessageBase {
  readonly kind: "result";
  readonly id: RequestId;
  readonly method: undefined;
}

/** An error response; without an id it answers nothing (the request was unreadable). */
export interface ErrorMessage extends MessageBase {
  readonly kind: "error";
  readonly id: RequestId | undefined;
  readonly method: undefined;
}

export type Message = RequestMessage | NotificationMessage | ResultMessage | ErrorMessage;

/** JSON-RPC codes the parser itself may produce: not JSON at all, or JSON that is no message (SC-014). */
export type ParseFailureCode = -32700 | -32600;

/** Why some bytes are not a message. A value, never thrown (SC-013). */
export interface ParseFailure {
  readonly code: ParseFailureCode;
  /** Stable and machine-readable, such as `json.syntax` or `id.null`. */
  readonly reason: FailureReason;
  /** For people: what, where, what was expected. */
  readonly message: string;
  /** The id, where one could be read. */
  readonly id?: RequestId;
  /** Byte offset of the trouble, where known. */
  readonly offset?: number;
  /** For limit breaches. */
  readonly limit?: { readonly actual: number; readonly allowed: number };
}

export type FailureReason =
  | "json.empty"
  | "json.bom"
  | "json.utf8"
  | "json.syntax"
  | "json.depth"
  | "json.size"
  | "json.duplicate-key"
  | "json.case-variant"
  | "json.lone-surrogate"
  | "json.unserialisable"
  | "batch.unsupported"
  | "batch.expected"
  | "batch.empty"
  | "batch.size"
  | "batch.nested"
  | "batch.initialize"
  | "batch.mixed"
  | "message.null"
  | "message.boolean"
  | "message.number"
  | "message.string"
  | "message.array"
  | "message.object"
  | "jsonrpc.missing"
  | "jsonrpc.version"
  | "id.null"
  | "id.fractional"
  | "id.type"
  | "method.type"
  | "method.empty"
  | "params.type"
  | "shape.mixed"
  | "shape.empty"
  | "response.both"
  | "response.neither"
  | "response.id"
  | "result.type"
  | "error.type"
  | "error.code"
  | "error.message";

export type MessageOutcome =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly failure: ParseFailure };

/** The one text entry point answers with a single message, a batch, or a failure (SC-010). */
export type ParseOutcome =
  | { readonly ok: true; readonly form: "single"; readonly message: Message }
  | {
      readonly ok: true;
      readonly form: "batch";
      /** In source order; a bad member fails alone. */
      readonly members: readonly MessageOutcome[];
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly ok: false; readonly failure: ParseFailure };

/** Limits that act before costly work (SC-018). */
export interface ParseLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
  readonly maxBatch: number;
}

/** Defaults for HTTP bodies; stdio lines use 4 MiB. */
export const defaultLimits: ParseLimits = {
  maxBytes: 10 * 1024 * 1024,
  maxDepth: 128,
  maxBatch: 100,
};
export const stdioLineLimit: number = 4 * 1024 * 1024;

/** A batch's messages by kind, each list in the order of the batch. */
export interface GroupedMessages {
  readonly requests: readonly Message[];
  readonly notifications: readonly Message[];
  readonly responses: readonly Message[];
  readonly invalid: number;
  readonly total: number;
}

/** Groups the members of a batch by kind; order within a group is the original one. */
export function groupByKind(members: readonly MessageOutcome[]): GroupedMessages {
  const requests: Message[] = [];
  const notifications: Message[] = [];
  const responses: Message[] = [];
  let invalid = 0;
  for (const member of members) {
    if (!member.ok) invalid++;
    else if (member.message.kind === "request") requests.push(member.message);
    else if (member.message.kind === "notification") notifications.push(member.message);
    else responses.push(member.message);
  }
  return { requests, notifications, responses, invalid, total: members.length };
}

const open = Buffer.from("[");
const comma = Buffer.from(",");
const close = Buffer.from("]");

/**
 * Joins the answers to what came in one body: an array only if that was a batch, one message otherwise, and nothing
 * where no answer is due (MCP 2025-03-26, Transports). The answers' bytes go in unchanged.
 */
export function combineAnswers(answers: readonly Buffer[], cameAsBatch: boolean): Buffer | undefined {
  const [first] = answers;
  if (first === undefined) return undefined;
  if (!cameAsBatch) return first;
  const parts: Buffer[] = [open];
  for (const [index, answer] of answers.entries()) {
    if (index > 0) parts.push(comma);
    parts.push(answer);
  }
  parts.push(close);
  return Buffer.concat(parts);
}

/** The bytes of one message alone; for a batch member, its part of the batch. */
export function messageBytes(message: Message): Buffer {
  const { start, end } = message.outline;
  return start === 0 && end === message.bytes.length ? message.bytes : message.bytes.subarray(start, end);
}

/** What stands where an id should be: a usable id, a fractional one, or why it cannot be one. */
export type ParsedId =
  | { readonly ok: true; readonly id: RequestId; readonly fractional: boolean }
  | { readonly ok: false; readonly reason: "id.null" | "id.type" };

const idNull: ParsedId = { ok: false, reason: "id.null" };
const idType: ParsedId = { ok: false, reason: "id.type" };

/** Reads the id (or progress token, which has the same rules) between two offsets. */
export function readId(bytes: Buffer, start: number, end: number): ParsedId {
  const type = typeAt(bytes, start);
  if (type === "string") {
    const value = decodeString(bytes, start, end);
    return {
      ok: true,
      id: { key: `s:${value}`, json: bytes.toString("utf8", start, end) },
      fractional: false,
    };
  }
  if (type !== "number") return type === "null" ? idNull : idType;
  const json = bytes.toString("latin1", start, end);
  const digits = canonicalDigits(json);
  return digits === undefined
    ? idType
    : { ok: true, id: { key: `n:${digits}`, json }, fractional: digits.includes(".") };
}

/** Makes the id for a value that we choose ourselves. */
export function idFrom(value: string | number): RequestId {
  if (typeof value === "string") return { key: `s:${value}`, json: JSON.stringify(value) };
  if (!Number.isSafeInteger(value)) throw new RangeError(`an id must be a string or a safe integer, not ${value}`);
  return { key: `n:${value}`, json: String(value) };
}

/** The id as a plain value for display; integers that JavaScript cannot hold exactly come as text. */
export function idValue(id: RequestId): string | number {
  if (id.key.startsWith("s:")) return id.key.slice(2);
  const value = Number(id.key.slice(2));
  return Number.isSafeInteger(value) ? value : id.key.slice(2);
}

/** Whether the source text is a run of digits, which is then its own canonical form. */
const plainInteger = /^-?\d+$/;

/**
 * One spelling per number: `1`, `1.0` and `1e0` are the same id to every peer that parses them, while integers beyond
 * 2^53 are told apart by their digits in the source (SC-035). Fractions keep their point; infinities have no form.
 */
function canonicalDigits(json: string): string | undefined {
  if (plainInteger.test(json)) return json === "-0" ? "0" : json;
  const value = Number(json);
  if (!Number.isFinite(value)) return undefined;
  if (Number.isInteger(value)) return BigInt(value).toString();
  const text = String(value);
  return text.includes(".") ? text : `${text}.`;
}
