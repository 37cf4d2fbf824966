import { isUtf8 } from "node:buffer";

import { withoutUndefined } from "../lib/without-undefined.ts";
import type { Diagnostic } from "./diagnostics.ts";
import { type Outline, slotOf } from "./json/outline.ts";
import { decodeString, typeAt } from "./json/read.ts";
import { scan, type ScanError, skipSpace } from "./json/scan.ts";
import {
  defaultLimits,
  failureMessage,
  type FailureReason,
  type Message,
  type MessageOutcome,
  type ParseFailure,
  type ParseLimits,
  type ParseOutcome,
  readId,
  type RequestId,
} from "./message.ts";
import { type Revision, revisions } from "./revisions.ts";

/** What the parser needs to know besides the bytes. */
export interface ParseContext {
  /** Decides whether an array may be a batch. */
  readonly revision: Revision | "unknown";
  /** `enforce` rejects what `observe` only reports: duplicate names, fractional ids, mixed batches. */
  readonly mode: "enforce" | "observe";
  readonly limits?: ParseLimits;
}

const noDiagnostics: readonly Diagnostic[] = Object.freeze([]);

/**
 * Parses bytes from a wire into one message, a batch, or a typed failure. Never throws, never repairs, and builds no
 * values: the bytes stay as they are, and members are read from them on demand.
 *
 * @example
 * const bytes = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}');
 * const outcome = parse(bytes, { revision: "2025-11-25", mode: "enforce" });
 * if (outcome.ok && outcome.form === "single") console.log(outcome.message.method); // "ping"
 * if (!outcome.ok) console.log(outcome.failure.reason); // such as "json.syntax"
 */
export function parse(bytes: Buffer, context: ParseContext): ParseOutcome {
  const limits = context.limits ?? defaultLimits;
  const { length } = bytes;
  if (length > limits.maxBytes) {
    return fail(-32600, "json.size", { limit: { actual: length, allowed: limits.maxBytes } });
  }
  const start = skipSpace(bytes, 0, length);
  if (start === length) return fail(-32700, "json.empty", { offset: 0 });
  // RFC 8259 section 8.1 forbids a byte order mark, and JSON.parse rejects it too.
  if (bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf) {
    return fail(-32700, "json.bom", { offset: start });
  }
  if (!isUtf8(bytes)) return fail(-32700, "json.utf8");
  if (bytes[start] === 0x5b) return parseArray(bytes, start, context, limits);

  const outline = scan(bytes, start, limits.maxDepth);
  if (!outline.ok) return scanFailure(outline, limits);
  const rest = skipSpace(bytes, outline.end, length);
  if (rest < length) return fail(-32700, "json.syntax", { offset: rest });
  const outcome = toMessage(bytes, outline, context);
  return outcome.ok ? { ok: true, form: "single", message: outcome.message } : outcome;
}

/**
 * Parses one message from a JSON value; fails for an array.
 *
 * @example
 * parseMessage({ jsonrpc: "2.0", id: 1, method: "ping" }, { revision: "2025-11-25", mode: "enforce" });
 */
export function parseMessage(value: unknown, context: ParseContext): MessageOutcome {
  if (Array.isArray(value)) return fail(-32600, "message.array");
  const bytes = serialise(value);
  if (bytes === undefined) return fail(-32600, "json.unserialisable");
  const outcome = parse(bytes, context);
  if (!outcome.ok) return outcome;
  return outcome.form === "single" ? outcome : fail(-32600, "message.array");
}

/** Parses a batch from a JSON value; fails for anything but an array. */
export function parseBatch(value: unknown, context: ParseContext): ParseOutcome {
  if (!Array.isArray(value)) return fail(-32600, "batch.expected");
  const bytes = serialise(value);
  return bytes === undefined ? fail(-32600, "json.unserialisable") : parse(bytes, context);
}

/** Like {@link parse}, for text. Lone surrogates, which UTF-8 cannot encode, fail instead of being replaced. */
export function parseText(text: string, context: ParseContext): ParseOutcome {
  return text.isWellFormed() ? parse(Buffer.from(text), context) : fail(-32700, "json.utf8");
}

