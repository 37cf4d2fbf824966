import type { Cancellation } from "../../core/cancellation.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { MessageChange } from "../../core/interceptors/action.ts";
import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Interceptor, Reply } from "../../core/pipeline.ts";
import { andThen, isPromise, type MaybePromise } from "../../lib/is-promise.ts";
import {
  type AmbiguousName,
  anyStep,
  findAmbiguousName,
  foldName,
  type KnownNames,
  knownNames,
} from "../../protocol/json/folded-names.ts";
import { slotOf, spanOf } from "../../protocol/json/outline.ts";
import type { Message, ParseLimits, RequestMessage } from "../../protocol/message.ts";
import { hasWrongKind, methodFacts, methodNames } from "../../protocol/methods.ts";
import {
  type DecisionEvent,
  type DecisionListener,
  type DecisionPhase,
  DecisionRecord,
  type DecisionRecordOptions,
} from "../provider/decision-event.ts";
import {
  completionReference,
  type Decision,
  explain,
  type Explanation,
  type ListDecision,
  type ListEntry,
  type ListKind,
  type PolicyCall,
  type PolicyProvider,
  type PolicyRefusal,
} from "../provider/provider.ts";
import { filterListPage } from "./lists.ts";

/** A refused message, and the id of the decision. */
export interface RefuseOutcome {
  readonly type: "refuse";
  readonly refusal: PolicyRefusal;
  readonly decisionId: string;
}

/** Whether a message passes a check, and in which form. */
export type CheckOutcome =
  | { readonly type: "pass"; readonly message: Message; readonly memory: unknown }
  | RefuseOutcome;

/** Which names are visible, in the order of the entries. */
export type Visibility = { readonly type: "visible"; readonly visible: readonly boolean[] } | RefuseOutcome;

export interface EvaluatorDeps {
  readonly provider: PolicyProvider;
  /** False in shadow mode. */
  readonly isEnforced: boolean;
  /** Creates ids that are unique in this process and not secret. */
  readonly newDecisionId: () => string;
  readonly onDecision?: DecisionListener | undefined;
  /** The route's limits, for changed messages. */
  readonly limits?: ParseLimits | undefined;
}

