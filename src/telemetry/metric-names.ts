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

/** Metrics of the PingAuthorize engine, named as in its plugins (PA-142 to PA-145, PA-187 to PA-189). */
export const sidebandMetricDefinitions = {
  duration: {
    name: "ping_authorize_sideband_duration_ms",
    type: "histogram",
    help: "Duration of a sideband call, including retries.",
    labels: ["phase"],
    buckets: sidebandBuckets,
  },
  calls: {
    name: "ping_authorize_sideband_total",
    type: "counter",
    help: "Sideband calls by phase and result.",
    labels: ["phase", "result"],
  },
  breaker: {
    name: "ping_authorize_circuit_breaker_state",
    type: "gauge",
    help: "State of the circuit breaker: 0 closed, 1 open.",
    labels: [],
  },
  decisions: {
    name: "ping_authorize_policy_decisions_total",
    type: "counter",
    help: "Policy decisions.",
    labels: ["decision"],
  },
  mcpRequests: {
    name: "mcp_requests_total",
    type: "counter",
    help: "MCP requests evaluated by the policy.",
    labels: ["method"],
  },
  mcpDenied: {
    name: "mcp_denied_total",
    type: "counter",
    help: "Refused MCP requests and responses, by reason.",
    labels: ["method", "reason"],
  },
  mcpToolCalls: {
    name: "mcp_tool_calls_total",
    type: "counter",
    help: "Tool calls by tool. Tools beyond the first 200 count as `other`.",
    labels: ["tool"],
  },
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
  exchanges: {
    name: "headgate_exchanges_total",
    type: "counter",
    help: "Messages handled, by outcome.",
    labels: ["route", "method", "era", "outcome"],
  },
  exchangeDuration: {
    name: "headgate_exchange_duration_seconds",
    type: "histogram",
    help: "Time from receiving a request to sending its answer.",
    labels: ["route", "method"],
    buckets: durationBuckets,
  },
  upstreamRequests: {
    name: "headgate_upstream_requests_total",
    type: "counter",
    help: "Requests sent to upstream servers, by outcome.",
    labels: ["route", "outcome"],
  },
  sessions: {
    name: "headgate_sessions",
    type: "gauge",
    help: "Open sessions.",
    labels: ["route"],
  },
  sessionsOpened: {
    name: "headgate_sessions_opened_total",
    type: "counter",
    help: "Sessions opened.",
    labels: ["route"],
  },
  sessionsClosed: {
    name: "headgate_sessions_closed_total",
    type: "counter",
    help: "Sessions closed, by reason.",
    labels: ["route", "reason"],
  },
  streams: {
    name: "headgate_streams",
    type: "gauge",
    help: "Open event streams.",
    labels: ["route", "leg"],
  },
  pending: {
    name: "headgate_pending",
    type: "gauge",
    help: "Requests in flight.",
    labels: ["route"],
  },
  refusals: {
    name: "headgate_refusals_total",
    type: "counter",
    help: "Messages that the gateway answered with an error of its own.",
    labels: ["route", "code"],
  },
  messages: {
    name: "headgate_messages_total",
    type: "counter",
    help: "JSON-RPC messages received and sent.",
    labels: ["route", "leg", "direction", "kind"],
  },
  bytes: {
    name: "headgate_bytes_total",
    type: "counter",
    help: "Bytes of JSON-RPC messages received and sent, without framing.",
    labels: ["leg", "direction"],
  },
  children: {
    name: "headgate_children",
    type: "gauge",
    help: "Running child processes.",
    labels: ["route"],
  },
  childRestarts: {
    name: "headgate_child_restarts_total",
    type: "counter",
    help: "Child processes restarted after they exited.",
    labels: ["route"],
  },
  memberExchanges: {
    name: "headgate_member_exchanges_total",
    type: "counter",
    help: "Messages to and from the servers of a federation.",
    labels: ["route", "member", "outcome"],
  },
  degradedLists: {
    name: "headgate_degraded_lists_total",
    type: "counter",
    help: "Lists that lacked a server of a federation, or showed its list as it was earlier.",
    labels: ["route", "member"],
  },
  logLinesDropped: {
    name: "headgate_log_lines_dropped_total",
    type: "counter",
    help: "Log lines dropped because standard error could not be written.",
    labels: [],
  },
  eventStoreBytes: {
    name: "headgate_event_store_bytes",
    type: "gauge",
    help: "Bytes of events stored for stream resumption.",
    labels: [],
  },
  peers: {
    name: "headgate_peers",
    type: "gauge",
    help: "Other gateways that are alive and share this one's sessions.",
    labels: [],
  },
  forwarded: {
    name: "headgate_forwarded_requests_total",
    type: "counter",
    help: "HTTP requests handed to the gateway that serves their session.",
    labels: ["route"],
  },
  evictedReaders: {
    name: "headgate_evicted_readers_total",
    type: "counter",
    help: "Streams closed because their reader was too slow.",
    labels: ["route"],
  },
  correlation: {
    name: "headgate_correlation_total",
    type: "counter",
    help: "Requests and answers, by correlation outcome.",
    labels: ["outcome"],
  },
  diagnostics: {
    name: "headgate_diagnostics_total",
    type: "counter",
    help: "Findings about messages, which change no traffic by themselves.",
    labels: ["route", "code"],
  },
  policyDecisions: {
    name: "headgate_policy_decisions_total",
    type: "counter",
    help: "Policy decisions about messages and lists.",
    labels: ["route", "phase", "effect", "mode"],
  },
  policyDuration: {
    name: "headgate_policy_duration_seconds",
    type: "histogram",
    help: "Duration of a policy decision.",
    labels: ["route"],
    buckets: [0.00001, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  },
  policyTimeouts: {
    name: "headgate_policy_timeouts_total",
    type: "counter",
    help: "Policy decisions that timed out.",
    labels: ["route"],
  },
  policyFailOpen: {
    name: "headgate_policy_fail_open_total",
    type: "counter",
    help: "Messages forwarded without a decision because of `failOpen`.",
    labels: ["route"],
  },
  policyCache: {
    name: "headgate_policy_cache_total",
    type: "counter",
    help: "Decision cache look-ups, `hit` or `miss`.",
    labels: ["route", "outcome"],
  },
  policyRetries: {
    name: "headgate_policy_retries_total",
    type: "counter",
    help: "Retried calls to a decision point.",
    labels: ["route"],
  },
  policyBreaker: {
    name: "headgate_policy_breaker_open",
    type: "gauge",
    help: "Whether the circuit breaker of a decision point is open: 1 open, 0 closed.",
    labels: ["route"],
  },
  ...routeSidebandMetrics,
  auditFailures: {
    name: "headgate_audit_failures_total",
    type: "counter",
    help: "Failed writes of the audit stream. They are retried.",
    labels: [],
  },
  auditLost: {
    name: "headgate_audit_lost_total",
    type: "counter",
    help: "Decisions missing from the audit stream because its queue was full.",
    labels: [],
  },
  recordWritten: {
    name: "headgate_record_frames_total",
    type: "counter",
    help: "Recorded frames written.",
    labels: [],
  },
  recordLost: {
    name: "headgate_record_lost_frames_total",
    type: "counter",
    help: "Frames missing from the recording: its queue was full, or its file was deleted or moved.",
    labels: [],
  },
  startTime: {
    name: "process_start_time_seconds",
    type: "gauge",
    help: "Start time of the process, in seconds since 1970.",
    labels: [],
  },
  uptime: {
    name: "process_uptime_seconds",
    type: "gauge",
    help: "Uptime of the process.",
    labels: [],
  },
  cpu: {
    name: "process_cpu_seconds_total",
    type: "counter",
    help: "CPU time used, user and system.",
    labels: [],
  },
  residentMemory: {
    name: "process_resident_memory_bytes",
    type: "gauge",
    help: "Resident memory of the process.",
    labels: [],
  },
  heapUsed: {
    name: "nodejs_heap_size_used_bytes",
    type: "gauge",
    help: "JavaScript heap in use.",
    labels: [],
  },
  heapTotal: {
    name: "nodejs_heap_size_total_bytes",
    type: "gauge",
    help: "JavaScript heap reserved.",
    labels: [],
  },
  eventLoopLagMean: {
    name: "nodejs_eventloop_lag_mean_seconds",
    type: "gauge",
    help: "Mean event loop delay since the last scrape.",
    labels: [],
  },
  eventLoopLagP99: {
    name: "nodejs_eventloop_lag_p99_seconds",
    type: "gauge",
    help: "99th percentile of the event loop delay since the last scrape.",
    labels: [],
  },
  eventLoopLagMax: {
    name: "nodejs_eventloop_lag_max_seconds",
    type: "gauge",
    help: "Maximum event loop delay since the last scrape.",
    labels: [],
  },
} as const satisfies Record<string, MetricDefinition>;