/** Parses bytes that should be exactly one message; undefined for anything else. */
export function parseSingle(bytes: Buffer | string, context: ParseContext): Message | undefined {
  const outcome = typeof bytes === "string" ? parseText(bytes, context) : parse(bytes, context);
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

/** The kind, id and method of each message, by the same parser (SC-021); undefined if the bytes are not valid. */
export function peek(
  bytes: Buffer,
  context: ParseContext,
): { isBatch: boolean; messages: readonly Peeked[] } | undefined {
  const outcome = parse(bytes, context);
  if (!outcome.ok) return undefined;
  const members = outcome.form === "single" ? [outcome] : outcome.members;
  const messages = members.map((member) =>
    member.ok
      ? { kind: member.message.kind, id: member.message.id, method: member.message.method }
      : { kind: "invalid" as const, id: member.failure.id, method: undefined },
  );
  return { isBatch: outcome.form === "batch", messages };
}

/** One message in the result of {@link peek}. */
export interface Peeked {
  readonly kind: Message["kind"] | "invalid";
  readonly id: RequestId | undefined;
  readonly method: string | undefined;
}

function parseArray(bytes: Buffer, start: number, context: ParseContext, limits: ParseLimits): ParseOutcome {
  const { length } = bytes;
  const members: MessageOutcome[] = [];
  let count = 0;
  let at = skipSpace(bytes, start + 1, length);
  const isEmpty = bytes[at] === 0x5d;
  while (!isEmpty) {
    const outline = scan(bytes, at, limits.maxDepth - 1);
    if (!outline.ok) return scanFailure(outline, limits);
    count++;
    if (count <= limits.maxBatch) members.push(toMember(bytes, outline, context));
    at = skipSpace(bytes, outline.end, length);
    const next = bytes[at];
    if (next === 0x5d) break;
    if (next !== 0x2c) return fail(-32700, "json.syntax", { offset: at });
    at = skipSpace(bytes, at + 1, length);
  }
  const rest = skipSpace(bytes, at + 1, length);
  if (rest < length) return fail(-32700, "json.syntax", { offset: rest });
  return checkBatch(members, count, context, limits);
}

function checkBatch(
  members: readonly MessageOutcome[],
  count: number,
  context: ParseContext,
  limits: ParseLimits,
): ParseOutcome {
  const allowed = context.revision === "unknown" ? context.mode === "observe" : revisions[context.revision].batching;
  if (!allowed) return fail(-32600, "batch.unsupported");
  if (count === 0) return fail(-32600, "batch.empty");
  if (count > limits.maxBatch) {
    return fail(-32600, "batch.size", { limit: { actual: count, allowed: limits.maxBatch } });
  }
  // MCP 2025-03-26, Transports: a batch contains requests and notifications, or responses.
  const kinds = new Set(members.flatMap((member) => (member.ok ? [isResponse(member.message)] : [])));
  const isMixed = kinds.size > 1;
  if (isMixed && context.mode === "enforce") return fail(-32600, "batch.mixed");
  const diagnostics = isMixed ? [failureDiagnostic("batch.mixed")] : noDiagnostics;
  return { ok: true, form: "batch", members, diagnostics };
}

function isResponse(message: Message): boolean {
  return message.kind === "result" || message.kind === "error";
}

function toMember(bytes: Buffer, outline: Outline, context: ParseContext): MessageOutcome {
  if (bytes[outline.start] === 0x5b) return fail(-32600, "batch.nested", { offset: outline.start });
  const outcome = toMessage(bytes, outline, context);
  if (outcome.ok && outcome.message.method === "initialize") {
    return fail(-32600, "batch.initialize", { offset: outline.start, id: outcome.message.id });
  }
  return outcome;
}

function toMessage(bytes: Buffer, outline: Outline, context: ParseContext): MessageOutcome {
  const type = typeAt(bytes, outline.start);
  if (type !== "object") return fail(-32600, `message.${type}`, { offset: outline.start });
  const shape = shapeOf(bytes, outline);
  const isPlain = outline.duplicateAt < 0 && outline.caseVariantAt < 0 && outline.loneSurrogateAt < 0;
  if (context.mode === "enforce") {
    const ambiguity = isPlain ? undefined : ambiguityIn(outline);
    if (ambiguity !== undefined) {
      const id = outline.duplicateId ? undefined : shape.id;
      return fail(-32600, ambiguity.reason, { offset: ambiguity.offset, id });
    }
    if (shape.ok && shape.fractionalId) return fail(-32600, "id.fractional", { offset: outline.start });
  }
  if (!shape.ok) return fail(-32600, shape.reason, { offset: shape.at, id: shape.id });
  const { kind, id, method } = shape;
  const diagnostics = isPlain && !shape.fractionalId ? noDiagnostics : diagnosticsOf(outline, shape.fractionalId);
  // `shapeOf` has checked the members of this kind; one object layout serves all four kinds.
  return { ok: true, message: { kind, id, method, bytes, outline, diagnostics } as Message };
}

/** Something that two readers could understand differently, so that policy and server might not see the same message. */
function ambiguityIn(outline: Outline): { reason: FailureReason; offset: number } | undefined {
  if (outline.duplicateAt >= 0) return { reason: "json.duplicate-key", offset: outline.duplicateAt };
  if (outline.caseVariantAt >= 0) return { reason: "json.case-variant", offset: outline.caseVariantAt };
  if (outline.loneSurrogateInName) return { reason: "json.lone-surrogate", offset: outline.loneSurrogateAt };
  return undefined;
}

function diagnosticsOf(outline: Outline, fractionalId: boolean): readonly Diagnostic[] {
  const { duplicateAt, caseVariantAt, loneSurrogateAt } = outline;
  const found: Diagnostic[] = [];
  if (duplicateAt >= 0) found.push(failureDiagnostic("json.duplicate-key", duplicateAt));
  if (caseVariantAt >= 0) found.push(failureDiagnostic("json.case-variant", caseVariantAt));
  if (loneSurrogateAt >= 0) found.push(failureDiagnostic("json.lone-surrogate", loneSurrogateAt));
  if (fractionalId) found.push(failureDiagnostic("id.fractional"));
  return found;
}

/** A failure as a diagnostic, for routes that only observe. */
function failureDiagnostic(reason: FailureReason, offset?: number): Diagnostic {
  const message = failureMessage(reason, offset);
  return { code: reason, severity: "warn", message, ...(offset === undefined ? {} : { data: { offset } }) };
}

interface Failed {
  readonly ok: false;
  readonly failure: ParseFailure;
}

function scanFailure({ reason, offset }: ScanError, { maxDepth }: ParseLimits): Failed {
  if (reason === "json.syntax") return fail(-32700, reason, { offset });
  return fail(-32600, reason, { offset, limit: { actual: maxDepth + 1, allowed: maxDepth } });
}

function fail(
  code: ParseFailure["code"],
  reason: FailureReason,
  facts: { [Name in "id" | "offset" | "limit"]?: ParseFailure[Name] | undefined } = {},
): Failed {
  const message = failureMessage(reason, facts.offset, facts.limit);
  return { ok: false, failure: { code, reason, message, ...withoutUndefined(facts) } };
}

function serialise(value: unknown): Buffer | undefined {
  try {
    const text = JSON.stringify(value);
    return typeof text === "string" ? Buffer.from(text) : undefined;
  } catch {
    // A cycle, a BigInt or a getter that throws: not JSON, which the caller reports.
    return undefined;
  }
}

/** The kind, id and method of a JSON-RPC message, or why the object is not one. */
type Shape =
  | {
      readonly ok: true;
      readonly kind: Message["kind"];
      readonly id: RequestId | undefined;
      readonly method: string | undefined;
      readonly fractionalId: boolean;
    }
  | { readonly ok: false; readonly reason: FailureReason; readonly at: number; readonly id: RequestId | undefined };

const jsonrpc = slotOf("jsonrpc");
const id = slotOf("id");
const method = slotOf("method");
const params = slotOf("params");
const result = slotOf("result");
const error = slotOf("error");
const errorCode = slotOf("error.code");
const errorMessage = slotOf("error.message");

/**
 * Finds the kind of a message by its members (JSON-RPC 2.0 sections 4 and 5, with the stricter rules of MCP: ids are
 * strings or integers, params and result are objects).
 */
function shapeOf(bytes: Buffer, outline: Outline): Shape {
  const { spans } = outline;
  const idAt = spans[id] ?? -1;
  const parsedId = idAt < 0 ? undefined : readId(bytes, idAt, spans[id + 1] ?? 0);
  const usableId = parsedId?.ok === true && !parsedId.fractional ? parsedId.id : undefined;
  const invalid = (reason: FailureReason, at: number): Shape => ({ ok: false, reason, at, id: usableId });

  const versionAt = spans[jsonrpc] ?? -1;
  if (versionAt < 0) return invalid("jsonrpc.missing", outline.start);
  if (!isVersionTwo(bytes, versionAt, spans[jsonrpc + 1] ?? 0)) return invalid("jsonrpc.version", versionAt);

  const methodAt = spans[method] ?? -1;
  const resultAt = spans[result] ?? -1;
  const errorAt = spans[error] ?? -1;
  if (methodAt >= 0) {
    if (bytes[methodAt] !== 0x22) return invalid("method.type", methodAt);
    const methodEnd = spans[method + 1] ?? 0;
    if (methodEnd - methodAt === 2) return invalid("method.empty", methodAt);
    if (resultAt >= 0 || errorAt >= 0) return invalid("shape.mixed", resultAt >= 0 ? resultAt : errorAt);
    if (parsedId?.ok === false) return invalid(parsedId.reason, idAt);
    const paramsAt = spans[params] ?? -1;
    if (paramsAt >= 0 && bytes[paramsAt] !== 0x7b) return invalid("params.type", paramsAt);
    return {
      ok: true,
      kind: parsedId === undefined ? "notification" : "request",
      id: parsedId?.id,
      method: decodeString(bytes, methodAt, methodEnd),
      fractionalId: parsedId?.fractional ?? false,
    };
  }

  if (resultAt >= 0 && errorAt >= 0) return invalid("response.both", errorAt);
  if (resultAt >= 0) {
    if (parsedId === undefined) return invalid("response.id", outline.start);
    if (!parsedId.ok) return invalid(parsedId.reason, idAt);
    if (bytes[resultAt] !== 0x7b) return invalid("result.type", resultAt);
    return { ok: true, kind: "result", id: parsedId.id, method: undefined, fractionalId: parsedId.fractional };
  }
  if (errorAt < 0) return invalid(idAt < 0 ? "shape.empty" : "response.neither", outline.start);
  // Only an error may have a null or missing id: the request was unreadable (SC-015).
  if (parsedId?.ok === false && parsedId.reason !== "id.null") return invalid(parsedId.reason, idAt);
  if (bytes[errorAt] !== 0x7b) return invalid("error.type", errorAt);
  if (!isInteger(bytes, spans, errorCode)) return invalid("error.code", errorAt);
  const messageAt = spans[errorMessage] ?? -1;
  if (messageAt < 0 || bytes[messageAt] !== 0x22) return invalid("error.message", errorAt);
  return {
    ok: true,
    kind: "error",
    id: parsedId?.ok === true ? parsedId.id : undefined,
    method: undefined,
    fractionalId: parsedId?.ok === true && parsedId.fractional,
  };
}

function isVersionTwo(bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start] !== 0x22) return false;
  if (end - start === 5) return bytes[start + 1] === 0x32 && bytes[start + 2] === 0x2e && bytes[start + 3] === 0x30;
  return decodeString(bytes, start, end) === "2.0";
}

function isInteger(bytes: Buffer, spans: readonly number[], slot: number): boolean {
  const start = spans[slot] ?? -1;
  if (start < 0 || typeAt(bytes, start) !== "number") return false;
  return Number.isInteger(Number(bytes.toString("latin1", start, spans[slot + 1] ?? 0)));
}