/** Evaluates messages with a provider and reports every decision. Never throws: without a decision it refuses. */
export interface Evaluator {
  /** Whether the provider leaves entries out of lists. */
  readonly filtersLists: boolean;
  /** Whether the provider can hide names, as if they did not exist. */
  readonly hidesNames: boolean;
  /** The arguments of a request that decisions about its response depend on; undefined for all. */
  readonly argumentsForResponses: readonly string[] | undefined;
  /** Evaluates a message; `memory` is what the decision about its request left. */
  evaluate(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome>;
  /** Evaluates which names the caller can see. */
  checkVisibility(subject: InspectedMessage, kind: ListKind, entries: readonly ListEntry[]): MaybePromise<Visibility>;
  /** Passes a message in another form, or refuses it if that is not a valid message. */
  change(subject: InspectedMessage, change: MessageChange, memory?: unknown): CheckOutcome;
  /** Refuses a message without asking the provider. */
  refuse(subject: InspectedMessage, problem: string, refusal?: PolicyRefusal): RefuseOutcome;
}

export function createEvaluator(deps: EvaluatorDeps): Evaluator {
  const { provider, isEnforced, newDecisionId, onDecision, limits } = deps;

  function report(
    subject: InspectedMessage,
    phase: DecisionPhase,
    effect: DecisionEvent["effect"],
    explanation: Explanation,
    options: DecisionRecordOptions = noOptions,
  ): DecisionRecord {
    const record = new DecisionRecord(subject, phase, effect, explanation, isEnforced, newDecisionId, options);
    try {
      onDecision?.(record);
    } catch {
      // SC-062: an observer cannot change traffic, not even by failing.
    }
    return record;
  }

  function deny(
    subject: InspectedMessage,
    refusal: PolicyRefusal,
    explanation: Explanation,
    cause?: unknown,
  ): RefuseOutcome {
    const { id } = report(subject, subject.phase, "deny", explanation, { refusal, cause });
    return { type: "refuse", refusal, decisionId: id };
  }

  function refuse(
    subject: InspectedMessage,
    problem: string,
    refusal: PolicyRefusal = noDecision,
    cause?: unknown,
  ): RefuseOutcome {
    return deny(subject, refusal, explain(provider.name, [problem]), cause);
  }

  function changeMessage(subject: InspectedMessage, change: MessageChange, memory?: unknown): CheckOutcome {
    const changed = applyChange(subject.message, change, { revision: subject.exchange.revision, limits });
    return changed.ok
      ? { type: "pass", message: changed.message, memory }
      : refuse(subject, `the message could not be changed: ${changed.problem}`);
  }

  const failed = (subject: InspectedMessage, thrown: unknown): RefuseOutcome =>
    refuse(subject, "the provider failed", noDecision, thrown);

  function toOutcome(subject: InspectedMessage, decision: Decision): CheckOutcome {
    const { explanation } = decision;
    const { message, phase } = subject;
    const isDenied = decision.effect === "deny";
    // A hidden name is refused for what an unknown one would be refused for.
    if (isDenied && decision.refusal.kind !== "hidden") return deny(subject, decision.refusal, explanation);
    const isAnswer = phase === "response" && subject.direction === "client-to-server";
    const ambiguity =
      phase === "request"
        ? ambiguityRefusal(message, decision.names)
        : isAnswer
          ? ambiguousAnswerRefusal(message, decision.names)
          : undefined;
    if (ambiguity !== undefined) return refuse(subject, ambiguity.reason, ambiguity);
    if (isDenied) return deny(subject, decision.refusal, explanation);
    const { change, memory } = decision;
    if (change === undefined) {
      if (onDecision !== undefined) report(subject, phase, "allow", explanation);
      return { type: "pass", message, memory };
    }
    const outcome = changeMessage(subject, change, memory);
    if (outcome.type === "pass") report(subject, phase, "change", explanation);
    return outcome;
  }

  function evaluate(subject: InspectedMessage, memory: unknown): MaybePromise<CheckOutcome> {
    const problem = subject.phase === "request" ? unclearRequestRefusal(subject.message) : undefined;
    if (problem !== undefined) return refuse(subject, problem.reason, problem);
    const call = new Call(subject.exchange.cancellation, memory);
    try {
      const decision =
        subject.phase === "request"
          ? provider.evaluateRequest(subject, call)
          : provider.evaluateResponse(subject, call);
      if (!isPromise(decision)) return toOutcome(subject, decision);
      return decision.then((late) => toOutcome(subject, late)).catch((thrown: unknown) => failed(subject, thrown));
    } catch (thrown) {
      return failed(subject, thrown);
    }
  }

  function toVisibility(subject: InspectedMessage, kind: ListKind, total: number, decision: ListDecision): Visibility {
    const { visible, refusal, explanation } = decision;
    if (refusal !== undefined) return deny(subject, refusal, explanation);
    if (visible.length !== total) return refuse(subject, "the provider did not decide about every name");
    if (onDecision !== undefined) {
      const hidden = visible.reduce((count, isVisible) => (isVisible ? count : count + 1), 0);
      report(subject, "list", hidden === 0 ? "allow" : "filter", explanation, { list: { kind, total, hidden } });
    }
    return { type: "visible", visible };
  }

  function checkVisibility(
    subject: InspectedMessage,
    kind: ListKind,
    entries: readonly ListEntry[],
  ): MaybePromise<Visibility> {
    if (provider.filterList === undefined || entries.length === 0)
      return { type: "visible", visible: entries.map(() => true) };
    const call = new Call(subject.exchange.cancellation, undefined);
    try {
      const decision = provider.filterList({ subject, kind, entries }, call);
      if (!isPromise(decision)) return toVisibility(subject, kind, entries.length, decision);
      return decision
        .then((late) => toVisibility(subject, kind, entries.length, late))
        .catch((thrown: unknown) => failed(subject, thrown));
    } catch (thrown) {
      return failed(subject, thrown);
    }
  }

  return {
    filtersLists: provider.filterList !== undefined,
    hidesNames: provider.filterList !== undefined && provider.hidesNames !== false,
    argumentsForResponses: provider.argumentsForResponses,
    evaluate,
    checkVisibility,
    refuse,
    change: changeMessage,
  };
}

const noOptions: DecisionRecordOptions = { refusal: undefined, list: undefined, cause: undefined };

/** Why there is no decision is for the log only. */
const noDecision: PolicyRefusal = {
  kind: "unavailable",
  code: "no_decision",
  reason: "Authorization is unavailable; request denied.",
};

/** The refusal of a message that no policy can evaluate. */
export const notEvaluable: PolicyRefusal = {
  kind: "invalid",
  code: "not_evaluable",
  reason: "The message is malformed, so the policy cannot evaluate it.",
};

/** The most parts of one request that are decided separately: each may be a call to a decision point. */
export const maxParts = 1000;

/** The refusal of a request with more of them. */
export const tooManyParts: PolicyRefusal = {
  kind: "invalid",
  code: "too_many_parts",
  reason: `The policy decides about each subscription or answer in a request and accepts at most ${maxParts} of them.`,
};

/** A class, so that the signal is created only if a provider reads it. */
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

/** Beyond this many pending evaluations, messages pass without one: shadow mode must not slow traffic down. */
const maxPending = 1000;

/** Creates the interceptor of shadow mode: decisions are made and reported, and every message passes unchanged. */
export function createShadowEnforcement(evaluator: Evaluator): Interceptor {
  let pending = 0;

  function observe(evaluate: () => MaybePromise<CheckOutcome>): MaybePromise<CheckOutcome> | undefined {
    if (pending >= maxPending) return undefined;
    const outcome = evaluate();
    if (!isPromise(outcome)) return outcome;
    pending++;
    // An evaluator never rejects.
    return outcome.then((late) => {
      pending--;
      return late;
    });
  }

  function observeResponse(
    exchange: Exchange,
    request: RequestMessage,
    { message }: Reply,
    requestOutcome: MaybePromise<CheckOutcome>,
  ): void {
    if (message === undefined) return;
    const subject = InspectedMessage.answering(exchange, request, message);
    void observe(() =>
      andThen(requestOutcome, (outcome) => {
        const memory = outcome.type === "pass" ? outcome.memory : undefined;
        return andThen(filterListPage(subject, evaluator), () => evaluator.evaluate(subject, memory));
      }),
    );
  }

  return (next) => (exchange) => {
    const outcome = observe(() => evaluator.evaluate(InspectedMessage.of(exchange), undefined));
    const reply = next(exchange);
    const { message } = exchange;
    if (message.kind !== "request" || outcome === undefined) return reply;
    return reply.then((answer) => {
      observeResponse(exchange, message, answer, outcome);
      return answer;
    });
  };
}

const paramsSlot = slotOf("params");
const maxShown = 100;
/** What enforcement itself reads below `params`, besides the reference of a completion. */
const listenNames = knownNames([
  ["notifications", "resourceSubscriptions"],
  ["notifications", "taskIds"],
]);

/** What MCP defines in the answers of clients to elicitation, sampling and roots, wherever policies look at it. */
const answerNames = knownNames([
  ["action"],
  ["content"],
  ["role"],
  ["model"],
  ["stopReason"],
  ["roots", anyStep, "uri"],
  ["roots", anyStep, "name"],
]);

/**
 * Refuses a message with a member name that a reader could confuse with another one. Go and .NET servers ignore the
 * letter case of names, so a policy that reads `amount` could decide about another value than the server uses.
 */
function ambiguityRefusal(
  { bytes, outline, method }: Message,
  names: KnownNames | undefined,
): PolicyRefusal | undefined {
  const start = outline.spans[paramsSlot] ?? -1;
  if (start < 0) return undefined;
  const span = { start, end: outline.spans[paramsSlot + 1] ?? start };
  const found =
    findAmbiguousName(bytes, span, names) ??
    (method === "subscriptions/listen" ? findAmbiguousName(bytes, span, listenNames) : undefined);
  return found && ambiguousName(found);
}

/** The same for what a client answers to a server. */
function ambiguousAnswerRefusal(
  { kind, bytes, outline }: Message,
  names: KnownNames | undefined,
): PolicyRefusal | undefined {
  const span = spanOf(outline, kind === "error" ? "error" : "result");
  const found = span && (findAmbiguousName(bytes, span, names) ?? findAmbiguousName(bytes, span, answerNames));
  return found && ambiguousName(found);
}

function ambiguousName(found: AmbiguousName): PolicyRefusal {
  const name = JSON.stringify(found.name.slice(0, maxShown));
  return {
    kind: "invalid",
    code: "ambiguous_member_name",
    reason: `The member name ${name} ${whyAmbiguous[found.problem]}.`,
  };
}

const whyAmbiguous: Readonly<Record<AmbiguousName["problem"], string>> = {
  repeated: "occurs twice in one object, in different letter case",
  variant: "differs only in letter case from the name that the policy knows",
  prototype: "adds members to the object that it is in, for servers in JavaScript",
};

const knownMethods: ReadonlySet<string> = new Set(methodNames.map(foldName));

/** Refuses a message whose kind, method or completion reference a lenient server could misread. */
function unclearRequestRefusal(message: Message): PolicyRefusal | undefined {
  const { kind, method = "" } = message;
  if (hasWrongKind(kind, method)) return wrongKind;
  if (method === "completion/complete")
    return completionReference(message) === undefined ? unknownReference : undefined;
  if (methodFacts(method) !== undefined) return undefined;
  return knownMethods.has(foldName(method)) ? unclearMethod : undefined;
}

const unknownReference: PolicyRefusal = {
  kind: "invalid",
  code: "reference_not_evaluable",
  reason: "The reference of the completion names neither a prompt (`ref/prompt`) nor a resource (`ref/resource`).",
};

const wrongKind: PolicyRefusal = {
  kind: "invalid",
  code: "wrong_message_kind",
  reason: "A request needs an id, and a notification has none.",
};

const unclearMethod: PolicyRefusal = {
  kind: "invalid",
  code: "ambiguous_method",
  reason: "The method differs from the one that MCP defines only in letter case.",
};
