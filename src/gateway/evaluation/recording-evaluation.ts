import type { RouteConfig } from "../../config/config.ts";
import { type Handler, noReply } from "../../core/pipeline.ts";
import { createCelProvider } from "../../policy/cel/provider.ts";
import type { DecisionEvent } from "../../policy/provider/decision-event.ts";
import { createEnforcement } from "../../policy/enforce.ts";
import type { PolicyProvider } from "../../policy/provider/provider.ts";
import { memberValue } from "../../protocol/json/read.ts";
import { listShapes } from "../../protocol/lists.ts";
import type { Message } from "../../protocol/message.ts";
import type { ExchangeRecord, Frame } from "../../recorder/contract.ts";
import type { CaptureLine } from "../../recorder/store/store-contract.ts";
import { createDerivation } from "../../recorder/derive.ts";
import { describeDifference, jsonDifferences } from "../../recorder/replay/json-difference.ts";
import { isObject } from "../../lib/is-object.ts";
import { stableParams } from "../../recorder/replay/recorded-call.ts";
import { createChangeReport, type PolicyChange, type PolicyReport } from "./change-report.ts";
import {
  type KnownCallers,
  messageAt,
  missingInputs,
  type ReplayedExchange,
  toReplayedExchange,
} from "./replayed-exchange.ts";

/** The policies of routes, by route name. */
export interface ReplayedPolicies {
  readonly routes: Readonly<Record<string, Pick<RouteConfig, "policy">>>;
}

/** The policy to evaluate, and what is known of callers. */
export interface PolicyReplayOptions {
  readonly config: ReplayedPolicies;
  /** The route whose policy decides, instead of the recorded one. */
  readonly route: Pick<RouteConfig, "policy"> | undefined;
  readonly callers: KnownCallers;
  readonly onProgress?: (exchanges: number) => void;
}

/** The outcome of a policy for one exchange. */
interface ReplayOutcome {
  readonly events: readonly DecisionEvent[];
  /** The message that would be forwarded; undefined if none would. */
  readonly forwarded: Message | undefined;
  /** The response that the client would get; undefined if none was recorded. */
  readonly answer: Message | undefined;
}

/**
 * Runs recorded traffic through the policies of a configuration, with the code that enforces them, the recorded responses
 * instead of servers and the clock of the recording, and reports what would change.
 */
export async function replayPolicy(
  lines: AsyncIterable<CaptureLine> | Iterable<CaptureLine>,
  { config, route, callers, onProgress }: PolicyReplayOptions,
): Promise<PolicyReport> {
  const report = createChangeReport();
  const live = new Map<string, ReplayedExchange | undefined>();
  let derivation = createDerivation();
  /** Exchanges that have not finished. */
  const open = new Map<string, ExchangeRecord>();
  let capture: string | undefined;
  const clock = { time: 0, now: () => clock.time };
  const desks = new Map<string, RouteEvaluator | undefined>();

  function deskFor(name: string): RouteEvaluator | undefined {
    if (!desks.has(name)) {
      const chosen = route ?? config.routes[name];
      desks.set(name, chosen === undefined ? undefined : createRouteEvaluator(chosen, clock));
    }
    return desks.get(name);
  }

  async function settle(record: ExchangeRecord): Promise<void> {
    const replayed = live.get(record.id);
    live.delete(record.id);
    report.count();
    onProgress?.(report.exchanges);
    if (replayed === undefined) {
      report.add({ kind: "undecidable", detail: ["the message was not recorded completely"], rule: undefined }, record);
      return;
    }
    const desk = deskFor(record.route);
    if (desk === undefined) {
      report.skip(record.route);
      return;
    }
    clock.time = Math.max(clock.time, replayed.exchange.timing.startedAt);
    const outcome = await desk.evaluate(replayed);
    for (const change of changesOf(replayed, outcome)) report.add(change, record);
  }

  for await (const line of lines) {
    if (line.type !== "frame") continue;
    if (line.capture !== capture) {
      for (const record of open.values()) await settle(record);
      open.clear();
      derivation = createDerivation();
      live.clear();
      capture = line.capture;
      clock.time = 0;
    }
    if (line.exchange !== "" && line.context !== undefined && !live.has(line.exchange)) {
      const parent = line.context.parent === undefined ? undefined : live.get(line.context.parent)?.exchange;
      live.set(line.exchange, toReplayedExchange(line, { callers, parent }));
    } else live.get(line.exchange)?.frames.push(line);
    for (const record of derivation.add(line)) {
      open.set(record.id, record);
      if (record.state === "open") continue;
      open.delete(record.id);
      await settle(record);
    }
  }
  for (const record of open.values()) await settle(record);
  return report.finish();
}

/** Evaluates the policy of a route. */
interface RouteEvaluator {
  evaluate(replayed: ReplayedExchange): Promise<ReplayOutcome>;
}

