/** The name, type and labels of a metric. */
export interface MetricDefinition {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** One sentence, for the exposition and the reference page. */
  readonly help: string;
  readonly labels: readonly string[];
  /** Ascending upper bounds of a histogram's buckets; `+Inf` is implied. */
  readonly buckets?: readonly number[];
}

/** The meaning of each label. Unknown names are counted as `other`. */
export const labelMeanings = {
  route: "name of the route in the configuration",
  method: "JSON-RPC method, or `other` if no MCP revision has it",
  member: "name of the server among the `upstreams` of the route",
  era: "`legacy` or `modern`",
  outcome: "how it ended; of exchanges, see the correlation reference",
  reason: "why it ended",
  leg: "`client` or `upstream`",
  direction: "`in` for received, `out` for sent",
  code: "error code, see the error reference; of diagnostics, see the correlation reference",
  kind: "`request`, `notification`, `result` or `error`",
  phase: "`request` (`access` for PingAuthorize), `response`, or `list` for list entries",
  effect: "`allow`, `change`, `filter` or `deny`",
  mode: "`enforce`, or `shadow` if decisions are only logged",
  result: "`allow`, `deny` or `error`",
  decision: "`allow` or `deny`",
  tool: "tool name, or `other` beyond the first 200",
} as const;

const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
] as const;

const sidebandBuckets = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000] as const;

/** A metric of one type; its labels keep their names in the type. */
const ofType =
  <const T extends MetricDefinition["type"]>(type: T) =>
  <const L extends readonly string[]>(name: string, labels: L, help: string) =>
    ({ name, type, help, labels }) as const;

const counter = ofType("counter");
const gauge = ofType("gauge");

function histogram<const L extends readonly string[]>(
  name: string,
  labels: L,
  help: string,
  buckets: readonly number[],
) {
  return { name, type: "histogram", help, labels, buckets } as const;
}

/** Metrics of the PingAuthorize engine, named as in its plugins (PA-142 to PA-145, PA-187 to PA-189). */
export const sidebandMetricDefinitions = {
  duration: histogram(
    "ping_authorize_sideband_duration_ms",
    ["phase"],
    "Duration of a sideband call, including retries.",
    sidebandBuckets,
  ),
  calls: counter("ping_authorize_sideband_total", ["phase", "result"], "Sideband calls by phase and result."),
  breaker: gauge("ping_authorize_circuit_breaker_state", [], "State of the circuit breaker: 0 closed, 1 open."),
  decisions: counter("ping_authorize_policy_decisions_total", ["decision"], "Policy decisions."),
  mcpRequests: counter("mcp_requests_total", ["method"], "MCP requests evaluated by the policy."),
  mcpDenied: counter("mcp_denied_total", ["method", "reason"], "Refused MCP requests and responses, by reason."),
  mcpToolCalls: counter(
    "mcp_tool_calls_total",
    ["tool"],
    "Tool calls by tool. Tools beyond the first 200 count as `other`.",
  ),
} as const satisfies Record<string, MetricDefinition>;

/** Definitions with the route as their first label, under keys with a prefix. */
type PerRoute<D extends Readonly<Record<string, MetricDefinition>>> = {
  readonly [Key in keyof D & string as `sideband${Capitalize<Key>}`]: Omit<D[Key], "labels"> & {
    readonly labels: readonly ("route" | D[Key]["labels"][number])[];
  };
};

/** The same metrics as a gateway with several routes exposes them. */
export const routeSidebandMetrics = Object.fromEntries(
  Object.entries(sidebandMetricDefinitions).map(([key, definition]) => [
    `sideband${key.charAt(0).toUpperCase()}${key.slice(1)}`,
    { ...definition, labels: ["route", ...definition.labels] },
  ]),
  // The keys and labels are those that the type spells.
) as unknown as PerRoute<typeof sidebandMetricDefinitions>;

