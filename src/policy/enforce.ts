import { type Exchange, type ReplyStream, type Tracking, withMessage } from "../core/exchange.ts";
import { InspectedMessage } from "../core/interceptors/inspected-message.ts";
import type { Handler, Interceptor, Reply } from "../core/pipeline.ts";
import { memberString } from "../protocol/json/read.ts";
import type { Message, ParseLimits, RequestMessage } from "../protocol/message.ts";
import type { DecisionListener } from "./provider/decision-event.ts";
import { createHiddenNames, mayNameHidden } from "./enforcement/hidden-names.ts";
import {
  andThen,
  type CheckOutcome,
  createEvaluator,
  isSettled,
  type MaybePromise,
  type RefuseOutcome,
} from "./enforcement/evaluator.ts";
import { filterListPage, isListMethod, withPrivateCache } from "./enforcement/lists.ts";
import { mayMentionResource } from "./enforcement/mentioned-names.ts";
import { nonCanonicalUriReason } from "./enforcement/canonical-uri.ts";
import { createInputRequestChecks, hasInputRequests, hasInputResponses } from "./enforcement/input-requests.ts";
import { createRefusalWriter, type RefusalOptions } from "./enforcement/refusals.ts";
import { createShadowEnforcement } from "./enforcement/shadow.ts";
import { createTaskResults, mayHoldTaskResult } from "./enforcement/task-results.ts";
import { createNotFoundTemplates } from "./enforcement/not-found-replies.ts";
import type { PolicyProvider, PolicyRefusal } from "./provider/provider.ts";
import { methodFacts, methodNames } from "../protocol/methods.ts";

/** What enforcement is made of. */
export interface EnforcementOptions {
  readonly provider: PolicyProvider;
  /** In shadow mode everything is decided and told, and nothing is changed, refused or kept waiting. */
  readonly mode: "enforce" | "shadow";
  readonly refusals: RefusalOptions;
  /** Makes ids that are unique in this process and no secret. */
  readonly newDecisionId: () => string;
  /** Told of every decision, those to let pass included. */
  readonly onDecision?: DecisionListener | undefined;
  /** Bounds for changed messages, those of the route. */
  readonly limits?: ParseLimits | undefined;
}

/**
 * The one place where policy is enforced: every message, request, notification or response, in either direction and
 * whatever it is carried in, is decided about on its own before it goes on. What a policy saw is what goes on; without
 * a verdict nothing does. Messages whose verdict is known at once are not kept waiting.
 */
