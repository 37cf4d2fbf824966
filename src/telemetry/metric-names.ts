import { routeSidebandMetrics } from "./sideband-metric-names.ts";

/** What a metric is called, what it counts, and by which labels it is told apart. */
export interface MetricDefinition {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** One sentence for the exposition and the reference page. */
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of a histogram's buckets, ascending; the one for everything is implied. */
  readonly buckets?: readonly number[];
}

/** The meaning of every label; whatever is not a known name is counted as `other`. */
export const labelMeanings = {
  route: "name of the route in the configuration",
  method: "JSON-RPC method, `other` where no revision of MCP knows it",
  era: "`legacy` or `modern`",
  outcome: "how it ended",
  reason: "why it ended",
  leg: "`client` or `upstream`",
  direction: "`in` for what the gateway received, `out` for what it sent",
  code: "code of the error table",
  kind: "`request`, `notification`, `result` or `error`",
  phase: "`request` (`access` for PingAuthorize), `response`, or `list` for the entries of a list",
  effect: "`allow`, `change`, `filter` or `deny`",
  mode: "`enforce`, or `shadow` where decisions are not carried out",
  result: "`allow`, `deny` or `error`",
  decision: "`allow` or `deny`",
  tool: "name of a tool, `other` for those beyond the first 200",
} as const;

const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800,
] as const;

/** Every metric of the gateway: no metric name stands anywhere else, and the reference page is made from this. */
export const metricDefinitions = {
  exchanges: {
    name: "headgate_exchanges_total",
    type: "counter",
    help: "Messages that passed the pipeline, by how they ended.",
    labels: ["route", "method", "era", "outcome"],
  },
  exchangeDuration: {
    name: "headgate_exchange_duration_seconds",
    type: "histogram",
    help: "Time from a request's arrival to its answer.",
    labels: ["route", "method"],
    buckets: durationBuckets,
  },
  upstreamRequests: {
    name: "headgate_upstream_requests_total",
    type: "counter",
    help: "Requests sent to upstream servers, by how they ended.",
    labels: ["route", "outcome"],
  },
  sessions: {
    name: "headgate_sessions",
    type: "gauge",
    help: "Sessions that are open now.",
    labels: ["route"],
  },
  sessionsOpened: {
    name: "headgate_sessions_opened_total",
    type: "counter",
    help: "Sessions opened since the start.",
    labels: ["route"],
  },
  sessionsClosed: {
    name: "headgate_sessions_closed_total",
    type: "counter",
    help: "Sessions ended since the start, by reason.",
    labels: ["route", "reason"],
  },
  streams: {
    name: "headgate_streams",
    type: "gauge",
    help: "Event streams that are open now.",
    labels: ["route", "leg"],
  },
  pending: {
    name: "headgate_pending",
    type: "gauge",
    help: "Requests that wait for their answer now.",
    labels: ["route"],
  },
  refusals: {
    name: "headgate_refusals_total",
    type: "counter",
    help: "Messages that the gateway itself answered with an error.",
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
    help: "Child processes that run now.",
    labels: ["route"],
  },
  childRestarts: {
    name: "headgate_child_restarts_total",
    type: "counter",
    help: "Child processes started again after they ended by themselves.",
    labels: ["route"],
  },
  eventStoreBytes: {
    name: "headgate_event_store_bytes",
    type: "gauge",
    help: "Bytes of events kept for clients that resume a stream.",
    labels: [],
  },
  evictedReaders: {
    name: "headgate_evicted_readers_total",
    type: "counter",
    help: "Streams cut because their reader was too slow for its queue.",
    labels: ["route"],
  },
  correlation: {
    name: "headgate_correlation_total",
    type: "counter",
    help: "Requests and answers by what correlation made of them.",
    labels: ["outcome"],
  },
  policyDecisions: {
    name: "headgate_policy_decisions_total",
    type: "counter",
    help: "Decisions of policies about messages and lists.",
    labels: ["route", "phase", "effect", "mode"],
  },
  policyDuration: {
    name: "headgate_policy_duration_seconds",
    type: "histogram",
    help: "Time that a decision took.",
    labels: ["route"],
    buckets: [0.00001, 0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  },
  policyTimeouts: {
    name: "headgate_policy_timeouts_total",
    type: "counter",
    help: "Decisions that did not come in time.",
    labels: ["route"],
  },
  policyFailOpen: {
    name: "headgate_policy_fail_open_total",
    type: "counter",
    help: "Messages that passed although no decision could be had, as configured.",
    labels: ["route"],
  },
  policyCache: {
    name: "headgate_policy_cache_total",
    type: "counter",
    help: "Looks for a decision among those that are kept, `hit` or `miss`.",
    labels: ["route", "outcome"],
  },
  policyRetries: {
    name: "headgate_policy_retries_total",
    type: "counter",
    help: "Questions that were put to a decision point again after a failure.",
    labels: ["route"],
  },
  policyBreaker: {
    name: "headgate_policy_breaker_open",
    type: "gauge",
    help: "1 while a decision point is not asked because it failed or wants a pause, else 0.",
    labels: ["route"],
  },
  ...routeSidebandMetrics,
  auditFailures: {
    name: "headgate_audit_failures_total",
    type: "counter",
    help: "Attempts to write the audit stream that failed; what was to be written is kept and tried again.",
    labels: [],
  },
  auditLost: {
    name: "headgate_audit_lost_total",
    type: "counter",
    help: "Decisions that are missing from the audit stream because too many were waiting.",
    labels: [],
  },
  recordWritten: {
    name: "headgate_record_frames_total",
    type: "counter",
    help: "Frames of recorded traffic that were written.",
    labels: [],
  },
  recordLost: {
    name: "headgate_record_lost_frames_total",
    type: "counter",
    help: "Frames that are missing from the recording because too many were waiting or the store failed.",
    labels: [],
  },
  startTime: {
    name: "process_start_time_seconds",
    type: "gauge",
    help: "When the process started, in seconds since 1970.",
    labels: [],
  },
  uptime: {
    name: "process_uptime_seconds",
    type: "gauge",
    help: "How long the process runs.",
    labels: [],
  },
  cpu: {
    name: "process_cpu_seconds_total",
    type: "counter",
    help: "Processor time used, user and system.",
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
    help: "Mean delay of the event loop since the last scrape.",
    labels: [],
  },
  eventLoopLagP99: {
    name: "nodejs_eventloop_lag_p99_seconds",
    type: "gauge",
    help: "99th percentile of the delay of the event loop since the last scrape.",
    labels: [],
  },
  eventLoopLagMax: {
    name: "nodejs_eventloop_lag_max_seconds",
    type: "gauge",
    help: "Largest delay of the event loop since the last scrape.",
    labels: [],
  },
} as const satisfies Record<string, MetricDefinition>;