/** Every metric of the gateway. The reference page is generated from this; no other file spells a metric name. */
export const metricDefinitions = {
  exchanges: counter(
    "headgate_exchanges_total",
    ["route", "method", "era", "outcome"],
    "Messages handled, by outcome.",
  ),
  exchangeDuration: histogram(
    "headgate_exchange_duration_seconds",
    ["route", "method"],
    "Time from receiving a request to sending its answer.",
    durationBuckets,
  ),
  upstreamRequests: counter(
    "headgate_upstream_requests_total",
    ["route", "outcome"],
    "Requests sent to upstream servers, by outcome.",
  ),
  sessions: gauge("headgate_sessions", ["route"], "Open sessions."),
  sessionsOpened: counter("headgate_sessions_opened_total", ["route"], "Sessions opened."),
  sessionsClosed: counter("headgate_sessions_closed_total", ["route", "reason"], "Sessions closed, by reason."),
  streams: gauge("headgate_streams", ["route", "leg"], "Open event streams."),
  pending: gauge("headgate_pending", ["route"], "Requests in flight."),
  refusals: counter(
    "headgate_refusals_total",
    ["route", "code"],
    "Messages that the gateway answered with an error of its own.",
  ),
  messages: counter(
    "headgate_messages_total",
    ["route", "leg", "direction", "kind"],
    "JSON-RPC messages received and sent.",
  ),
  bytes: counter(
    "headgate_bytes_total",
    ["leg", "direction"],
    "Bytes of JSON-RPC messages received and sent, without framing.",
  ),
  children: gauge("headgate_children", ["route"], "Running child processes."),
  childRestarts: counter("headgate_child_restarts_total", ["route"], "Child processes restarted after they exited."),
  memberExchanges: counter(
    "headgate_member_exchanges_total",
    ["route", "member", "outcome"],
    "Messages to and from the servers of a federation.",
  ),
  degradedLists: counter(
    "headgate_degraded_lists_total",
    ["route", "member"],
    "Lists that lacked a server of a federation, or showed its list as it was earlier.",
  ),
  logLinesDropped: counter(
    "headgate_log_lines_dropped_total",
    [],
    "Log lines dropped because standard error could not be written.",
  ),
  messageBytes: gauge(
    "headgate_message_bytes",
    [],
    "Bytes of clients' messages, unread answers and stored events, as counted for `limits.bytes`.",
  ),
  eventStoreBytes: gauge("headgate_event_store_bytes", [], "Bytes of events stored for stream resumption."),
  peers: gauge("headgate_peers", [], "Other gateways that are alive and share this one's sessions."),
  peersWithOtherConfig: gauge(
    "headgate_peers_with_other_configuration",
    [],
    "Other gateways whose configuration or drift lock differs from this one's.",
  ),
  forwarded: counter(
    "headgate_forwarded_requests_total",
    ["route"],
    "HTTP requests handed to the gateway that serves their session.",
  ),
  evictedReaders: counter(
    "headgate_evicted_readers_total",
    ["route"],
    "Streams closed because their reader was too slow.",
  ),
  correlation: counter("headgate_correlation_total", ["outcome"], "Requests and answers, by correlation outcome."),
  diagnostics: counter(
    "headgate_diagnostics_total",
    ["route", "code"],
    "Findings about messages, which change no traffic by themselves.",
  ),
  policyDecisions: counter(
    "headgate_policy_decisions_total",
    ["route", "phase", "effect", "mode"],
    "Policy decisions about messages and lists.",
  ),
  policyDuration: histogram(
    "headgate_policy_duration_seconds",
    ["route"],
    "Duration of a policy decision.",
    [0.00001, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  ),
  policyTimeouts: counter("headgate_policy_timeouts_total", ["route"], "Policy decisions that timed out."),
  policyFailOpen: counter(
    "headgate_policy_fail_open_total",
    ["route"],
    "Messages forwarded without a decision because of `failOpen`.",
  ),
  policyCache: counter(
    "headgate_policy_cache_total",
    ["route", "outcome"],
    "Decision cache look-ups, `hit` or `miss`.",
  ),
  policyRetries: counter("headgate_policy_retries_total", ["route"], "Retried calls to a decision point."),
  policyBreaker: gauge(
    "headgate_policy_breaker_open",
    ["route"],
    "Whether the circuit breaker of a decision point is open: 1 open, 0 closed.",
  ),
  ...routeSidebandMetrics,
  auditFailures: counter("headgate_audit_failures_total", [], "Failed writes of the audit stream. They are retried."),
  auditLost: counter(
    "headgate_audit_lost_total",
    [],
    "Decisions missing from the audit stream because its queue was full.",
  ),
  recordWritten: counter("headgate_record_frames_total", [], "Recorded frames written."),
  recordLost: counter(
    "headgate_record_lost_frames_total",
    [],
    "Frames missing from the recording: its queue was full, or its file was deleted, moved, emptied or overwritten.",
  ),
  startTime: gauge("process_start_time_seconds", [], "Start time of the process, in seconds since 1970."),
  uptime: gauge("process_uptime_seconds", [], "Uptime of the process."),
  cpu: counter("process_cpu_seconds_total", [], "CPU time used, user and system."),
  residentMemory: gauge("process_resident_memory_bytes", [], "Resident memory of the process."),
  heapUsed: gauge("nodejs_heap_size_used_bytes", [], "JavaScript heap in use."),
  heapTotal: gauge("nodejs_heap_size_total_bytes", [], "JavaScript heap reserved."),
  eventLoopLagMean: gauge("nodejs_eventloop_lag_mean_seconds", [], "Mean event loop delay since the last scrape."),
  eventLoopLagP99: gauge(
    "nodejs_eventloop_lag_p99_seconds",
    [],
    "99th percentile of the event loop delay since the last scrape.",
  ),
  eventLoopLagMax: gauge("nodejs_eventloop_lag_max_seconds", [], "Maximum event loop delay since the last scrape."),
} as const satisfies Record<string, MetricDefinition>;
