import { withMessage } from "../exchange.ts";
import type { Exchange, ReplyStream } from "../exchange.ts";
import { Subject } from "../intercept/subject.ts";
import type { Handler, Interceptor, Reply } from "../pipeline.ts";
import { memberString } from "../protocol/json/read.ts";
import type { Message, ParseLimits, RequestMessage } from "../protocol/message.ts";
import type { DecisionListener } from "./decision.ts";
import { createHiddenNames } from "./enforcement/hidden-names.ts";
import { andThen, createJudge, isRuled } from "./enforcement/judge.ts";
import type { Refused, Ruling, Soon } from "./enforcement/judge.ts";
import { filterPage, isListMethod, withPrivateCache } from "./enforcement/lists.ts";
import { mayMention } from "./enforcement/mentions.ts";
import { traitsOf } from "./enforcement/method-traits.ts";
import { plainUriProblem } from "./enforcement/plain-uri.ts";
import { createPrecedence } from "./enforcement/precedence.ts";
import { asksForInput, bringsInput, createQuestions } from "./enforcement/questions.ts";
import { createRefusals } from "./enforcement/refusals.ts";
import type { RefusalSettings } from "./enforcement/refusals.ts";
import { createShadow } from "./enforcement/shadow.ts";
import { createTaskResults, holdsTask } from "./enforcement/task-results.ts";
import { createUnknownForms } from "./enforcement/unknown-forms.ts";
import type { Denial, PolicyProvider } from "./provider.ts";

/** What enforcement is made of. */
export interface EnforcementOptions {
  readonly provider: PolicyProvider;
  /** In shadow mode everything is decided and told, and nothing is changed, refused or kept waiting. */
  readonly mode: "enforce" | "shadow";
  readonly refusals: RefusalSettings;
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
  const judge = createJudge({ ...options, isEnforced: options.mode === "enforce" });
  if (options.mode === "shadow") return createShadow(judge);
  const forms = createUnknownForms();
  const refuse = createRefusals(options.refusals, forms);
  const names = createHiddenNames(judge, limits);
  const questions = createQuestions(judge, limits);
  const tasks = createTaskResults(judge, limits);
  const precedence = createPrecedence();

  /** Decides about a message that asks, and about everything that it carries. */
  function ask(subject: Subject): Soon<Ruling> {
    const { message } = subject;
    const { hasUri, isAboutNames } = traitsOf(message.method);
    const problem = hasUri ? uriProblemOf(message) : undefined;
    if (problem !== undefined) return judge.fail(subject, problem.reason, problem);
    const ruling = judge.judge(subject, undefined);
    if (!isAboutNames && !bringsInput(message)) return ruling;
    return andThen(ruling, (first) => {
      if (first.type === "refuse") return first;
      return andThen(names.asked(at(subject, first.message), first.memory), (second) => {
        if (second.type === "refuse") return second;
        if (holdsTask(message.method)) return taskNotice(at(subject, second.message));
        return bringsInput(second.message)
          ? questions.answered(at(subject, second.message), second.memory)
          : second;
      });
    });
  }

  /** Decides about what a notification says of a task: its result, and what its server wants to know. */
  function taskNotice(subject: Subject): Soon<Ruling> {
    const ruling = tasks.ended(subject);
    return asksForInput(subject.message) ? then(subject, ruling, (next) => questions.asked(next)) : ruling;
  }

  /** Decides about an answer: first what must not be named or asked is taken out or refused, then the answer as it is. */
  function review(subject: Subject, reply: Reply, memory: unknown): Soon<Ruling> {
    const { message, method } = subject;
    // Most answers hold nothing that has to be looked at by itself.
    const isPlain =
      !traitsOf(method).hasRichAnswer && !asksForInput(message) && !(judge.seesLists && mayMention(message));
    if (isPlain || message.kind !== "result") return judge.judge(subject, memory);
    let ruling = isListMethod(method) ? filterPage(subject, judge) : names.answered(subject);
    if (holdsTask(method)) ruling = then(subject, ruling, (next) => tasks.ended(next));
    // Questions that a bridge put into a result have been decided about when they were asked.
    if (asksForInput(message) && reply.hasJudgedQuestions !== true)
      ruling = then(subject, ruling, (next) => questions.asked(next));
    return then(subject, ruling, (next) => judge.judge(next, memory));
  }

