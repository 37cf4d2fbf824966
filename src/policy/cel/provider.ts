import type { Clock } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { RulesConfig } from "./config.ts";
import type {
  Decision,
  Explanation,
  ListDecision,
  ListPage,
  PolicyCall,
  PolicyProvider,
  PolicyRefusal,
} from "../provider/provider.ts";
import { type AppliedEffects, applyRequestEffects, applyResponseEffects } from "./effects.ts";
import { decide, failure, type RuleSetResult, type RuleTrace } from "./decide.ts";
import { celErrorText } from "./expression.ts";
import { Bindings, requestTargetName } from "./facts.ts";
import { createPlanCache, type KeyedPlan, type PlanKey } from "./plan-cache.ts";
import { evaluatePartially } from "./partial-evaluation.ts";
import {
  compileCallRules,
  compileListRules,
  compileResultRules,
  noRules,
  type OrderedRule,
  type RuleSet,
} from "./rules.ts";
import { createNameVisibility } from "./visibility.ts";

/** What the provider is run with. */
export interface CelDeps {
  readonly clock: Pick<Clock, "now">;
  /** Told of every rule that was asked, in order; for explanations by hand, not for traffic. */
  readonly onStep?: (step: RuleTrace) => void;
}

const name = "rules";
const nothingRead: readonly string[] = [];
const hiddenNotes: readonly string[] = ["the name is hidden from this caller"];

const hiddenRefusal: PolicyRefusal = { kind: "hidden", code: "hidden", reason: "There is no such name." };

const targetMissing: PolicyRefusal = {
  kind: "invalid",
  code: "target_missing",
  reason: "The policy cannot judge a request that does not name what it is about as a text.",
};

const argumentsNotObject: PolicyRefusal = {
  kind: "invalid",
  code: "arguments_not_an_object",
  reason: "The policy cannot judge arguments that are no object.",
};

/** What is left to be done about a message: to give the verdict, or to ask the rules that can still say something. */
interface EvaluationPlan {
  readonly decision: Decision | undefined;
  readonly steps: readonly OrderedRule[];
  readonly fallback: RuleSet["fallback"];
}

/** What is known of the answers to requests of one topic; the verdict on a request leaves it for the answer's. */
class ResponsePlan implements KeyedPlan {
  readonly key: PlanKey;
  readonly evaluation: EvaluationPlan;

  constructor(topic: PlanKey, task: EvaluationPlan) {
    this.key = topic;
    this.evaluation = task;
  }
}

/** What is known of messages of one topic before they come. */
interface MessagePlan extends KeyedPlan {
  /** Whether the messages are about something that has a name. */
  readonly isNamed: boolean;
  /** Whether the name is hidden; undefined where that takes more than caller, method and name to know. */
  readonly isHidden: boolean | undefined;
  readonly evaluation: EvaluationPlan;
  readonly response: ResponsePlan;
}

/**
 * Makes the provider that decides by rules in the configuration. Everything is compiled here, once; a decision is
 * always given at once. What depends on caller, method and name alone is decided once for all such messages, and takes
 * no time worth telling from then on. A mistake in a rule throws `config_invalid`.
 */
