import type { Principal } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Clock } from "../../lib/clock.ts";
import { type CreateBuckets, createTokenBuckets } from "../../lib/token-bucket.ts";
import { type KnownNames, knownNames } from "../../protocol/json/folded-names.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import { listMethods } from "../../protocol/lists.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import {
  type Decision,
  explain,
  type Explanation,
  hiddenRefusal,
  type ListDecision,
  type ListPage,
  type PolicyCall,
  type PolicyProvider,
  type PolicyRefusal,
  targetName,
} from "../provider/provider.ts";
import type { RulesConfig } from "./config.ts";
import { decide, failure, type RuleSetResult, type RuleTrace } from "./decide.ts";
import { type AppliedEffects, applyRequestEffects, applyResponseEffects } from "./effects.ts";
import { celErrorText } from "./expression.ts";
import { Bindings } from "./facts.ts";
import { createPlanCache, evaluatePartially } from "./plan-cache.ts";
import { joinNames, noNames, type ReadNames } from "./read-names.ts";
import {
  compileCallRules,
  compileListRules,
  compileResultRules,
  createSharedRuleRates,
  noRules,
  type OrderedRule,
  type RuleSet,
} from "./rules.ts";
import { createNameVisibility, withUnlistedName } from "./visibility.ts";

export interface CelDeps {
  readonly clock: Pick<Clock, "now">;
  /** Default: buckets of this process alone. */
  readonly createBuckets?: CreateBuckets | undefined;
  /** Called for every evaluated rule, in order. Turns the plan cache off; for `headgate policy explain`. */
  readonly onStep?: (step: RuleTrace) => void;
}

const name = "rules";

const targetMissing: PolicyRefusal = {
  kind: "invalid",
  code: "target_missing",
  reason: "The request does not name its target as a string, so the policy cannot evaluate it.",
};

const argumentsNotObject: PolicyRefusal = {
  kind: "invalid",
  code: "arguments_not_an_object",
  reason: "The arguments are not an object, so the policy cannot evaluate them.",
};

/** How a message is evaluated: by a decision that is already known, or by the rules that still matter. */
interface EvaluationPlan {
  readonly decision: Decision | undefined;
  readonly rules: readonly OrderedRule[];
  readonly fallback: RuleSet["fallback"];
  /** The member names that these rules read. */
  readonly names: ReadNames;
}

type Denial = Extract<Decision, { readonly effect: "deny" }>;

/** The plan for the responses to a planned request; the `memory` of its decision. */
class ResponsePlan {
  readonly principal: Principal;
  readonly method: string | undefined;
  readonly evaluation: EvaluationPlan;

  constructor({ exchange, method }: InspectedMessage, evaluation: EvaluationPlan) {
    this.principal = exchange.principal;
    this.method = method;
    this.evaluation = evaluation;
  }
}

/** The plan for the messages of one caller, method and target name. */
interface MessagePlan {
  readonly hasTarget: boolean;
  /** Undefined if it depends on more than caller, method and name. */
  readonly isHidden: boolean | undefined;
  readonly evaluation: EvaluationPlan;
  readonly response: ResponsePlan;
  /** The member names that the rules for request and response read. */
  readonly names: KnownNames | undefined;
}

/**
 * Creates the provider for the embedded rules. Rules are compiled once, and decisions are synchronous, unless a rate that is
 * shared with other gateways has to be asked for. Whatever depends on
 * caller, method and target name only is evaluated once and cached. A mistake in a rule throws `config_invalid`.
 */
