import { type MemberName, type Outline, spanOf } from "./json/outline.ts";
import { decodeString, typeAt } from "./json/read.ts";
import { type ErrorCode, errorTable } from "../errors.ts";
import { withoutUndefined } from "../lib/without-undefined.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { arrayText, type Replacement, splice } from "./json/edit.ts";

/** Which way a message travels. A message of unknown direction is never routed (SC-043). */
export type Direction = "client-to-server" | "server-to-client" | "internal" | "unknown";

/** The opposite direction; `internal` and `unknown` stay as they are. */
export function reverseDirection(direction: Direction): Direction {
  if (direction === "client-to-server") return "server-to-client";
  if (direction === "server-to-client") return "client-to-server";
  return direction;
}

/** A JSON-RPC id. Compare ids by `key`, which tells 1 from "1" and keeps all digits; echo `json`. */
export interface RequestId {
  /** `s:` + the string, or `n:` + the canonical decimal digits. */
  readonly key: string;
  /** The exact source text, with its quotes. */
  readonly json: string;
}

/** What every parsed message has. */
export interface MessageBase {
  /** The UTF-8 bytes that contain this message; for a batch member, the bytes of the whole batch. */
  readonly bytes: Buffer;
  /** The positions of the message and its known members in `bytes`. */
  readonly outline: Outline;
  /** Findings that did not make the message invalid. */
  readonly diagnostics: readonly Diagnostic[];
}

/** A request: it has an id and expects a response. */
export interface RequestMessage extends MessageBase {
  readonly kind: "request";
  readonly id: RequestId;
  readonly method: string;
}

/** A notification: it has no id and gets no response. */
export interface NotificationMessage extends MessageBase {
  readonly kind: "notification";
  readonly id: undefined;
  readonly method: string;
}

/** A successful response. */
export interface ResultMessage extends MessageBase {
  readonly kind: "result";
  readonly id: RequestId;
  readonly method: undefined;
}

/** An error response. It has no id when the request was unreadable. */
export interface ErrorMessage extends MessageBase {
  readonly kind: "error";
  readonly id: RequestId | undefined;
  readonly method: undefined;
}

/** A parsed JSON-RPC message. */
export type Message = RequestMessage | NotificationMessage | ResultMessage | ErrorMessage;

/** A message that names a method: a request or a notification. */
export type MethodMessage = RequestMessage | NotificationMessage;

/** Whether a message is a request or a notification, and not a response. */
export function isMethodMessage(message: Message): message is MethodMessage {
  return message.kind === "request" || message.kind === "notification";
}

/** Why bytes are not a message. Returned, never thrown (SC-013). */
export interface ParseFailure {
  /** -32700 for bytes that are not JSON, -32600 for JSON that is not a message (SC-014). */
  readonly code: -32700 | -32600;
  readonly reason: FailureReason;
  /** For people: what is wrong, where, and what was expected. */
  readonly message: string;
  /** The id, if it could be read. */
  readonly id?: RequestId;
  /** Byte offset of the problem, if known. */
  readonly offset?: number;
  /** The limit that was exceeded, if one was. */
  readonly limit?: { readonly actual: number; readonly allowed: number };
}

/** Every reason why bytes are not a message, and what it means. */
const failureTexts = {
  "json.empty": "the message is empty",
  "json.bom": "the message starts with a byte order mark, which JSON does not allow",
  "json.utf8": "the message is not valid UTF-8",
  "json.syntax": "the message is not valid JSON",
  "json.depth": "the message nests too deeply",
  "json.size": "the message is too large",
  "json.duplicate-key": "a member name occurs twice in one object",
  "json.case-variant": "a member name differs from a protocol member only by letter case",
  "json.lone-surrogate": "a string contains half of a surrogate pair",
  "json.unserialisable": "the value cannot be written as JSON",
  "batch.unsupported": "batches are not part of this protocol revision; send one message at a time",
  "batch.expected": "a batch must be an array",
  "batch.empty": "a batch must contain at least one message",
  "batch.size": "the batch contains too many messages",
  "batch.nested": "a batch must not contain another array",
  "batch.initialize": "initialize must not be part of a batch",
  "batch.mixed": "a batch must not mix responses with requests and notifications",
  "message.null": "a message must be an object, not null",
  "message.boolean": "a message must be an object, not a boolean",
  "message.number": "a message must be an object, not a number",
  "message.string": "a message must be an object, not a string",
  "message.array": "expected one message, not an array",
  "message.object": "the message is not a JSON-RPC message",
  "jsonrpc.missing": 'the member "jsonrpc" is missing; it must be "2.0"',
  "jsonrpc.version": 'the member "jsonrpc" must be the string "2.0"',
  "id.null": "the id must be a string or an integer, not null",
  "id.fractional": "the id must not be a fraction",
  "id.type": "the id must be a string or an integer",
  "method.type": "the method must be a string",
  "method.empty": "the method must not be empty",
  "params.type": "params must be an object",
  "shape.mixed": "a message cannot have a method and a result or error",
  "shape.empty": "the message has neither a method nor a result nor an error",
  "response.both": "a response has a result or an error, not both",
  "response.neither": "the message has an id but neither a method nor a result nor an error",
  "response.id": "a result must carry the id of its request",
  "result.type": "result must be an object",
  "error.type": "error must be an object",
  "error.code": "error.code must be an integer",
  "error.message": "error.message must be a string",
} as const;

