import { createRegistry, type Registry } from "../../telemetry/metrics.ts";
import type { MetricDefinition } from "../../telemetry/metric-names.ts";

const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
] as const;

/** Every metric of a kit's HTTP edge (KO-123); label values come from closed sets or from declared tools only. */
export const edgeMetricDefinitions = {
  sessions: {
    name: "headgate_kit_sessions",
    type: "gauge",
    help: "Event streams of the HTTP+SSE profile that are open now.",
    labels: [],
  },
  sessionsEnded: {
    name: "headgate_kit_sessions_ended_total",
    type: "counter",
    help: "Event streams that are over, by why they ended.",
    labels: ["reason"],
  },
  calls: {
    name: "headgate_kit_calls_total",
    type: "counter",
    help: "Tool calls by tool, transport and outcome.",
    labels: ["tool", "via", "outcome"],
  },
  callDuration: {
    name: "headgate_kit_call_duration_seconds",
    type: "histogram",
    help: "Time that the executor took for a call.",
    labels: ["tool"],
    buckets: durationBuckets,
  },
  ackLatency: {
    name: "headgate_kit_ack_latency_seconds",
    type: "histogram",
    help: "Time from the arrival of a post to the ack of its request.",
    labels: [],
    buckets: durationBuckets,
  },
  refused: {
    name: "headgate_kit_refused_total",
    type: "counter",
    help: "Requests that were refused, by code of the refusal.",
    labels: ["code"],
  },
  bytesOut: {
    name: "headgate_kit_bytes_out_total",
    type: "counter",
    help: "Bytes of events written to streams of the HTTP+SSE profile.",
    labels: [],
  },
} as const satisfies Record<string, MetricDefinition>;

/** The metrics of one edge. */
export type EdgeMetrics = Registry<typeof edgeMetricDefinitions>;

/** A fresh set of them. */
export function createEdgeMetrics(): EdgeMetrics {
  return createRegistry(edgeMetricDefinitions);
}
