/**
 * What a recording is, and what every store of recordings promises.
 *
 * Three levels. A {@link Frame} is one thing that was seen, in the order it was seen, and is never changed afterwards. An
 * {@link ExchangeRecord} is one message with all that became of it, and is derived from its frames by
 * `deriveExchanges` (`derive.ts`): it can be dropped and made again, and comes out equal. An {@link OperationRecord} is
 * what a user would call one action (a call with its rounds, its questions to the client and its notifications) and is
 * derived from exchanges by `deriveOperation`.
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
  readonly context?: FrameContext;
  /** The JSON-RPC id as a typed key: `n:7`, `s:abc`. */
  readonly id?: string;
  readonly method?: string;
  /** The tool or prompt by name, the resource by URI, the task by id. */
  readonly target?: string;
  /** Bytes of the message as it was on the wire. */
  readonly bytes: number;
  /** The message as JSON text after redaction; for `stderr` the line. Left out where `same` or `omitted` says why. */
  readonly body?: string;
  /** The body is that of the frame with this number, earlier in the same exchange: it went on as it came. */
  readonly same?: number;
  /** Why there is no body though there was one: too large, or the queue was nearly full. */
  readonly omitted?: "size" | "queue";
  /** How many values were redacted in body and context. */
  readonly redacted?: number;
  /** With an answer: what it says, so that it is known where the body is not. */
  readonly outcome?: "ok" | "tool_error" | "input_required" | "error";
  /** With an error answer: its JSON-RPC code. */
  readonly errorCode?: number;
  /** With an error answer that the gateway itself made: the code of its table. */
  readonly gatewayCode?: string;
  readonly decision?: FrameDecision;
  /** For a `gap`: how many frames are missing before this one. */
  readonly lost?: number;
}

/**
 * What became of an exchange. A request is `open` until its answer has gone to whoever asked; `failed` is an error of
 * the gateway itself, `refused` a no of a policy or a limit; `accepted` a notification that was passed on. `abandoned`
 * is an exchange whose gateway ended before it did.
 */
export type ExchangeState =
  | "open"
  | "ok"
  | "tool_error"
  | "input_required"
  | "error"
  | "refused"
  | "failed"
  | "accepted"
  | "abandoned";

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
  readonly state: ExchangeState;
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
  readonly state: ExchangeState;
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

/** Texts of an exchange that can be compared. */
export type TextField =
  | "capture"
  | "id"
  | "operation"
  | "parent"
  | "kind"
  | "direction"
  | "route"
  | "principal"
  | "session"
  | "revision"
  | "transport"
  | "traceId"
  | "rpcId"
  | "method"
  | "target"
  | "state"
  | "gatewayCode"
  | "decision"
  | "rule";

/** Numbers of an exchange that can be compared. `at` is wall time in milliseconds since 1970. */
export type NumberField =
  | "at"
  | "durationMs"
  | "upstreamMs"
  | "requestBytes"
  | "answerBytes"
  | "messages"
  | "redacted"
  | "omitted"
  | "errorCode"
  | "seq";

/** Which bodies a text is looked for in: those of the asking message, those of the answer, or all. */
export type TextPlace = "any" | "request" | "answer";

/**
 * What to look for. Stores answer with exactly the exchanges for which `matches` (`condition.ts`) is true; a condition on
 * a member that an exchange does not have is false.
 */
export type Condition =
  | { readonly type: "all"; readonly of: readonly Condition[] }
  | { readonly type: "any"; readonly of: readonly Condition[] }
  | { readonly type: "not"; readonly of: Condition }
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
  | { readonly type: "text"; readonly text: string; readonly in: TextPlace };

/** Which exchanges, in which order, how many. */
export interface ExchangeQuery {
  /** Everything unless given. */
  readonly where?: Condition;
  /** `newest` first unless given; by wall time, then capture, then number. */
  readonly order?: "newest" | "oldest";
  /** 50 unless given; at most 1,000. */
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly cursor?: string;
}

/** A page of exchanges, and where the next one begins if there is more. */
export interface ExchangePage {
  readonly exchanges: readonly ExchangeRecord[];
  readonly next?: string;
}

/** How many there were of something and how long they took; percentiles by nearest rank over answered requests. */
export interface StatsRow {
  readonly route: string;
  readonly method: string;
  readonly target?: string;
  readonly count: number;
  readonly errors: number;
  readonly refused: number;
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  readonly p99Ms?: number;
  readonly maxMs?: number;
  readonly bytes: number;
}

/** What is in a store. */
export interface StoreStats {
  readonly format: number;
  /** Where it is, without credentials. */
  readonly place: string;
  readonly captures: number;
  readonly exchanges: number;
  readonly frames: number;
  /** On disk; for a server, of its tables. */
  readonly bytes: number;
  readonly lost: number;
  readonly omitted: number;
  readonly redacted: number;
  readonly oldest?: number;
  readonly newest?: number;
  /** Frames that the text index does not hold yet; they are searched one by one. */
  readonly unindexed: number;
  /** Requests by route, method and target, the most frequent first; at most a hundred. */
  readonly rows: readonly StatsRow[];
}

