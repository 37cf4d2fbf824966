import { randomBytes } from "node:crypto";
import type { RequestListener } from "node:http";
import type { Config } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import { anonymous, systemClock, systemTimer } from "../exchange.ts";
import type { Exchange } from "../exchange.ts";
import { composeInterceptors } from "../intercept/compose.ts";
import type { MessageInterceptor } from "../intercept/interceptor.ts";
import { PauseBoard } from "../intercept/pause-board.ts";
import type { Interceptor } from "../pipeline.ts";
import { newestModern } from "../protocol/revisions.ts";
import { createCorrelator } from "../sessions/correlation/correlator.ts";
import { defaultTtl } from "../sessions/correlation/method-plan.ts";
import { defaultCorrelationLimits } from "../sessions/correlation/options.ts";
import { errorFields } from "../telemetry/error-fields.ts";
import { createLogger } from "../telemetry/log.ts";
import type { Logger } from "../telemetry/log.ts";
import { watchProcess } from "../telemetry/process-metrics.ts";
import type { McpServerFactory } from "../transports/in-process/client.ts";
import type { HttpUpstream } from "../transports/streamable-http/client.ts";
import type { Environment } from "../transports/stdio/environment.ts";
import { createWatchdog } from "../transports/stdio/watchdog.ts";
import type { Channel, ChannelEvents } from "../transports/transport.ts";
import { isLoopbackHost } from "./access.ts";
import { adminListener, createAdmin } from "./admin.ts";
import { serveChannel } from "./client-channel.ts";
import { createConcurrency, createConcurrencyLimit } from "./concurrency.ts";
import { createCorrelate, onEntryFinished } from "./correlate.ts";
import { createEndpoint } from "./endpoint.ts";
import { createEdge } from "./http.ts";
import type { Serve } from "./http.ts";
import { createListener } from "./listener.ts";
import type { Listener } from "./listener.ts";
import { createObserver } from "./observe.ts";
import { createRateLimit } from "./rate-limits.ts";
import { createRoute } from "./route.ts";
import type { Route } from "./route.ts";
import { meterCorrelation } from "./route-meters.ts";
import { createContext } from "./shared.ts";
import { createPassThrough } from "./pass-through.ts";
import { createSseEndpoints } from "./sse-endpoints.ts";
import { createTrafficObserver } from "./traffic-observer.ts";
import { createMeterTap } from "./taps.ts";
import { createUpstreamHealth } from "./upstream-health.ts";
import { openUpstream } from "./upstreams.ts";

/** What a gateway may be given besides its configuration. */
export interface GatewayOptions {
  /** Steps of your own for every message, beside what the configuration brings. */
  readonly interceptors?: readonly MessageInterceptor[];
  readonly log?: Logger;
  /** The environment of which child processes get the few variables that every program needs. */
  readonly environment?: Environment;
  /** Serves `/readyz` and `/metrics` on the clients' listener; for a start without configuration. */
  readonly adminOnSamePort?: boolean;
  /** Makes the server of routes that are configured as `demo`. */
  readonly demo?: McpServerFactory;
}

/** A gateway: routes, sessions and counters; it listens when told to. */
export interface Gateway extends AsyncDisposable {
  /** Begins to listen as configured; resolves with the address of the clients' listener. */
  listen(): Promise<{ readonly url: string; readonly adminUrl: string | undefined }>;
  /** Takes HTTP requests without listening itself: to be mounted in a server of your own. */
  readonly handle: RequestListener;
  /** Serves one client over a channel, such as the standard streams; the route may be left out if there is one only. */
  serve(channel: Channel, route: string | undefined, onGone: () => void): ChannelEvents;
  /** The messages that interceptors hold for a decision. */
  readonly held: PauseBoard;
  /** The figures, in the Prometheus text format. */
  metrics(): string;
  /** Takes no new work, lets running calls finish within the configured time, then ends everything. */
  close(): Promise<void>;
}

