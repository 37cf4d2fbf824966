import { createRegistry, type Registry } from "../../telemetry/metrics.ts";
import type { MetricDefinition } from "../../telemetry/metric-names.ts";
import type { KitCore, KitHealth } from "../contract/contract.ts";
import type { KitSettings } from "../contract/settings.ts";
import type { SseSessions } from "../sse/sessions.ts";
import { GatewayError } from "../../errors.ts";

const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60] as const;

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

/** The section of the start-up report about MCP, one `name: value` a line (KO-122). */
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

/** From this share of the connection limit on the kit counts as degraded (KO-120). */
const degradedShare = 0.8;

/** What is known about the store without asking it again. */
export type StoreHealth = Awaited<ReturnType<KitCore["storeHealth"]>>;

/** How full and how well the kit is; no open connection is healthy (A24). */
export function describeHealth(
  core: KitCore,
  sessions: SseSessions,
  store: StoreHealth,
  isStopping: boolean,
): KitHealth {
  const { maxConcurrentConnections: max, transport } = core.settings();
  const isCrowded = max > 0 && sessions.size >= max * degradedShare;
  const reason = store.ok
    ? isCrowded
      ? `${sessions.size} of ${max} connections are in use`
      : undefined
    : `the store fails: ${store.reason ?? "no reason given"}`;
  return {
    status: isStopping ? "stopping" : reason === undefined ? "healthy" : "degraded",
    ...(reason === undefined ? {} : { reason }),
    activeConnections: sessions.size,
    maxConnections: max,
    lastChange: new Date(sessions.lastChange).toISOString(),
    heartbeatIntervalMs: transport.sseKeepAliveInterval,
    evictions: sessions.evictions,
  };
}

/** Whether anybody can log in at all. */
export interface LoginMethods {
  readonly hasAuthenticator: boolean;
  readonly hasHostLogin: boolean;
}

/** Refuses to start where everybody would have to log in and nobody can (KO-049). */
export function requireLoginMethod(settings: KitSettings, { hasAuthenticator, hasHostLogin }: LoginMethods): void {
  const isHttpOn = settings.enableHttpSseTransport || settings.enableStreamableHttp || settings.enableRest;
  if (!isHttpOn || !settings.requireAuthentication || hasAuthenticator || hasHostLogin) return;
  const why = settings.isAuthenticationExplicit
    ? "requireAuthentication is true"
    : `authentication is required in ${settings.environmentName}`;
  throw new GatewayError(
    "config_invalid",
    `server kit: ${why}, but there is no token verifier and no host login. ` +
      "Give createServerKit an `auth` that verifies tokens or identifies the host's users, " +
      "or set requireAuthentication to false and accept the risk.",
  );
}

/** What an operator should worry about, each with the setting to change (KO-101, KO-108, KO-111). */
export function securityWarnings(settings: KitSettings): readonly string[] {
  const { deployed, environmentName, requireAuthentication, requireHttps, enableCors, allowedOrigins } = settings;
  const isHttpOn = settings.enableHttpSseTransport || settings.enableStreamableHttp || settings.enableRest;
  if (!isHttpOn) return [];
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
      ? ["CORS is on but allowedOrigins is empty: no page of another origin can call. List the exact origins."]
      : []),
    ...(deployed && settings.allowQueryToken === true && !settings.enableRateLimiting
      ? ["allowQueryToken is on without rate limits: query tokens are refused. Set enableRateLimiting to true."]
      : []),
  ];
}
