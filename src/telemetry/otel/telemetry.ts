import type * as Api from "@opentelemetry/api";
import type { Context, Histogram, Link, Meter, Span, Tracer } from "@opentelemetry/api";
import { GatewayError } from "../../errors.ts";
import type { Exchange, TraceHeaders, TraceLink, Tracking } from "../../core/exchange.ts";
import type { Handler, Reply } from "../../core/pipeline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { attributes, durationBounds, durations } from "../semconv.ts";
import { formatTraceparent, headerTrace, messageTrace, type RemoteTrace, withTraceMeta } from "../trace-context.ts";
import type { Destination, RedactText, RouteTracing, Telemetry } from "../tracing.ts";
import { createNameLimit, createSpanDescriber, destinationOf, type SpanRole } from "./attributes.ts";

/** The API of OpenTelemetry, which is there only where it is installed. */
export type OpenTelemetryApi = typeof Api;

/** What telling is made of. */
export interface TelemetryDeps {
  readonly api: OpenTelemetryApi;
  readonly tracer: Tracer;
  readonly meter: Meter;
  /** Monotonic milliseconds, of the clock that times exchanges. */
  readonly now: () => number;
  readonly close: () => Promise<void>;
}

/** A message on one side of the gateway, while it is followed. */
interface TracedHop {
  readonly span: Span;
  readonly context: Context;
  /** Ends the span and counts its time; only the first time. */
  end(answer: Message | undefined, error: GatewayError | undefined): void;
}

/** A message that came in, and its way out. */
interface TracedExchange {
  readonly inbound: TracedHop;
  outbound: TracedHop | undefined;
  readonly isListening: boolean;
  progress: number;
}

/** Names of tools and prompts that metrics of one route tell apart. */
const maxNames = 500;
/** Reports of progress that a span holds. */
const maxProgress = 32;