export function createEnforcement(options: EnforcementOptions): Interceptor {
  const { limits } = options;
  const judge = createEvaluator({ ...options, isEnforced: options.mode === "enforce" });
  if (options.mode === "shadow") return createShadowEnforcement(judge);
  const forms = createNotFoundTemplates();
  const refuse = createRefusalWriter(options.refusals, forms);
  const names = createHiddenNames(judge, limits);
  const questions = createInputRequestChecks(judge, limits);
  const tasks = createTaskResults(judge, limits);
  const precedence = createNotificationOrdering();

  /** Decides about a message that asks, and about everything that it carries. */
  function ask(subject: InspectedMessage): MaybePromise<CheckOutcome> {
    const { message } = subject;
    const { hasUri, mayNameHidden: isAboutNames } = methodTraits(message.method);
    const problem = hasUri ? uriRefusal(message) : undefined;
    if (problem !== undefined) return judge.refuse(subject, problem.reason, problem);
    const ruling = judge.evaluate(subject, undefined);
    if (!isAboutNames && !hasInputResponses(message)) return ruling;
    return andThen(ruling, (first) => {
      if (first.type === "refuse") return first;
      return andThen(names.checkRequest(withCheckedMessage(subject, first.message), first.memory), (second) => {
        if (second.type === "refuse") return second;
        if (mayHoldTaskResult(message.method)) return taskNotice(withCheckedMessage(subject, second.message));
        return hasInputResponses(second.message)
          ? questions.checkInputResponses(withCheckedMessage(subject, second.message), second.memory)
          : second;
      });
    });
  }

  /** Decides about what a notification says of a task: its result, and what its server wants to know. */
  function taskNotice(subject: InspectedMessage): MaybePromise<CheckOutcome> {
    const ruling = tasks.checkResult(subject);
    return hasInputRequests(subject.message)
      ? thenCheck(subject, ruling, (next) => questions.checkInputRequests(next))
      : ruling;
  }

  /** Decides about an answer: first what must not be named or asked is taken out or refused, then the answer as it is. */
  function review(subject: InspectedMessage, reply: Reply, memory: unknown): MaybePromise<CheckOutcome> {
    const { message, method } = subject;
    // Most answers hold nothing that has to be looked at by itself.
    const isPlain =
      !methodTraits(method).hasNestedContent &&
      !hasInputRequests(message) &&
      !(judge.filtersLists && mayMentionResource(message));
    if (isPlain || message.kind !== "result") return judge.evaluate(subject, memory);
    let ruling = isListMethod(method) ? filterListPage(subject, judge) : names.checkResult(subject);
    if (mayHoldTaskResult(method)) ruling = thenCheck(subject, ruling, (next) => tasks.checkResult(next));
    // Questions that a bridge put into a result have been decided about when they were asked.
    if (hasInputRequests(message) && reply.hasJudgedQuestions !== true)
      ruling = thenCheck(subject, ruling, (next) => questions.checkInputRequests(next));
    return thenCheck(subject, ruling, (next) => judge.evaluate(next, memory));
  }

  function answer(forwarded: Exchange, request: RequestMessage, memory: unknown, reply: Reply): MaybePromise<Reply> {
    if (reply.message === undefined) return reply;
    // A modern client answers in a retry, and that has been decided about.
    if (forwarded.direction === "server-to-client" && forwarded.era === "modern") return reply;
    const subject = InspectedMessage.answering(forwarded, request, reply.message);
    forms.learn(forwarded, request, reply, forwarded.reply instanceof CheckedReplyStream && forwarded.reply.isOpen);
    const ruling = review(subject, reply, memory);
    return isSettled(ruling)
      ? deliver(subject, request, memory, reply, ruling)
      : ruling.then((late) => deliver(subject, request, memory, reply, late));
  }

  function deliver(
    subject: InspectedMessage,
    request: RequestMessage,
    memory: unknown,
    reply: Reply,
    ruling: CheckOutcome,
  ): Reply {
    if (ruling.type === "refuse") return refuse(subject, ruling.refusal, ruling.decisionId);
    const message = withPrivateCache(subject, ruling.message, limits);
    tasks.remember(subject, request, memory);
    return message === reply.message ? reply : { ...reply, message };
  }

  function carryOn(subject: InspectedMessage, next: Handler, ruling: CheckOutcome): Promise<Reply> {
    if (ruling.type === "refuse") return refused(subject, next, ruling);
    const { memory } = ruling;
    const forwarded = toForwarded(subject.exchange, ruling.message);
    const { message } = forwarded;
    const reply = next(forwarded);
    if (message.kind !== "request") return reply;
    return reply.then((said) => {
      const earlier = precedence.pendingBefore(forwarded);
      return earlier === undefined
        ? answer(forwarded, message, memory, said)
        : earlier.then(() => answer(forwarded, message, memory, said));
    });
  }

  async function refused(
    subject: InspectedMessage,
    next: Handler,
    { refusal: denial, decisionId: decision }: RefuseOutcome,
  ): Promise<Reply> {
    const { message, exchange } = subject;
    const reply = refuse(subject, denial, decision);
    // Whoever waits for an answer still has to get one: the refusal takes its place.
    const isAnswer = message.kind === "result" || message.kind === "error";
    return isAnswer && reply.message !== undefined ? next(withMessage(exchange, reply.message)) : reply;
  }

  return (next) =>
    function enforce(exchange) {
      const subject = InspectedMessage.of(exchange);
      const ruling = ask(subject);
      if (isSettled(ruling)) return carryOn(subject, next, ruling);
      const outcome = ruling.then((late) => carryOn(subject, next, late));
      precedence.track(exchange, outcome);
      return outcome;
    };
}

