import type * as Api from "@opentelemetry/api";
import type { Context, Histogram, Link, Meter, Span, SpanContext, Tracer } from "@opentelemetry/api";

import type { Exchange, TraceHeaders, TraceLink, Tracking } from "../../core/exchange.ts";
import type { Handler, Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { attributes, durationBounds, durations } from "../semconv.ts";
import {
  type Destination,
  formatTraceparent,
  headerTrace,
  messageTrace,
  type RedactText,
  type RemoteTrace,
  type RouteTracing,
  type Telemetry,
  withTraceMeta,
} from "../trace-context.ts";
import { createNameLimit, createSpanDescriber, destinationOf, type SpanRole } from "./attributes.ts";

/** The OpenTelemetry API, which is an optional dependency. */
export type OpenTelemetryApi = typeof Api;

/** What telemetry needs. */
export interface TelemetryDeps {
  readonly api: OpenTelemetryApi;
  readonly tracer: Tracer;
  readonly meter: Meter;
  /** Monotonic milliseconds, of the clock that times exchanges. */
  readonly now: () => number;
  readonly close: () => Promise<void>;
}

/** The span of a message on one side of the gateway. */
interface TracedHop {
  readonly span: Span;
  readonly context: Context;
  /** Ends the span and records its duration; later calls do nothing. */
  end(answer: Message | undefined, error: GatewayError | undefined): void;
}

/** The spans of a received message: where it came in, and where it was sent on. */
interface TracedExchange {
  readonly inbound: TracedHop;
  outbound: TracedHop | undefined;
  readonly isListening: boolean;
  progress: number;
}

/** What the routes of a gateway share. */
interface SharedTracing extends TelemetryDeps {
  readonly operations: Readonly<Record<SpanRole, Histogram>>;
  readonly sessions: Readonly<Record<SpanRole, Histogram>>;
  readonly traced: WeakMap<Tracking, TracedExchange>;
}

/** Names of tools and prompts that the metrics of one route distinguish. */
const maxNames = 500;
/** Progress events that a span holds. */
const maxProgress = 32;

/** Makes spans and durations by the semantic conventions for MCP. */
export function createTelemetry(deps: TelemetryDeps): Telemetry {
  const histogram = ({ name, description }: { readonly name: string; readonly description: string }) =>
    deps.meter.createHistogram(name, {
      description,
      unit: "s",
      advice: { explicitBucketBoundaries: [...durationBounds] },
    });
  const shared: SharedTracing = {
    ...deps,
    operations: { server: histogram(durations.serverOperation), client: histogram(durations.clientOperation) },
    sessions: { server: histogram(durations.serverSession), client: histogram(durations.clientSession) },
    traced: new WeakMap(),
  };
  return {
    route: (name, redact) => createRouteTracing(name, redact, shared),
    addEvent: ({ tracking }, event, values) => {
      shared.traced.get(tracking)?.inbound.span.addEvent(event, values);
    },
    close: deps.close,
  };
}

function createRouteTracing(name: string, redact: RedactText, shared: SharedTracing): RouteTracing {
  const { api, now, operations, sessions, traced } = shared;
  const { describe, conclude } = createSpanDescriber(name, redact, createNameLimit(maxNames));
  const kinds = { server: api.SpanKind.SERVER, client: api.SpanKind.CLIENT } as const;

  function startHop(
    role: SpanRole,
    exchange: Exchange,
    method: string,
    origin: SpanOrigin,
    destination?: Destination,
  ): TracedHop {
    const description = describe(exchange, role, method, destination);
    const startedAt = role === "server" ? exchange.timing.startedAt : now();
    const span = shared.tracer.startSpan(
      description.name,
      {
        kind: kinds[role],
        attributes: { ...description.metricAttributes, ...description.spanAttributes },
        ...(origin.links === undefined ? {} : { links: origin.links }),
      },
      origin.parent,
    );
    const context = api.trace.setSpan(origin.parent, span);
    let isEnded = false;
    return {
      span,
      context,
      end: (answer, error) => {
        if (isEnded) return;
        isEnded = true;
        const ending = conclude(role, answer, error);
        span.setAttributes(ending.attributes);
        // When the message came, it was not known yet which server it is for.
        const member = exchange.tracking.upstream?.member;
        if (role === "server" && member !== undefined) span.setAttribute(attributes.upstream, member);
        if (ending.failure !== undefined) span.setStatus({ code: api.SpanStatusCode.ERROR, message: ending.failure });
        span.end();
        const values = { ...description.metricAttributes, ...ending.attributes };
        operations[role].record((now() - startedAt) / 1000, values, context);
      },
    };
  }

  return {
    received: (next) => (exchange) => {
      const { message, parent, tracking } = exchange;
      const { method } = message;
      if (method === undefined) return next(exchange);
      const above = parent === undefined ? undefined : traced.get(parent.tracking);
      if (above !== undefined && method === "notifications/progress") {
        // Progress comes in large numbers and belongs to its call, so it gets events instead of spans.
        if (above.progress++ < maxProgress) above.inbound.span.addEvent(method);
        return next(exchange);
      }
      // A subscription may stay open for days; its spans end with the first message that it brings.
      if (above?.isListening === true) {
        above.outbound?.end(undefined, undefined);
        above.inbound.end(undefined, undefined);
      }
      const hop = startHop("server", exchange, method, originOf(api, exchange, above));
      const isListening = methodFacts(method)?.timeoutClass === "stream";
      traced.set(tracking, { inbound: hop, outbound: undefined, isListening, progress: 0 });
      const link = linkOf(api, hop.span);
      if (link !== undefined) tracking.trace = link;
      return endWithReply(hop, () => api.context.with(hop.context, next, undefined, exchange));
    },
    send: (exchange, destination, next) => {
      const own = traced.get(exchange.tracking);
      const { method } = exchange.message;
      if (own === undefined || method === undefined) return next(exchange);
      const hop = startHop("client", exchange, method, { parent: own.inbound.context }, destination);
      own.outbound = hop;
      const headers = headersOf(api, hop.span);
      return endWithReply(hop, () => next(headers === undefined ? exchange : withTrace(exchange, headers)));
    },
    sessionEnded: ({ revision, durationMs, failure, upstream }) => {
      const values = {
        [attributes.route]: name,
        ...(revision === undefined ? {} : { [attributes.protocolVersion]: revision }),
        ...(failure === undefined ? {} : { [attributes.errorType]: failure }),
      };
      sessions.server.record(durationMs / 1000, values);
      if (upstream !== undefined) sessions.client.record(durationMs / 1000, { ...values, ...destinationOf(upstream) });
    },
  };
}

interface SpanOrigin {
  readonly parent: Context;
  readonly links?: Link[];
}

/**
 * What the span of a received message continues: the message's own trace context, else the call that it belongs to, else
 * its HTTP request. A context that is not continued is linked.
 */
function originOf(api: OpenTelemetryApi, exchange: Exchange, above: TracedExchange | undefined): SpanOrigin {
  const { trace, ROOT_CONTEXT } = api;
  const own = messageTrace(exchange);
  const header = headerTrace(exchange);
  const call = above === undefined ? undefined : (above.outbound ?? above.inbound);
  const around = call?.span.spanContext() ?? (header === undefined ? undefined : remoteContext(api, header));
  if (own === undefined)
    return { parent: around === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, around) };
  const isOther = around !== undefined && around.spanId !== own.spanId && trace.isSpanContextValid(around);
  return {
    parent: trace.setSpanContext(ROOT_CONTEXT, remoteContext(api, own)),
    links: isOther ? [{ context: around }] : [],
  };
}

