import { type Exchange, type ReplyStream, type Tracking, withMessage } from "../core/exchange.ts";
import { InspectedMessage } from "../core/interceptors/inspected-message.ts";
import type { Handler, Interceptor, Reply } from "../core/pipeline.ts";
import { andThen, isPromise, type MaybePromise } from "../lib/is-promise.ts";
import { memberString } from "../protocol/json/read.ts";
import type { Message, ParseLimits, RequestMessage } from "../protocol/message.ts";
import { listShapeOf } from "../protocol/lists.ts";
import { methodFacts } from "../protocol/methods.ts";
import { canonicalUri, isCanonicalTemplate } from "./provider/canonical-uri.ts";
import {
  type CheckOutcome,
  createEvaluator,
  createShadowEnforcement,
  type RefuseOutcome,
} from "./enforcement/evaluator.ts";
import { createHiddenNames, mayNameHidden } from "./enforcement/hidden-names.ts";
import {
  asksForUrls,
  createInputRequestChecks,
  hasInputRequests,
  hasInputResponses,
} from "./enforcement/input-requests.ts";
import { filterListPage, withPrivateCache } from "./enforcement/lists.ts";
import { isUriTemplate, mayMentionResource } from "./enforcement/mentioned-names.ts";
import { createNotFoundReplies, isNotFound } from "./enforcement/not-found-replies.ts";
import { createRefusalWriter, type RefusalOptions } from "./enforcement/refusals.ts";
import { createTaskResults, mayHoldTaskResult } from "./enforcement/task-results.ts";
import type { DecisionListener } from "./provider/decision-event.ts";
import { completionReference, type PolicyProvider, type PolicyRefusal } from "./provider/provider.ts";

export interface EnforcementOptions {
  readonly provider: PolicyProvider;
  /** In shadow mode decisions are made and reported, and every message passes unchanged. */
  readonly mode: "enforce" | "shadow";
  readonly refusals: RefusalOptions;
  /** Creates ids that are unique in this process and not secret. */
  readonly newDecisionId: () => string;
  /** Called for every decision, including those that allow. */
  readonly onDecision?: DecisionListener | undefined;
  /** The route's limits, for changed messages. */
  readonly limits?: ParseLimits | undefined;
}

/**
 * Creates the interceptor that enforces policy: the only place that does. Every message is evaluated on its own before it
 * goes on, in either direction, and so is every message that it carries inside. The evaluated form is what goes on;
 * without a decision nothing does. A decision that is ready does not delay the message.
 */
