import type { Cancellation } from "../../core/cancellation.ts";
import { isThenable } from "../../core/interceptors/steps.ts";
import { applyChange } from "../../core/interceptors/change.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import {
  type DecisionEvent,
  type DecisionListener,
  type DecisionPhase,
  DecisionRecord,
  type DecisionRecordOptions,
} from "../provider/decision-event.ts";
import type {
  Decision,
  Explanation,
  ListDecision,
  ListEntry,
  ListKind,
  PolicyCall,
  PolicyProvider,
  PolicyRefusal,
} from "../provider/provider.ts";

/** Something that is known at once, or in a while. */
export type MaybePromise<T> = T | Promise<T>;

/** A no, and the decision that it was. */
export interface RefuseOutcome {
  readonly type: "refuse";
  readonly refusal: PolicyRefusal;
  readonly decisionId: string;
}

/** What is to become of a message. */
export type CheckOutcome =
  | { readonly type: "pass"; readonly message: Message; readonly memory: unknown }
  | RefuseOutcome;

/** Which names may be seen, in the order of the question; or that no decision could be had. */
export type Visibility = { readonly type: "seen"; readonly visible: readonly boolean[] } | RefuseOutcome;

/** What a judge is made of. */
export interface EvaluatorDeps {
  readonly provider: PolicyProvider;
  /** Whether what it decides is carried out, or only told. */
  readonly isEnforced: boolean;
  /** Makes ids that are unique in this process and no secret. */
  readonly newDecisionId: () => string;
  readonly onDecision?: DecisionListener | undefined;
  /** Bounds for changed messages, those of the route. */
  readonly limits?: ParseLimits | undefined;
}

