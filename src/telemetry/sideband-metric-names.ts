import type { MetricDefinition } from "./metric-names.ts";

const durationBuckets = [1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000] as const;

/** Every metric of the engine that asks PingAuthorize, as its plugins know them (PA-142 to PA-145, PA-187 to PA-189). */
export const sidebandMetricDefinitions = {
  duration: {
    name: "ping_authorize_sideband_duration_ms",
    type: "histogram",
    help: "Time of a sideband call, retries included.",
    labels: ["phase"],
    buckets: durationBuckets,
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
    help: "0 while the circuit breaker is closed, 1 while it is open.",
    labels: [],
  },
  decisions: {
    name: "ping_authorize_policy_decisions_total",
    type: "counter",
    help: "Decisions of the policy.",
    labels: ["decision"],
  },
  mcpRequests: {
    name: "mcp_requests_total",
    type: "counter",
    help: "MCP requests that were put to the policy.",
    labels: ["method"],
  },
  mcpDenied: {
    name: "mcp_denied_total",
    type: "counter",
    help: "MCP requests and responses that were refused, by reason.",
    labels: ["method", "reason"],
  },
  mcpToolCalls: {
    name: "mcp_tool_calls_total",
    type: "counter",
    help: "Tool calls by tool; tools beyond the first 200 count as `other`.",
    labels: ["tool"],
  },
} as const satisfies Readonly<Record<string, MetricDefinition>>;

/** Definitions as a gateway with several routes has them: told apart by route, under keys of their own. */
type PerRoute<D extends Readonly<Record<string, MetricDefinition>>> = {
  readonly [Key in keyof D & string as `sideband${Capitalize<Key>}`]: Omit<D[Key], "labels"> & {
    readonly labels: readonly ("route" | D[Key]["labels"][number])[];
  };
};

/** The same metrics with the route as their first label, so that routes do not overwrite each other. */
export const routeSidebandMetrics = Object.fromEntries(
  Object.entries(sidebandMetricDefinitions).map(([key, definition]) => [
    `sideband${key.charAt(0).toUpperCase()}${key.slice(1)}`,
    { ...definition, labels: ["route", ...definition.labels] },
  ]),
  // Each entry is its definition with one label more, under the name that the type spells.
) as unknown as PerRoute<typeof sidebandMetricDefinitions>;
