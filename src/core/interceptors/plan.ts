import { type ErrorCode, GatewayError } from "../../errors.ts";
import { isTimerSpan } from "../../lib/timeout.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { errorMessage, gatewayErrorMessage, resultMessage } from "../reply.ts";
import type { Action, BlockOptions, MessageChange, MockAnswer, PauseOptions } from "./action.ts";
import type { Release } from "./held-messages.ts";
import { applyChange, type ChangeOutcome, type InspectedMessage } from "./inspected-message.ts";
import type { InterceptorEvent, MessageInterceptor } from "./interceptor.ts";
import type { InterceptorResult } from "./steps.ts";

/** One interceptor asked about one message. */
export interface Invocation {
  readonly interceptor: MessageInterceptor;
  readonly inspected: InspectedMessage;
  readonly limits: ParseLimits | undefined;
}

/** What happens to a message: it passes, or it is settled here and something takes its place. */
export type PlanOutcome =
  | { readonly type: "pass"; readonly message: Message }
  /** The answer to a request, or the replacement of a response; undefined for a dropped notification. */
  | {
      readonly type: "settle";
      readonly message: Message | undefined;
      readonly status?: number;
      /** Why a notification was dropped. */
      readonly dropped?: ErrorCode;
    };

/** What an interceptor's result means for a message, before anything is done or reported. */
export type ActionPlan = Pick<InterceptorEvent, "action" | "outcome" | "reason" | "error"> & {
  readonly effect: Effect;
};

/** What to do. */
export type Effect =
  | PlanOutcome
  | { readonly type: "hold"; readonly pause: PauseOptions }
  | { readonly type: "wait"; readonly ms: number; readonly next: Action }
  /** Nobody waits for an answer: the exchange ends with this error. */
  | { readonly type: "abandon"; readonly error: GatewayError };

/** Plans the result of an interceptor. Never throws: an action that makes no sense for the message is a fault. */
export function planResult(invocation: Invocation, result: InterceptorResult): ActionPlan {
  if (result.type === "fault") return planFault(invocation, result.problem, result.cause);
  if (result.type === "cancelled") return planCancel(result.reason);
  try {
    return planAction(invocation, result.action);
  } catch (thrown) {
    return planFault(invocation, "returned an action that cannot be carried out", thrown);
  }
}

/** Plans the end of a pause. */
export function planRelease(invocation: Invocation, release: Release): ActionPlan {
  switch (release.type) {
    case "resume":
      return planPass(invocation, "resume", release.reason);
    case "modify":
      return planChange(release.message);
    case "block":
      return planBlock(invocation, release);
    case "answer":
      return planMock(invocation, release.answer, "answered by hand");
    case "cancelled":
      return planCancel(release.reason);
  }
}

/** Plans the cancellation of a message. */
export function planCancel(reason: string): ActionPlan {
  const error = new GatewayError("cancelled", reason);
  return plan("cancel", "cancelled", reason, { type: "abandon", error }, error);
}

/** Applies a change to the message, with all checks. */
export function changeIn({ inspected, limits }: Invocation, change: MessageChange): ChangeOutcome {
  return applyChange(inspected.message, change, { revision: inspected.exchange.revision, limits });
}

/** The outcome that lets a message pass unchanged. */
export function passing(inspected: InspectedMessage): PlanOutcome {
  return { type: "pass", message: inspected.message };
}

function planAction(invocation: Invocation, action: Action): ActionPlan {
  switch (action.type) {
    case "continue":
      return planPass(invocation, "continue");
    case "modify": {
      const outcome = changeIn(invocation, action.change);
      return outcome.ok
        ? planChange(outcome.message, action.reason)
        : planFault(invocation, `made an invalid change: ${outcome.problem}`);
    }
    case "block":
      return planBlock(invocation, { ...action, error: "policy_denied" });
    case "mock":
      return planMock(invocation, action.answer, action.reason);
    case "pause": {
      if (!isTimerSpan(action.timeoutMs)) return planFault(invocation, `cannot pause for ${action.timeoutMs} ms`);
      return plan("pause", "held", action.reason, { type: "hold", pause: action });
    }
    case "delay": {
      const { ms, next } = action;
      if (!isTimerSpan(ms)) return planFault(invocation, `cannot delay for ${ms} ms`);
      if (delaysIn(action) > maxDelays) return planFault(invocation, `delays more than ${maxDelays} times in a row`);
      return plan("delay", "delayed", `for ${ms} ms`, { type: "wait", ms, next });
    }
    default:
      return planFault(invocation, "returned an unknown action");
  }
}

