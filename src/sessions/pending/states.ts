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
