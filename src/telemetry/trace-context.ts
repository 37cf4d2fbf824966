import type { Exchange, TraceHeaders, TraceLink } from "../core/exchange.ts";
import { memberString, typeAt } from "../protocol/json/read.ts";
import { type MemberName, type Span, spanOf } from "../protocol/json/outline.ts";
import { skipSpace } from "../protocol/json/scan.ts";
import { type Replacement, splice } from "../protocol/json/edit.ts";
import { defaultLimits, type Message } from "../protocol/message.ts";
import { parse } from "../protocol/parse.ts";

const traceparentForm = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/u;
const [noTrace, noSpan] = ["0".repeat(32), "0".repeat(16)] as const;
/** More than that need not be passed on (W3C Trace Context, section 3.3.1.5). */
const maxStateLength = 512;

/** Where a message says that it comes from: a span of its sender, with what vendors add to it. */
export interface RemoteTrace extends TraceLink {
  readonly tracestate: string | undefined;
}

/**
 * Reads the two texts of W3C Trace Context, section 3. What is not well-formed counts as absent, and a state without
 * its parent does too.
 */
export function parseTrace(traceparent: string | undefined, tracestate: string | undefined): RemoteTrace | undefined {
  const match = traceparent === undefined ? null : traceparentForm.exec(traceparent);
  if (match === null) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", more] = match;
  // Later versions may add fields behind those of the first one, which itself has no more; `ff` is none.
  if (version === "ff" || (version === "00" && more !== undefined)) return undefined;
  if (traceId === noTrace || spanId === noSpan) return undefined;
  const isSampled = (Number.parseInt(flags, 16) & 1) === 1;
  const hasState = tracestate !== undefined && tracestate !== "" && tracestate.length <= maxStateLength;
  return { traceId, spanId, isSampled, tracestate: hasState ? tracestate : undefined };
}

/** The `traceparent` of a span. */
export function formatTraceparent({ traceId, spanId, isSampled }: TraceLink): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** What a message itself says of its trace, in `params._meta` (SEP-414). */
export function messageTrace({ original }: Pick<Exchange, "original">): RemoteTrace | undefined {
  if (original.kind !== "request" && original.kind !== "notification") return undefined;
  const traceparent = memberString(original, "params._meta.traceparent");
  return traceparent === undefined
    ? undefined
    : parseTrace(traceparent, memberString(original, "params._meta.tracestate"));
}

/** What the HTTP request says that brought a message. */
export function headerTrace({ transport }: Pick<Exchange, "transport">): RemoteTrace | undefined {
  if (transport.type !== "http" || transport.trace === undefined) return undefined;
  return parseTrace(transport.trace.traceparent, transport.trace.tracestate);
}

/**
 * The trace that an exchange belongs to: the span that follows it here, or else what its sender said. For log lines,
 * records and exemplars, which know traces also where the gateway itself makes no spans.
 */
export function traceOf(exchange: Exchange): TraceLink | undefined {
  return exchange.tracking.trace ?? messageTrace(exchange) ?? headerTrace(exchange);
}

// What we add is not bounded by what we accept.
const ownLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: 1000 };

/**
 * The message with this trace context in `params._meta` (SEP-414), in place of the one that it came with; every other
 * byte stays. One whose `_meta` is no object has no place for it and comes back as it is.
 */
export function withTraceMeta(message: Message, trace: TraceHeaders): Message {
  const changes = changesOf(message, trace);
  if (changes === undefined) return message;
  const outcome = parse(splice(message.bytes, message.outline, changes), {
    revision: "unknown",
    mode: "observe",
    limits: ownLimits,
  });
  return outcome.ok && outcome.form === "single" ? outcome.message : message;
}

function changesOf(message: Message, trace: TraceHeaders): readonly Replacement[] | undefined {
  const { bytes, outline } = message;
  const params = spanOf(outline, "params");
  const meta = spanOf(outline, "params._meta");
  if (params === undefined) {
    return [insertion(bytes, rootOf(message), `"params":{"_meta":${JSON.stringify(trace)}}`)];
  }
  if (meta === undefined) return [insertion(bytes, params, `"_meta":${JSON.stringify(trace)}`)];
  if (typeAt(bytes, meta.start) !== "object") return undefined;
  const texts: string[] = [];
  const replaced: Replacement[] = [];
  const set = (name: keyof TraceHeaders, member: MemberName): void => {
    const before = spanOf(outline, member);
    const value = trace[name];
    // A state belongs to its parent, so that of another one is emptied, which W3C Trace Context allows.
    if (before !== undefined) replaced.push({ span: before, bytes: Buffer.from(JSON.stringify(value ?? "")) });
    else if (value !== undefined) texts.push(`"${name}":${JSON.stringify(value)}`);
  };
  set("traceparent", "params._meta.traceparent");
  set("tracestate", "params._meta.tracestate");
  if (texts.length > 0) replaced.push(insertion(bytes, meta, texts.join(",")));
  return replaced;
}

/** Where the object itself begins; white space may stand before it. */
function rootOf({ bytes, outline }: Message): Span {
  return { start: skipSpace(bytes, outline.start, outline.end), end: outline.end };
}

/** Puts members in front of those that an object has. */
function insertion(bytes: Buffer, object: Span, members: string): Replacement {
  const at = object.start + 1;
  const isEmpty = bytes[skipSpace(bytes, at, object.end)] === 0x7d;
  return { span: { start: at, end: at }, bytes: Buffer.from(isEmpty ? members : `${members},`) };
}