/** What to take out of a store. An exchange goes with all its frames; open ones stay. */
export interface PruneRules {
  /** Everything that began before this wall time. */
  readonly before?: number;
  /** The oldest, until the store is not larger. */
  readonly maxBytes?: number;
  /** Other times for single routes, in place of `before`. */
  readonly beforeByRoute?: Readonly<Record<string, number>>;
  /** Only what fits this as well. */
  readonly where?: Condition;
}

/** What was taken out. */
export interface Pruned {
  readonly exchanges: number;
  readonly frames: number;
  readonly bytes: number;
}

/** Tells how far long work has come; `total` where it is known. */
export type Progress = (done: number, total: number | undefined) => void;

/** What is written to a store in one transaction: all of it is there afterwards, or nothing. */
export interface FrameBatch {
  readonly capture: CaptureRecord;
  readonly frames: readonly Frame[];
}

/**
 * A line of a capture file, which is NDJSON (gzip where the name ends in `.gz`): a `capture` line, then its `frame` lines
 * in their order, then its `exchange` lines, which are derived and may be left out, then an `end` line with what the
 * file must hold. Several captures may follow each other. A file that ends before its `end` line was cut off: readers
 * take what is there and say so.
 */
export type CaptureLine =
  | ({ readonly type: "capture" } & CaptureRecord)
  | ({ readonly type: "frame" } & Frame)
  | ({ readonly type: "exchange" } & ExchangeRecord)
  | { readonly type: "end"; readonly capture: string; readonly frames: number; readonly exchanges: number };

/** What to export. */
export interface ExportQuery {
  /** Exchanges that fit, with all their frames; everything, with gaps, unless given. */
  readonly where?: Condition;
  /** Whole operations, where one of their exchanges fits. */
  readonly wholeOperations?: boolean;
  readonly onProgress?: Progress;
}

/** What came in by an import. */
export interface Imported {
  readonly captures: number;
  readonly frames: number;
  readonly exchanges: number;
  /** Frames that were there before. */
  readonly known: number;
  /** What was wrong with the file and did not keep it from being read, for people. */
  readonly warnings: readonly string[];
}

/** Reads recordings. Whoever reads does not keep a gateway from writing, nor its log from being cleared. */
export interface RecordReader extends AsyncDisposable {
  readonly format: number;
  /** Where it is, without credentials. */
  readonly place: string;
  captures(): Promise<readonly CaptureRecord[]>;
  exchanges(query: ExchangeQuery): Promise<ExchangePage>;
  /** By its id, which may be shortened as long as it is the only one that begins so. */
  exchange(id: string): Promise<ExchangeRecord | undefined>;
  /** The operation that an exchange belongs to, given by the id of either. */
  operation(id: string): Promise<OperationRecord | undefined>;
  /** The frames of an exchange in their order, every `same` body filled in. */
  frames(capture: string, exchange: string): Promise<readonly Frame[]>;
  /**
   * Exchanges as they happen, from now on or from a cursor of `exchanges`: each when it begins, and again whenever it
   * has changed. Ends when the signal says so. No transaction is held open between two looks.
   */
  follow(options: FollowOptions): AsyncIterable<ExchangeRecord>;
  stats(where?: Condition): Promise<StoreStats>;
  /** The lines of a capture file; parsed again and imported they give an equal store. */
  export(query?: ExportQuery): AsyncIterable<CaptureLine>;
  /** A small document that was kept with the recordings, or all documents of a kind. */
  document(kind: string, key: string): Promise<unknown>;
  documents(kind: string): Promise<readonly StoredDocument[]>;
  close(): Promise<void>;
}

/** How recordings are followed. */
export interface FollowOptions {
  readonly where?: Condition;
  readonly signal: AbortSignal;
  /** How long to wait between two looks; 250 unless given. */
  readonly intervalMs?: number;
}

/** Something small that is kept with recordings, such as the definitions of tools that were approved. */
export interface StoredDocument {
  readonly kind: string;
  readonly key: string;
  readonly value: unknown;
  readonly at: number;
}

/** Writes recordings. */
export interface RecordStore extends RecordReader {
  /** Resolves when all of it is on disk; rejects with a `store_failed` error when nothing of it is. */
  append(batch: FrameBatch): Promise<void>;
  prune(rules: PruneRules, onProgress?: Progress): Promise<Pruned>;
  /** Takes capture lines in; frames that are there already are left as they are. */
  import(lines: AsyncIterable<CaptureLine>, onProgress?: Progress): Promise<Imported>;
  /** Brings the text index up to date, at most this many frames; resolves with how many are left. */
  index(limit: number): Promise<number>;
  /** Keeps a document; `undefined` takes it away. */
  putDocument(kind: string, key: string, value: unknown): Promise<void>;
}
