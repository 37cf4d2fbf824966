import type { HttpEdge, HttpEdgeDeps, KitHealth, PeerDetails } from "../contract/contract.ts";
import { createRouteHandlers } from "./route-handlers.ts";
import { createRequestChecks } from "./admission.ts";
import {
  createEdgeMetrics,
  describeHealth,
  formatBootReport,
  requireLoginMethod,
  securityWarnings,
  type StoreHealth,
} from "./diagnostics.ts";
import { sseOpenApiPaths } from "./open-api.ts";
import { corsHeaders, preflight } from "./origins.ts";
import { HttpRefusal, refuseRequest } from "./refusal.ts";
import { allowHeader, findRoute, type KitRoute, routeMethods } from "./routes.ts";
import { createSseSessions } from "../sse/sessions.ts";

/** Makes the HTTP edge of a kit; throws where the settings could serve nobody. */
export function createHttpEdge(options: HttpEdgeDeps): HttpEdge {
  const { core, clock, setTimer, newId } = options;
  const settings = core.settings();
  requireLoginMethod(settings, {
    hasAuthenticator: options.authenticator !== undefined,
    hasHostLogin: options.identify !== undefined,
  });
  const log = options.log.child({ logger: settings.transport.loggerCategory });
  const registry = createEdgeMetrics();
  const { metrics } = registry;
  const openSessions = metrics.sessions.labels({});
  const bytesOut = metrics.bytesOut.labels({});
  const listeners = new Set<(health: KitHealth) => void>();
  let store: StoreHealth = { ok: true };
  let isStopping = false;
  let stopped: Promise<void> | undefined;

  const sessions = createSseSessions({
    limits: () => {
      const { maxConcurrentConnections, sseConnectionTimeout, transport } = core.settings();
      return {
        maxConnections: maxConcurrentConnections,
        idleMs: sseConnectionTimeout,
        keepAliveMs: transport.sseKeepAliveInterval,
        bufferBytes: transport.sseBufferSize,
        maxQueuedBytes: transport.maxQueuedBytes,
      };
    },
    clock,
    setTimer,
    newId,
    createServer: (sessionId, sessionLog) =>
      core.createServer({ via: "http-sse", sessionId, log: sessionLog, era: "legacy" }),
    onWritten: (bytes) => bytesOut.inc(bytes),
    onEnd: (reason) => metrics.sessionsEnded.labels({ reason }).inc(),
    onChange: () => {
      openSessions.set(sessions.size);
      push();
    },
  });
  const forecourt = createRequestChecks(core, clock);
  const answers = createRouteHandlers({ ...options, log }, forecourt, sessions, metrics.ackLatency.labels({}));

  const stopCounting = core.onCall(({ tool, via, outcome, durationMs }) => {
    metrics.calls.labels({ tool, via, outcome }).inc();
    metrics.callDuration.labels({ tool }).observe(durationMs / 1000);
  });

  function push(): void {
    if (listeners.size === 0) return;
    const current = describeHealth(core, sessions, store, isStopping);
    for (const listener of listeners) listener(current);
  }

  async function health(): Promise<KitHealth> {
    store = await core.storeHealth();
    return describeHealth(core, sessions, store, isStopping);
  }

  /** The diagnostic heartbeat (KO-039): says in log and health that the transport lives; never an event. */
  function pulse(): () => void {
    let stop = setTimer(core.settings().transport.heartbeatInterval, tick);
    function tick(): void {
      log.debug({ connections: sessions.size, evictions: sessions.evictions }, "transport heartbeat");
      push();
      stop = setTimer(core.settings().transport.heartbeatInterval, tick);
    }
    return () => stop();
  }
  const stopPulse = pulse();

  async function answer(route: KitRoute, request: Request, facts: PeerDetails, url: URL): Promise<Response> {
    const { kind } = route;
    const { method } = request;
    if (kind === "health") return healthResponse();
    if (isStopping) return refuseRequest("shutting_down");
    const arrival = forecourt.read(request, facts, url, kind);
    const early = forecourt.check(arrival, kind);
    if (early !== undefined) return early;
    if (method === "OPTIONS") return preflight(request.headers, kind, allowHeader(kind), core.settings());
    if (!(routeMethods[kind] as readonly string[]).includes(method)) {
      return refuseRequest("method_not_allowed", { headers: { allow: allowHeader(kind) } });
    }
    return answers[kind](arrival, route.rest);
  }

  async function drainAndEnd(): Promise<void> {
    isStopping = true;
    push();
    const { shutdownTimeout } = core.settings().transport;
    await Promise.all([core.drain(shutdownTimeout), sessions.drain(shutdownTimeout)]);
    await sessions.endAll();
    stopPulse();
    stopCounting();
  }

  async function healthResponse(): Promise<Response> {
    const { status } = await health();
    return Response.json(
      { status },
      { status: status === "stopping" ? 503 : 200, headers: { "cache-control": "no-store" } },
    );
  }

  return {
    handle: async (request, facts = {}) => {
      const url = new URL(request.url);
      const route = findRoute(url.pathname, core.settings());
      if (route === undefined) return undefined;
      let response: Response;
      try {
        response = await answer(route, request, facts, url);
      } catch (error) {
        const id = newId();
        log.error({ id, route: route.kind, error: describeError(error) }, "request failed");
        response = refuseRequest("internal_error", { id });
      }
      if (response instanceof HttpRefusal) metrics.refused.labels({ code: response.code }).inc();
      const cors = corsHeaders(request.headers.get("origin"), core.settings());
      for (const [name, value] of Object.entries(cors)) {
        if (name === "vary") response.headers.append(name, value);
        else response.headers.set(name, value);
      }
      return response;
    },
    health,
    onHealth: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    metrics: () => registry.text(),
    openApi: () => ({ ...core.openApi(), ...sseOpenApiPaths(core.settings()) }),
    bootReport: () => formatBootReport(core.settings(), core.counts()),
    warnings: () => securityWarnings(core.settings()),
    shutdown: async () => {
      stopped ??= drainAndEnd();
      return stopped;
    },
  };
}

/** The stack for the log only: an answer never carries it. */
function describeError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
