import { type ErrorCode, GatewayError } from "../../errors.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { errorMessage, gatewayErrorMessage, resultMessage } from "../reply.ts";
import type { Action, BlockFacts, MessageChange, MockAnswer, PauseFacts } from "./action.ts";
import type { InterceptorResult } from "./steps.ts";
import { applyChange, type ChangeOutcome } from "./change.ts";
import type { InterceptorEvent, MessageInterceptor } from "./interceptor.ts";
import type { Release } from "./held-messages.ts";
import type { InspectedMessage } from "./inspected-message.ts";
import { isTimerSpan } from "../../lib/timer-span.ts";

/** One interceptor in front of one message. */
export interface Invocation {
  readonly interceptor: MessageInterceptor;
  readonly subject: InspectedMessage;
  readonly limits: ParseLimits | undefined;
}

/** What becomes of a message: it goes on, or it is settled here and something takes its place. */
export type MessageOutcome =
  | { readonly type: "pass"; readonly message: Message }
  /** The answer to a request, or what replaces a response; nothing for a notification, which is dropped. */
  | { readonly type: "settle"; readonly message: Message | undefined; readonly status?: number };

/** What a decision comes to for one message, before anything is done or told. */
export type ActionPlan = Pick<InterceptorEvent, "action" | "outcome" | "reason" | "error"> & {
  readonly effect: Effect;
};

/** What is to be done. */
export type Effect =
  | MessageOutcome
  | { readonly type: "hold"; readonly pause: PauseFacts }
  | { readonly type: "wait"; readonly ms: number; readonly next: Action }
  /** Nobody is left to answer: the exchange ends with this error. */
  | { readonly type: "abandon"; readonly error: GatewayError };

/** Works out what a decision means for a message. Never throws: an action that means nothing there is a fault. */
export function planDecision(at: Invocation, decision: InterceptorResult): ActionPlan {
  if (decision.type === "fault") return planFault(at, decision.problem, decision.cause);
  if (decision.type === "cancelled") return planCancel(decision.reason);
  try {
    return planAction(at, decision.action);
  } catch (thrown) {
    return planFault(at, "returned an action that cannot be carried out", thrown);
  }
}

/** Works out what the end of a pause means for the message that was held. */
export function planRelease(at: Invocation, release: Release): ActionPlan {
  switch (release.type) {
    case "resume":
      return planPass(at, "resume", release.reason);
    case "modify":
      return planChange(release.message);
    case "block":
      return planBlock(at, release);
    case "cancelled":
      return planCancel(release.reason);
  }
}

/** The plan for a message that nobody waits for any more. */
export function planCancel(reason: string): ActionPlan {
  const error = new GatewayError("cancelled", reason);
  return plan("cancel", "cancelled", reason, { type: "abandon", error }, error);
}

/** The message of a case with a change applied, as strictly checked as any. */
export function changeIn({ subject, limits }: Invocation, change: MessageChange): ChangeOutcome {
  return applyChange(subject.message, change, { revision: subject.exchange.revision, limits });
}

/** The verdict that lets a message go on as it is. */
export function passing(subject: InspectedMessage): MessageOutcome {
  return { type: "pass", message: subject.message };
}

function planAction(at: Invocation, action: Action): ActionPlan {
  switch (action.type) {
    case "continue":
      return planPass(at, "continue");
    case "modify": {
      const outcome = changeIn(at, action.change);
      return outcome.ok
        ? planChange(outcome.message, action.reason)
        : planFault(at, `made a change that cannot be: ${outcome.problem}`);
    }
    case "block":
      return planBlock(at, { ...action, error: "policy_denied" });
    case "mock":
      return planMock(at, action.answer, action.reason);
    case "pause": {
      if (!isTimerSpan(action.timeoutMs)) return planFault(at, `cannot pause for ${action.timeoutMs} ms`);
      return plan("pause", "held", action.reason, { type: "hold", pause: action });
    }
    case "delay": {
      const { ms, next } = action;
      if (!isTimerSpan(ms)) return planFault(at, `cannot delay for ${ms} ms`);
      return plan("delay", "delayed", `for ${ms} ms`, { type: "wait", ms, next });
    }
    default:
      return planFault(at, "returned an unknown action");
  }
}

function planPass({ subject }: Invocation, action: "continue" | "resume", reason?: string): ActionPlan {
  return plan(action, "passed", reason, passing(subject));
}

function planChange(message: Message, reason?: string): ActionPlan {
  return plan("modify", "changed", reason, { type: "pass", message });
}

/** A refusal by decision, with an error of the table or a positive code of the interceptor. */
function planBlock(at: Invocation, denial: BlockFacts & { readonly error: ErrorCode }): ActionPlan {
  const { code, reason } = denial;
  const error = errorIn(at, denial.error, reason);
  // MCP 2026-07-28, "Error codes": codes of applications lie outside the reserved range.
  const isOwn = code !== undefined && Number.isSafeInteger(code) && code > 0;
  return plan("block", "blocked", reason, settle(at, error, isOwn ? code : error.facts.jsonrpc), error);
}

/** The plan for an interceptor that failed: its message goes on if it fails open, else it is refused as our fault. */
export function planFault(at: Invocation, problem: string, cause: unknown = problem): ActionPlan {
  const { name, failOpen } = at.interceptor;
  // The peer learns which interceptor failed; how is for the log alone.
  const error = errorIn(at, "internal", `interceptor ${name} failed`, cause);
  return failOpen
    ? plan("fault", "passed", problem, passing(at.subject), error)
    : plan("fault", "blocked", problem, settle(at, error, error.facts.jsonrpc), error);
}

function planMock(at: Invocation, answer: MockAnswer, reason: string | undefined): ActionPlan {
  const id = at.subject.answerId;
  if (id === undefined) return planFault(at, "answered a message that has no answer");
  const message =
    "error" in answer
      ? errorMessage(id, answer.error)
      : resultMessage(id, JSON.stringify(withResultType(at, answer.result)));
  return plan("mock", "answered", reason, { type: "settle", message });
}

/** MCP 2026-07-28, "Base protocol": a result says what it is; a mock that does not is complete. */
function withResultType({ subject }: Invocation, result: Readonly<Record<string, unknown>>): unknown {
  const isUntyped = subject.exchange.era === "modern" && result["resultType"] === undefined;
  return isUntyped ? { ...result, resultType: "complete" } : result;
}

function errorIn({ interceptor, subject }: Invocation, code: ErrorCode, text: string, cause?: unknown): GatewayError {
  // A response is refused after the effect, and whoever reads the error must be able to tell.
  const executed = subject.request === undefined ? {} : { executed: true };
  const details = { interceptor: interceptor.name, ...executed };
  return new GatewayError(code, text, cause === undefined ? { details } : { details, cause });
}

function settle({ subject }: Invocation, error: GatewayError, code: number | undefined): MessageOutcome {
  const { exchange, answerId } = subject;
  if (answerId === undefined || code === undefined) return { type: "settle", message: undefined };
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
