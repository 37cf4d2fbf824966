/**
 * What a recording is, and what every store of recordings promises.
 *
 * Three levels. A {@link Frame} is one thing that was seen, in the order it was seen, and is never changed afterwards. An
 * {@link ExchangeRecord} is one message with all that became of it, and is derived from its frames by
 * `deriveExchanges` (`derive.ts`): it can be dropped and made again, and comes out equal. An {@link OperationRecord} is
 * what a user would call one action (a call with its rounds, its questions to the client and its notifications) and is
 * derived from exchanges by `deriveOperation`.
 *
 * Stores and threads handle the frames of an exchange together, as packs (`pack.ts`); nobody else has to know.
 *
 * Everything in here has been redacted before it got here. Times are milliseconds.
 */

/** The format of captures, in stores and in files. It rises when older readers could no longer make sense of one. */
export const captureFormat = 1;

/** What a frame is about: a message, or something that the gateway itself has to say. */
export type FrameKind =
  | "request"
  | "notification"
  | "result"
  | "error"
  /** A decision of a policy or an interceptor, in `decision`. */
  | "decision"
  /** A line that a server wrote to its standard error; not JSON. */
  | "stderr"
  /** Frames were lost here, as many as `lost` says. */
  | "gap"
  /** The gateway ended: what was open then stays unanswered. */
  | "end";

/** One of the two sides of the gateway. */
export type FrameLeg = "client" | "upstream";

/** Which way a message travels: `c2s` from client to server, `s2c` from server to client. */
export type FrameDirection = "c2s" | "s2c";

/** What is known of an exchange besides its messages; told once, with its first frame. */
export interface FrameContext {
  readonly route: string;
  /** The id of the principal; `anonymous` where nobody was asked. */
  readonly principal: string;
  /** The beginning of the session's id, as log lines show it; the whole id would be a credential. */
  readonly session?: string;
  readonly revision: string;
  /** How the message came: `http`, `sse`, `stdio` or `in-process`. */
  readonly transport: string;
  /** The exchange that this one belongs to, as a question or notification belongs to the call that runs. */
  readonly parent?: string;
  readonly traceId?: string;
  readonly http?: FrameHttp;
}