/** Builds a gateway. Nothing is connected or started before it is needed. */
export function createGateway(config: Config, options: GatewayOptions = {}): Gateway {
  const clock = systemClock;
  const setTimer = systemTimer;
  const log =
    options.log ?? createLogger({ level: config.log.level, pretty: false, redact: config.secrets.redact });
  const { limits } = config;
  const parse = { maxBytes: limits.bodyBytes, maxDepth: limits.depth, maxBatch: limits.batch };
  const context = createContext({
    parse,
    queueBytes: limits.queueBytes,
    sessions: {
      sessions: limits.sessions,
      sessionsPerPrincipal: limits.sessionsPerPrincipal,
      idleMs: config.sessions.idle,
      ageMs: config.sessions.age,
    },
    eventStore: limits.eventStore,
    keepAliveMs: config.timeouts.streamKeepAlive,
    trustedProxies: config.listen.trustedProxies,
    log,
    clock,
    setTimer,
  });
  const watching = watchProcess(context.metrics, clock);
  const environment = options.environment ?? {};
  const watchdog = createWatchdog({
    environment,
    clock,
    setTimer,
    onTrouble: (error) => {
      log.error(errorFields(error), "the watchdog of child processes is in trouble");
    },
  });
  const held = new PauseBoard({ clock, setTimer, newId: context.newExchangeId });
  const custom = composeInterceptors(options.interceptors ?? [], { clock, setTimer, board: held });
  const concurrency = { total: limits.concurrentRequests, perPrincipal: limits.perPrincipalRequests };
  const concurrencyLimit = createConcurrencyLimit(createConcurrency(concurrency));
  const routes = Object.values(config.routes).map((routeConfig) => buildRoute(routeConfig));
  meterCorrelation(context.metrics, routes);
  let isShuttingDown = false;
  const listeners: Listener[] = [];

  function buildRoute(routeConfig: Config["routes"][string]) {
    const upstream = openUpstream(routeConfig, {
      clock,
      setTimer,
      log,
      metrics: context.metrics,
      limits: parse,
      stdioLineBytes: limits.stdioLineBytes,
      queueBytes: limits.queueBytes,
      newId: () => randomBytes(8).toString("hex"),
      environment,
      watchdog,
      demo: options.demo ?? missingDemo,
    });
    const correlator = createCorrelator<Exchange>({
      clock,
      setTimer,
      mode: "terminate",
      limits: { ...defaultCorrelationLimits, perScope: limits.pendingPerScope, total: limits.pending },
      ttl: {
        quickMs: routeConfig.timeouts.quick,
        toolMs: routeConfig.timeouts.tool,
        humanMs: routeConfig.timeouts.human,
        hardMs: routeConfig.timeouts.hard,
        methods: [],
        tools: routeConfig.timeouts.tools,
      },
      onFinished: onEntryFinished,
    });
    const rateLimit = createRateLimit(routeConfig.rates, clock.now);
    const interceptors: readonly Interceptor[] = [
      createObserver(routeConfig.name, context.metrics, log, clock.now),
      ...(rateLimit === undefined ? [] : [rateLimit]),
      concurrencyLimit,
      custom,
      createCorrelate(correlator, context.registry),
    ];
    const health = createUpstreamHealth(routeConfig.name, context.metrics, clock);
    const era = eraOf(routeConfig.upstream);
    const route = createRoute(context, {
      name: routeConfig.name,
      serving: { eras: era === "auto" ? "both" : era, supported: [newestModern] },
      forwardHeaders: routeConfig.forwardHeaders,
      open: upstream.open,
      modernSharing: upstream.modernSharing,
      seesHeaders: upstream.seesHeaders,
      interceptors,
      tap: createMeterTap(routeConfig.name, context.metrics),
      health,
    });
    return {
      name: routeConfig.name,
      ...(routeConfig.mode === "observe" && upstream.http !== undefined
        ? { serve: observing(routeConfig.name, upstream.http) }
        : {}),
      route,
      health,
      statistics: () => correlator.statistics(),
      prefixes: routeConfig.prefixes,
      drain: () => correlator.drain(),
      close: async (reason: string) => {
        await route.close(reason);
        correlator.close();
        await upstream.close(reason);
      },
    };
  }

  /** A route that only watches: nothing is refused, changed or held up. */
  function observing(name: string, upstream: HttpUpstream): Serve {
    const observer = createTrafficObserver({
      route: name,
      limits: parse,
      correlator: createCorrelator<undefined>({
        clock,
        setTimer,
        mode: "observe",
        limits: defaultCorrelationLimits,
        ttl: defaultTtl,
      }),
      log,
    });
    return createPassThrough(upstream, observer, (error) => {
      log.error({ route: name, reason: String(error) }, "the observer failed; traffic is not affected");
    });
  }

  const admin = createAdmin(context.metrics, () => ({
    isReady: !isShuttingDown,
    routes: Object.fromEntries(routes.map(({ name, health }) => [name, health.state])),
  }));
  const sse = createSseEndpoints(context, publicPathOf(config));
  const handle = createEdge(context, {
    access: {
      isLoopback: config.listen.unixSocket !== undefined || isLoopbackHost(config.listen.host),
      allowedHosts: [...config.listen.allowedHosts, ...hostsOf(config)],
      allowedOrigins: [...config.listen.allowedOrigins, ...originsOf(config)],
      corsOrigins: config.listen.cors.origins,
    },
    routes,
    streamableHttp: createEndpoint(context),
    sseStream: sse.stream,
    sseMessages: sse.messages,
    extra: options.adminOnSamePort === true ? admin : {},
    receiving: createConcurrency(concurrency),
    isShuttingDown: () => isShuttingDown,
  });

  async function listen() {
    const { tls, unixSocket, host, port } = config.listen;
    const main = await createListener(
      {
        host,
        port,
        unixSocket,
        tls,
        headerBytes: limits.headerBytes,
        onCertificate: (problem) => {
          if (problem === undefined) log.info({}, "the certificate has been read anew");
          else log.warn({ problem }, "the new certificate cannot be used; the old one stays");
        },
      },
      handle,
    );
    listeners.push(main);
    let adminUrl: string | undefined;
    if (options.adminOnSamePort === true) adminUrl = main.address;
    else if (config.admin !== false) {
      const own = await createListener(
        { ...config.admin, headerBytes: limits.headerBytes },
        adminListener(admin),
      );
      listeners.push(own);
      adminUrl = own.address;
    }
    return { url: config.listen.publicUrl ?? main.address, adminUrl };
  }

  async function close(): Promise<void> {
    if (isShuttingDown) return;
    isShuttingDown = true;
    for (const listener of listeners) listener.stop();
    await within(config.shutdown.grace, Promise.all(routes.map(({ drain }) => drain())));
    await held[Symbol.asyncDispose]();
    await sse.close("the gateway is shutting down");
    context.close("the gateway is shutting down");
    await Promise.all(routes.map((route) => route.close("the gateway is shutting down")));
    await Promise.all(listeners.map((listener) => listener.close()));
    await watchdog.close();
    watching[Symbol.dispose]();
  }

  return {
    listen,
    handle,
    serve: (channel, name, onGone) => {
      const found =
        (name === undefined && routes.length === 1 ? routes[0]?.route : undefined) ??
        routeNamed(routes, name);
      return serveChannel(context, channel, {
        route: found,
        principal: anonymous,
        eras: "both",
        context: { type: "stdio", incarnation: channel.incarnation },
        onGone,
      });
    },
    held,
    metrics: () => context.metrics.text(),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** HTTP+SSE ended before the modern era, so that clients of both eras must find a legacy endpoint there. */
function eraOf(upstream: Config["routes"][string]["upstream"]): "auto" | "legacy" | "modern" {
  if (upstream.type === "http" && upstream.transport === "sse") return "legacy";
  return upstream.type === "http" || upstream.type === "stdio" ? upstream.era : "auto";
}

function routeNamed(routes: readonly { readonly route: Route }[], name: string | undefined): Route {
  const found = routes.find(({ route }) => route.name === name)?.route;
  if (found !== undefined) return found;
  const names = routes.map(({ route }) => route.name).join(", ");
  throw new GatewayError("config_invalid", `name one of the routes: ${names}`);
}

function within(milliseconds: number, work: Promise<unknown>): Promise<unknown> {
  return Promise.race([
    work,
    new Promise<void>((resolve) => {
      systemTimer(milliseconds, resolve);
    }),
  ]);
}

function hostsOf({ listen }: Config): readonly string[] {
  const publicHost = listen.publicUrl === undefined ? [] : [new URL(listen.publicUrl).host];
  return isLoopbackHost(listen.host) ? publicHost : [];
}

function publicPathOf({ listen }: Config): string {
  return listen.publicUrl === undefined ? "" : new URL(listen.publicUrl).pathname.replace(/\/$/u, "");
}

function originsOf({ listen }: Config): readonly string[] {
  return listen.publicUrl === undefined ? [] : [new URL(listen.publicUrl).origin];
}

function missingDemo(): never {
  throw new GatewayError("config_invalid", "this build has no demo server");
}
