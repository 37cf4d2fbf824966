import type { Clock, SetTimer } from "../exchange.ts";
import type { Message, ParseLimits } from "../protocol/message.ts";
import type { InterceptorListener, InterceptorEvent } from "./event.ts";
import type { HeldMessages } from "./pause-board.ts";
import type { Invocation, ActionPlan, MessageOutcome } from "./plan.ts";
import type { InspectedMessage } from "./subject.ts";

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
export function report(runtime: InterceptorDeps, at: Invocation, plan: ActionPlan, durationMs: number): void {
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