function remoteContext(api: OpenTelemetryApi, remote: RemoteTrace): SpanContext {
  const { traceId, spanId, isSampled, tracestate } = remote;
  return {
    traceId,
    spanId,
    traceFlags: isSampled ? api.TraceFlags.SAMPLED : api.TraceFlags.NONE,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: api.createTraceState(tracestate) }),
  };
}

function linkOf({ trace, TraceFlags }: OpenTelemetryApi, span: Span): TraceLink | undefined {
  const own = span.spanContext();
  if (!trace.isSpanContextValid(own)) return undefined;
  return { traceId: own.traceId, spanId: own.spanId, isSampled: (own.traceFlags & TraceFlags.SAMPLED) !== 0 };
}

function headersOf(api: OpenTelemetryApi, span: Span): TraceHeaders | undefined {
  const link = linkOf(api, span);
  if (link === undefined) return undefined;
  const tracestate = span.spanContext().traceState?.serialize() ?? "";
  const traceparent = formatTraceparent(link);
  return tracestate === "" ? { traceparent } : { traceparent, tracestate };
}

/** The exchange with its trace context, in the message and beside it. */
function withTrace(exchange: Exchange, traceHeaders: TraceHeaders): Exchange {
  const message = withTraceMeta(exchange.message, traceHeaders);
  // Only the trace differs, so headers that repeat arguments of the original still match.
  const original = exchange.message === exchange.original ? message : exchange.original;
  return { ...exchange, message, original, traceHeaders };
}

/** Runs work and ends the hop with its outcome. Starts at once, so that messages stay in order. */
async function endWithReply(hop: TracedHop, work: () => ReturnType<Handler>): Promise<Reply> {
  try {
    const reply = await work();
    hop.end(reply.message, undefined);
    return reply;
  } catch (error) {
    const failure = GatewayError.from(error);
    hop.end(undefined, failure);
    throw failure;
  }
}