/** Puts questions to a provider and makes of its verdicts what is to be done. Nothing that it does ever throws. */
export interface Evaluator {
  /** Whether there is somebody to ask about names at all. */
  readonly filtersLists: boolean;
  /** Decides about a message; what was left by the verdict on its request goes with it. */
  evaluate(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome>;
  /** Decides which names the caller may know of. */
  checkVisibility(subject: InspectedMessage, kind: ListKind, entries: readonly ListEntry[]): MaybePromise<Visibility>;
  /** Refuses what cannot be judged, or could not be brought into the form that was decided on. */
  refuse(subject: InspectedMessage, problem: string, denial?: PolicyRefusal): RefuseOutcome;
}

/** Makes a judge. It answers at once where its provider does, and fails closed: without a verdict nothing passes. */
export function createEvaluator(options: EvaluatorDeps): Evaluator {
  const { provider, isEnforced, newDecisionId, onDecision, limits } = options;

  function tell(
    subject: InspectedMessage,
    phase: DecisionPhase,
    effect: DecisionEvent["effect"],
    explanation: Explanation,
    extras: DecisionRecordOptions = noExtras,
  ): DecisionRecord {
    const decision = new DecisionRecord(subject, phase, effect, explanation, isEnforced, newDecisionId, extras);
    try {
      onDecision?.(decision);
    } catch {
      // SC-062: whoever observes cannot change traffic, not even by failing.
    }
    return decision;
  }

  function refuse(
    subject: InspectedMessage,
    denial: PolicyRefusal,
    explanation: Explanation,
    cause?: unknown,
  ): RefuseOutcome {
    const { id } = tell(subject, subject.phase, "deny", explanation, { refusal: denial, cause });
    return { type: "refuse", refusal: denial, decisionId: id };
  }

  function failed(subject: InspectedMessage, problem: string, cause: unknown): RefuseOutcome {
    return refuse(subject, noDecision, explain(provider.name, problem), cause);
  }

  function rule(subject: InspectedMessage, verdict: Decision): CheckOutcome {
    const { explanation } = verdict;
    const { message, phase } = subject;
    if (verdict.effect === "deny") return refuse(subject, verdict.refusal, explanation);
    const { change, memory } = verdict;
    if (change === undefined) {
      if (onDecision !== undefined) tell(subject, phase, "allow", explanation);
      return { type: "pass", message, memory };
    }
    const outcome = applyChange(message, change, { revision: subject.exchange.revision, limits });
    if (!outcome.ok) return failed(subject, `made a change that cannot be: ${outcome.problem}`, undefined);
    tell(subject, phase, "change", explanation);
    return { type: "pass", message: outcome.message, memory };
  }

  function judge(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome> {
    const call = new Call(subject.exchange.cancellation, memory);
    try {
      const verdict =
        subject.phase === "request"
          ? provider.evaluateRequest(subject, call)
          : provider.evaluateResponse(subject, call);
      if ("effect" in verdict) return rule(subject, verdict);
      return verdict
        .then((late) => rule(subject, late))
        .catch((thrown: unknown) => failed(subject, "the provider failed", thrown));
    } catch (thrown) {
      return failed(subject, "the provider failed", thrown);
    }
  }

  function see(
    subject: InspectedMessage,
    kind: ListKind,
    entries: readonly ListEntry[],
    verdict: ListDecision,
  ): Visibility {
    const { visible, refusal: denial, explanation } = verdict;
    if (denial !== undefined) return refuse(subject, denial, explanation);
    if (visible.length !== entries.length)
      return failed(subject, "the provider did not decide about every name", undefined);
    const hidden = visible.reduce((count, isVisible) => (isVisible ? count : count + 1), 0);
    if (onDecision !== undefined) {
      const list = { kind, total: entries.length, hidden };
      tell(subject, "list", hidden === 0 ? "allow" : "filter", explanation, { list });
    }
    return { type: "seen", visible };
  }

  function look(subject: InspectedMessage, kind: ListKind, entries: readonly ListEntry[]): MaybePromise<Visibility> {
    if (provider.filterList === undefined || entries.length === 0)
      return { type: "seen", visible: entries.map(() => true) };
    const call = new Call(subject.exchange.cancellation, undefined);
    try {
      const verdict = provider.filterList({ subject, kind, entries }, call);
      if (!isThenable(verdict)) return see(subject, kind, entries, verdict);
      return verdict
        .then((late) => see(subject, kind, entries, late))
        .catch((thrown: unknown) => failed(subject, "the provider failed", thrown));
    } catch (thrown) {
      return failed(subject, "the provider failed", thrown);
    }
  }

  return {
    filtersLists: provider.filterList !== undefined,
    evaluate: judge,
    checkVisibility: look,
    refuse: (subject, problem, denial = noDecision) => refuse(subject, denial, explain(provider.name, problem)),
  };
}

/** Whether it is known already what is to become of a message. */
export function isSettled(ruling: MaybePromise<CheckOutcome>): ruling is CheckOutcome {
  return "type" in ruling;
}

/** Goes on with a value: at once where it is there, so that messages which need no waiting keep their order. */
export function andThen<T, U>(value: MaybePromise<T>, goOn: (value: T) => MaybePromise<U>): MaybePromise<U> {
  return isThenable(value) ? value.then(goOn) : goOn(value);
}

/** All values in their order: at once where all are there. */
export function allSettledOrPromise<T>(values: readonly MaybePromise<T>[]): MaybePromise<readonly T[]> {
  const known: T[] = [];
  for (const value of values) {
    if (isThenable(value)) return Promise.all(values.map((one) => Promise.resolve(one)));
    known.push(value);
  }
  return known;
}

const noExtras: DecisionRecordOptions = { refusal: undefined, list: undefined, cause: undefined };

/** What an agent is told when no decision could be had: how that came is for the log alone. */
const noDecision: PolicyRefusal = {
  kind: "unavailable",
  code: "no_decision",
  reason: "no decision about this could be had, so it is refused; try again later",
};

/** What an agent is told about a message that no policy can be asked about. */
export const notEvaluable: PolicyRefusal = {
  kind: "invalid",
  code: "not_judgeable",
  reason: "the message holds something that cannot be understood, so it cannot be decided about",
};

function explain(provider: string, note: string): Explanation {
  return { provider, rule: undefined, read: [], durationMs: 0, notes: [note] };
}

/** One question's circumstances; the signal costs nothing until it is asked for. */
class Call implements PolicyCall {
  readonly memory: unknown;
  readonly #cancellation: Cancellation;

  constructor(cancellation: Cancellation, memory: unknown) {
    this.#cancellation = cancellation;
    this.memory = memory;
  }

  get signal(): AbortSignal {
    return this.#cancellation.signal;
  }
}