  function answer(forwarded: Exchange, request: RequestMessage, memory: unknown, reply: Reply): Soon<Reply> {
    if (reply.message === undefined) return reply;
    // A modern client answers in a retry, and that has been decided about.
    if (forwarded.direction === "server-to-client" && forwarded.era === "modern") return reply;
    const subject = Subject.answering(forwarded, request, reply.message);
    forms.learn(forwarded, request, reply, forwarded.reply instanceof JudgedStream && forwarded.reply.isOpen);
    const ruling = review(subject, reply, memory);
    return isRuled(ruling)
      ? deliver(subject, request, memory, reply, ruling)
      : ruling.then((late) => deliver(subject, request, memory, reply, late));
  }

  function deliver(
    subject: Subject,
    request: RequestMessage,
    memory: unknown,
    reply: Reply,
    ruling: Ruling,
  ): Reply {
    if (ruling.type === "refuse") return refuse(subject, ruling.denial, ruling.decision);
    const message = withPrivateCache(subject, ruling.message, limits);
    tasks.began(subject, request, memory);
    return message === reply.message ? reply : { ...reply, message };
  }

  function carryOn(subject: Subject, next: Handler, ruling: Ruling): Promise<Reply> {
    if (ruling.type === "refuse") return refused(subject, next, ruling);
    const { memory } = ruling;
    const forwarded = onward(subject.exchange, ruling.message);
    const { message } = forwarded;
    const reply = next(forwarded);
    if (message.kind !== "request") return reply;
    return reply.then((said) => {
      const earlier = precedence.before(forwarded);
      return earlier === undefined
        ? answer(forwarded, message, memory, said)
        : earlier.then(() => answer(forwarded, message, memory, said));
    });
  }

  async function refused(subject: Subject, next: Handler, { denial, decision }: Refused): Promise<Reply> {
    const { message, exchange } = subject;
    const reply = refuse(subject, denial, decision);
    // Whoever waits for an answer still has to get one: the refusal takes its place.
    const isAnswer = message.kind === "result" || message.kind === "error";
    return isAnswer && reply.message !== undefined ? next(withMessage(exchange, reply.message)) : reply;
  }

  return (next) => (exchange) => {
    const subject = Subject.of(exchange);
    const ruling = ask(subject);
    if (isRuled(ruling)) return carryOn(subject, next, ruling);
    const outcome = ruling.then((late) => carryOn(subject, next, late));
    precedence.follow(exchange, outcome);
    return outcome;
  };
}

/** The no to a request for a resource that is written so that a server could read another name than a policy does. */
function uriProblemOf(message: Message): Denial | undefined {
  if (message.kind !== "request") return undefined;
  const uri = memberString(message, "params.uri");
  const problem = uri === undefined ? undefined : plainUriProblem(uri);
  if (problem === undefined) return undefined;
  const reason = `the URI cannot be decided about, because ${problem}; write it plainly`;
  return { kind: "invalid", code: "uri_not_plain", reason };
}

/** The subject with its message as it stands after a check. */
function at(subject: Subject, message: Message): Subject {
  return message === subject.message ? subject : subject.with(message);
}

/** The next check, on what the one before has let pass. */
function then(
  subject: Subject,
  ruling: Soon<Ruling>,
  next: (subject: Subject) => Soon<Ruling>,
): Soon<Ruling> {
  return andThen(ruling, (known) => (known.type === "refuse" ? known : next(at(subject, known.message))));
}

/** The exchange as it goes on: with what was decided about, and without a way around decisions for its answer. */
function onward(exchange: Exchange, message: Message): Exchange {
  const { reply } = exchange;
  if (reply?.writeRaw === undefined)
    return message === exchange.message ? exchange : withMessage(exchange, message);
  return { ...exchange, message, reply: new JudgedStream(reply) };
}

/** A client's stream that takes messages alone: what is no JSON cannot be decided about. */
class JudgedStream implements ReplyStream {
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
