import type { Exchange, TraceHeaders, TraceLink } from "../core/exchange.ts";
import { changeMembers, type MemberChanges, type Replacement, splice } from "../protocol/json/edit.ts";
import { type Span, spanOf } from "../protocol/json/outline.ts";
import { memberString, typeAt } from "../protocol/json/read.ts";
import { skipSpace } from "../protocol/json/scan.ts";
import { defaultLimits, type Message } from "../protocol/message.ts";
import { parse } from "../protocol/parse.ts";
import type { Handler, Interceptor, Reply } from "../core/pipeline.ts";
import type { Revision } from "../protocol/revisions.ts";

const traceparentForm = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/u;
const [noTrace, noSpan] = ["0".repeat(32), "0".repeat(16)] as const;
/** Longer states need not be forwarded (W3C Trace Context, section 3.3.1.5). */
const maxStateLength = 512;

/** The span of a message's sender, with the state that vendors add to it. */
export interface RemoteTrace extends TraceLink {
  readonly tracestate: string | undefined;
}

/**
 * Parses `traceparent` and `tracestate` (W3C Trace Context, section 3). A malformed parent, and a state without a
 * parent, count as absent.
 */
export function parseTrace(traceparent: string | undefined, tracestate: string | undefined): RemoteTrace | undefined {
  const match = traceparent === undefined ? null : traceparentForm.exec(traceparent);
  if (match === null) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", more] = match;
  // Later versions may append fields to those of version 00; `ff` is not a version.
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

/** The trace context in a message's `params._meta` (SEP-414). */
export function messageTrace({ original }: Pick<Exchange, "original">): RemoteTrace | undefined {
  if (original.kind !== "request" && original.kind !== "notification") return undefined;
  const traceparent = memberString(original, "params._meta.traceparent");
  return traceparent === undefined
    ? undefined
    : parseTrace(traceparent, memberString(original, "params._meta.tracestate"));
}

/** The trace context in the headers of a message's HTTP request. */
export function headerTrace({ transport }: Pick<Exchange, "transport">): RemoteTrace | undefined {
  if (transport.type !== "http" || transport.trace === undefined) return undefined;
  return parseTrace(transport.trace.traceparent, transport.trace.tracestate);
}

/**
 * The trace of an exchange: the gateway's own span, or else that of its sender. Log lines, recordings and exemplars use
 * it, also if the gateway makes no spans.
 */
export function traceOf(exchange: Exchange): TraceLink | undefined {
  return exchange.tracking.trace ?? messageTrace(exchange) ?? headerTrace(exchange);
}

// What we add is not limited by what we accept.
const ownLimits = { ...defaultLimits, maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: 1000 };

/**
 * The message with this trace context in `params._meta` (SEP-414), in place of the one it came with; every other byte
 * stays. A message whose `_meta` is not an object is returned unchanged.
 */
export function withTraceMeta(message: Message, trace: TraceHeaders): Message {
  const edit = traceEdit(message, trace);
  if (edit === undefined) return message;
  const outcome = parse(splice(message.bytes, message.outline, [edit]), {
    revision: "unknown",
    mode: "observe",
    limits: ownLimits,
  });
  return outcome.ok && outcome.form === "single" ? outcome.message : message;
}

function traceEdit({ bytes, outline }: Message, trace: TraceHeaders): Replacement | undefined {
  const change = (span: Span, changes: MemberChanges): Replacement => ({
    span,
    bytes: changeMembers(bytes, span, changes),
  });
  const params = spanOf(outline, "params");
  const meta = spanOf(outline, "params._meta");
  if (params === undefined) {
    const root = { start: skipSpace(bytes, outline.start, outline.end), end: outline.end };
    return change(root, new Map([["params", JSON.stringify({ _meta: trace })]]));
  }
  if (meta === undefined) return change(params, new Map([["_meta", JSON.stringify(trace)]]));
  if (typeAt(bytes, meta.start) !== "object") return undefined;
  const { traceparent, tracestate } = trace;
  return change(
    meta,
    new Map([
      ["traceparent", JSON.stringify(traceparent)],
      // A state belongs to its parent: without a new one, the old one is removed.
      ["tracestate", tracestate === undefined ? undefined : JSON.stringify(tracestate)],
    ]),
  );
}

/** Where a message is sent. */
export interface Destination {
  readonly transport: "http" | "stdio" | "in-process";
  /** Scheme, host and port of an HTTP server. */
  readonly origin?: string;
}

/** A client session that ended. */
export interface EndedSession {
  readonly revision: Revision | undefined;
  readonly durationMs: number;
  /** Why it ended, unless it was asked to. */
  readonly failure: string | undefined;
  /** The server, if it had a session of its own. */
  readonly upstream: Destination | undefined;
}

/** Redacts secrets in text. */
export type RedactText = (text: string) => string;

/** Traces the messages of one route. */
export interface RouteTracing {
  /** Traces a received message, from either side, and everything that happens to it. */
  readonly received: Interceptor;
  /**
   * Traces sending a message upstream or, without a destination, to the client. Its trace context is in
   * `params._meta` and in `traceHeaders` of the exchange.
   */
  send(exchange: Exchange, destination: Destination | undefined, send: Handler): Promise<Reply>;
  sessionEnded(session: EndedSession): void;
}

/** Sends spans and metrics to an OpenTelemetry collector. */
export interface Telemetry {
  /**
   * Traces a route; texts from peers are redacted.
   * @internal
   */
  route(name: string, redact: RedactText): RouteTracing;
  /**
   * Adds an event to the span of an exchange, if it has one.
   * @internal
   */
  addEvent(exchange: Exchange, event: string, values: Readonly<Record<string, string | number | boolean>>): void;
  /** Sends what is buffered; resolves when it was sent or given up. */
  close(): Promise<void>;
}
