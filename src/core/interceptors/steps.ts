import { isPromise, type MaybePromise } from "../../lib/is-promise.ts";
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
  type PlanOutcome,
  passing,
  planCancel,
  planResult,
  planFault,
  planRelease,
} from "./plan.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import type { HeldMessages } from "./held-messages.ts";

/** The result of asking an interceptor. */
export type InterceptorResult =
  | { readonly type: "action"; readonly action: Action }
  /** It failed, with what was thrown, if anything. */
  | { readonly type: "fault"; readonly problem: string; readonly cause?: unknown }
  /** Nobody waits for the message any more. */
  | { readonly type: "cancelled"; readonly reason: string };

/**
 * Asks an interceptor about a message, within its timeout. Never throws. Synchronous where the interceptor is, so that
 * such messages keep their order.
 */
function ask(
  interceptor: MessageInterceptor,
  inspected: InspectedMessage,
  setTimer: SetTimer,
): MaybePromise<InterceptorResult> {
  const ended = new Cancellation();
  try {
    const answer = interceptor.onMessage(viewOf(inspected, ended));
    if (!isPromise(answer)) return decided(answer);
    const outer = inspected.exchange.cancellation;
    // A query of a database library, say, is no real promise: its `then` may throw.
    return within(interceptor.timeoutMs, Promise.resolve(answer), { outer, ended }, setTimer);
  } catch (thrown) {
    return fault("threw", thrown);
  }
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
  const result = await promise;
  stopTimer();
  stopListening();
  return result;
}

/** Authors in plain JavaScript may forget to return an action, or its reason. */
function decided(action: Action | undefined): InterceptorResult {
  const isAction = typeof action === "object" && action !== null && typeof action.type === "string";
  if (!isAction) return fault("returned no action");
  const hasReason = action.type !== "block" || typeof action.reason === "string";
  return hasReason ? { type: "action", action } : fault("returned `block` without a reason; write block({ reason })");
}

function fault(problem: string, cause?: unknown): InterceptorResult {
  return { type: "fault", problem, cause };
}

/** What one interceptor sees: the shared message, and a signal of its own. */
function viewOf(inspected: InspectedMessage, ended: Cancellation): MessageView {
  const { exchange, message, direction, phase, request } = inspected;
  return {
    exchange,
    message,
    direction,
    phase,
    request,
    get metadata() {
      return inspected.metadata;
    },
    get signal() {
      return ended.signal;
    },
  };
}

/** How many decisions of one auditing interceptor may be pending before messages pass without one. */
const maxPending = 1000;

/**
 * Creates the step of an interceptor in audit mode: every message passes immediately, and decisions are only reported.
 */
export function createAuditingStep(interceptor: MessageInterceptor, deps: InterceptorDeps): InterceptorStep {
  const { clock, setTimer, limits } = deps;
  let pending = 0;

  function reportPassed(invocation: Invocation, plan: ActionPlan, startedAt: number): void {
    report(deps, invocation, { ...plan, outcome: "passed" }, clock.now() - startedAt);
  }

  function observe(invocation: Invocation, result: InterceptorResult, startedAt: number): void {
    const plan = planResult(invocation, result);
    reportPassed(invocation, plan, startedAt);
    if (plan.effect.type === "wait") observe(invocation, { type: "action", action: plan.effect.next }, startedAt);
  }

  async function observeLater(
    invocation: Invocation,
    result: Promise<InterceptorResult>,
    startedAt: number,
  ): Promise<void> {
    pending++;
    observe(invocation, await result, startedAt);
    pending--;
  }

  return (inspected) => {
    const invocation: Invocation = { interceptor, inspected, limits };
    const startedAt = clock.now();
    if (pending >= maxPending) {
      reportPassed(
        invocation,
        planFault(invocation, `has ${maxPending} pending decisions and was not asked`),
        startedAt,
      );
      return passing(inspected);
    }
    const result = ask(interceptor, inspected, setTimer);
    // Not awaited, because an audit must not delay messages; its timeout bounds it.
    if (isPromise(result)) void observeLater(invocation, result, startedAt);
    else observe(invocation, result, startedAt);
    return passing(inspected);
  };
}

type Hold = Effect & { readonly type: "hold" };
type Wait = Effect & { readonly type: "wait" };

/** Creates the step of an interceptor in enforce mode. */
export function createEnforcingStep(interceptor: MessageInterceptor, deps: InterceptorDeps): InterceptorStep {
  const { clock, setTimer, heldMessages, limits } = deps;

  function decide(invocation: Invocation, result: InterceptorResult, startedAt: number): MaybePromise<PlanOutcome> {
    return carryOut(invocation, planResult(invocation, result), startedAt);
  }

  function carryOut(invocation: Invocation, plan: ActionPlan, startedAt: number): MaybePromise<PlanOutcome> {
    report(deps, invocation, plan, clock.now() - startedAt);
    const { effect } = plan;
    if (effect.type === "abandon") throw effect.error;
    if (effect.type === "hold") return hold(invocation, effect);
    return effect.type === "wait" ? wait(invocation, effect) : effect;
  }

  async function hold(invocation: Invocation, { pause }: Hold): Promise<PlanOutcome> {
    const { exchange, message, direction, phase } = invocation.inspected;
    const { timeoutMs, onTimeout = "block", reason } = pause;
    const startedAt = clock.now();
    const release = await heldMessages.hold({
      interceptor: interceptor.name,
      exchange,
      message,
      direction,
      phase,
      timeoutMs,
      onTimeout,
      reason,
      change: (change) => changeIn(invocation, change),
    });
    return carryOut(invocation, planRelease(invocation, release), startedAt);
  }

  async function wait(invocation: Invocation, { ms, next }: Wait): Promise<PlanOutcome> {
    const startedAt = clock.now();
    const cancelled = await sleep(ms, invocation.inspected.exchange, setTimer);
    if (cancelled !== undefined) return carryOut(invocation, planCancel(cancelled), startedAt);
    return decide(invocation, { type: "action", action: next }, startedAt);
  }

  return (inspected) => {
    const invocation: Invocation = { interceptor, inspected, limits };
    const startedAt = clock.now();
    const result = ask(interceptor, inspected, setTimer);
    if (!isPromise(result)) return decide(invocation, result, startedAt);
    return result.then((late) => decide(invocation, late, startedAt));
  };
}

/** Waits this long, or until the exchange is cancelled; then resolves with the reason. */
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
  /** Holds paused messages. */
  readonly heldMessages: HeldMessages;
  /** Called with every decision, also those that let a message pass. */
  readonly onEvent?: InterceptorListener;
  /** Limits for changed messages; the parser's defaults unless given. */
  readonly limits?: ParseLimits;
}

/** Takes a message through one interceptor. */
export type InterceptorStep = (inspected: InspectedMessage) => MaybePromise<PlanOutcome>;

/** Calls the listener. */
function report(deps: InterceptorDeps, invocation: Invocation, plan: ActionPlan, durationMs: number): void {
  if (deps.onEvent === undefined) return;
  const { exchange, direction, phase, message: before } = invocation.inspected;
  const { action, outcome, reason, error } = plan;
  const event: InterceptorEvent = {
    interceptor: invocation.interceptor.name,
    mode: invocation.interceptor.mode,
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
    deps.onEvent(event);
  } catch {
    // SC-062: an observer cannot change traffic, not even by failing.
  }
}

function successorOf(before: Message, { effect }: ActionPlan): Message | undefined {
  if (effect.type === "settle") return effect.message;
  return effect.type === "pass" && effect.message !== before ? effect.message : undefined;
}
