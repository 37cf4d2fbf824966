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
  readonly outcomes: Readonly<Record<Exchange["era"], Map<Outcome, CounterChild>>>;
}

const knownMethods: ReadonlySet<string> = new Set(methodNames);

/** Counts, times and logs every exchange without changing it. */
export function createExchangeLog(route: string, metrics: Metrics, log: Logger, now: () => number): Guard {
  const { exchanges, exchangeDuration, memberExchanges } = metrics.metrics;
  const meters = new Map<string, MethodMeters>();
  const memberCounters = new Map<string, Map<Outcome, CounterChild>>();
  const { preformatted: quick } = log;
  const membersOf = createExchangeLineFormatter(quick?.redact ?? String);

  function metersOf(method: string): MethodMeters {
    const name = boundedLabel(method, knownMethods);
    let own = meters.get(name);
    if (own === undefined) {
      const outcomes = { legacy: new Map<Outcome, CounterChild>(), modern: new Map<Outcome, CounterChild>() };
      own = { duration: exchangeDuration.labels({ route, method: name }), outcomes };
      meters.set(name, own);
    }
    return own;
  }

  /** Needed by bench federation: "call of a". */
  function memberCounter(member: string, outcome: Outcome): CounterChild {
    const own = memberCounters.get(member) ?? new Map<Outcome, CounterChild>();
    memberCounters.set(member, own);
    const counter = own.get(outcome) ?? memberExchanges.labels({ route, member, outcome });
    own.set(outcome, counter);
    return counter;
  }

  function record(exchange: Exchange, outcome: Outcome): void {
    const method = exchange.message.method ?? "response";
    const { duration, outcomes } = metersOf(method);
    let counter = outcomes[exchange.era].get(outcome);
    if (counter === undefined) {
      counter = exchanges.labels({
        route,
        method: boundedLabel(method, knownMethods),
        era: exchange.era,
        outcome,
      });
      outcomes[exchange.era].set(outcome, counter);
    }
    counter.inc();
    const member = exchange.tracking.upstream?.member;
    if (member !== undefined) memberCounter(member, outcome).inc();
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
  const { message, direction, transport, tracking } = exchange;
  const target = tracking.calledTool ?? memberString(message, "params.name") ?? memberString(message, "params.uri");
  return {
    exchange: exchange.id,
    trace: trace?.traceId,
    route: exchange.route,
    direction: direction === "client-to-server" ? "c2s" : "s2c",
    method: shortenName(message.method),
    target: shortenName(target),
    upstream: tracking.upstream?.member,
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
  /** The server, if the route has several. */
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

/** The parts of a line that the next one of the same caller most likely has too: what is before the request id, and after. */
interface RepeatedParts {
  readonly fields: ExchangeFields;
  readonly before: string;
  readonly after: string;
}

/**
 * Creates the function that writes these fields as members of a JSON line.
 * Needed by bench load: "150 B call, one log line each". Redacting and stringifying whole lines costs several times as much.
 */
export function createExchangeLineFormatter(clean: (text: string) => string): (fields: ExchangeFields) => string {
  const kept = new Map<string, string>();
  /** By session, or by caller. */
  const repeated = new Map<string, RepeatedParts>();
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

  function partsOf(fields: ExchangeFields): RepeatedParts {
    const key = fields.session ?? fields.principal;
    const last = repeated.get(key);
    if (last !== undefined && haveSameParts(last.fields, fields)) return last;
    const { route, direction, session, principal, revision, outcome } = fields;
    const target = `${member("target", fields.target)}${member("upstream", fields.upstream)}`;
    // Sessions are our own ids, with nothing to redact or escape.
    const inSession = session === undefined ? "" : `,"session":"${session}"`;
    const parts = {
      fields,
      before: `,"route":${quoted(route)},"direction":"${direction}"${member("method", fields.method)}${target}`,
      after: `${inSession},"principal":${quoted(principal)}${member("peer", fields.peer)},"revision":"${revision}","outcome":"${outcome}","ms":`,
    };
    if (parts.before.length + parts.after.length <= longestKept * 4) repeated.set(key, parts);
    return parts;
  }

  return (fields) => {
    if (lines++ % linesKept === 0) {
      kept.clear();
      repeated.clear();
    }
    const { exchange, trace, rpc, ms } = fields;
    const { before, after } = partsOf(fields);
    // Our ids, trace ids and small numbers contain nothing to redact or escape, and never repeat.
    const id = rpc === undefined ? "" : `,"rpc":${isHarmless(rpc) ? `"${rpc}"` : JSON.stringify(clean(rpc))}`;
    const traced = trace === undefined ? "" : `,"trace":"${trace}"`;
    return `,"exchange":"${exchange}"${traced}${before}${id}${after}${ms},"msg":"exchange"`;
  };
}

/** Whether two lines differ in nothing but exchange, trace, request id and duration. */
function haveSameParts(one: ExchangeFields, other: ExchangeFields): boolean {
  return (
    one.route === other.route &&
    one.direction === other.direction &&
    one.method === other.method &&
    one.target === other.target &&
    one.upstream === other.upstream &&
    one.session === other.session &&
    one.principal === other.principal &&
    one.peer === other.peer &&
    one.revision === other.revision &&
    one.outcome === other.outcome
  );
}

function isHarmless(rpc: string): boolean {
  return rpc.length <= longestHarmless && !rpc.startsWith('"');
}