/** The no to a request for a resource that is written so that a server could read another name than a policy does. */
function uriRefusal(message: Message): PolicyRefusal | undefined {
  if (message.kind !== "request") return undefined;
  const uri = memberString(message, "params.uri");
  const problem = uri === undefined ? undefined : nonCanonicalUriReason(uri);
  if (problem === undefined) return undefined;
  const reason = `the URI cannot be decided about, because ${problem}; write it plainly`;
  return { kind: "invalid", code: "uri_not_plain", reason };
}

/** The subject with its message as it stands after a check. */
function withCheckedMessage(subject: InspectedMessage, message: Message): InspectedMessage {
  return message === subject.message ? subject : subject.with(message);
}

/** The next check, on what the one before has let pass. */
function thenCheck(
  subject: InspectedMessage,
  ruling: MaybePromise<CheckOutcome>,
  next: (subject: InspectedMessage) => MaybePromise<CheckOutcome>,
): MaybePromise<CheckOutcome> {
  return andThen(ruling, (known) =>
    known.type === "refuse" ? known : next(withCheckedMessage(subject, known.message)),
  );
}

/** The exchange as it goes on: with what was decided about, and without a way around decisions for its answer. */
function toForwarded(exchange: Exchange, message: Message): Exchange {
  const { reply } = exchange;
  if (reply?.writeRaw === undefined) return message === exchange.message ? exchange : withMessage(exchange, message);
  return { ...exchange, message, reply: new CheckedReplyStream(reply) };
}

/** A client's stream that takes messages alone: what is no JSON cannot be decided about. */
class CheckedReplyStream implements ReplyStream {
  /** Whether the answer has become a stream. */
  isOpen = false;
  readonly #stream: ReplyStream;

  constructor(stream: ReplyStream) {
    this.#stream = stream;
  }

  open(): void {
    this.isOpen = true;
    this.#stream.open();
  }

  write(message: Message): void | Promise<void> {
    this.isOpen = true;
    return this.#stream.write(message);
  }

  pause(retryMs: number): void {
    this.#stream.pause?.(retryMs);
  }
}

/** What enforcement has to look out for in messages of a method and in their answers. */
export interface MethodTraits {
  /** Requests name a resource by its URI. */
  readonly hasUri: boolean;
  /** The message may be about something hidden. */
  readonly mayNameHidden: boolean;
  /** Answers hold lists, completed names or the results of tasks. */
  readonly hasNestedContent: boolean;
}

const plain: MethodTraits = { hasUri: false, mayNameHidden: false, hasNestedContent: false };

const traits: ReadonlyMap<string, MethodTraits> = new Map(
  methodNames.map((method) => {
    const isAboutHidden = mayNameHidden(method);
    const hasNestedContent = isAboutHidden || isListMethod(method) || mayHoldTaskResult(method);
    const hasUri = methodFacts(method)?.target === "resource";
    return [method, { hasUri, mayNameHidden: isAboutHidden, hasNestedContent }];
  }),
);

/** The traits of a method, in one look; those of methods that nobody knows are the plainest. */
function methodTraits(method: string | undefined): MethodTraits {
  return (method === undefined ? undefined : traits.get(method)) ?? plain;
}

/**
 * Keeps what comes on the way to an answer before the answer, where a decision takes its time: a progress report that
 * is still being decided about must not arrive behind the result it reports on.
 */
export interface NotificationOrdering {
  /** An answer follows this message, once it has been decided about and passed on or dropped. */
  track(exchange: Exchange, outcome: Promise<unknown>): void;
  /** What the answer to a request has to wait for; undefined where that is nothing. */
  pendingBefore(request: Exchange): Promise<void> | undefined;
}

/** Makes it; nothing is kept for longer than a message is on its way. */
function createNotificationOrdering(): NotificationOrdering {
  const pending = new Map<Tracking, Promise<void>>();
  return {
    track: ({ parent, message }, outcome) => {
      // A question is answered by its client in its own time.
      if (parent === undefined || message.kind !== "notification") return;
      const { tracking } = parent;
      const earlier = pending.get(tracking);
      const all: Promise<void> = Promise.allSettled([earlier, outcome]).then(() => {
        if (pending.get(tracking) === all) pending.delete(tracking);
      });
      pending.set(tracking, all);
    },
    pendingBefore: ({ tracking }) => (pending.size === 0 ? undefined : pending.get(tracking)),
  };
}
