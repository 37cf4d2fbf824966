import type { ListKind } from "../../protocol/lists.ts";
import type { MessageChange } from "../../core/interceptors/action.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import type { KnownNames } from "../../protocol/json/folded-names.ts";
import type { MemberName } from "../../protocol/json/outline.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";

/**
 * Decides about messages: the embedded rules, or a remote decision point (PA-007). A provider keeps its knowledge of wire formats to itself. A decision that is ready is returned as it is, not as a promise.
 *
 * @example
 * const officeHours: PolicyProvider = {
 *   name: "office-hours",
 *   evaluateRequest: () => ({ effect: "allow", explanation: explain("office-hours") }),
 *   evaluateResponse: () => ({ effect: "allow", explanation: explain("office-hours") }),
 * };
 */
export interface PolicyProvider {
  /** Shown in logs, records and explanations. */
  readonly name: string;
  /** Decides whether a request or notification may pass, and in which form. */
  evaluateRequest(subject: InspectedMessage, call: PolicyCall): MaybePromise<Decision>;
  /** Decides whether a response may reach the client, and in which form. */
  evaluateResponse(subject: InspectedMessage, call: PolicyCall): MaybePromise<Decision>;
  /**
   * Decides which entries of a list the caller can see. Without it, lists are not filtered, and `evaluateResponse` gets
   * them whole.
   */
  filterList?(list: ListPage, call: PolicyCall): MaybePromise<ListDecision>;
  /**
   * Whether what `filterList` leaves out is hidden elsewhere too, as if it did not exist. True with `filterList` unless it
   * says otherwise.
   */
  readonly hidesNames?: boolean;
  /**
   * The arguments of a request that `evaluateResponse` reads; all of them if it does not say. A task may run for days, and
   * no more than these are kept of a long request that started one.
   */
  readonly argumentsForResponses?: readonly string[];
  close?(): void | Promise<void>;
}

/** The context of one evaluation. */
export interface PolicyCall {
  /** Aborted on timeout, or when the caller goes away; created when first read (PA-212). */
  readonly signal: AbortSignal;
  /** In `evaluateResponse`: the `memory` of the decision about the request. */
  readonly memory: unknown;
}

/** What a provider says about a message, and why. */
export type Decision =
  | {
      readonly effect: "allow";
      /** The form in which the message is forwarded; it is parsed as strictly as any message. */
      readonly change?: MessageChange;
      /** Passed to `evaluateResponse` for the response to the same request. */
      readonly memory?: unknown;
      /**
       * Member names of `params`, or of `result` in an answer of a client, that the decision depends on; a message with one of
       * them in other letter case is refused.
       */
      readonly names?: KnownNames | undefined;
      readonly explanation: Explanation;
    }
  | {
      readonly effect: "deny";
      readonly refusal: PolicyRefusal;
      /** For `hidden`: the names that a decision about a name that does not exist would depend on. */
      readonly names?: KnownNames | undefined;
      readonly explanation: Explanation;
    };

/**
 * `hidden` looks exactly like a name that does not exist; `scope` asks for a token with more scopes; `rate` asks to wait;
 * `unavailable` means that there is no decision; `invalid`, that the message cannot be evaluated.
 */
export type RefusalKind = "forbidden" | "hidden" | "scope" | "rate" | "unavailable" | "invalid";

/** What the client gets for a denied message. Nothing in it is secret. */
export interface PolicyRefusal {
  readonly kind: RefusalKind;
  /** Stable and machine-readable: lower-case with underscores. */
  readonly code: string;
  /** For the agent and its users. */
  readonly reason: string;
  /** For `scope`: the scopes a token needs. */
  readonly scopes?: readonly string[];
  /** For `rate` and `unavailable`: seconds to wait. */
  readonly retryAfter?: number;
  /**
   * For `unavailable`: refused even with `failOpen`. A decision point that rejects us, or whose answer is unusable, is
   * misconfigured rather than down (PA-126).
   */
  readonly neverFailOpen?: true;
  /** The HTTP answer written by PingAuthorize, for the refusal profile `ping`. */
  readonly http?: PdpHttpAnswer;
}

