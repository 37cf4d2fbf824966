import type { MessageChange } from "../../core/interceptors/action.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";

/**
 * Whoever decides: rules of our own, or a decision point elsewhere. The core is two questions (PA-007); what a provider
 * knows of wires and formats stays inside it. Answers that are known at once are given at once, not as a promise.
 */
export interface PolicyProvider {
  /** Shown in logs, records and explanations. */
  readonly name: string;
  /** May this request or notification go on, and in which form? */
  evaluateRequest(subject: InspectedMessage, call: PolicyCall): Decision | Promise<Decision>;
  /** May this answer be seen, and in which form? `call.memory` is what the request's verdict left for it. */
  evaluateResponse(subject: InspectedMessage, call: PolicyCall): Decision | Promise<Decision>;
  /**
   * Which entries of a list the caller may know of. A provider without it is asked nothing about lists, and its
   * `evaluateResponse` sees them whole.
   */
  filterList?(list: ListPage, call: PolicyCall): ListDecision | Promise<ListDecision>;
  close?(): void | Promise<void>;
}

/** What goes with a question. */
export interface PolicyCall {
  /** Aborted when nobody waits for the verdict any more, or its time is over; made when first asked for (PA-212). */
  readonly signal: AbortSignal;
  /** What the verdict on the request left for the verdict on its answer. */
  readonly memory: unknown;
}

/** A decision, and why. */
export type Decision =
  | {
      readonly effect: "allow";
      /** The message goes on in this form; it is parsed again as strictly as anything from a wire. */
      readonly change?: MessageChange;
      /** Handed to `evaluateResponse` for the answer to the same request. */
      readonly memory?: unknown;
      readonly explanation: Explanation;
    }
  | { readonly effect: "deny"; readonly refusal: PolicyRefusal; readonly explanation: Explanation };

/**
 * What kind of no it is. `hidden` looks exactly like a name that does not exist; `scope` can be cured by a token with
 * more scopes, `rate` by waiting; `unavailable` says that no decision could be had; `invalid` that the message cannot
 * be judged.
 */
export type RefusalKind = "forbidden" | "hidden" | "scope" | "rate" | "unavailable" | "invalid";

/** A no, in words that an agent can act on. Nothing in it is secret. */
export interface PolicyRefusal {
  readonly kind: RefusalKind;
  /** Stable, lower-case with underscores; for programs. */
  readonly code: string;
  /** For the agent and the people behind it. */
  readonly reason: string;
  /** For `scope`: what a token would need. */
  readonly scopes?: readonly string[];
  /** For `rate` and `unavailable`: seconds after which to come back. */
  readonly retryAfter?: number;
  /**
   * For `unavailable`: the gate stays shut also where the owner of the route opens it for lack of a decision. A decision
   * point that refuses us, or whose answer cannot be followed, is in no trouble that passes (PA-126).
   */
  readonly neverFailOpen?: true;
  /** The answer that the decision point itself wrote (PingAuthorize); used by the refusal profile `ping`. */
  readonly http?: PdpHttpAnswer;
}

/** An HTTP answer as a decision point wrote it. */
export interface PdpHttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: string;
}

/** Why a decision came out as it did; goes into the log, the audit stream and the record, never to the agent. */
export interface Explanation {
  readonly provider: string;
  /** The rule or policy that decided; undefined where none matched and the default did. */
  readonly rule: string | undefined;
  /** Paths of what the decision read, such as `mcp.arguments.amount`. */
  readonly read: readonly string[];
  /** How long the decision took; 0 where it was made before, for all messages of the kind. */
  readonly durationMs: number;
  /** What rules in shadow mode would have decided. */
  readonly shadow?: readonly ShadowDecision[];
  /** More for operators: obligations, policy versions, why a provider failed and the gate was open. */
  readonly notes?: readonly string[];
}

/** What a rule that is not enforced would have done. */
export interface ShadowDecision {
  readonly rule: string;
  readonly effect: "allow" | "deny" | "change";
  readonly reason: string;
}

/** One page of a list that is on its way to a client. */
export interface ListPage {
  /** The answer that holds the list; its `request` asked for it. */
  readonly subject: InspectedMessage;
  readonly kind: ListKind;
  readonly entries: readonly ListEntry[];
}

export type ListKind = "tool" | "resource" | "resource-template" | "prompt";

/** One entry of a list. */
export interface ListEntry {
  /** The name of a tool or prompt, the URI of a resource, the URI template of a template. */
  readonly name: string;
  /** The whole entry, read when first asked for. */
  readonly value: Readonly<Record<string, unknown>>;
}

/** Which entries may be seen, in the order of the question; or why that could not be decided. */
export interface ListDecision {
  readonly visible: readonly boolean[];
  /** The list is refused as a whole, whatever `visible` says. */
  readonly refusal?: PolicyRefusal;
  readonly explanation: Explanation;
}
