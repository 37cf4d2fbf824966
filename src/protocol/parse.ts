import { isUtf8 } from "node:buffer";

import { scan, type ScanError, skipSpace } from "./json/scan.ts";
import type { Outline } from "./json/outline.ts";
import { typeAt } from "./json/read.ts";
import {
  defaultLimits,
  type Diagnostic,
  type FailureReason,
  type Message,
  type MessageOutcome,
  type ParseFailure,
  type ParseLimits,
  type ParseOutcome,
  type RequestId,
} from "./message.ts";
import { type Revision, revisions } from "./revisions.ts";
import { shapeOf } from "./shape.ts";

/** What the parser needs to know besides the bytes. */
export interface ParseContext {
  /** Decides whether an array may be a batch; `unknown` is judged by the envelope alone. */
  readonly revision: Revision | "unknown";
  /** Enforcing refuses what observing only reports: duplicate names, fractional ids, mixed batches. */
  readonly mode: "enforce" | "observe";
  readonly limits?: ParseLimits;
}

const noDiagnostics: readonly Diagnostic[] = Object.freeze([]);

/**
 * Parses what arrived on a wire into one message, a batch, or a typed failure. It never throws, never repairs, keeps
 * the bytes as they are and builds no values: members are read from their spans when somebody asks.
 *
 * @example
 * const outcome = parse(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}'), { revision: "2025-11-25", mode: "enforce" });
 * // outcome.ok && outcome.form === "single" && outcome.message.kind === "request"
 */
export function parse(bytes: Buffer, context: ParseContext): ParseOutcome {
  const limits = context.limits ?? defaultLimits;
  const { length } = bytes;
  if (length > limits.maxBytes) {
    return fail(-32600, "json.size", { limit: { actual: length, allowed: limits.maxBytes } });
  }
  const start = skipSpace(bytes, 0, length);
  if (start === length) return fail(-32700, "json.empty", { offset: 0 });
  // RFC 8259 section 8.1: a byte order mark must not be added; JSON.parse refuses it as well.
  if (bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf) {
    return fail(-32700, "json.bom", { offset: start });
  }
  if (!isUtf8(bytes)) return fail(-32700, "json.utf8", {});
  if (bytes[start] === 0x5b) return parseArray(bytes, start, context, limits);

  const outline = scan(bytes, start, limits.maxDepth);
  if (!outline.ok) return { ok: false, failure: scanFailure(outline, limits) };
  const rest = skipSpace(bytes, outline.end, length);
  if (rest < length) return fail(-32700, "json.syntax", { offset: rest });
  const outcome = toMessage(bytes, outline, context);
  return outcome.ok ? { ok: true, form: "single", message: outcome.message } : outcome;
}

/** Parses exactly one message from a JSON value already at hand; an array is refused. */
export function parseMessage(value: unknown, context: ParseContext): MessageOutcome {
  if (Array.isArray(value)) return fail(-32600, "message.array", {});
  const bytes = serialise(value);
  if (bytes === undefined) return fail(-32600, "json.unserialisable", {});
  const outcome = parse(bytes, context);
  if (!outcome.ok) return outcome;
  return outcome.form === "single" ? outcome : fail(-32600, "message.array", {});
}

/** Parses a batch from a JSON value already at hand; anything but an array is refused. */
export function parseBatch(value: unknown, context: ParseContext): ParseOutcome {
  if (!Array.isArray(value)) return fail(-32600, "batch.expected", {});
  const bytes = serialise(value);
  return bytes === undefined ? fail(-32600, "json.unserialisable", {}) : parse(bytes, context);
}

/** The same entry point for text; half surrogates, which UTF-8 cannot carry, are refused instead of replaced. */
export function parseText(text: string, context: ParseContext): ParseOutcome {
  return text.isWellFormed() ? parse(Buffer.from(text), context) : fail(-32700, "json.utf8", {});
}

/** A quick look: how many messages, and the kind, id and method of each. The same parser, fewer words (SC-021). */
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

/** One line of a {@link peek}. */
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
    if (!outline.ok) return { ok: false, failure: scanFailure(outline, limits) };
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
  return judgeBatch(members, count, context, limits);
}

function judgeBatch(
  members: readonly MessageOutcome[],
  count: number,
  context: ParseContext,
  limits: ParseLimits,
): ParseOutcome {
  const allowed = context.revision === "unknown" ? context.mode === "observe" : revisions[context.revision].batching;
  if (!allowed) return fail(-32600, "batch.unsupported", {});
  if (count === 0) return fail(-32600, "batch.empty", {});
  if (count > limits.maxBatch) {
    return fail(-32600, "batch.size", { limit: { actual: count, allowed: limits.maxBatch } });
  }
  // MCP 2025-03-26, Transports: an array holds requests and notifications, or responses.
  const answers = members.filter((member) => member.ok && isResponse(member.message)).length;
  const asks = members.filter((member) => member.ok && !isResponse(member.message)).length;
  if (answers === 0 || asks === 0) return { ok: true, form: "batch", members, diagnostics: noDiagnostics };
  if (context.mode === "enforce") return fail(-32600, "batch.mixed", {});
  return { ok: true, form: "batch", members, diagnostics: [failureDiagnostic("batch.mixed", "warn")] };
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
  const enforcing = context.mode === "enforce";
  if (enforcing) {
    const trick = trickOf(outline);
    if (trick !== undefined) {
      const id = shape.ok || shape.id ? shape.id : undefined;
      return fail(-32600, trick.reason, { offset: trick.offset, id: outline.duplicateId ? undefined : id });
    }
  }
  if (!shape.ok) return fail(-32600, shape.reason, { offset: shape.at, id: shape.id });
  if (shape.fractionalId && enforcing) return fail(-32600, "id.fractional", { offset: outline.start });
  const { kind, id, method } = shape;
  const isPlain = outline.duplicateAt < 0 && outline.caseVariantAt < 0 && outline.loneSurrogateAt < 0;
  const diagnostics = isPlain && !shape.fractionalId ? noDiagnostics : diagnosticsOf(outline, shape.fractionalId);
  // The shape has just established which members this kind has; one object layout serves all four kinds.
  return { ok: true, message: { kind, id, method, bytes, outline, diagnostics } as Message };
}