/** The refusal of a name that the caller cannot see. */
export const hiddenRefusal: PolicyRefusal = { kind: "hidden", code: "hidden", reason: "There is no such name." };

/** An HTTP answer written by a decision point. */
export interface PdpHttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, readonly string[]>>;
  readonly body: string;
}

/** Why a decision came out as it did; for the log, the audit stream and the recording, never for the agent. */
export interface Explanation {
  readonly provider: string;
  /** The rule or policy that decided; undefined if none matched. */
  readonly rule: string | undefined;
  /** Paths that the decision read, such as `mcp.arguments.amount`. */
  readonly read: readonly string[];
  /** 0 for a cached decision. */
  readonly durationMs: number;
  /** What rules in shadow mode would have decided. */
  readonly shadow?: readonly ShadowDecision[];
  /** More for operators: obligations, policy versions, why it failed open. */
  readonly notes?: readonly string[];
}

/** What a rule in shadow mode would have done. */
export interface ShadowDecision {
  readonly rule: string;
  readonly effect: "allow" | "deny" | "change";
  readonly reason: string;
}

/** One page of a list result. */
export interface ListPage {
  /** The result; its `request` asked for the list. */
  readonly subject: InspectedMessage;
  readonly kind: ListKind;
  readonly entries: readonly ListEntry[];
}

export type { ListKind };

/** One entry of a list. */
export interface ListEntry {
  /** The name of a tool or prompt, the URI of a resource, or the URI template. */
  readonly name: string;
  /** The whole entry, parsed when first read. */
  readonly value: Readonly<Record<string, unknown>>;
}

/** Which entries of a page are visible, in their order. */
export interface ListDecision {
  readonly visible: readonly boolean[];
  /** Refuses the list as a whole, whatever `visible` says. */
  readonly refusal?: PolicyRefusal;
  readonly explanation: Explanation;
}

const nothingRead: readonly string[] = [];

/** An explanation without a rule. */
export function explain(
  provider: string,
  notes: readonly string[] = [],
  durationMs = 0,
  read: readonly string[] = nothingRead,
): Explanation {
  const plain = { provider, rule: undefined, read, durationMs };
  return notes.length === 0 ? plain : { ...plain, notes };
}

/** A provider that forwards to another, except for what is overridden. */
export function overrideProvider(provider: PolicyProvider, overrides: Partial<PolicyProvider>): PolicyProvider {
  const filterList = provider.filterList?.bind(provider);
  return {
    name: provider.name,
    evaluateRequest: (subject, call) => provider.evaluateRequest(subject, call),
    evaluateResponse: (subject, call) => provider.evaluateResponse(subject, call),
    ...(filterList === undefined ? {} : { filterList }),
    ...(provider.hidesNames === undefined ? {} : { hidesNames: provider.hidesNames }),
    ...(provider.argumentsForResponses && { argumentsForResponses: provider.argumentsForResponses }),
    close: () => provider.close?.(),
    ...overrides,
  };
}

/** What a request can be about. */
export type TargetKind = "tool" | "prompt" | "resource" | "task";

/** The member of a request that names its target. */
export const targetMembers = {
  tool: "params.name",
  prompt: "params.name",
  resource: "params.uri",
  task: "params.taskId",
} as const satisfies Readonly<Record<TargetKind, MemberName>>;

/** The name of a request's target; undefined if it is missing or not a string. */
export function targetName(message: Message, kind: TargetKind): string | undefined {
  return memberString(message, targetMembers[kind]);
}

/** The prompt, resource or resource template that a completion is for. */
export interface CompletionReference {
  readonly kind: "prompt" | "resource";
  readonly name: string;
}

/** The reference in a `completion/complete` request (MCP 2025-11-25, Completion); undefined if it is malformed. */
export function completionReference(request: Message): CompletionReference | undefined {
  const { type, name, uri } = Object(memberValue(request, "params.ref")) as Readonly<Record<string, unknown>>;
  if (type === "ref/prompt" && typeof name === "string") return { kind: "prompt", name };
  if (type === "ref/resource" && typeof uri === "string") return { kind: "resource", name: uri };
  return undefined;
}
