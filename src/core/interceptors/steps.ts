import { Cancellation } from "../cancellation.ts";
import { type Clock, type Exchange, type SetTimer } from "../exchange.ts";
import type { Action } from "./action.ts";
import type { InterceptorEvent, InterceptorListener, MessageInterceptor, MessageView } from "./interceptor.ts";
import type { InspectedMessage } from "./inspected-message.ts";
import {
  type ActionPlan,
  changeIn,
  type Effect,
  type Invocation,
  type MessageOutcome,
  passing,
  planCancel,
  planDecision,
  planFault,
  planRelease,
} from "./plan.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import type { HeldMessages } from "./held-messages.ts";

/** What came of asking an interceptor. */
export type InterceptorResult =
  | { readonly type: "action"; readonly action: Action }
  /** It failed: how, and what was thrown, if anything. */
  | { readonly type: "fault"; readonly problem: string; readonly cause?: unknown }
  /** Nobody waits for the message any more. */
  | { readonly type: "cancelled"; readonly reason: string };

/**
 * Asks an interceptor about a message, within its time. Never throws; answers at once where the interceptor does, so
 * that messages which need no waiting keep their order without any.
 */
function ask(
  interceptor: MessageInterceptor,
  subject: InspectedMessage,
  setTimer: SetTimer,
): InterceptorResult | Promise<InterceptorResult> {
  const ended = new Cancellation();
  try {
    const answer = interceptor.onMessage(new View(subject, ended));
    if (!isThenable(answer)) return decided(answer);
    const outer = subject.exchange.cancellation;
    return within(interceptor.timeoutMs, answer, { outer, ended }, setTimer);
  } catch (thrown) {
    return fault("threw", thrown);
  }
}

/** Whether a decision, or anything else, is still to come. */
export function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}

async function within(
  timeoutMs: number,
  answer: Promise<Action>,
  { outer, ended }: { readonly outer: Cancellation; readonly ended: Cancellation },
  setTimer: SetTimer,
): Promise<InterceptorResult> {
  const { promise, resolve } = Promise.withResolvers<InterceptorResult>();
  const stopTimer = setTimer(timeoutMs, () => {
    ended.cancel("timeout");
    resolve(fault(`did not decide within ${timeoutMs} ms`));
  });
  const stopListening = outer.onCancel((reason) => {
    ended.cancel(reason);
    resolve({ type: "cancelled", reason });
  });
  answer.then(
    (action) => resolve(decided(action)),
    (thrown: unknown) => resolve(fault("threw", thrown)),
  );
  const decision = await promise;
  stopTimer();
  stopListening();
  return decision;
}

/** Authors in plain JavaScript may forget to return an action. */
function decided(action: Action | undefined): InterceptorResult {
  const isAction = typeof action === "object" && action !== null && typeof action.type === "string";
  return isAction ? { type: "action", action } : fault("returned no action");
}

function fault(problem: string, cause?: unknown): InterceptorResult {
  return { type: "fault", problem, cause };
}

/** One view for one interceptor: the shared subject, and a signal of its own. */
class View implements MessageView {
  readonly #subject: InspectedMessage;
  readonly #ended: Cancellation;

  constructor(subject: InspectedMessage, ended: Cancellation) {
    this.#subject = subject;
    this.#ended = ended;
  }

  get exchange(): MessageView["exchange"] {
    return this.#subject.exchange;
  }

  get message(): MessageView["message"] {
    return this.#subject.message;
  }

  get metadata(): MessageView["metadata"] {
    return this.#subject.metadata;
  }

  get direction(): MessageView["direction"] {
    return this.#subject.direction;
  }

  get phase(): MessageView["phase"] {
    return this.#subject.phase;
  }

  get request(): MessageView["request"] {
    return this.#subject.request;
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }
}

/** How many decisions of one auditing interceptor may be under way before messages go by unasked. */
const maxUnderWay = 1000;

/** Makes the step of an interceptor that is only asked what it would do: every message goes on, and at once. */
export function createAuditingStep(interceptor: MessageInterceptor, runtime: InterceptorDeps): InterceptorStep {
  const { clock, setTimer, limits } = runtime;
  let underWay = 0;

  function tell(at: Invocation, plan: ActionPlan, startedAt: number): void {
    report(runtime, at, { ...plan, outcome: "passed" }, clock.now() - startedAt);
  }

  function observe(at: Invocation, decision: InterceptorResult, startedAt: number): void {
    const plan = planDecision(at, decision);
    tell(at, plan, startedAt);
    if (plan.effect.type === "wait") observe(at, { type: "action", action: plan.effect.next }, startedAt);
  }

  async function observeLater(at: Invocation, decision: Promise<InterceptorResult>, startedAt: number): Promise<void> {
    underWay++;
    observe(at, await decision, startedAt);
    underWay--;
  }

  return (subject) => {
    const at: Invocation = { interceptor, subject, limits };
    const startedAt = clock.now();
    if (underWay >= maxUnderWay) {
      tell(at, planFault(at, `has ${maxUnderWay} decisions under way and was not asked`), startedAt);
      return passing(subject);
    }
    const decision = ask(interceptor, subject, setTimer);
    // Not awaited, or an audit would delay what it must not change; its end is bounded by its timeout.
    if (isThenable(decision)) void observeLater(at, decision, startedAt);
    else observe(at, decision, startedAt);
    return passing(subject);
  };
}