/** The HTTP request that brought a message: only headers that may be kept, redacted like everything else. */
export interface FrameHttp {
  readonly method: string;
  /** Path and query, redacted. */
  readonly path: string;
  readonly peer?: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** What was decided about a message. */
export interface FrameDecision {
  /** For decisions of a policy, the id that the agent was given. */
  readonly id?: string;
  readonly by: "policy" | "interceptor";
  /** The policy provider, or the interceptor. */
  readonly name: string;
  readonly phase: "request" | "response" | "list";
  /** As the policy (`allow`, `change`, `filter`, `deny`) or the interceptor (`passed`, `blocked`, …) says it. */
  readonly effect: string;
  /** False where it was only recorded, and the message went on as it was. */
  readonly enforced: boolean;
  readonly rule?: string;
  readonly code?: string;
  readonly reason?: string;
  /** What the decision looked at, as paths. */
  readonly read?: readonly string[];
  /** For lists: how many names there were, and how many of them were hidden. */
  readonly listed?: number;
  readonly hidden?: number;
  readonly durationMs: number;
}

/** One thing that was seen. Members that do not apply are left out. */
export interface Frame {
  /** The capture it belongs to: one run of one gateway. */
  readonly capture: string;
  /** Rises within the capture; a number that is missing was lost, and a `gap` frame says so. */
  readonly seq: number;
  /** Wall time, for people. It may jump when clocks are set. */
  readonly at: number;
  /** Monotonic time since the capture began, for durations; in steps of a microsecond. */
  readonly mono: number;
  readonly kind: FrameKind;
  readonly leg: FrameLeg;
  /** Whether it came to the gateway or left it. */
  readonly passing: "received" | "sent";
  readonly direction: FrameDirection;
  /** Of its gateway's exchange; unique in the capture. Empty for `gap`, `stderr` and `end`. */
  readonly exchange: string;
  /** The id of the first exchange of the operation. */
  readonly operation: string;
  /** With the first frame of an exchange. */
  readonly context?: FrameContext | undefined;
  /** The JSON-RPC id as a typed key: `n:7`, `s:abc`. */
  readonly id?: string | undefined;
  readonly method?: string | undefined;
  /** The tool or prompt by name, the resource by URI, the task by id. */
  readonly target?: string | undefined;
  /** Bytes of the message as it was on the wire. */
  readonly bytes: number;
  /** The message as JSON text after redaction; for `stderr` the line. Left out where `same` or `omitted` says why. */
  readonly body?: string | undefined;
  /** The body is that of the frame with this number, earlier in the same exchange: it went on as it came. */
  readonly same?: number | undefined;
  /** Why there is no body though there was one: too large, or the queue was nearly full. */
  readonly omitted?: "size" | "queue" | undefined;
  /** How many values were redacted in body and context. */
  readonly redacted?: number | undefined;
  /** With an answer: what it says, so that it is known where the body is not. */
  readonly outcome?: "ok" | "tool_error" | "input_required" | "error" | undefined;
  /** With an error answer: its JSON-RPC code. */
  readonly errorCode?: number | undefined;
  /** With an error answer that the gateway itself made: the code of its table. */
  readonly gatewayCode?: string | undefined;
  readonly decision?: FrameDecision | undefined;
  /** For a `gap`: how many frames are missing before this one. */
  readonly lost?: number | undefined;
}

/**
 * How an exchange ended. A request is `open` until its answer has been sent; `refused` means by a policy or a limit,
 * `failed` an error of the gateway itself, `accepted` a notification that was forwarded, `abandoned` that the gateway
 * stopped first.
 */
export const exchangeStatuses = [
  "open",
  "ok",
  "tool_error",
  "input_required",
  "error",
  "refused",
  "failed",
  "accepted",
  "abandoned",
] as const;

/** One of {@link exchangeStatuses}. */
export type ExchangeStatus = (typeof exchangeStatuses)[number];

/** One message and what became of it, on both legs; derived from its frames. */
export interface ExchangeRecord {
  readonly capture: string;
  readonly id: string;
  readonly operation: string;
  readonly parent?: string;
  /** Of the first frame, which orders exchanges of one capture. */
  readonly seq: number;
  readonly at: number;
  readonly kind: "request" | "notification";
  readonly direction: FrameDirection;
  readonly route: string;
  readonly principal: string;
  readonly session?: string;
  readonly revision: string;
  readonly transport: string;
  readonly traceId?: string;
  /** The JSON-RPC id of the request as a typed key. */
  readonly rpcId?: string;
  readonly method: string;
  readonly target?: string;
  readonly state: ExchangeStatus;
  /** The JSON-RPC code of an error answer. */
  readonly errorCode?: number;
  /** The code of the gateway's own table, where the gateway itself answered with an error. */
  readonly gatewayCode?: string;
  /** The strongest effect of the policy: `deny` before `filter` before `change` before `allow`. */
  readonly decision?: "allow" | "change" | "filter" | "deny";
  /** The rule behind that effect. */
  readonly rule?: string;
  /** From the message's coming to the answer's leaving; while it is open, undefined. */
  readonly durationMs?: number;
  /** The part of it in which the other side had the message. */
  readonly upstreamMs?: number;
  readonly requestBytes: number;
  readonly answerBytes: number;
  /** Messages that this exchange saw, on both legs; decisions do not count. */
  readonly messages: number;
  /** What went on differed from what came. */
  readonly modified: boolean;
  /** How many values were redacted in it. */
  readonly redacted: number;
  /** How many of its bodies were left out. */
  readonly omitted: number;
}

/** One action as its user sees it; derived from its exchanges. */
export interface OperationRecord {
  readonly capture: string;
  readonly id: string;
  readonly method: string;
  readonly target?: string;
  readonly route: string;
  readonly principal: string;
  /** Of the last round. */
  readonly state: ExchangeStatus;
  /** How often the client had to come back with answers, the first time included. */
  readonly rounds: number;
  readonly at: number;
  /** From the beginning of the first exchange to the end of the last; undefined while one is open. */
  readonly durationMs?: number;
  /** In the order in which they began. */
  readonly exchanges: readonly ExchangeRecord[];
}

/** One run of one gateway, and what is missing of it. */
export interface CaptureRecord {
  readonly id: string;
  readonly format: number;
  /** Who wrote it: program and version, host. */
  readonly writer: string;
  readonly startedAt: number;
  /** Undefined while it is written, or where the gateway was killed. */
  readonly endedAt?: number;
  readonly frames: number;
  readonly bytes: number;
  /** Frames that were lost because the queue was full or the store failed. */
  readonly lost: number;
  /** Bodies that were left out. */
  readonly omitted: number;
  /** Values that were redacted. */
  readonly redacted: number;
  /** The rules by which they were, for whoever reads an export. */
  readonly rules: readonly string[];
}

type FieldOf<Value> = {
  [Field in keyof ExchangeRecord]-?: NonNullable<ExchangeRecord[Field]> extends Value ? Field : never;
}[keyof ExchangeRecord];

/** Text fields of an exchange. */
export type TextField = FieldOf<string>;

/** Number fields of an exchange. `at` is wall time in milliseconds since 1970. */
export type NumberField = FieldOf<number>;

/** Which bodies a text is looked for in: those of the asking message, those of the answer, or all. */
export type TextScope = "any" | "request" | "answer";

/**
 * What to look for. Stores answer with exactly the exchanges for which `matches` (`condition.ts`) is true; a condition on
 * a member that an exchange does not have is false.
 */
export type FilterCondition =
  | { readonly type: "all"; readonly of: readonly FilterCondition[] }
  | { readonly type: "any"; readonly of: readonly FilterCondition[] }
  | { readonly type: "not"; readonly of: FilterCondition }
  | { readonly type: "is"; readonly field: TextField; readonly value: string }
  /** `*` stands for any text; upper and lower case are the same. */
  | { readonly type: "like"; readonly field: TextField; readonly pattern: string }
  /** A regular expression in RE2 syntax, anywhere in the text; upper and lower case are the same. */
  | { readonly type: "pattern"; readonly field: TextField; readonly pattern: string }
  | {
      readonly type: "number";
      readonly field: NumberField;
      readonly is: "<" | "<=" | "=" | ">=" | ">";
      readonly value: number;
    }
  | { readonly type: "modified" }
  /** A body holds the text, beginning at the beginning of a word; upper and lower case are the same. */
  | { readonly type: "text"; readonly text: string; readonly in: TextScope };