export function createCelProvider(config: RulesConfig, { clock, createBuckets, onStep }: CelDeps): PolicyProvider {
  const rates = createSharedRuleRates(createBuckets ?? ((rate) => createTokenBuckets(rate, clock.now)));
  const calls = config.rules === undefined ? noRules : compileCallRules(config.rules, rates.createBuckets);
  const results = config.results === undefined ? noRules : compileResultRules(config.results);
  const lists = config.lists && compileListRules(config.lists);
  const names = createNameVisibility(config, lists, config.rules && calls);
  const plans = onStep === undefined ? createPlanCache(createPlan) : undefined;
  const answerNames = knownNames(namesIn(results.rules).results);
  const allNames = toKnownNames(namesIn(calls.rules), namesIn(results.rules));

  function evaluate(
    subject: InspectedMessage,
    set: RuleSet,
    { rules, fallback }: Pick<EvaluationPlan, "rules" | "fallback">,
    carried: Carried,
    startedAt: number,
    onRule = onStep,
  ): Decision {
    const bindings = new Bindings(subject, set.needs);
    const trace: RuleTrace[] | undefined = onRule === undefined ? undefined : [];
    const result = decide(rules, set.rules.length, bindings, fallback, trace);
    if (onRule !== undefined) trace?.forEach(onRule);
    const decided = (changed: RuleSetResult): Decision => toDecision(changed, set, clock.now() - startedAt, carried);
    if (result.effects.length === 0) return decided(result);
    const applyEffects = set === results ? applyResponseEffects : applyRequestEffects;
    let applied: AppliedEffects;
    try {
      applied = applyEffects(subject.message, result.effects, bindings);
    } catch (error) {
      return decided({ ...result, ...failure(celErrorText(error)) });
    }
    const { change, refusal, rule = result.rule, notes } = applied;
    const decision = decided({ ...result, refusal, rule, notes });
    return decision.effect === "deny" || change === undefined ? decision : { ...decision, change };
  }

  function planEvaluation(subject: InspectedMessage, set: RuleSet, memory: ResponsePlan | undefined): EvaluationPlan {
    const fallback = fallbackOf(set, subject.method);
    const { rules, result } = evaluatePartially(
      set,
      new Bindings(subject, set.needs),
      subject.exchange.principal,
      fallback,
    );
    const own = result === undefined ? namesIn(rules) : noNames;
    const carried = { memory, names: toKnownNames(own, memory?.evaluation.names) };
    return { rules, fallback, names: own, decision: result && toDecision(result, set, 0, carried) };
  }

  function createPlan(subject: InspectedMessage): MessagePlan {
    // Result rules know caller, method and name from the request.
    const response = new ResponsePlan(subject, planEvaluation(subject, results, undefined));
    const evaluation = planEvaluation(subject, calls, response);
    return {
      hasTarget: methodFacts(subject.method ?? "")?.target !== undefined,
      isHidden: names.isStatic ? names.isHidden(subject) : undefined,
      evaluation,
      response,
      names: toKnownNames(evaluation.names, response.evaluation.names),
    };
  }

  function refuse(refusal: PolicyRefusal, startedAt: number, ...notes: string[]): Denial {
    return { effect: "deny", refusal, explanation: explain(name, notes, clock.now() - startedAt) };
  }

  /**
   * Denies a request about a hidden name like one about a similar name that does not exist: for the same reason if the rules
   * refuse that one, and otherwise as unknown. It also costs as much of every rate.
   */
  function refuseHidden(subject: InspectedMessage, hidden: Denial, startedAt: number): Decision {
    const unlisted = subject.message.kind === "request" ? withUnlistedName(subject) : undefined;
    if (unlisted === undefined || names.isHidden(unlisted)) return hidden;
    const { evaluation, names: read } = createPlan(unlisted);
    const carried = { memory: undefined, names: read };
    const decision = evaluation.decision ?? evaluate(unlisted, calls, evaluation, carried, startedAt, () => {});
    return { ...hidden, ...(decision.effect === "deny" ? { refusal: decision.refusal } : { names: decision.names }) };
  }

  function evaluateRequest(subject: InspectedMessage): Decision {
    const startedAt = clock.now();
    const { message } = subject;
    const plan = plans?.get(subject);
    const target = plan === undefined ? methodFacts(message.method ?? "")?.target : undefined;
    if (target !== undefined && targetName(message, target) === undefined) return refuse(targetMissing, startedAt);
    if ((plan?.hasTarget ?? target !== undefined) && hasOtherArguments(message))
      return refuse(argumentsNotObject, startedAt);
    if (plan?.isHidden ?? names.isHidden(subject))
      return refuseHidden(subject, refuse(hiddenRefusal, startedAt, "the name is hidden from this caller"), startedAt);
    const evaluation = plan?.evaluation ?? unplanned(calls, message.method);
    const carried = { memory: plan?.response, names: plan === undefined ? allNames : plan.names };
    const decision = evaluation.decision ?? evaluate(subject, calls, evaluation, carried, startedAt);
    return decision.effect === "deny" && decision.refusal.kind === "hidden"
      ? refuseHidden(subject, decision, startedAt)
      : decision;
  }

  function evaluateResponse(subject: InspectedMessage, { memory }: PolicyCall): Decision {
    const { exchange, method } = subject;
    // The result of a task may go to other credentials than those that started it.
    const isPlanned =
      memory instanceof ResponsePlan && memory.principal === exchange.principal && memory.method === method;
    const plan = isPlanned ? memory.evaluation : unplanned(results, method);
    const decision = plan.decision ?? evaluate(subject, results, plan, nothingCarried, clock.now());
    // A server may ignore letter case in a client's answer, as in any other message.
    const isOfClient = subject.direction === "client-to-server";
    return isOfClient && decision.effect === "allow" ? { ...decision, names: answerNames } : decision;
  }

  // What is only known from a call does not affect lists.
  const callerReads = calls.allReads.filter((path) => path.startsWith("principal."));
  const readForLists = [...new Set([...(lists?.allReads ?? []), ...callerReads])];

  function filterList(page: ListPage): ListDecision {
    const startedAt = clock.now();
    const { visible, shadow, notes } = names.filter(page);
    const explanation = explain(name, notes, clock.now() - startedAt, readForLists);
    return { visible, explanation: shadow === undefined ? explanation : { ...explanation, shadow } };
  }

  const argumentsForResponses = argumentsReadBy(results);
  return {
    name,
    evaluateRequest: (subject) => rates.decide(() => evaluateRequest(subject)),
    evaluateResponse,
    ...(names.canFilter ? { filterList, hidesNames: names.canHide } : {}),
    ...(argumentsForResponses && { argumentsForResponses }),
  };
}

