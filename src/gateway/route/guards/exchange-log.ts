import { type Exchange, httpFactsOf, type TraceLink } from "../../../core/exchange.ts";
import { type Outcome, outcomeOfCode, outcomeOfReply } from "../../../core/outcomes.ts";
import type { Guard } from "../../../core/pipeline.ts";
import { memberString } from "../../../protocol/json/read.ts";
import { methodNames } from "../../../protocol/methods.ts";
import { type LogFields, type Logger, shortenName } from "../../../telemetry/log.ts";
import { boundedLabel, type CounterChild, type HistogramChild, type Metrics } from "../../../telemetry/metrics.ts";
import { traceOf } from "../../../telemetry/trace-context.ts";

interface MethodMeters {
  readonly duration: HistogramChild;
  readonly outcomes: Map<string, CounterChild>;
}

const knownMethods: ReadonlySet<string> = new Set(methodNames);

/** Counts, times and logs every exchange, and changes nothing. */
export function createExchangeLog(route: string, metrics: Metrics, log: Logger, now: () => number): Guard {
  const { exchanges, exchangeDuration, memberExchanges } = metrics.metrics;
  const meters = new Map<string, MethodMeters>();
  const { preformatted: quick } = log;
  const membersOf = createExchangeLineFormatter(quick?.redact ?? String);

  function metersOf(method: string): MethodMeters {
    const name = boundedLabel(method, knownMethods);
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
      counter = exchanges.labels({
        route,
        method: boundedLabel(method, knownMethods),
        era: exchange.era,
        outcome,
      });
      outcomes.set(key, counter);
    }
    counter.inc();
    const member = exchange.tracking.upstream?.member;
    if (member !== undefined) memberExchanges.labels({ route, member, outcome }).inc();
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
      record(exchange, outcomeOfReply(reply));
      return reply;
    },
    failed: (exchange, { code }) => {
      record(exchange, outcomeOfCode(code));
    },
  };
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
    method: shortenName(message.method),
    target: shortenName(memberString(message, "params.name") ?? memberString(message, "params.uri")),
    upstream: exchange.tracking.upstream?.member,
    rpc: shortenName(message.id?.json),
    session: exchange.session?.label,
    principal: shortenName(exchange.principal.id),
    peer: httpFactsOf(transport)?.peer,
    revision: exchange.revision,
    outcome,
    ms: Math.round(milliseconds * 100) / 100,
  };
}

/** The fields of an exchange's log line. */
export interface ExchangeFields extends LogFields {
  readonly exchange: string;
  readonly trace: string | undefined;
  readonly route: string;
  readonly direction: "c2s" | "s2c";
  readonly method: string | undefined;
  readonly target: string | undefined;
  /** The server behind the route, where there are several. */
  readonly upstream?: string | undefined;
  /** The request id, as written in the message. */
  readonly rpc: string | undefined;
  readonly session: string | undefined;
  readonly principal: string;
  readonly peer: string | undefined;
  readonly revision: string;
  readonly outcome: string;
  readonly ms: number;
}

/** Longer texts are not cached. Shorter ones repeat: routes, methods, tools, callers and addresses. */
const longestKept = 200;
/** After so many lines texts are cleaned again: a reload may have changed what is secret. */
const linesKept = 256;
/** Numbers up to this length cannot be card numbers and the like. */
const longestHarmless = 12;

/**
 * Creates the function that writes these fields as members of a JSON line.
 * Needed by bench load: "150 B call, one log line each". Redacting and stringifying whole lines costs several times as much.
 */
export function createExchangeLineFormatter(clean: (text: string) => string): (fields: ExchangeFields) => string {
  const kept = new Map<string, string>();
  let lines = 0;

  function quoted(text: string): string {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const made = JSON.stringify(clean(text));
    if (text.length <= longestKept) kept.set(text, made);
    return made;
  }

  const member = (name: string, text: string | undefined): string =>
    text === undefined ? "" : `,"${name}":${quoted(text)}`;

  return (fields) => {
    if (lines++ % linesKept === 0) kept.clear();
    const { exchange, trace, rpc, session, revision, outcome, ms } = fields;
    // Our ids, trace ids and small numbers contain nothing to redact or escape, and never repeat.
    const id = rpc === undefined ? "" : `,"rpc":${isHarmless(rpc) ? `"${rpc}"` : JSON.stringify(clean(rpc))}`;
    const traced = trace === undefined ? "" : `,"trace":"${trace}"`;
    const inSession = session === undefined ? "" : `,"session":"${session}"`;
    return `,"exchange":"${exchange}"${traced},"route":${quoted(fields.route)},"direction":"${fields.direction}"${member("method", fields.method)}${member("target", fields.target)}${member("upstream", fields.upstream)}${id}${inSession},"principal":${quoted(fields.principal)}${member("peer", fields.peer)},"revision":"${revision}","outcome":"${outcome}","ms":${ms},"msg":"exchange"`;
  };
}

function isHarmless(rpc: string): boolean {
  return rpc.length <= longestHarmless && !rpc.startsWith('"');
}