/** Spans and durations by the semantic conventions for MCP, for whatever SDK stands behind the API. */
export function createTelemetry(deps: TelemetryDeps): Telemetry {
  const { api, tracer, meter, now } = deps;
  const { trace, context, SpanKind, SpanStatusCode, TraceFlags } = api;
  const histogram = ({ name, description }: { readonly name: string; readonly description: string }) =>
    meter.createHistogram(name, {
      description,
      unit: "s",
      advice: { explicitBucketBoundaries: [...durationBounds] },
    });
  const operations: Readonly<Record<SpanRole, Histogram>> = {
    server: histogram(durations.serverOperation),
    client: histogram(durations.clientOperation),
  };
  const sessions: Readonly<Record<SpanRole, Histogram>> = {
    server: histogram(durations.serverSession),
    client: histogram(durations.clientSession),
  };
  const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;
  const followed = new WeakMap<Tracking, TracedExchange>();

  function remoteContext({ traceId, spanId, isSampled, tracestate }: RemoteTrace) {
    return {
      traceId,
      spanId,
      traceFlags: isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
      isRemote: true,
      ...(tracestate === undefined ? {} : { traceState: api.createTraceState(tracestate) }),
    };
  }

  /**
   * What a message that came in continues: what it says itself, else the call it belongs to, else the HTTP request
   * that brought it. Message and transport have contexts of their own, so the one that is not continued is linked.
   */
  function originOf(exchange: Exchange, above: TracedExchange | undefined): { parent: Context; links: Link[] } {
    const own = messageTrace(exchange);
    const header = headerTrace(exchange);
    const call = above === undefined ? undefined : (above.outbound ?? above.inbound);
    const around = call?.span.spanContext() ?? (header === undefined ? undefined : remoteContext(header));
    if (own === undefined) {
      const parent = around === undefined ? api.ROOT_CONTEXT : trace.setSpanContext(api.ROOT_CONTEXT, around);
      return { parent, links: [] };
    }
    const isOther = around !== undefined && around.spanId !== own.spanId && trace.isSpanContextValid(around);
    return {
      parent: trace.setSpanContext(api.ROOT_CONTEXT, remoteContext(own)),
      links: isOther ? [{ context: around }] : [],
    };
  }

  function route(name: string, redact: RedactText): RouteTracing {
    const { describe, conclude } = createSpanDescriber(name, redact, createNameLimit(maxNames));

    function open(
      side: SpanRole,
      exchange: Exchange,
      method: string,
      origin: { readonly parent: Context; readonly links?: Link[] },
      destination?: Destination,
    ): TracedHop {
      const operation = describe(exchange, side, method, destination);
      const startedAt = side === "server" ? exchange.timing.startedAt : now();
      const span = tracer.startSpan(
        operation.name,
        {
          kind: kinds[side],
          attributes: { ...operation.metricAttributes, ...operation.spanAttributes },
          ...(origin.links === undefined ? {} : { links: origin.links }),
        },
        origin.parent,
      );
      const own = trace.setSpan(origin.parent, span);
      let isOver = false;
      return {
        span,
        context: own,
        end: (answer, error) => {
          if (isOver) return;
          isOver = true;
          const ending = conclude(side, answer, error);
          span.setAttributes(ending.attributes);
          if (ending.failure !== undefined) {
            span.setStatus({ code: SpanStatusCode.ERROR, message: ending.failure });
          }
          span.end();
          const values = { ...operation.metricAttributes, ...ending.attributes };
          operations[side].record((now() - startedAt) / 1000, values, own);
        },
      };
    }

    function received(next: Handler): Handler {
      return (exchange) => {
        const { message, parent, tracking } = exchange;
        const { method } = message;
        if (method === undefined) return next(exchange);
        const above = parent === undefined ? undefined : followed.get(parent.tracking);
        if (above !== undefined && method === "notifications/progress") {
          // They come in numbers, and say nothing without the call.
          if (above.progress++ < maxProgress) above.inbound.span.addEvent(method);
          return next(exchange);
        }
        // Listening may go on for days: what a span can tell is how long it took until somebody listened.
        if (above?.isListening === true) {
          above.outbound?.end(undefined, undefined);
          above.inbound.end(undefined, undefined);
        }
        const hop = open("server", exchange, method, originOf(exchange, above));
        const isListening = methodFacts(method)?.timeoutClass === "stream";
        followed.set(tracking, { inbound: hop, outbound: undefined, isListening, progress: 0 });
        const link = linkOf(hop.span);
        if (link !== undefined) tracking.trace = link;
        return endWithReply(hop, () => context.with(hop.context, next, undefined, exchange));
      };
    }

    function send(exchange: Exchange, destination: Destination | undefined, next: Handler): Promise<Reply> {
      const own = followed.get(exchange.tracking);
      const { method } = exchange.message;
      if (own === undefined || method === undefined) return next(exchange);
      const hop = open("client", exchange, method, { parent: own.inbound.context }, destination);
      own.outbound = hop;
      const headers = headersOf(hop.span);
      return endWithReply(hop, () => next(headers === undefined ? exchange : withTrace(exchange, headers)));
    }

    return {
      received,
      send,
      sessionEnded: ({ revision, durationMs, failure, upstream }) => {
        const values = {
          [attributes.route]: name,
          ...(revision === undefined ? {} : { [attributes.protocolVersion]: revision }),
          ...(failure === undefined ? {} : { [attributes.errorType]: failure }),
        };
        sessions.server.record(durationMs / 1000, values);
        if (upstream !== undefined)
          sessions.client.record(durationMs / 1000, { ...values, ...destinationOf(upstream) });
      },
    };
  }

  function linkOf(span: Span): TraceLink | undefined {
    const own = span.spanContext();
    if (!trace.isSpanContextValid(own)) return undefined;
    const isSampled = (own.traceFlags & TraceFlags.SAMPLED) !== 0;
    return { traceId: own.traceId, spanId: own.spanId, isSampled };
  }

  function headersOf(span: Span): TraceHeaders | undefined {
    const link = linkOf(span);
    if (link === undefined) return undefined;
    const tracestate = span.spanContext().traceState?.serialize() ?? "";
    const traceparent = formatTraceparent(link);
    return tracestate === "" ? { traceparent } : { traceparent, tracestate };
  }

  return {
    route,
    addEvent: ({ tracking }, event, values) => {
      followed.get(tracking)?.inbound.span.addEvent(event, values);
    },
    close: deps.close,
  };
}

/** The exchange as it goes on, with the trace that it is part of in its message and beside it. */
function withTrace(exchange: Exchange, traceHeaders: TraceHeaders): Exchange {
  const message = withTraceMeta(exchange.message, traceHeaders);
  // Headers that repeat arguments of the message that came still fit one that differs in its trace only.
  const original = exchange.message === exchange.original ? message : exchange.original;
  return { ...exchange, message, original, traceHeaders };
}

/** Does the work and ends the hop with what comes of it. Begins at once: messages must not overtake each other. */
async function endWithReply(hop: TracedHop, work: () => Promise<Reply>): Promise<Reply> {
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