/** The arguments that rules read; undefined if they may read any. */
function argumentsReadBy({ needs }: RuleSet): readonly string[] | undefined {
  const read = needs["mcp.arguments"];
  if (read === "all" || needs["mcp.params"] !== undefined) return undefined;
  return read === undefined ? [] : [...read.names];
}

/** If no rule decides, lifecycle messages pass. */
function fallbackOf(set: RuleSet, method = ""): RuleSet["fallback"] {
  return isLifecycleMethod(method) ? "allow" : set.fallback;
}

function unplanned(set: RuleSet, method: string | undefined): EvaluationPlan {
  return { decision: undefined, rules: set.rules, fallback: fallbackOf(set, method), names: noNames };
}

/** Additional members of an allowing decision. */
interface Carried {
  readonly memory: ResponsePlan | undefined;
  readonly names: KnownNames | undefined;
}

const nothingCarried: Carried = { memory: undefined, names: undefined };

function namesIn(rules: readonly OrderedRule[]): ReadNames {
  return joinNames(rules.map(({ rule }) => rule.names));
}

function toKnownNames(...parts: readonly (ReadNames | undefined)[]): KnownNames | undefined {
  const { paths, anywhere } = joinNames(parts.map((part) => part ?? noNames));
  return knownNames(paths, anywhere);
}

function toDecision(
  { refusal, rule, reached, shadow, notes }: RuleSetResult,
  set: RuleSet,
  durationMs: number,
  { memory, names }: Carried,
): Decision {
  const read = set.readsUpTo(reached) ?? set.allReads;
  const plain: Explanation = { provider: name, rule: rule?.id, read, durationMs };
  const explanation =
    shadow === undefined && notes === undefined
      ? plain
      : { ...plain, ...(shadow === undefined ? {} : { shadow }), ...(notes === undefined ? {} : { notes }) };
  return refusal === undefined
    ? { effect: "allow", memory, names, explanation }
    : { effect: "deny", refusal, explanation };
}

const argumentsSlot = slotOf("params.arguments");
const openingBrace = 0x7b;

/** Whether a message has arguments that are not an object. */
function hasOtherArguments({ bytes, outline }: Message): boolean {
  const start = outline.spans[argumentsSlot] ?? -1;
  return start >= 0 && bytes[start] !== openingBrace;
}

/** Whether a method opens a connection, lists, reports, or follows up on a request that was evaluated before. */
function isLifecycleMethod(method: string): boolean {
  if (lifecycleMethods.has(method)) return true;
  // Only the server knows the meaning of notifications that MCP does not define.
  return method.startsWith("notifications/") && methodFacts(method) !== undefined;
}

const lifecycleMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  ...listMethods,
  "logging/setLevel",
  "subscriptions/listen",
  "resources/unsubscribe",
  "tasks/get",
  "tasks/result",
  "tasks/cancel",
  "tasks/update",
  "tasks/list",
]);
