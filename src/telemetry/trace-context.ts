import type { Exchange, TraceLink } from "../exchange.ts";
import { memberString } from "../protocol/json/read.ts";

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
export function parseTrace(
  traceparent: string | undefined,
  tracestate: string | undefined,
): RemoteTrace | undefined {
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