/** A stable, machine-readable reason of a {@link ParseFailure}. */
export type FailureReason = keyof typeof failureTexts;

/** The text of a failure, with its offset or its limit. */
export function failureMessage(
  reason: FailureReason,
  offset?: number,
  limit?: { readonly actual: number; readonly allowed: number },
): string {
  const place = offset === undefined ? "" : ` (at byte ${offset})`;
  const bound = limit === undefined ? "" : `: ${limit.actual}, at most ${limit.allowed} allowed`;
  return `${failureTexts[reason]}${bound}${place}`;
}

/** One parsed message, or why it is not one. */
export type MessageOutcome =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly failure: ParseFailure };

/** What `parse` returns: one message, a batch, or a failure (SC-010). */
export type ParseOutcome =
  | { readonly ok: true; readonly form: "single"; readonly message: Message }
  | {
      readonly ok: true;
      readonly form: "batch";
      /** In source order; an invalid member does not affect the others. */
      readonly members: readonly MessageOutcome[];
      readonly diagnostics: readonly Diagnostic[];
    }
  | { readonly ok: false; readonly failure: ParseFailure };

/** Limits that are checked before costly work (SC-018). */
export interface ParseLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
  readonly maxBatch: number;
}

/** The default limits of HTTP bodies. */
export const defaultLimits: ParseLimits = { maxBytes: 10 * 1024 * 1024, maxDepth: 128, maxBatch: 100 };
/** The default limit of a line on stdio. */
export const stdioLineLimit: number = 4 * 1024 * 1024;

/** The messages of a batch by kind, each list in the order of the batch. */
export interface GroupedMessages {
  readonly requests: readonly Message[];
  readonly notifications: readonly Message[];
  readonly responses: readonly Message[];
  readonly invalid: number;
  readonly total: number;
}

/** Groups the members of a batch by kind. */
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

/**
 * Joins the responses to one body: an array if the body was a batch, otherwise the single response; undefined if no
 * response is due (MCP 2025-03-26, Transports).
 */
export function combineAnswers(answers: readonly Buffer[], cameAsBatch: boolean): Buffer | undefined {
  return answers.length === 0 || !cameAsBatch ? answers[0] : arrayText(answers);
}

/** The bytes of one message alone, without the rest of its batch. */
export function messageBytes(message: Message): Buffer {
  const { start, end } = message.outline;
  return start === 0 && end === message.bytes.length ? message.bytes : message.bytes.subarray(start, end);
}

/** An id read from bytes, or why the value cannot be one. */
export type ParsedId =
  | { readonly ok: true; readonly id: RequestId; readonly fractional: boolean }
  | { readonly ok: false; readonly reason: "id.null" | "id.type" };

const idNull: ParsedId = { ok: false, reason: "id.null" };
const idType: ParsedId = { ok: false, reason: "id.type" };

/** Reads the id between two offsets, or the progress token, which has the same rules. */
export function readId(bytes: Buffer, start: number, end: number): ParsedId {
  const type = typeAt(bytes, start);
  if (type === "string") {
    const value = decodeString(bytes, start, end);
    return { ok: true, id: { key: `s:${value}`, json: bytes.toString("utf8", start, end) }, fractional: false };
  }
  if (type !== "number") return type === "null" ? idNull : idType;
  const json = bytes.toString("latin1", start, end);
  const digits = canonicalDigits(json);
  return digits === undefined
    ? idType
    : { ok: true, id: { key: `n:${digits}`, json }, fractional: digits.includes(".") };
}

/** Makes an id from a value of our own. */
export function idFrom(value: string | number): RequestId {
  if (typeof value === "string") return { key: `s:${value}`, json: JSON.stringify(value) };
  if (!Number.isSafeInteger(value)) throw new RangeError(`an id must be a string or a safe integer, not ${value}`);
  return { key: `n:${value}`, json: String(value) };
}

const plainInteger = /^-?\d+$/;

/**
 * One form per number: `1`, `1.0` and `1e0` are the same id to every peer, while integers beyond 2^53 differ by their
 * source digits (SC-035). Fractions keep their point; undefined for numbers that overflow to infinity.
 */
function canonicalDigits(json: string): string | undefined {
  if (plainInteger.test(json)) return json === "-0" ? "0" : json;
  const value = Number(json);
  if (!Number.isFinite(value)) return undefined;
  if (Number.isInteger(value)) return BigInt(value).toString();
  const text = String(value);
  return text.includes(".") ? text : `${text}.`;
}