export function createCelProvider(settings: RulesConfig, { clock, onStep }: CelDeps): PolicyProvider {
  const calls = settings.rules === undefined ? noRules : compileCallRules(settings.rules, clock.now);
  const results = settings.results === undefined ? noRules : compileResultRules(settings.results);
  const lists = settings.lists && compileListRules(settings.lists);
  const names = createNameVisibility(settings, lists);
  // Whoever wants to know every step wants every rule to be asked.
  const plans = onStep === undefined ? createPlanCache(planFor) : undefined;

  function settle(
    subject: InspectedMessage,
    set: RuleSet,
    { steps, fallback }: Pick<EvaluationPlan, "steps" | "fallback">,
    memory: ResponsePlan | undefined,
    started: number,
  ): Decision {
    const bindings = new Bindings(subject, set.needs);
    const trace: RuleTrace[] | undefined = onStep === undefined ? undefined : [];
    const ruling = decide(steps, set.ordered.length, bindings, fallback, trace);
    if (onStep !== undefined) trace?.forEach(onStep);
    if (ruling.effects.length === 0) return toDecision(ruling, set, clock.now() - started, memory);
    const change = set === calls ? applyRequestEffects : applyResponseEffects;
    let effects: AppliedEffects;
    try {
      effects = change(subject.message, ruling.effects, bindings);
    } catch (error) {
      return toDecision({ ...ruling, ...failure(celErrorText(error)) }, set, clock.now() - started, memory);
    }
    const { change: form, refusal: denial, rule = ruling.rule, notes } = effects;
    const verdict = toDecision({ ...ruling, refusal: denial, rule, notes }, set, clock.now() - started, memory);
    return verdict.effect === "deny" || form === undefined ? verdict : { ...verdict, change: form };
  }

  function taskOf(subject: InspectedMessage, set: RuleSet, memory: ResponsePlan | undefined): EvaluationPlan {
    const fallback = fallbackOf(set, subject.method);
    const { steps, result: ruling } = evaluatePartially(set, new Bindings(subject, set.needs), fallback);
    return { steps, fallback, decision: ruling && toDecision(ruling, set, 0, memory) };
  }

  function planFor(subject: InspectedMessage, topic: PlanKey): MessagePlan {
    // Rules for answers, too, learn caller, method and name from the request.
    const answers = new ResponsePlan(topic, taskOf(subject, results, undefined));
    const isHidden = names.isStatic ? names.isHidden(subject) : undefined;
    const isNamed = methodFacts(subject.method ?? "")?.target !== undefined;
    return { key: topic, isNamed, isHidden, evaluation: taskOf(subject, calls, answers), response: answers };
  }

  function refuse(denial: PolicyRefusal, started: number, notes?: readonly string[]): Decision {
    const explanation = explain(undefined, nothingRead, clock.now() - started, undefined, notes);
    return { effect: "deny", refusal: denial, explanation };
  }

  function evaluateRequest(subject: InspectedMessage): Decision {
    const started = clock.now();
    const { message } = subject;
    const plan = plans?.get(subject);
    if (plan === undefined) {
      const kind = methodFacts(message.method ?? "")?.target;
      if (kind !== undefined && requestTargetName(message, kind) === undefined) return refuse(targetMissing, started);
      if (kind !== undefined && hasOtherArguments(message)) return refuse(argumentsNotObject, started);
      if (names.isHidden(subject)) return refuse(hiddenRefusal, started, hiddenNotes);
      return settle(subject, calls, unplanned(calls, message.method), undefined, started);
    }
    const { isNamed, isHidden = names.isHidden(subject), evaluation: task, response: answers } = plan;
    if (isNamed && hasOtherArguments(message)) return refuse(argumentsNotObject, started);
    if (isHidden) return refuse(hiddenRefusal, started, hiddenNotes);
    return task.decision ?? settle(subject, calls, task, answers, started);
  }

  function evaluateResponse(subject: InspectedMessage, { memory }: PolicyCall): Decision {
    const { exchange, request } = subject;
    // The result of a task may come to other credentials than those that it was begun with.
    const isPlanned =
      memory instanceof ResponsePlan && request !== undefined && memory.key.matches(exchange.principal, request);
    const task = isPlanned ? memory.evaluation : unplanned(results, subject.method);
    return task.decision ?? settle(subject, results, task, undefined, clock.now());
  }

  function filterList(question: ListPage): ListDecision {
    const started = clock.now();
    const { visible, result: ruling } = names.filter(question);
    const durationMs = clock.now() - started;
    const read = lists?.allReads ?? nothingRead;
    return { visible, explanation: explain(undefined, read, durationMs, ruling?.shadow, ruling?.notes) };
  }

  return { name, evaluateRequest, evaluateResponse, ...(names.canHide ? { filterList } : {}) };
}

/** A message that no rule decides about passes where it belongs to the upkeep of a connection, else as the rules say. */
function fallbackOf(set: RuleSet, method = ""): RuleSet["fallback"] {
  return isLifecycleMethod(method) ? "allow" : set.fallback;
}

/** Nothing is known before a message comes: all rules are asked. */
function unplanned(set: RuleSet, method: string | undefined): EvaluationPlan {
  return { decision: undefined, steps: set.ordered, fallback: fallbackOf(set, method) };
}

function toDecision(
  { refusal: denial, rule, reached, shadow, notes }: RuleSetResult,
  set: RuleSet,
  durationMs: number,
  memory: unknown,
): Decision {
  const explanation = explain(rule?.id, set.reads[reached] ?? set.allReads, durationMs, shadow, notes);
  return denial === undefined
    ? { effect: "allow", memory, explanation }
    : { effect: "deny", refusal: denial, explanation };
}

function explain(
  rule: string | undefined,
  read: readonly string[],
  durationMs: number,
  shadow: Explanation["shadow"],
  notes: Explanation["notes"],
): Explanation {
  const plain = { provider: name, rule, read, durationMs };
  if (shadow === undefined && notes === undefined) return plain;
  return {
    ...plain,
    ...(shadow === undefined ? {} : { shadow }),
    ...(notes === undefined ? {} : { notes }),
  };
}

const argumentsSlot = slotOf("params.arguments");
const openingBrace = 0x7b;

/** Whether a message has arguments that are no object. */
function hasOtherArguments({ bytes, outline }: Message): boolean {
  const start = outline.spans[argumentsSlot] ?? -1;
  return start >= 0 && bytes[start] !== openingBrace;
}

/**
 * Whether a method belongs to the upkeep of a connection: it opens it, lists what there is, reports, or follows up on a
 * request that was decided about already. Rules can deny it; where none says anything, it passes.
 */
function isLifecycleMethod(method: string): boolean {
  return lifecycleMethods.has(method) || method.startsWith("notifications/");
}

const lifecycleMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "logging/setLevel",
  "subscriptions/listen",
  "resources/unsubscribe",
  "tasks/get",
  "tasks/result",
  "tasks/cancel",
  "tasks/update",
  "tasks/list",
]);
