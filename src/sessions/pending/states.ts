/** Where a tracked exchange stands. All but the first two are final (SC-049). */
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

/** What an answer is worth that finds its exchange in some state. */
export type ResponseMatch = "match" | "late" | "duplicate" | "orphan";

/** One row of the state table. */
export interface StateFacts {
  readonly final: boolean;
  /** What an answer is that comes while the exchange is in this state. */
  readonly answer: ResponseMatch;
  readonly meaning: string;
}

/** One allowed move. `start` is the moment before anything is known. */
export interface Transition {
  readonly from: LiveState | "start";
  readonly to: CorrelationState;
  readonly on: string;
}

/** Every state and what it means: the same table serves the code and the reference page. */
export const correlationStates: Readonly<Record<CorrelationState, StateFacts>> = {
  pending: { final: false, answer: "match", meaning: "asked, and nothing has come back yet" },
  streaming: { final: false, answer: "match", meaning: "something has come back, but not the answer" },
  ok: { final: true, answer: "duplicate", meaning: "answered with a result" },
  tool_error: {
    final: true,
    answer: "duplicate",
    meaning: "answered with a result that says the tool failed",
  },
  error: { final: true, answer: "duplicate", meaning: "answered with a JSON-RPC error" },
  input_required: {
    final: true,
    answer: "duplicate",
    meaning: "answered with questions; the exchange is over, the operation is not",
  },
  cancelled: { final: true, answer: "late", meaning: "taken back by the one who asked" },
  timed_out: { final: true, answer: "late", meaning: "nothing was heard for too long" },
  abandoned: { final: true, answer: "late", meaning: "the session, process or connection ended first" },
  superseded: { final: true, answer: "late", meaning: "another request took its id while it was in flight" },
  evicted: { final: true, answer: "late", meaning: "given up for a newer one at the bound" },
  orphan: { final: true, answer: "orphan", meaning: "an answer to nothing that is known" },
};

const endings: readonly Omit<Transition, "from">[] = [
  { to: "ok", on: "a result" },
  { to: "tool_error", on: "a result with isError" },
  { to: "input_required", on: "a result that asks for input" },
  { to: "error", on: "an error" },
  { to: "cancelled", on: "notifications/cancelled from the same side, or a modern HTTP client closes" },
  { to: "timed_out", on: "no activity for the TTL, or the hard limit" },
  { to: "abandoned", on: "the session, process or connection ends" },
  { to: "superseded", on: "the same key is opened again" },
  { to: "evicted", on: "the bound is reached while observing" },
];

/** Every move there is; what is not listed cannot happen. */
export const transitions: readonly Transition[] = [
  { from: "start", to: "pending", on: "a request" },
  { from: "start", to: "streaming", on: "a stream that no request opened" },
  { from: "start", to: "orphan", on: "an answer that fits no request" },
  { from: "pending", to: "streaming", on: "the first progress or message of the stream" },
  ...endings.map((ending): Transition => ({ from: "pending", ...ending })),
  ...endings.map((ending): Transition => ({ from: "streaming", ...ending })),
];

const allowed: Readonly<Record<CorrelationState, ReadonlySet<CorrelationState>>> = movesByState();

/** Whether an exchange may go from one state to another; never, once it is in a final one. */
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