/** The error response to a message that cannot be processed, for any transport. */
export interface ErrorResponse {
  /** The row of the error table. */
  readonly error: ErrorCode;
  /** The HTTP status. */
  readonly status: number;
  /** The JSON-RPC error code. */
  readonly code: number;
  readonly message: string;
  readonly data?: Readonly<Record<string, unknown>>;
  /** The id to echo; absent if the message had no readable id. */
  readonly id?: RequestId;
}

/** What an error response says beyond its row of the error table. */
export interface ErrorResponseOptions {
  readonly id?: RequestId | undefined;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Use the second status of the error's row, if it has one. */
  readonly useAlternateStatus?: boolean;
}

/** Makes an error response with the status and code of its row in the error table. */
export function errorResponse(error: ErrorCode, message: string, options: ErrorResponseOptions = {}): ErrorResponse {
  const facts = errorTable[error];
  const status = (options.useAlternateStatus === true ? facts.alternateHttp?.status : undefined) ?? facts.http;
  const { jsonrpc } = facts;
  if (status === undefined || jsonrpc === undefined) throw new RangeError(`${error} has no error response`);
  return { error, status, code: jsonrpc, message, ...withoutUndefined({ data: options.data, id: options.id }) };
}

/** The response to bytes that are not a message: 413 for a body over the limit, otherwise 400. */
export function parseFailureResponse(failure: ParseFailure): ErrorResponse {
  const { id, limit } = failure;
  const data = { reason: failure.reason, ...(limit === undefined ? {} : { limit }) };
  if (failure.reason === "json.size") return errorResponse("too_large", failure.message, { id, data });
  const error = failure.code === -32700 ? "parse_error" : "invalid_message";
  return errorResponse(error, failure.message, { id, data });
}

// Needed wherever clients share a connection: ids are rewritten in both directions, and the outline moves along instead
// of being scanned again.

/** A member that contains an id or token, and its new value. */
export interface IdEdit {
  readonly name: MemberName;
  readonly id: RequestId;
}

/** The same message with other ids or tokens; members that the message does not have are skipped. */
export function replaceIds<Kind extends Message>(message: Kind, ids: readonly IdEdit[]): Kind {
  const edits: Replacement[] = [];
  let own: RequestId | undefined;
  for (const { name, id } of ids) {
    const span = spanOf(message.outline, name);
    if (span === undefined) continue;
    edits.push({ span, bytes: Buffer.from(id.json) });
    if (name === "id" && message.id !== undefined) own = id;
  }
  return edits.length === 0 ? message : withEdits(message, own ?? message.id, edits);
}

/**
 * The same message with another JSON value in a member that has no known members of its own. The value is not scanned: it
 * must be valid.
 */
export function replaceValue<Kind extends Message>(message: Kind, name: MemberName, bytes: Buffer): Kind {
  const span = spanOf(message.outline, name);
  return span === undefined ? message : withEdits(message, message.id, [{ span, bytes }]);
}

function withEdits<Kind extends Message>(message: Kind, id: Kind["id"], edits: readonly Replacement[]): Kind {
  const { outline } = message;
  const bytes = splice(message.bytes, outline, edits);
  const { duplicateAt, duplicateId, caseVariantAt, loneSurrogateAt, loneSurrogateInName } = outline;
  const after: Outline = {
    ok: true,
    start: 0,
    end: bytes.length,
    spans: movedSpans(outline, edits),
    duplicateAt: duplicateAt < 0 ? -1 : moved(duplicateAt, outline, edits),
    duplicateId,
    caseVariantAt: caseVariantAt < 0 ? -1 : moved(caseVariantAt, outline, edits),
    loneSurrogateAt: loneSurrogateAt < 0 ? -1 : moved(loneSurrogateAt, outline, edits),
    loneSurrogateInName,
  };
  const { kind, method, diagnostics } = message;
  // The edits contain no known members, so the kind stays the same.
  return { kind, id, method, bytes, outline: after, diagnostics } as Message as Kind;
}

/** A plain copy and a loop: this is most of the cost of renaming a call's target. Needed by bench federation: "call of a". */
function movedSpans(outline: Outline, edits: readonly Replacement[]): number[] {
  const spans = outline.spans.slice();
  const [only, another] = edits;
  if (only !== undefined && another === undefined) {
    const { end, start } = only.span;
    const before = -outline.start;
    const behind = before + only.bytes.length - (end - start);
    for (let slot = 0; slot < spans.length; slot++) {
      const offset = spans[slot] ?? -1;
      if (offset >= 0) spans[slot] = offset + (offset < end ? before : behind);
    }
    return spans;
  }
  for (let slot = 0; slot < spans.length; slot++) {
    const offset = spans[slot] ?? -1;
    if (offset >= 0) spans[slot] = moved(offset, outline, edits);
  }
  return spans;
}

/** The position of an old offset in the new message. */
function moved(offset: number, outline: Outline, edits: readonly Replacement[]): number {
  let to = offset - outline.start;
  for (const { span, bytes } of edits) {
    if (span.end <= offset) to += bytes.length - (span.end - span.start);
  }
  return to;
}
