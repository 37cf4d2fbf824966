import { configuredRoute } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { messageBytes } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import type { ExchangeRecord, ExchangeStatus, FilterCondition } from "../contract.ts";
import { createConditionMatcher, type ExchangeBodies } from "./condition.ts";
import { formatFilterProblem, parseTrafficFilter } from "./parse.ts";

/** A message on its way, as interceptors see it. */
export type LiveMessage = Pick<
  InspectedMessage,
  "exchange" | "message" | "metadata" | "direction" | "phase" | "request"
>;

/** A test for messages on their way, or what is wrong with the filter. */
export type LiveFilter =
  | { readonly ok: true; readonly matches: (message: LiveMessage) => boolean }
  | { readonly ok: false; readonly problem: string };

/** Fields that are known only afterwards, by the terms that ask for them. */
const knownLater: Readonly<Record<string, string>> = {
  decision: "decision",
  rule: "rule",
  gatewayCode: "gateway",
  durationMs: "dur",
  upstreamMs: "server",
  capture: "capture",
  operation: "op",
  traceId: "trace",
  redacted: "redacted",
  omitted: "truncated",
  at: "since",
};

/**
 * Reads a filter of `headgate traffic` for messages on their way. A request matches while it is open, its answer by the
 * outcome that it has; terms about what is known only afterwards are refused.
 */
export function createLiveFilter(source: string): LiveFilter {
  const parsed = parseTrafficFilter(source, { now: 0 });
  if (!parsed.ok) return { ok: false, problem: formatFilterProblem(source, parsed.problem) };
  const later = termKnownLater(parsed.condition);
  if (later !== undefined)
    return { ok: false, problem: `\`${later}\` is not known while a message is on its way; leave it out` };
  const matcher = createConditionMatcher(parsed.condition);
  return {
    ok: true,
    matches: (message) => {
      const record = toRecord(message);
      const bodies = (): ExchangeBodies => bodiesOf(message);
      // What is meant for a route is meant for its views.
      const route = configuredRoute(record.route);
      return matcher(record, bodies) || (route !== record.route && matcher({ ...record, route }, bodies));
    },
  };
}

function termKnownLater(condition: FilterCondition): string | undefined {
  switch (condition.type) {
    case "all":
    case "any":
      return condition.of.map(termKnownLater).find((term) => term !== undefined);
    case "not":
      return termKnownLater(condition.of);
    case "modified":
      return "modified";
    case "text":
      return undefined;
    default:
      return knownLater[condition.field];
  }
}

/** What is known of the exchange by now, in the form in which it would be recorded. */
function toRecord({ exchange, message, metadata, phase, request }: LiveMessage): ExchangeRecord {
  const { id, route, principal, session, revision, transport, direction, timing } = exchange;
  const asked = request ?? exchange.message;
  const name = (phase === "request" ? metadata : metadataOf(asked)).target?.name;
  const size = messageBytes(message).length;
  return {
    capture: "",
    id,
    operation: id,
    seq: 0,
    at: timing.wallTime,
    kind: asked.kind === "notification" ? "notification" : "request",
    direction: direction === "client-to-server" ? "c2s" : "s2c",
    route,
    principal: principal.id,
    ...(session === undefined ? {} : { session: session.label }),
    revision,
    transport: transport.type,
    ...(asked.id === undefined ? {} : { rpcId: asked.id.key }),
    method: asked.method ?? "",
    ...(name === undefined ? {} : { target: name }),
    state: phase === "request" ? "open" : stateOf(metadata),
    ...(metadata.errorCode === undefined ? {} : { errorCode: metadata.errorCode }),
    requestBytes: phase === "request" ? size : messageBytes(asked).length,
    answerBytes: phase === "request" ? 0 : size,
    messages: 1,
    modified: false,
    redacted: 0,
    omitted: 0,
  };
}

function stateOf({ kind, isToolError, resultType }: LiveMessage["metadata"]): ExchangeStatus {
  if (kind === "error") return "error";
  if (isToolError) return "tool_error";
  return resultType === "input_required" ? "input_required" : "ok";
}

function bodiesOf({ message, phase, request }: LiveMessage): ExchangeBodies {
  const body = messageBytes(message).toString();
  if (phase === "request") return { request: [body], answer: [] };
  return { request: request === undefined ? [] : [messageBytes(request).toString()], answer: [body] };
}