function createRouteEvaluator(
  { policy }: Pick<RouteConfig, "policy">,
  clock: { readonly now: () => number },
): RouteEvaluator {
  let events: DecisionEvent[] = [];
  let forwarded: Message | undefined;
  let recorded: Message | undefined;
  const handler: Handler = async (exchange) => {
    forwarded = exchange.message;
    return recorded === undefined ? noReply : { message: recorded };
  };
  let decisions = 0;
  const enforce = createEnforcement({
    provider: policy === undefined ? allowAll : createCelProvider(policy, { clock }),
    mode: "enforce",
    refusals: { profile: "default", refusalStatus: "in-band" },
    newDecisionId: () => `replay-${++decisions}`,
    onDecision: (event) => {
      events.push(event);
    },
  })(handler);
  return {
    evaluate: async ({ exchange, frames }) => {
      events = [];
      forwarded = undefined;
      const far = exchange.direction === "client-to-server" ? "upstream" : "client";
      recorded = messageAt(frames, far, "received", true);
      const reply = await enforce(exchange);
      return { events, forwarded, answer: recorded === undefined ? undefined : reply.message };
    },
  };
}

const noExplanation = { provider: "none", rule: undefined, read: [], durationMs: 0 } as const;

/** The policy of a route without one. */
const allowAll: PolicyProvider = {
  name: "none",
  evaluateRequest: () => ({ effect: "allow", explanation: noExplanation }),
  evaluateResponse: () => ({ effect: "allow", explanation: noExplanation }),
};

function changesOf(replayed: ReplayedExchange, { events, forwarded, answer }: ReplayOutcome): readonly PolicyChange[] {
  const { frames, exchange } = replayed;
  const [near, far] =
    exchange.direction === "client-to-server" ? (["client", "upstream"] as const) : (["upstream", "client"] as const);
  const came = messageAt(frames, far, "received", true);
  const unknown = new Set(events.flatMap((event) => missingInputs(event, replayed, came)));
  if (unknown.size > 0) {
    const rule = events.find(({ explanation }) => explanation.rule !== undefined)?.explanation.rule;
    return [{ kind: "undecidable", rule, detail: [...unknown].map((path) => `${path} is not in the recording`) }];
  }
  const denied = events.find(({ effect }) => effect === "deny");
  const before = recordedDecisions(frames);
  const wasDenied = before.some(({ effect }) => effect === "deny");
  if (denied !== undefined) {
    if (wasDenied) return [];
    const reason = denied.refusal?.reason;
    const detail = reason === undefined ? [] : [`the agent sees: ${reason}`];
    return [{ kind: "newly-denied", rule: denied.explanation.rule, detail }];
  }
  const deciding = events.find(({ phase }) => phase === "request");
  const rule = deciding?.explanation.rule;
  if (wasDenied) {
    const old = before.find(({ effect }) => effect === "deny");
    const detail = old?.rule === undefined ? [] : [`rule ${old.rule} refused it then`];
    return [{ kind: "newly-allowed", rule, detail }];
  }
  const changes: PolicyChange[] = [];
  const isChanged = (phase: string): boolean =>
    before.some((one) => one.phase === phase && one.effect === "change") ||
    events.some((one) => one.phase === phase && one.effect === "change");
  if (forwarded !== undefined && isChanged("request")) {
    const went = messageAt(frames, far, "sent", false) ?? exchange.message;
    const detail = differences(
      stableParams(memberValue(went, "params")),
      stableParams(memberValue(forwarded, "params")),
    );
    if (detail.length > 0) changes.push({ kind: "arguments-changed", rule, detail });
  }
  const got = messageAt(frames, near, "sent", true);
  if (answer !== undefined && got !== undefined) {
    const lists = listChanges(got, answer);
    if (lists.length > 0) changes.push(...lists);
    else if (isChanged("response")) {
      const detail = differences(memberValue(got, "result"), memberValue(answer, "result"));
      const by = events.find(({ phase, effect }) => phase === "response" && effect === "change");
      if (detail.length > 0) changes.push({ kind: "answer-changed", rule: by?.explanation.rule, detail });
    }
  }
  return changes;
}

interface RecordedDecision {
  readonly effect: string;
  readonly phase: string;
  readonly rule: string | undefined;
}

/** The recorded decisions that were enforced. */
function recordedDecisions(frames: readonly Frame[]): readonly RecordedDecision[] {
  return frames.flatMap(({ decision }) =>
    decision?.by === "policy" && decision.enforced
      ? [{ effect: decision.effect, phase: decision.phase, rule: decision.rule }]
      : [],
  );
}

function differences(before: unknown, after: unknown): readonly string[] {
  return jsonDifferences(before, after, { sharesPlaceholders: true, limit: 5 }).map(describeDifference);
}

/** Names that would be hidden from a list or shown in it. */
function listChanges(before: Message, after: Message): readonly PolicyChange[] {
  const changes: PolicyChange[] = [];
  for (const { member, key } of listShapes) {
    const [old, now] = [before, after].map((message) => namesIn(memberValue(message, `result.${member}`), key));
    if (old === undefined || now === undefined) continue;
    const hidden = [...old].filter((name) => !now.has(name));
    const shown = [...now].filter((name) => !old.has(name));
    if (hidden.length > 0) changes.push({ kind: "list-hidden", rule: undefined, detail: hidden });
    if (shown.length > 0) changes.push({ kind: "list-shown", rule: undefined, detail: shown });
  }
  return changes;
}

function namesIn(list: unknown, key: string): ReadonlySet<string> | undefined {
  if (!Array.isArray(list)) return undefined;
  return new Set(
    list.flatMap((entry: unknown) => (isObject(entry) && typeof entry[key] === "string" ? [entry[key]] : [])),
  );
}