export function createEnforcement(options: EnforcementOptions): Interceptor {
  const evaluator = createEvaluator({ ...options, isEnforced: options.mode === "enforce" });
  if (options.mode === "shadow") return createShadowEnforcement(evaluator);
  const notFound = createNotFoundReplies();
  const writeRefusal = createRefusalWriter(options.refusals, notFound);
  const hiddenNames = createHiddenNames(evaluator);
  const inputs = createInputRequestChecks(evaluator);
  const tasks = createTaskResults(evaluator);
  const ordering = createNotificationOrdering();

  function checkRequest(subject: InspectedMessage): MaybePromise<CheckOutcome> {
    const { message } = subject;
    const { method = "" } = message;
    const problem = uriRefusal(message, method);
    if (problem !== undefined) return evaluator.refuse(subject, problem.reason, problem);
    const outcome = evaluator.evaluate(subject, undefined);
    if (!mayNameHidden(method) && !hasInputResponses(message)) return outcome;
    return thenCheck(subject, outcome, (evaluated, memory) =>
      thenCheck(evaluated, hiddenNames.checkRequest(evaluated, memory), (visible, kept) => {
        if (mayHoldTaskResult(method)) return checkTaskNotification(visible);
        return hasInputResponses(visible.message)
          ? inputs.checkInputResponses(visible, kept)
          : { type: "pass", message: visible.message, memory: kept };
      }),
    );
  }

  function checkTaskNotification(subject: InspectedMessage): MaybePromise<CheckOutcome> {
    const outcome = tasks.checkResult(subject);
    return hasInputRequests(subject.message)
      ? thenCheck(subject, outcome, (next) => inputs.checkInputRequests(next))
      : outcome;
  }

  /** Checks what a response carries inside, then the response as it is after that. */
  function checkResponse(subject: InspectedMessage, reply: Reply, memory: unknown): MaybePromise<CheckOutcome> {
    const { message, method = "" } = subject;
    const isList = listShapeOf(method) !== undefined;
    const isTask = mayHoldTaskResult(method);
    const asksForInput = hasInputRequests(message);
    if (subject.direction === "server-to-client" && asksForUrls(message))
      return thenCheck(subject, inputs.checkUrlElicitations(subject), (next) => evaluator.evaluate(next, memory));
    const mayName = isList || mayNameHidden(method) || (evaluator.hidesNames && mayMentionResource(message));
    if (message.kind !== "result" || !(mayName || isTask || asksForInput)) return evaluator.evaluate(subject, memory);
    let outcome = isList ? filterListPage(subject, evaluator) : hiddenNames.checkResult(subject);
    if (isTask) outcome = thenCheck(subject, outcome, (next) => tasks.checkResult(next));
    // Input requests that the bridge put into a result were evaluated when the server sent them.
    if (asksForInput && reply.hasCheckedInputRequests !== true)
      outcome = thenCheck(subject, outcome, (next) => inputs.checkInputRequests(next));
    return thenCheck(subject, outcome, (next) => evaluator.evaluate(next, memory));
  }

  function handleReply(
    forwarded: Exchange,
    request: RequestMessage,
    memory: unknown,
    reply: Reply,
  ): MaybePromise<Reply> {
    if (reply.message === undefined) return reply;
    // A modern client answers with a retry, which was evaluated as a request.
    if (forwarded.direction === "server-to-client" && forwarded.era === "modern") return reply;
    const subject = InspectedMessage.answering(forwarded, request, reply.message);
    if (evaluator.hidesNames) {
      notFound.observe(forwarded, request, reply.message, isOpen(forwarded.reply));
      // The server's words must not distinguish an unknown name from a hidden one.
      if (isNotFound(forwarded, request, reply.message)) return notFound.replyFor(forwarded, request);
    }
    return andThen(checkResponse(subject, reply, memory), (outcome) => {
      if (outcome.type === "refuse") return writeRefusal(subject, outcome.refusal, outcome.decisionId);
      tasks.remember(subject, request, memory);
      const message = withPrivateCache(withCheckedMessage(subject, outcome.message), evaluator);
      return message === reply.message ? reply : { ...reply, message };
    });
  }

  function forward(subject: InspectedMessage, next: Handler, outcome: CheckOutcome): Promise<Reply> {
    if (outcome.type === "refuse") return refuse(subject, next, outcome);
    const { memory } = outcome;
    const forwarded = toForwarded(subject.exchange, outcome.message);
    const { message } = forwarded;
    const reply = next(forwarded);
    if (message.kind !== "request") return reply;
    return reply.then((answer) => {
      const earlier = ordering.pendingBefore(forwarded);
      return earlier === undefined
        ? handleReply(forwarded, message, memory, answer)
        : earlier.then(() => handleReply(forwarded, message, memory, answer));
    });
  }

  async function refuse(
    subject: InspectedMessage,
    next: Handler,
    { refusal, decisionId }: RefuseOutcome,
  ): Promise<Reply> {
    const { message, exchange } = subject;
    const reply = writeRefusal(subject, refusal, decisionId);
    // The peer still waits for a response, so the refusal takes the place of a refused one.
    const isResponse = message.kind === "result" || message.kind === "error";
    return isResponse && reply.message !== undefined ? next(withMessage(exchange, reply.message)) : reply;
  }

  return (next) =>
    function enforce(exchange) {
      const subject = InspectedMessage.of(exchange);
      const outcome = checkRequest(subject);
      if (!isPromise(outcome)) return forward(subject, next, outcome);
      const reply = outcome.then((late) => forward(subject, next, late));
      ordering.track(exchange, reply);
      return reply;
    };
}

/**
 * Creates the function that reduces a list to what a caller may see, for lists that no client requested: decisions
 * about them are not reported. Undefined if there may be nothing.
 */
