import type { Clock } from "../../exchange.ts";
import type { Subject } from "../../intercept/subject.ts";
import { memberType } from "../../protocol/json/read.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { RulesConfig } from "../config.ts";
import { createNameTest } from "../globs.ts";
import type {
  Denial,
  Explanation,
  ListKind,
  ListQuestion,
  ListVerdict,
  PolicyProvider,
  PolicyVerdict,
} from "../provider.ts";
import { changeRequest, changeResponse, type Effects } from "./changes.ts";
import { decide, failure, type RuleStep, type Ruling } from "./decide.ts";
import { wordsOf } from "./expression.ts";
import { Bindings, isKnownByCall, targetName } from "./facts.ts";
import { judgeList } from "./lists.ts";
import { compileCallRules, compileListRules, compileResultRules, type RuleSet } from "./rules.ts";
import { isUpkeep } from "./upkeep.ts";

/** What the provider is run with. */
export interface CelDeps {
  readonly clock: Pick<Clock, "now">;
  /** Told of every rule that was asked, in order; for explanations by hand, not for traffic. */
  readonly onStep?: (step: RuleStep) => void;
}

const name = "rules";
const nothingRead: readonly string[] = [];

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

/**
 * Makes the provider that decides by rules in the configuration. Everything is compiled here, once; a decision is
 * always given at once. A mistake in a rule throws `config_invalid`.
 */
export function createCelProvider(settings: RulesConfig, { clock, onStep }: CelDeps): PolicyProvider {
  const calls = settings.rules && compileCallRules(settings.rules, clock.now);
  const results = settings.results && compileResultRules(settings.results);
  const lists = settings.lists && compileListRules(settings.lists);
  const names = namesOf(settings);
  const seesNames = lists !== undefined || Object.values(names).some((test) => test !== undefined);

  function explain(
    started: number,
    ruling: Ruling | undefined,
    set: RuleSet | undefined,
    extra?: readonly string[],
  ): Explanation {
    const { rule, reached = 0, shadow, notes = extra } = ruling ?? {};
    return {
      provider: name,
      rule: rule?.id,
      read: set?.reads[reached] ?? set?.allReads ?? nothingRead,
      durationMs: clock.now() - started,
      ...(shadow === undefined ? {} : { shadow }),
      ...(notes === undefined ? {} : { notes }),
    };
  }

  function denied(denial: Denial, explanation: Explanation): PolicyVerdict {
    return { effect: "deny", denial, explanation };
  }

  function settle(
    subject: Subject,
    set: RuleSet,
    fallback: RuleSet["fallback"],
    change: typeof changeRequest,
    started: number,
  ): PolicyVerdict {
    const bindings = new Bindings(subject, set.needs);
    const trace: RuleStep[] | undefined = onStep === undefined ? undefined : [];
    const ruling = decide(set, bindings, fallback, trace);
    if (onStep !== undefined) trace?.forEach(onStep);
    if (ruling.denial !== undefined) return denied(ruling.denial, explain(started, ruling, set));
    if (ruling.effects.length === 0) return { effect: "allow", explanation: explain(started, ruling, set) };
    let effects: Effects;
    try {
      effects = change(subject.message, ruling.effects, bindings);
    } catch (error) {
      const { denial, notes } = failure(wordsOf(error));
      return denied(denial, explain(started, { ...ruling, notes }, set));
    }
    const told: Ruling = { ...ruling, rule: effects.rule ?? ruling.rule, notes: effects.notes };
    if (effects.denial !== undefined) return denied(effects.denial, explain(started, told, set));
    const explanation = explain(started, told, set);
    const { change: form } = effects;
    return form === undefined
      ? { effect: "allow", explanation }
      : { effect: "allow", change: form, explanation };
  }

  /** Whether the name that a request is about is hidden from the caller. */
  function isHidden(subject: Subject, kind: ListKind, target: string): boolean {
    if (names[kind]?.(target) === false) return true;
    if (lists === undefined || !isKnownByCall(kind, lists.needs.entry)) return false;
    const key = kind === "resource" ? "uri" : "name";
    const question = { subject, kind, entries: [{ name: target, value: { [key]: target } }] };
    return !(judgeList(lists, undefined, question).visible[0] ?? false);
  }

  function evaluateRequest(subject: Subject): PolicyVerdict {
    const started = clock.now();
    const { message } = subject;
    const method = message.method ?? "";
    const kind = methodFacts(method)?.target;
    if (kind !== undefined) {
      const target = targetName(message, kind);
      if (target === undefined) return denied(unnamed, explain(started, undefined, undefined));
      const type = memberType(message, "params.arguments");
      if (type !== undefined && type !== "object")
        return denied(shapeless, explain(started, undefined, undefined));
      if (seesNames && kind !== "task" && isHidden(subject, kind, target))
        return denied(
          hidden,
          explain(started, undefined, undefined, ["the name is hidden from this caller"]),
        );
    }
    if (calls === undefined) return { effect: "allow", explanation: explain(started, undefined, undefined) };
    return settle(subject, calls, isUpkeep(method) ? "allow" : "deny", changeRequest, started);
  }

  function evaluateResponse(subject: Subject): PolicyVerdict {
    const started = clock.now();
    if (results === undefined)
      return { effect: "allow", explanation: explain(started, undefined, undefined) };
    const fallback = isUpkeep(subject.method ?? "") ? "allow" : results.fallback;
    return settle(subject, results, fallback, changeResponse, started);
  }

  function filterList(question: ListQuestion): ListVerdict {
    const started = clock.now();
    const { visible, ruling } = judgeList(lists, names[question.kind], question);
    return { visible, explanation: explain(started, ruling, lists) };
  }

  return { name, evaluateRequest, evaluateResponse, ...(seesNames ? { filterList } : {}) };
}

type NameTests = Readonly<Record<ListKind, ((name: string) => boolean) | undefined>>;

function namesOf({ tools, prompts, resources }: RulesConfig): NameTests {
  const resource = createNameTest(resources);
  return {
    tool: createNameTest(tools),
    prompt: createNameTest(prompts),
    resource,
    "resource-template": resource,
  };
}
