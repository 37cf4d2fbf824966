import type { Diagnostic } from "../../protocol/message.ts";

/** The state of a tracked request. All but the first two are final (SC-049). */
export type CorrelationState = LiveState | FinalState;

export type LiveState = "pending" | "streaming";

export type FinalState =
  | "ok"
  | "tool_error"
  | "error"
  | "input_required"
  | "cancelled"
  | "timed_out"
  | "abandoned"
  | "superseded"
  | "evicted"
  | "orphan";

/** How a response relates to the requests that are known. */
export type ResponseMatch = "match" | "late" | "duplicate" | "orphan";

/** One row of the state table. */
export interface StateFacts {
  readonly final: boolean;
  /** How a response is classified that arrives while the request is in this state. */
  readonly answer: ResponseMatch;
  readonly meaning: string;
}

/** One allowed transition. `start` is the moment before anything is known. */
export interface Transition {
  readonly from: LiveState | "start";
  readonly to: CorrelationState;
  readonly on: string;
}

/** Every state and its meaning; the reference page is generated from this table. */
export const correlationStates: Readonly<Record<CorrelationState, StateFacts>> = {
  pending: { final: false, answer: "match", meaning: "sent; nothing has been received yet" },
  streaming: { final: false, answer: "match", meaning: "something has been received, but not the response" },
  ok: { final: true, answer: "duplicate", meaning: "answered with a result" },
  tool_error: {
    final: true,
    answer: "duplicate",
    meaning: "answered with a result that has `isError`",
  },
  error: { final: true, answer: "duplicate", meaning: "answered with a JSON-RPC error" },
  input_required: {
    final: true,
    answer: "duplicate",
    meaning: "answered with a request for input; the operation continues with a retry",
  },
  cancelled: { final: true, answer: "late", meaning: "cancelled by its sender" },
  timed_out: { final: true, answer: "late", meaning: "no activity for too long, or open for too long" },
  abandoned: { final: true, answer: "late", meaning: "the session, process or connection ended first" },
  superseded: { final: true, answer: "late", meaning: "another request reused its id while it was open" },
  evicted: { final: true, answer: "late", meaning: "evicted for a newer one at the limit" },
  orphan: { final: true, answer: "orphan", meaning: "a response that matches no request" },
};

const endings: readonly Omit<Transition, "from">[] = [
  { to: "ok", on: "a result" },
  { to: "tool_error", on: "a result with isError" },
  { to: "input_required", on: "a result that asks for input" },
  { to: "error", on: "an error" },
  { to: "cancelled", on: "notifications/cancelled from the same side, or a modern HTTP client closes" },
  { to: "timed_out", on: "no activity for the timeout, or the hard limit" },
  { to: "abandoned", on: "the session, process or connection ends" },
  { to: "superseded", on: "a request with the same id is opened" },
  { to: "evicted", on: "the limit is reached while observing" },
];

/** Every allowed transition. */
export const transitions: readonly Transition[] = [
  { from: "start", to: "pending", on: "a request" },
  { from: "start", to: "streaming", on: "a stream that no request opened" },
  { from: "start", to: "orphan", on: "a response that matches no request" },
  { from: "pending", to: "streaming", on: "the first progress or message of the stream" },
  ...endings.map((ending): Transition => ({ from: "pending", ...ending })),
  ...endings.map((ending): Transition => ({ from: "streaming", ...ending })),
];

const allowed: Readonly<Record<CorrelationState, ReadonlySet<CorrelationState>>> = movesByState();

/** Whether a request may go from one state to another; never out of a final one. */
export function canTransition(from: CorrelationState, to: CorrelationState): boolean {
  return allowed[from].has(to);
}

/** Whether a state is final. */
export function isFinal(state: CorrelationState): boolean {
  return correlationStates[state].final;
}

function movesByState(): Record<CorrelationState, ReadonlySet<CorrelationState>> {
  const names = Object.keys(correlationStates);
  const moves = names.map((name) => [
    name,
    new Set(transitions.filter(({ from }) => from === name).map(({ to }) => to)),
  ]);
  // Made from all the names of the table, so every state has its set.
  return Object.fromEntries(moves) as Record<CorrelationState, ReadonlySet<CorrelationState>>;
}

const table = {
  "id.superseded": ["warn", "/id", "another request of the same sender reused the id while this one was open"],
  "cancel.malformed": ["warn", "/params/requestId", "a cancel does not name a request"],
  "cancel.unknown": ["info", "/params/requestId", "a cancel names an unknown request"],
  "cancel.finished": ["info", "/params/requestId", "a cancel came after its request had ended"],
  "cancel.wrong-side": ["warn", "/params/requestId", "a cancel names a request that the other side sent"],
  "cancel.initialize": ["warn", "/params/requestId", "initialize must not be cancelled"],
  "cancel.task": ["warn", "/params/requestId", "a request that creates a task must be cancelled with tasks/cancel"],
  "progress.malformed": ["warn", "/params", "progress lacks a usable token or value"],
  "progress.token-reused": ["warn", "/params/_meta/progressToken", "a request reused a progress token still in use"],
  "subscription.unknown": [
    "warn",
    "/params/_meta/io.modelcontextprotocol~1subscriptionId",
    "a notification names a subscription that is not open",
  ],
  "mrtr.malformed": ["warn", "/params", "inputResponses or requestState has the wrong type"],
  "mrtr.unmatched": ["warn", "/params", "a retry matches no operation that waits for input"],
  "mrtr.ambiguous": ["warn", "/params", "a retry matches several operations that wait for input"],
  "mrtr.rounds": ["warn", "/params", "an operation exceeded the maximum number of rounds"],
  "pending.evicted": ["warn", undefined, "an open request was evicted for a newer one at the limit"],
  "pending.high": ["warn", undefined, "four fifths of all slots for open requests are in use"],
} as const satisfies Record<string, readonly [Diagnostic["severity"], string | undefined, string]>;

/** What correlation reports besides the semantic checks; nothing of it changes traffic. */
export type DiagnosticCode = keyof typeof table;

/** The diagnostics, made once: reporting one allocates nothing. */
export const diagnostics: Readonly<Record<DiagnosticCode, Diagnostic>> = toDiagnostics();

function toDiagnostics(): Record<DiagnosticCode, Diagnostic> {
  const entries = Object.entries(table).map(([code, [severity, path, message]]) => [
    code,
    { code, severity, message, ...(path === undefined ? {} : { path }) },
  ]);
  // Made from the rows of the table, so every code has one.
  return Object.fromEntries(entries) as Record<DiagnosticCode, Diagnostic>;
}
