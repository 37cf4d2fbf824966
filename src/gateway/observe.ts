import type { Exchange, TraceLink } from "../exchange.ts";
import type { Guard, Reply } from "../pipeline.ts";
import { createExchangeLineFormatter } from "./exchange-line.ts";
import type { ExchangeFields } from "./exchange-line.ts";
import { memberString } from "../protocol/json/read.ts";
import { methodNames } from "../protocol/methods.ts";
import type { Logger } from "../telemetry/log.ts";
import { boundedLabel } from "../telemetry/metrics.ts";
import type { CounterChild, HistogramChild, Metrics } from "../telemetry/metrics.ts";
import { traceOf } from "../telemetry/trace-context.ts";

/** How an exchange ended, as metrics and logs call it. */
type Outcome = "ok" | "error" | "tool_error" | "failed" | "cancelled" | "accepted";

interface MethodMeters {
  readonly duration: HistogramChild;
  readonly outcomes: Map<string, CounterChild>;
}

const known: ReadonlySet<string> = new Set(methodNames);

/** Counts, times and logs every exchange; it sees what came and what goes back, and changes nothing. */
export function createExchangeLog(route: string, metrics: Metrics, log: Logger, now: () => number): Guard {
  const { exchanges, exchangeDuration } = metrics.metrics;
  const meters = new Map<string, MethodMeters>();
  const { preformatted: quick } = log;
  const membersOf = createExchangeLineFormatter(quick?.redact ?? String);

  function metersOf(method: string): MethodMeters {
    const name = boundedLabel(method, known);
    let own = meters.get(name);
    if (own === undefined) {
      own = { duration: exchangeDuration.labels({ route, method: name }), outcomes: new Map() };
      meters.set(name, own);
    }
    return own;
  }

  function record(exchange: Exchange, outcome: Outcome): void {
    const method = exchange.message.method ?? "response";
    const { duration, outcomes } = metersOf(method);
    const key = exchange.era === "modern" ? `m:${outcome}` : `l:${outcome}`;
    let counter = outcomes.get(key);
    if (counter === undefined) {
      counter = exchanges.labels({ route, method: boundedLabel(method, known), era: exchange.era, outcome });
      outcomes.set(key, counter);
    }
    counter.inc();
    const milliseconds = now() - exchange.timing.startedAt;
    const trace = traceOf(exchange);
    if (exchange.message.kind === "request") duration.observe(milliseconds / 1000, trace);
    if (!log.isLevelEnabled("info")) return;
    const fields = fieldsOf(exchange, outcome, milliseconds, trace);
    if (quick === undefined) log.info(fields, "exchange");
    else quick.info(membersOf(fields));
  }

  return {
    enter: () => undefined,
    answered: (exchange, reply) => {
      record(exchange, outcomeOf(reply));
      return reply;
    },
    failed: (exchange, { code }) => {
      record(exchange, code === "cancelled" ? "cancelled" : "failed");
    },
  };
}

function outcomeOf({ message }: Reply): Outcome {
  if (message === undefined) return "accepted";
  return message.kind === "error" ? "error" : "ok";
}

function fieldsOf(
  exchange: Exchange,
  outcome: Outcome,
  milliseconds: number,
  trace: TraceLink | undefined,
): ExchangeFields {
  const { message, direction, transport } = exchange;
  return {
    exchange: exchange.id,
    trace: trace?.traceId,
    route: exchange.route,
    direction: direction === "client-to-server" ? "c2s" : "s2c",
    method: message.method,
    target: memberString(message, "params.name") ?? memberString(message, "params.uri"),
    rpc: message.id?.json,
    session: exchange.session?.id.slice(0, 8),
    principal: exchange.principal.id,
    peer: transport.type === "http" ? transport.peer : undefined,
    revision: exchange.revision,
    outcome,
    ms: Math.round(milliseconds * 100) / 100,
  };
}