type Hold = Effect & { readonly type: "hold" };
type Wait = Effect & { readonly type: "wait" };

/** Makes the step of an interceptor whose decisions are carried out. */
export function createEnforcingStep(interceptor: MessageInterceptor, runtime: InterceptorDeps): InterceptorStep {
  const { clock, setTimer, heldMessages: board, limits } = runtime;

  function decide(
    at: Invocation,
    decision: InterceptorResult,
    startedAt: number,
  ): MessageOutcome | Promise<MessageOutcome> {
    return carryOut(at, planDecision(at, decision), startedAt);
  }

  function carryOut(at: Invocation, plan: ActionPlan, startedAt: number): MessageOutcome | Promise<MessageOutcome> {
    report(runtime, at, plan, clock.now() - startedAt);
    const { effect } = plan;
    if (effect.type === "abandon") throw effect.error;
    if (effect.type === "hold") return hold(at, effect);
    return effect.type === "wait" ? wait(at, effect) : effect;
  }

  async function hold(at: Invocation, { pause }: Hold): Promise<MessageOutcome> {
    const { exchange, message, direction, phase } = at.subject;
    const { timeoutMs, onTimeout = "block", reason } = pause;
    const startedAt = clock.now();
    const release = await board.hold({
      interceptor: interceptor.name,
      exchange,
      message,
      direction,
      phase,
      timeoutMs,
      onTimeout,
      reason,
      change: (change) => changeIn(at, change),
    });
    return carryOut(at, planRelease(at, release), startedAt);
  }

  async function wait(at: Invocation, { ms, next }: Wait): Promise<MessageOutcome> {
    const startedAt = clock.now();
    const cancelled = await sleep(ms, at.subject.exchange, setTimer);
    if (cancelled !== undefined) return carryOut(at, planCancel(cancelled), startedAt);
    return decide(at, { type: "action", action: next }, startedAt);
  }

  return (subject) => {
    const at: Invocation = { interceptor, subject, limits };
    const startedAt = clock.now();
    const decision = ask(interceptor, subject, setTimer);
    if (!isThenable(decision)) return decide(at, decision, startedAt);
    return decision.then((late) => decide(at, late, startedAt));
  };
}

/** Waits so long, or until nobody waits for the exchange any more; then the reason is the answer. */
async function sleep(ms: number, exchange: Exchange, setTimer: SetTimer): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const stopTimer = setTimer(ms, () => resolve(undefined));
  const stopListening = exchange.cancellation.onCancel(resolve);
  const reason = await promise;
  stopTimer();
  stopListening();
  return reason;
}

/** What interceptors are run with. */
export interface InterceptorDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Where paused messages are held. */
  readonly heldMessages: HeldMessages;
  /** Told of every decision, those to go on included. */
  readonly onEvent?: InterceptorListener;
  /** Bounds for changed messages, those of the route; the parser's own unless given. */
  readonly limits?: ParseLimits;
}

/** Takes a message through one interceptor: at once where it decides at once, else in a while. */
export type InterceptorStep = (subject: InspectedMessage) => MessageOutcome | Promise<MessageOutcome>;

/** Tells the listener of a decision. */
function report(runtime: InterceptorDeps, at: Invocation, plan: ActionPlan, durationMs: number): void {
  if (runtime.onEvent === undefined) return;
  const { exchange, direction, phase, message: before } = at.subject;
  const { action, outcome, reason, error } = plan;
  const event: InterceptorEvent = {
    interceptor: at.interceptor.name,
    mode: at.interceptor.mode,
    exchange,
    direction,
    phase,
    action,
    outcome,
    reason,
    durationMs,
    before,
    after: successorOf(before, plan),
    error,
  };
  try {
    runtime.onEvent(event);
  } catch {
    // SC-062: whoever observes cannot change traffic, not even by failing.
  }
}

function successorOf(before: Message, { effect }: ActionPlan): Message | undefined {
  if (effect.type === "settle") return effect.message;
  return effect.type === "pass" && effect.message !== before ? effect.message : undefined;
}
