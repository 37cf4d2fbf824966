import type { KitSettings } from "../settings/settings.ts";
import { createSseSessions, type SseSessionsLimits } from "../sse/sessions.ts";
import { answerPreflight, corsHeaders, createRequestChecks } from "./admission.ts";
import type { HttpEdge, HttpEdgeDeps, KitHealth, PeerDetails } from "./contract.ts";
import {
  createEdgeMetrics,
  describeHealth,
  formatBootReport,
  requireLoginMethod,
  securityWarnings,
  type StoreHealth,
} from "./diagnostics.ts";
import { sseOpenApiPaths } from "./open-api.ts";
import { HttpRefusal, httpRefusal } from "./refusal.ts";
import { allowHeader, createRouteHandlers, findRoute, type KitRoute, routeMethods } from "./route-handlers.ts";

/** Creates the HTTP edge of a kit; throws if authentication is required and nobody can log in. */
export function createHttpEdge(deps: HttpEdgeDeps): HttpEdge {
  const { core, clock, setTimer, newId } = deps;
  requireLoginMethod(core.settings(), deps.authenticator !== undefined || deps.identify !== undefined);
  const log = deps.log.child({ logger: core.settings().transport.loggerCategory });
  const registry = createEdgeMetrics(core);
  const { metrics } = registry;
  const openSessions = metrics.sessions.labels({});
  const bytesOut = metrics.bytesOut.labels({});
  const healthListeners = new Set<(health: KitHealth) => void>();
  let store: StoreHealth = { ok: true };
  let isStopping = false;
  let stopped: Promise<void> | undefined;

  const sessions = createSseSessions({
    limits: () => sseLimits(core.settings()),
    clock,
    setTimer,
    newId,
    createServer: (sessionId, sessionLog) =>
      core.createServer({ via: "http-sse", sessionId, log: sessionLog, era: "legacy" }),
    onWritten: (bytes) => bytesOut.inc(bytes),
    onEnd: (reason) => metrics.sessionsEnded.labels({ reason }).inc(),
    onChange: () => {
      openSessions.set(sessions.size);
      notifyHealth();
    },
  });
  const checks = createRequestChecks(core, clock);
  const handlers = createRouteHandlers({ ...deps, log }, checks, sessions, metrics.ackLatency.labels({}));
  const stopCounting = core.onCall(({ tool, via, outcome, durationMs }) => {
    metrics.calls.labels({ tool, via, outcome }).inc();
    metrics.callDuration.labels({ tool }).observe(durationMs / 1000);
  });
  let stopHeartbeat = scheduleHeartbeat();

  function notifyHealth(): void {
    if (healthListeners.size === 0) return;
    const current = describeHealth(core, sessions, store, isStopping);
    for (const listener of healthListeners) listener(current);
  }

  async function health(): Promise<KitHealth> {
    store = await core.storeHealth();
    return describeHealth(core, sessions, store, isStopping);
  }

  /** The diagnostic heartbeat (KO-039): a log line and a health update, never an event. */
  function scheduleHeartbeat(): () => void {
    return setTimer(core.settings().transport.heartbeatInterval, () => {
      log.debug({ connections: sessions.size, evictions: sessions.evictions }, "transport heartbeat");
      notifyHealth();
      stopHeartbeat = scheduleHeartbeat();
    });
  }

  async function respond(route: KitRoute, request: Request, details: PeerDetails, url: URL): Promise<Response> {
    const { kind } = route;
    if (kind === "health") {
      const { status } = await health();
      return Response.json(
        { status },
        { status: status === "stopping" ? 503 : 200, headers: { "cache-control": "no-store" } },
      );
    }
    if (isStopping) return httpRefusal("shutting_down");
    const inbound = checks.read(request, details, url, kind);
    const refusal = checks.check(inbound, kind);
    if (refusal !== undefined) return refusal;
    const { method, headers } = request;
    if (method === "OPTIONS") return answerPreflight(headers, kind, allowHeader(kind), core.settings());
    if (!(routeMethods[kind] as readonly string[]).includes(method)) {
      return httpRefusal("method_not_allowed", { headers: { allow: allowHeader(kind) } });
    }
    return handlers[kind](inbound, route.rest);
  }

  async function shutdown(): Promise<void> {
    isStopping = true;
    notifyHealth();
    const { shutdownTimeout } = core.settings().transport;
    await Promise.all([core.drain(shutdownTimeout), sessions.drain(shutdownTimeout)]);
    await sessions.endAll();
    stopHeartbeat();
    stopCounting();
  }

  return {
    handle: async (request, details = {}) => {
      const url = new URL(request.url);
      const route = findRoute(url.pathname, core.settings());
      if (route === undefined) return undefined;
      let response: Response;
      try {
        response = await respond(route, request, details, url);
      } catch (error) {
        const id = newId();
        // The response never carries the stack.
        const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
        log.error({ id, route: route.kind, error: reason }, "request failed");
        response = httpRefusal("internal_error", { id });
      }
      if (response instanceof HttpRefusal) metrics.refused.labels({ code: response.code }).inc();
      for (const [name, value] of Object.entries(corsHeaders(request.headers.get("origin"), core.settings()))) {
        if (name === "vary") response.headers.append(name, value);
        else response.headers.set(name, value);
      }
      return response;
    },
    health,
    onHealth: (listener) => {
      healthListeners.add(listener);
      return () => healthListeners.delete(listener);
    },
    metrics: () => registry.text(),
    openApi: () => ({ ...core.openApi(), ...sseOpenApiPaths(core.settings()) }),
    bootReport: () => formatBootReport(core.settings(), core.counts()),
    warnings: () => securityWarnings(core.settings()),
    shutdown: async () => {
      stopped ??= shutdown();
      return stopped;
    },
  };
}

function sseLimits({ maxConcurrentConnections, sseConnectionTimeout, transport }: KitSettings): SseSessionsLimits {
  return {
    maxConnections: maxConcurrentConnections,
    idleMs: sseConnectionTimeout,
    keepAliveMs: transport.sseKeepAliveInterval,
    bufferBytes: transport.sseBufferSize,
    maxQueuedBytes: transport.maxQueuedBytes,
  };
}
