import type { Clock } from "../../exchange.ts";
import type { Subject } from "../../intercept/subject.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { RulesConfig } from "../config.ts";
import type {
  Denial,
  Explanation,
  ListQuestion,
  ListVerdict,
  PolicyCall,
  PolicyProvider,
  PolicyVerdict,
} from "../provider.ts";
import { changeRequest, changeResponse, type Effects } from "./changes.ts";
import { decide, failure, type RuleStep, type Ruling } from "./decide.ts";
import { wordsOf } from "./expression.ts";
import { Bindings, targetName } from "./facts.ts";
import { createPlans, type Planned, type Topic } from "./plans.ts";
import { remainderOf } from "./remainder.ts";
import { compileCallRules, compileListRules, compileResultRules, noRules } from "./rules.ts";
import type { RuleSet, Step } from "./rules.ts";
import { isUpkeep } from "./upkeep.ts";
import { createVisibleNames } from "./visible-names.ts";

/** What the provider is run with. */
export interface CelDeps {
  readonly clock: Pick<Clock, "now">;
  /** Told of every rule that was asked, in order; for explanations by hand, not for traffic. */
  readonly onStep?: (step: RuleStep) => void;
}

const name = "rules";
const nothingRead: readonly string[] = [];
const hiddenNotes: readonly string[] = ["the name is hidden from this caller"];

const hidden: Denial = { kind: "hidden", code: "hidden", reason: "There is no such name." };

const unnamed: Denial = {
  kind: "invalid",
  code: "target_missing",
  reason: "The policy cannot judge a request that does not name what it is about as a text.",
};

const shapeless: Denial = {
  kind: "invalid",
  code: "arguments_not_an_object",
  reason: "The policy cannot judge arguments that are no object.",
};

/** What is left to be done about a message: to give the verdict, or to ask the rules that can still say something. */
interface Task {
  readonly verdict: PolicyVerdict | undefined;
  readonly steps: readonly Step[];
  readonly fallback: RuleSet["fallback"];
}

/** What is known of the answers to requests of one topic; the verdict on a request leaves it for the answer's. */
class AnswerPlan implements Planned {
  readonly topic: Topic;
  readonly task: Task;

  constructor(topic: Topic, task: Task) {
    this.topic = topic;
    this.task = task;
  }
}

/** What is known of messages of one topic before they come. */
interface MessagePlan extends Planned {
  /** Whether the messages are about something that has a name. */
  readonly isNamed: boolean;
  /** Whether the name is hidden; undefined where that takes more than caller, method and name to know. */
  readonly isHidden: boolean | undefined;
  readonly task: Task;
  readonly answers: AnswerPlan;
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
  const names = createVisibleNames(settings, lists);
  // Whoever wants to know every step wants every rule to be asked.
  const plans = onStep === undefined ? createPlans(planFor) : undefined;

  function settle(
    subject: Subject,
    set: RuleSet,
    { steps, fallback }: Pick<Task, "steps" | "fallback">,
    memory: AnswerPlan | undefined,
    started: number,
  ): PolicyVerdict {
    const bindings = new Bindings(subject, set.needs);
    const trace: RuleStep[] | undefined = onStep === undefined ? undefined : [];
    const ruling = decide(steps, set.steps.length, bindings, fallback, trace);
    if (onStep !== undefined) trace?.forEach(onStep);
    if (ruling.effects.length === 0) return verdictOf(ruling, set, clock.now() - started, memory);
    const change = set === calls ? changeRequest : changeResponse;
    let effects: Effects;
    try {
      effects = change(subject.message, ruling.effects, bindings);
    } catch (error) {
      return verdictOf({ ...ruling, ...failure(wordsOf(error)) }, set, clock.now() - started, memory);
    }
    const { change: form, denial, rule = ruling.rule, notes } = effects;
    const verdict = verdictOf({ ...ruling, denial, rule, notes }, set, clock.now() - started, memory);
    return verdict.effect === "deny" || form === undefined ? verdict : { ...verdict, change: form };
  }

