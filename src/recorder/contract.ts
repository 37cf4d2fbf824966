import { type Outcome, outcomes } from "../core/outcomes.ts";
import type { Diagnostic } from "../protocol/diagnostics.ts";

/**
 * What a recording consists of.
 *
 * A {@link Frame} is one observation, in the order of observation, and never changes. An {@link ExchangeRecord} is one
 * message with everything that happened to it, derived from its frames (`derive.ts`). An {@link OperationRecord} is what a
 * user calls one action: a call with its rounds, its requests to the client and its notifications.
 *
 * Everything is redacted before it gets here. Times are milliseconds.
 */

/** The format of capture files. Raise it when older readers can no longer read them. */
export const captureFormat = 2;

/** What a frame observed. */
export type FrameKind =
  | "request"
  | "notification"
  | "result"
  | "error"
  /** A decision of a policy or interceptor, in `decision`. */
  | "decision"
  /** A finding about a message, in `diagnostic`. */
  | "diagnostic"
  /** An event, line or body that holds no valid message; `body` has it as it came. */
  | "raw"
  /** An HTTP request that was refused before it brought a message, in `refusal`. */
  | "http"
  /** A line of a server's standard error; not JSON. */
  | "stderr"
  /** `lost` frames are missing here. */
  | "gap"
  /** The gateway stopped; open exchanges stay unanswered. */
  | "end";

/** One of the two sides of the gateway. */
export type FrameLeg = "client" | "upstream";

/** `c2s` from client to server, `s2c` from server to client. */
export type FrameDirection = "c2s" | "s2c";

/** What is known of an exchange besides its messages; in its first frame. */
export interface FrameContext {
  readonly route: string;
  /** The id of the principal; `anonymous` without authentication. */
  readonly principal: string;
  /** The name that the client gave itself. */
  readonly client?: string;
  /** The session as in log lines; its id would be a credential. */
  readonly session?: string;
  readonly revision: string;
  /** `http`, `sse`, `stdio` or `in-process`. */
  readonly transport: string;
  /**
   * The exchange this one belongs to: the running call of a server request or notification, or the client's request for
   * which the gateway asks a server something itself.
   */
  readonly parent?: string;
  readonly traceId?: string;
  readonly http?: FrameHttp;
}

