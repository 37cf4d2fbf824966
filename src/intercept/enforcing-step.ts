import type { Exchange, SetTimer } from "../exchange.ts";
import { ask, isThenable } from "./ask.ts";
import type { InterceptorResult } from "./ask.ts";
import type { MessageInterceptor } from "./interceptor.ts";
import { changeIn, planCancel, planDecision, planRelease } from "./plan.ts";
import type { Invocation, Effect, ActionPlan, MessageOutcome } from "./plan.ts";
import { report } from "./runtime.ts";
import type { InterceptorDeps, InterceptorStep } from "./runtime.ts";

type Hold = Effect & { readonly type: "hold" };
type Wait = Effect & { readonly type: "wait" };

/** Makes the step of an interceptor whose decisions are carried out. */
export function createEnforcingStep(
  interceptor: MessageInterceptor,
  runtime: InterceptorDeps,
): InterceptorStep {
  const { clock, setTimer, heldMessages: board, limits } = runtime;

  function decide(
    at: Invocation,
    decision: InterceptorResult,
    startedAt: number,
  ): MessageOutcome | Promise<MessageOutcome> {
    return carryOut(at, planDecision(at, decision), startedAt);
  }

  function carryOut(
    at: Invocation,
    plan: ActionPlan,
    startedAt: number,
  ): MessageOutcome | Promise<MessageOutcome> {
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