  function taskOf(subject: Subject, set: RuleSet, memory: AnswerPlan | undefined): Task {
    const fallback = fallbackOf(set, subject.method);
    const { steps, ruling } = remainderOf(set, new Bindings(subject, set.needs), fallback);
    return { steps, fallback, verdict: ruling && verdictOf(ruling, set, 0, memory) };
  }

  function planFor(subject: Subject, topic: Topic): MessagePlan {
    // Rules for answers, too, learn caller, method and name from the request.
    const answers = new AnswerPlan(topic, taskOf(subject, results, undefined));
    const isHidden = names.isSteady ? names.isHidden(subject) : undefined;
    const isNamed = methodFacts(subject.method ?? "")?.target !== undefined;
    return { topic, isNamed, isHidden, task: taskOf(subject, calls, answers), answers };
  }

  function refuse(denial: Denial, started: number, notes?: readonly string[]): PolicyVerdict {
    const explanation = explain(undefined, nothingRead, clock.now() - started, undefined, notes);
    return { effect: "deny", denial, explanation };
  }

  function evaluateRequest(subject: Subject): PolicyVerdict {
    const started = clock.now();
    const { message } = subject;
    const plan = plans?.of(subject);
    if (plan === undefined) {
      const kind = methodFacts(message.method ?? "")?.target;
      if (kind !== undefined && targetName(message, kind) === undefined) return refuse(unnamed, started);
      if (kind !== undefined && hasOtherArguments(message)) return refuse(shapeless, started);
      if (names.isHidden(subject)) return refuse(hidden, started, hiddenNotes);
      return settle(subject, calls, wholeOf(calls, message.method), undefined, started);
    }
    const { isNamed, isHidden = names.isHidden(subject), task, answers } = plan;
    if (isNamed && hasOtherArguments(message)) return refuse(shapeless, started);
    if (isHidden) return refuse(hidden, started, hiddenNotes);
    return task.verdict ?? settle(subject, calls, task, answers, started);
  }

  function evaluateResponse(subject: Subject, { memory }: PolicyCall): PolicyVerdict {
    const { exchange, request } = subject;
    // The result of a task may come to other credentials than those that it was begun with.
    const isPlanned =
      memory instanceof AnswerPlan &&
      request !== undefined &&
      memory.topic.covers(exchange.principal, request);
    const task = isPlanned ? memory.task : wholeOf(results, subject.method);
    return task.verdict ?? settle(subject, results, task, undefined, clock.now());
  }

  function filterList(question: ListQuestion): ListVerdict {
    const started = clock.now();
    const { visible, ruling } = names.judge(question);
    const durationMs = clock.now() - started;
    const read = lists?.allReads ?? nothingRead;
    return { visible, explanation: explain(undefined, read, durationMs, ruling?.shadow, ruling?.notes) };
  }

  return { name, evaluateRequest, evaluateResponse, ...(names.canHide ? { filterList } : {}) };
}

/** A message that no rule decides about passes where it belongs to the upkeep of a connection, else as the rules say. */
function fallbackOf(set: RuleSet, method = ""): RuleSet["fallback"] {
  return isUpkeep(method) ? "allow" : set.fallback;
}

/** Nothing is known before a message comes: all rules are asked. */
function wholeOf(set: RuleSet, method: string | undefined): Task {
  return { verdict: undefined, steps: set.steps, fallback: fallbackOf(set, method) };
}

function verdictOf(
  { denial, rule, reached, shadow, notes }: Ruling,
  set: RuleSet,
  durationMs: number,
  memory: unknown,
): PolicyVerdict {
  const explanation = explain(rule?.id, set.reads[reached] ?? set.allReads, durationMs, shadow, notes);
  return denial === undefined
    ? { effect: "allow", memory, explanation }
    : { effect: "deny", denial, explanation };
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