/** The HTTP request of a message, with the headers that may be stored. */
export interface FrameHttp {
  readonly method: string;
  /** Scheme, host and port that the client connected to. */
  readonly origin?: string;
  /** Path and query. */
  readonly path: string;
  readonly peer?: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A decision about a message. */
export interface FrameDecision {
  /** The id of a policy decision, which clients get too. */
  readonly id?: string | undefined;
  readonly by: "policy" | "interceptor";
  /** The policy provider or interceptor. */
  readonly name: string;
  readonly phase: "request" | "response" | "list";
  /** Of a policy `allow`, `change`, `filter` or `deny`; of an interceptor `passed`, `blocked` and others. */
  readonly effect: string;
  /** False if it was only logged and the message forwarded as it was. */
  readonly enforced: boolean;
  readonly rule?: string | undefined;
  readonly code?: string | undefined;
  readonly reason?: string | undefined;
  /** The paths that the decision read. */
  readonly read?: readonly string[] | undefined;
  /** For lists: how many names there were, and how many were hidden. */
  readonly listed?: number | undefined;
  readonly hidden?: number | undefined;
  readonly durationMs: number;
}

/** An HTTP request that was refused before it became a message. */
export interface FrameRefusal {
  readonly status: number;
  readonly reason: string;
  /** How many more requests were refused like this one, and not recorded one by one. */
  readonly repeats?: number;
}

/** One observation. */
export interface Frame {
  /** The capture: one run of one gateway. */
  readonly capture: string;
  /** Increases within the capture; missing numbers were lost, and a `gap` frame says so. */
  readonly seq: number;
  /** Wall time. It may jump when the clock is set. */
  readonly at: number;
  /** Monotonic time since the capture began, in microsecond steps; for durations. */
  readonly mono: number;
  readonly kind: FrameKind;
  readonly leg: FrameLeg;
  /** Whether the gateway received or sent it. */
  readonly passing: "received" | "sent";
  readonly direction: FrameDirection;
  /** The exchange id, unique in the capture. Empty for `gap`, `stderr` and `end`. */
  readonly exchange: string;
  /** The id of the first exchange of the operation. */
  readonly operation: string;
  /** In the first frame of an exchange. */
  readonly context?: FrameContext | undefined;
  /** The JSON-RPC id as a typed key: `n:7`, `s:abc`. */
  readonly id?: string | undefined;
  readonly method?: string | undefined;
  /** The tool or prompt by name, the resource by URI, the task by id. */
  readonly target?: string | undefined;
  /** Bytes of the message on the wire. */
  readonly bytes: number;
  /** The redacted message as JSON text, or the line of `stderr`. Absent if `same` or `omitted` says why. */
  readonly body?: string | undefined;
  /** The body is that of the earlier frame with this number: the message was forwarded unchanged. */
  readonly same?: number | undefined;
  /** Why the body is missing: it was too large, or the queue nearly full. */
  readonly omitted?: "size" | "queue" | undefined;
  /** How many values were redacted in body and context. */
  readonly redacted?: number | undefined;
  /** The outcome of an answer, which is known even without its body. */
  readonly outcome?: "ok" | "tool_error" | "input_required" | "error" | undefined;
  /** The JSON-RPC code of an error answer. */
  readonly errorCode?: number | undefined;
  /** The gateway's own code of an error answer that it made itself. */
  readonly gatewayCode?: string | undefined;
  /** The server of a federation that the message is for or from. */
  readonly upstream?: string | undefined;
  readonly decision?: FrameDecision | undefined;
  readonly diagnostic?: Omit<Diagnostic, "data"> | undefined;
  readonly refusal?: FrameRefusal | undefined;
  /** For a `gap`: how many frames are missing. */
  readonly lost?: number | undefined;
}

/** How an exchange ended; log and metrics use the same values. */
export type ExchangeStatus = Outcome;

/** All of them. */
export const exchangeStatuses = Object.keys(outcomes) as readonly ExchangeStatus[];

/** What an exchange is about. */
export const exchangeKinds = ["request", "notification", "response", "raw", "http"] as const;

/** One of {@link exchangeKinds}. */
export type ExchangeKind = (typeof exchangeKinds)[number];

/** One message and everything that happened to it, on both legs. Its stored fields: `exchange-fields.ts`. */
export interface ExchangeRecord {
  readonly capture: string;
  readonly id: string;
  readonly operation: string;
  readonly parent?: string;
  /** The number of the first frame. */
  readonly seq: number;
  readonly at: number;
  /** `response` answers no open request, `raw` is not a message, and `http` is a request that was refused before it became one. */
  readonly kind: ExchangeKind;
  readonly direction: FrameDirection;
  /** Empty where a refused HTTP request was for no route. */
  readonly route: string;
  readonly principal: string;
  readonly client?: string;
  readonly session?: string;
  readonly revision: string;
  readonly transport: string;
  readonly traceId?: string;
  /** The JSON-RPC id as a typed key. */
  readonly rpcId?: string;
  readonly method: string;
  readonly target?: string;
  readonly state: ExchangeStatus;
  /** The JSON-RPC code of an error answer. */
  readonly errorCode?: number;
  /** The gateway's own code of an error that it made itself. */
  readonly gatewayCode?: string;
  /** The server, if the route has several. */
  readonly upstream?: string;
  /** The strongest policy effect: `deny`, then `filter`, `change`, `allow`. */
  readonly decision?: "allow" | "change" | "filter" | "deny";
  /** The rule behind that effect. */
  readonly rule?: string;
  /** The codes of what was found while it was open, each once, separated by spaces. */
  readonly diagnostic?: string;
  /** From receiving the message to sending its answer; undefined while open. */
  readonly durationMs?: number;
  /** The part of it that was spent upstream. */
  readonly upstreamMs?: number;
  readonly requestBytes: number;
  readonly answerBytes: number;
  /** Messages on both legs, without decisions. */
  readonly messages: number;
  /** Whether the gateway changed the message or its answer. */
  readonly modified: boolean;
  /** How many values were redacted. */
  readonly redacted: number;
  /** How many bodies were left out. */
  readonly omitted: number;
}

/** Whether the gateway itself sent it to answer a client, as a federation asks its servers for their lists. */
export function isOfGateway({ parent, direction }: Pick<ExchangeRecord, "parent" | "direction">): boolean {
  return parent !== undefined && direction === "c2s";
}

/** One action of a user. */
export interface OperationRecord {
  readonly capture: string;
  readonly id: string;
  readonly method: string;
  readonly target?: string;
  readonly route: string;
  readonly principal: string;
  /** The status of the last round. */
  readonly state: ExchangeStatus;
  /** How many requests it took the client, with those that brought input. */
  readonly rounds: number;
  readonly at: number;
  /** From the start of the first exchange to the end of the last; undefined while one is open. */
  readonly durationMs?: number;
  /** In the order of their first frames. */
  readonly exchanges: readonly ExchangeRecord[];
}

/** One run of one gateway. */
export interface CaptureRecord {
  readonly id: string;
  readonly format: number;
  /** Program, version and host. */
  readonly writer: string;
  readonly startedAt: number;
  /** Undefined while it runs, or if it was killed. */
  readonly endedAt?: number;
  readonly frames: number;
  readonly bytes: number;
  /** Frames lost because the queue was full. */
  readonly lost: number;
  /** Bodies that were left out. */
  readonly omitted: number;
  /** Values that were redacted. */
  readonly redacted: number;
  /** The redaction rules, for readers of an export. */
  readonly rules: readonly string[];
}

type FieldOf<Value> = {
  [Field in keyof ExchangeRecord]-?: NonNullable<ExchangeRecord[Field]> extends Value ? Field : never;
}[keyof ExchangeRecord];

/** Text fields of an exchange. */
export type TextField = FieldOf<string>;

/** Number fields of an exchange. `at` is wall time in milliseconds since 1970. */
export type NumberField = FieldOf<number>;

/** The bodies to search: of the request, of the answer, or all. */
export type TextScope = "any" | "request" | "answer";

/**
 * Which exchanges to find. `filter/condition.ts` defines what it means; a condition on a field that an exchange does not
 * have is false.
 */
export type FilterCondition =
  | { readonly type: "all"; readonly of: readonly FilterCondition[] }
  | { readonly type: "any"; readonly of: readonly FilterCondition[] }
  | { readonly type: "not"; readonly of: FilterCondition }
  | { readonly type: "is"; readonly field: TextField; readonly value: string }
  /** `*` stands for any text; case is ignored. */
  | { readonly type: "like"; readonly field: TextField; readonly pattern: string }
  /** An RE2 regular expression, anywhere in the field; case is ignored. */
  | { readonly type: "pattern"; readonly field: TextField; readonly pattern: string }
  | {
      readonly type: "number";
      readonly field: NumberField;
      readonly is: "<" | "<=" | "=" | ">=" | ">";
      readonly value: number;
    }
  | { readonly type: "modified" }
  /** A body has the text at the start of a word; case is ignored. */
  | { readonly type: "text"; readonly text: string; readonly in: TextScope };