/** How many delays may follow each other: one whose next action is itself would never end. */
const maxDelays = 16;

function delaysIn(action: Action): number {
  let count = 0;
  for (let next = action; next.type === "delay" && count <= maxDelays; next = next.next) count++;
  return count;
}

function planPass({ inspected }: Invocation, action: "continue" | "resume", reason?: string): ActionPlan {
  return plan(action, "passed", reason, passing(inspected));
}

function planChange(message: Message, reason?: string): ActionPlan {
  return plan("modify", "changed", reason, { type: "pass", message });
}

/** A refusal by result, with an error of the table or a positive code of the interceptor. */
function planBlock(invocation: Invocation, refusal: BlockOptions & { readonly error: ErrorCode }): ActionPlan {
  const { code, reason } = refusal;
  const error = errorIn(invocation, refusal.error, reason);
  // MCP 2026-07-28, "Error codes": application codes are outside the reserved range.
  const isOwn = code !== undefined && Number.isSafeInteger(code) && code > 0;
  return plan("block", "blocked", reason, settle(invocation, error, isOwn ? code : error.facts.jsonrpc), error);
}

/** Plans the failure of an interceptor: the message passes if it fails open, else it is refused. */
export function planFault(invocation: Invocation, problem: string, cause: unknown = problem): ActionPlan {
  const { name, failOpen } = invocation.interceptor;
  // The peer learns which interceptor failed; the cause is only logged.
  const error = errorIn(invocation, "internal", `interceptor ${name} failed`, cause);
  return failOpen
    ? plan("fault", "passed", problem, passing(invocation.inspected), error)
    : plan("fault", "blocked", problem, settle(invocation, error, error.facts.jsonrpc), error);
}

function planMock(invocation: Invocation, answer: MockAnswer, reason: string | undefined): ActionPlan {
  const id = invocation.inspected.answerId;
  if (id === undefined) return planFault(invocation, "answered a message that needs no answer");
  const message =
    "error" in answer
      ? errorMessage(id, answer.error)
      : resultMessage(id, JSON.stringify(withResultType(invocation, answer.result)));
  return plan("mock", "answered", reason, { type: "settle", message });
}

/** MCP 2026-07-28, "Base protocol": results have a type; a mock without one is complete. */
function withResultType({ inspected }: Invocation, result: Readonly<Record<string, unknown>>): unknown {
  const isUntyped = inspected.exchange.era === "modern" && result["resultType"] === undefined;
  return isUntyped ? { ...result, resultType: "complete" } : result;
}

function errorIn({ interceptor, inspected }: Invocation, code: ErrorCode, text: string, cause?: unknown): GatewayError {
  // A refused response comes after the effect, and the error says so.
  const executed = inspected.request === undefined ? {} : { executed: true };
  const details = { interceptor: interceptor.name, ...executed };
  return new GatewayError(code, text, cause === undefined ? { details } : { details, cause });
}

function settle({ inspected }: Invocation, error: GatewayError, code: number | undefined): PlanOutcome {
  const { exchange, answerId } = inspected;
  if (answerId === undefined || code === undefined) {
    return { type: "settle", message: undefined, dropped: error.code };
  }
  const message = gatewayErrorMessage(exchange, answerId, error, code);
  const { http } = error.facts;
  return http === undefined ? { type: "settle", message } : { type: "settle", message, status: http };
}

function plan(
  action: ActionPlan["action"],
  outcome: ActionPlan["outcome"],
  reason: string | undefined,
  effect: Effect,
  error?: GatewayError,
): ActionPlan {
  return { action, outcome, reason, error, effect };
}