export function createListFilter(
  options: Omit<EnforcementOptions, "onDecision" | "refusals">,
): (exchange: Exchange, request: RequestMessage, list: Message) => MaybePromise<Message | undefined> {
  if (options.mode === "shadow") return (_exchange, _request, list) => list;
  const evaluator = createEvaluator({ ...options, onDecision: undefined, isEnforced: true });
  return (exchange, request, list) =>
    andThen(filterListPage(InspectedMessage.answering(exchange, request, list), evaluator), (outcome) =>
      outcome.type === "refuse" ? undefined : outcome.message,
    );
}

/** Refuses a URI that the server could read as another name than the policy does. */
function uriRefusal(message: Message, method: string): PolicyRefusal | undefined {
  if (message.kind !== "request") return undefined;
  const isCompletion = method === "completion/complete";
  if (!isCompletion && methodFacts(method)?.target !== "resource") return undefined;
  const reference = isCompletion ? completionReference(message) : undefined;
  const uri = isCompletion
    ? reference?.kind === "resource"
      ? reference.name
      : undefined
    : memberString(message, "params.uri");
  if (uri === undefined || (isCompletion && isUriTemplate(uri) && isCanonicalTemplate(uri))) return undefined;
  const canonical = canonicalUri(uri);
  if (canonical === uri) return undefined;
  const advice = canonical === undefined || canonical.length > maxAdvice ? "" : ` Write it as ${canonical}`;
  return { kind: "invalid", code: "uri_not_canonical", reason: `The URI is not in canonical form.${advice}` };
}

/** A longer URI is not repeated to its sender. */
const maxAdvice = 500;

function withCheckedMessage(subject: InspectedMessage, message: Message): InspectedMessage {
  return message === subject.message ? subject : subject.with(message);
}

/** Runs the next check on the message as it passed the one before. */
function thenCheck(
  subject: InspectedMessage,
  outcome: MaybePromise<CheckOutcome>,
  next: (subject: InspectedMessage, memory: unknown) => MaybePromise<CheckOutcome>,
): MaybePromise<CheckOutcome> {
  return andThen(outcome, (passed) =>
    passed.type === "refuse" ? passed : next(withCheckedMessage(subject, passed.message), passed.memory),
  );
}

/** The exchange with the evaluated message, and a stream that cannot bypass evaluation. */
function toForwarded(exchange: Exchange, message: Message): Exchange {
  const { reply } = exchange;
  if (reply?.writeRaw === undefined) return message === exchange.message ? exchange : withMessage(exchange, message);
  return { ...exchange, message, reply: new CheckedReplyStream(reply) };
}

/** A client's stream without `writeRaw`: data that is not JSON cannot be evaluated. */
class CheckedReplyStream implements ReplyStream {
  isOpen = false;
  readonly #stream: ReplyStream;

  constructor(stream: ReplyStream) {
    this.#stream = stream;
  }

  open(): void {
    this.isOpen = true;
    this.#stream.open();
  }

  write(message: Message, label?: string): void | Promise<void> {
    this.isOpen = true;
    return this.#stream.write(message, label);
  }

  pause(retryMs: number): void {
    this.#stream.pause?.(retryMs);
  }
}

function isOpen(reply: ReplyStream | undefined): boolean {
  return reply instanceof CheckedReplyStream && reply.isOpen;
}

/** Keeps a response behind the notifications before it that are still being evaluated, such as progress. */
interface NotificationOrdering {
  track(exchange: Exchange, outcome: Promise<unknown>): void;
  /** What the response to a request has to wait for. */
  pendingBefore(request: Exchange): Promise<void> | undefined;
}

function createNotificationOrdering(): NotificationOrdering {
  const pending = new Map<Tracking, Promise<void>>();
  return {
    track: ({ parent, message }, outcome) => {
      // Other messages inside an exchange are requests, which the client answers in its own time.
      if (parent === undefined || message.kind !== "notification") return;
      const { tracking } = parent;
      const all: Promise<void> = Promise.allSettled([pending.get(tracking), outcome]).then(() => {
        if (pending.get(tracking) === all) pending.delete(tracking);
      });
      pending.set(tracking, all);
    },
    pendingBefore: ({ tracking }) => (pending.size === 0 ? undefined : pending.get(tracking)),
  };
}
