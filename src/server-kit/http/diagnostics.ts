import { createRegistry, type Registry } from "../../telemetry/metrics.ts";
import type { MetricDefinition } from "../../telemetry/metric-names.ts";
import type { KitCore, KitHealth } from "./contract.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { SseSessions } from "../sse/sessions.ts";
import { GatewayError } from "../../errors.ts";

const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60] as const;

/** Every metric of a kit's HTTP edge (KO-123). Label values come from closed sets or declared tools. */
export const edgeMetricDefinitions = {
  sessions: { name: "headgate_kit_sessions", type: "gauge", help: "Open HTTP+SSE event streams.", labels: [] },
  streamableSessions: {
    name: "headgate_kit_streamable_sessions",
    type: "gauge",
    help: "Streamable HTTP sessions of 2025 clients, by state: idle or in_use.",
    labels: ["state"],
  },
  sessionsEnded: {
    name: "headgate_kit_sessions_ended_total",
    type: "counter",
    help: "Ended HTTP+SSE event streams, by reason.",
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
    help: "Duration of tool calls.",
    labels: ["tool"],
    buckets: durationBuckets,
  },
  ackLatency: {
    name: "headgate_kit_ack_latency_seconds",
    type: "histogram",
    help: "Time from receiving a POST to the ack of its request.",
    labels: [],
    buckets: durationBuckets,
  },
  refused: {
    name: "headgate_kit_refused_total",
    type: "counter",
    help: "Refused requests, by refusal code.",
    labels: ["code"],
  },
  bytesOut: {
    name: "headgate_kit_bytes_out_total",
    type: "counter",
    help: "Bytes written to HTTP+SSE event streams.",
    labels: [],
  },
} as const satisfies Record<string, MetricDefinition>;

/** The metrics of one HTTP edge. */
export type EdgeMetrics = Registry<typeof edgeMetricDefinitions>;

/** Creates the metrics of an HTTP edge. */
export function createEdgeMetrics(core: Pick<KitCore, "streamableSessions">): EdgeMetrics {
  const registry = createRegistry(edgeMetricDefinitions);
  registry.onCollect(() => {
    const { open, inUse } = core.streamableSessions();
    registry.metrics.streamableSessions.labels({ state: "in_use" }).set(inUse);
    registry.metrics.streamableSessions.labels({ state: "idle" }).set(open - inUse);
  });
  return registry;
}

/** The section about MCP in the start-up report, one `name: value` per line (KO-122). */
export function formatBootReport(settings: KitSettings, counts: ReturnType<KitCore["counts"]>): string {
  const onOff = (value: boolean): string => (value ? "enabled" : "disabled");
  const { enableHttpSseTransport, enableStreamableHttp, httpSseRoute, requireAuthentication } = settings;
  const isOn = enableHttpSseTransport || enableStreamableHttp;
  const rows: (readonly [string, string])[] = [
    ["STDIO", onOff(settings.enableStdioTransport)],
    ["HTTP+SSE", onOff(enableHttpSseTransport)],
    ["Streamable HTTP", onOff(enableStreamableHttp)],
    ...(isOn
      ? ([
          ["Route", httpSseRoute],
          ["Requires Authentication", String(requireAuthentication)],
          ["Capability Endpoint", String(enableHttpSseTransport && settings.publishCapabilityEndpoint)],
        ] as const)
      : []),
    ["REST", settings.enableRest ? settings.restRoute : "disabled"],
    ["Environment", settings.environmentName],
    ["Entities", String(counts.entities)],
    ["Tools", String(counts.tools)],
  ];
  return ["Model Context Protocol", ...rows.map(([name, value]) => `  ${name}: ${value}`)].join("\n");
}

/** The kit is degraded from this share of the connection limit on (KO-120). */
const degradedShare = 0.8;

/** The last known health of the store. */
export type StoreHealth = Awaited<ReturnType<KitCore["storeHealth"]>>;

/** The health of a kit; no open connection is healthy. */
export function describeHealth(
  core: KitCore,
  sessions: SseSessions,
  store: StoreHealth,
  isStopping: boolean,
): KitHealth {
  const { maxConcurrentConnections: max, transport } = core.settings();
  // HTTP+SSE and Streamable HTTP each have room for `max`; an idle session makes room, so it does not count.
  const { inUse } = core.streamableSessions();
  const busiest = Math.max(sessions.size, inUse);
  const reason = store.ok
    ? max > 0 && busiest >= max * degradedShare
      ? `${busiest} of ${max} connections are in use`
      : undefined
    : `the store failed: ${store.reason ?? "no reason given"}`;
  return {
    status: isStopping ? "stopping" : reason === undefined ? "healthy" : "degraded",
    ...(reason === undefined ? {} : { reason }),
    activeConnections: sessions.size + inUse,
    maxConnections: max,
    lastChange: new Date(sessions.lastChange).toISOString(),
    heartbeatIntervalMs: transport.sseKeepAliveInterval,
    evictions: sessions.evictions,
  };
}

/** Throws if authentication is required and there is no way to log in (KO-049). */
export function requireLoginMethod(settings: KitSettings, hasLogin: boolean): void {
  if (!settings.isHttpEnabled || !settings.requireAuthentication || hasLogin) return;
  const why = settings.isAuthenticationExplicit
    ? "requireAuthentication is true"
    : `authentication is required in ${settings.environmentName}`;
  throw new GatewayError(
    "config_invalid",
    `server kit: ${why}, but there is neither a token verifier nor a host login. ` +
      "Pass `auth` to createServerKit, " +
      "or set requireAuthentication to false and accept the risk.",
  );
}

/** Unsafe settings, each with what to change (KO-101, KO-108, KO-111). */
export function securityWarnings(settings: KitSettings): readonly string[] {
  const { deployed, environmentName, requireAuthentication, requireHttps, enableCors, allowedOrigins } = settings;
  if (!settings.isHttpEnabled) return [];
  return [
    ...(deployed && !requireAuthentication
      ? [
          `SECURITY WARNING: MCP over HTTP runs without authentication in ${environmentName}. ` +
            "Set requireAuthentication to true, or require it per entity.",
        ]
      : []),
    ...(deployed && !requireHttps
      ? [
          `SECURITY WARNING: MCP over HTTP accepts plain HTTP in ${environmentName}. ` +
            "Remove requireHttps: false, and name your TLS proxy in trustedProxies.",
        ]
      : []),
    ...(enableCors && allowedOrigins.length === 0
      ? ["CORS is enabled but allowedOrigins is empty, so no other origin can call. List the exact origins."]
      : []),
    ...(deployed && settings.allowQueryToken === true && !settings.enableRateLimiting
      ? ["allowQueryToken is set without rate limits, so query tokens are refused. Set enableRateLimiting to true."]
      : []),
  ];
}