/** Things two readers could understand differently; policy must never be asked about one reading of them. */
function trickOf(outline: Outline): { reason: FailureReason; offset: number } | undefined {
  if (outline.duplicateAt >= 0) return { reason: "json.duplicate-key", offset: outline.duplicateAt };
  if (outline.caseVariantAt >= 0) return { reason: "json.case-variant", offset: outline.caseVariantAt };
  if (outline.loneSurrogateInName) return { reason: "json.lone-surrogate", offset: outline.loneSurrogateAt };
  return undefined;
}

function diagnosticsOf(outline: Outline, fractionalId: boolean): readonly Diagnostic[] {
  const found: Diagnostic[] = [];
  if (outline.duplicateAt >= 0) found.push(failureDiagnostic("json.duplicate-key", "warn", outline.duplicateAt));
  if (outline.caseVariantAt >= 0) found.push(failureDiagnostic("json.case-variant", "warn", outline.caseVariantAt));
  if (outline.loneSurrogateAt >= 0)
    found.push(failureDiagnostic("json.lone-surrogate", "warn", outline.loneSurrogateAt));
  if (fractionalId) found.push(failureDiagnostic("id.fractional", "warn"));
  return found;
}

function scanFailure(fault: ScanError, limits: ParseLimits): ParseFailure {
  const { offset } = fault;
  if (fault.reason === "json.depth") {
    const limit = { actual: limits.maxDepth + 1, allowed: limits.maxDepth };
    return fail(-32600, "json.depth", { offset, limit }).failure;
  }
  return fail(-32700, "json.syntax", { offset }).failure;
}

interface FailureFacts {
  readonly id?: RequestId | undefined;
  readonly offset?: number;
  readonly limit?: { readonly actual: number; readonly allowed: number };
}

function fail(
  code: ParseFailure["code"],
  reason: FailureReason,
  facts: FailureFacts,
): { readonly ok: false; readonly failure: ParseFailure } {
  const { id, offset, limit } = facts;
  const message = failureMessage(reason, offset, limit);
  return {
    ok: false,
    failure: {
      code,
      reason,
      message,
      ...(id === undefined ? {} : { id }),
      ...(offset === undefined ? {} : { offset }),
      ...(limit === undefined ? {} : { limit }),
    },
  };
}

function serialise(value: unknown): Buffer | undefined {
  try {
    const text = JSON.stringify(value);
    return typeof text === "string" ? Buffer.from(text) : undefined;
  } catch {
    // Cycles, BigInts and throwing getters: not JSON, and said so by the caller's typed failure.
    return undefined;
  }
}

/** What each failure means, for people: what is wrong and what was expected. */
const explanations: Record<FailureReason, string> = {
  "json.empty": "the message is empty",
  "json.bom": "the message begins with a byte order mark; JSON must not have one",
  "json.utf8": "the message is not valid UTF-8",
  "json.syntax": "the message is not valid JSON",
  "json.depth": "the message nests too deeply",
  "json.size": "the message is too large",
  "json.duplicate-key": "a member name occurs twice in one object",
  "json.case-variant": "a member name differs from a protocol member only by letter case",
  "json.lone-surrogate": "a string holds half of a surrogate pair",
  "json.unserialisable": "the value cannot be written as JSON",
  "batch.unsupported": "batches are not part of this protocol revision; send one message at a time",
  "batch.expected": "a batch must be an array",
  "batch.empty": "a batch must hold at least one message",
  "batch.size": "the batch holds too many messages",
  "batch.nested": "a batch must not hold another array",
  "batch.initialize": "initialize must not be part of a batch",
  "batch.mixed": "a batch holds requests and notifications, or responses, never both",
  "message.null": "a message must be an object, not null",
  "message.boolean": "a message must be an object, not a boolean",
  "message.number": "a message must be an object, not a number",
  "message.string": "a message must be an object, not a string",
  "message.array": "one message was expected, not an array",
  "message.object": "the message is not usable",
  "jsonrpc.missing": 'the member "jsonrpc" is missing; it must be "2.0"',
  "jsonrpc.version": 'the member "jsonrpc" must be the string "2.0"',
  "id.null": "the id must be a string or an integer, not null",
  "id.fractional": "the id must be an integer, not a fraction",
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
};

/** The full sentence for a failure, with its place or its limit. */
function failureMessage(
  reason: FailureReason,
  offset?: number,
  limit?: { readonly actual: number; readonly allowed: number },
): string {
  const place = offset === undefined ? "" : ` (at byte ${offset})`;
  const bound = limit === undefined ? "" : `: ${limit.actual}, at most ${limit.allowed} allowed`;
  return `${explanations[reason]}${bound}${place}`;
}

/** The same finding as a diagnostic, for those who only observe. */
function failureDiagnostic(reason: FailureReason, severity: Diagnostic["severity"], offset?: number): Diagnostic {
  return {
    code: reason,
    severity,
    message: failureMessage(reason, offset),
    ...(offset === undefined ? {} : { data: { offset } }),
  };
}
