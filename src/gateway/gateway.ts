import { randomBytes } from "node:crypto";
import type { RequestListener } from "node:http";
import { createSubjectTokens } from "../auth/upstream-credentials.ts";
import { exposureProblem } from "../config/auth-checks.ts";
import type { Config } from "../config/config.ts";
import { createReloadableSecrets } from "../config/secrets.ts";
import { GatewayError } from "../errors.ts";
import { anonymous, systemClock, systemTimer } from "../core/exchange.ts";
import { composeInterceptors } from "../core/interceptors/compose.ts";
import type { MessageInterceptor } from "../core/interceptors/interceptor.ts";
import { HeldMessages } from "../core/interceptors/held-messages.ts";
import type { DecisionListener } from "../policy/provider/decision-event.ts";
import type { PolicyProvider } from "../policy/provider/provider.ts";
import { createLogger, errorFields, type Logger } from "../telemetry/log.ts";
import { watchProcess } from "../telemetry/process-metrics.ts";
import type { Telemetry } from "../telemetry/tracing.ts";
import type { McpServerFactory } from "../transports/in-process.ts";
import type { ChildEnvironment } from "../transports/stdio/environment.ts";
import { createWatchdog } from "../transports/stdio/watchdog.ts";
import type { Channel, ChannelEvents } from "../transports/transport.ts";
import { isLoopbackHost } from "./edge/access.ts";
import { adminListener, createAdmin } from "./edge/admin.ts";
import { serveChannel } from "./edge/channel-client.ts";
import { compareConfigs } from "./config-changes.ts";
import { concurrencyOf, contextOptionsOf, createContext, hostsOf, originsOf, publicPathOf } from "./context.ts";
import { createGatewayAudit } from "./wiring/audit.ts";
import { createConcurrency, createConcurrencyGuard } from "./route/limits.ts";
import { createStreamableHttpHandler } from "./edge/streamable-http.ts";
import { createIssuerClient, createRouteAuthentications } from "./edge/route-authentication.ts";
import { openDriftGuard } from "./wiring/drift.ts";
import { createHttpRouter, type RoutingTable } from "./edge/router.ts";
import { createHttpListener, type HttpListener } from "./edge/listener.ts";
import { createGatewayTelemetry, createLogRedaction } from "./wiring/telemetry.ts";
import { openRecording } from "./wiring/recording.ts";
import type { Route } from "./route/route.ts";
import { createRouteTable, type TableRoute } from "./route/route-table.ts";
import { createHttpSseHandlers } from "./edge/http-sse.ts";
import { createTaskOwners } from "./route/task-owners.ts";
import { createWellKnown } from "./edge/well-known.ts";

/** What a gateway may be given besides its configuration. */
export interface GatewayOptions {
  /** Steps of your own for every message, beside what the configuration brings. */
  readonly interceptors?: readonly MessageInterceptor[];
  /** Decision points of your own by the name of their route, in place of configured rules. */
  readonly policies?: Readonly<Record<string, PolicyProvider>>;
  /** Told of every decision of a policy, beside log and metrics. */
  readonly onDecision?: DecisionListener;
  readonly log?: Logger;
  /** The environment of which child processes get the few variables that every program needs. */
  readonly environment?: ChildEnvironment;
  /** Tells a collector of every message; closed with the gateway. */
  readonly telemetry?: Telemetry | undefined;
  /** Serves `/readyz` and `/metrics` on the clients' listener; for a start without configuration. */
  readonly adminOnSamePort?: boolean;
  /** Makes the server of routes that are configured as `demo`. */
  readonly demo?: McpServerFactory;
}

/** What became of another configuration. */
export type ReloadOutcome =
  | {
      readonly ok: true;
      /** Where it differs from the one before, as paths like `routes.files.timeouts.tool`. */
      readonly changed: readonly string[];
      /** Those of them that only a restart can bring about; everything else holds from the next message on. */
      readonly needsRestart: readonly string[];
    }
  /** Nothing has changed: all of it must be good. */
  | { readonly ok: false; readonly problem: string };

/** A gateway: routes, sessions and counters; it listens when told to. */
export interface Gateway extends AsyncDisposable {
  /** Begins to listen as configured; resolves with the address of the clients' listener. */
  listen(): Promise<{ readonly url: string; readonly adminUrl: string | undefined }>;
  /** Takes HTTP requests without listening itself: to be mounted in a server of your own. */
  readonly handle: RequestListener;
  /** Serves one client over a channel, such as the standard streams; the route may be left out if there is one only. */
  serve(channel: Channel, route: string | undefined, onGone: () => void): ChannelEvents;
  /**
   * Takes another configuration, all of it or nothing. Sessions and streams go on, and their next message finds the new
   * rules; upstreams that are configured as before keep their connections and processes, others finish running calls
   * within `shutdown.grace`. Interceptors stay as they are unless others are given.
   */
  reload(config: Config, changes?: Pick<GatewayOptions, "interceptors">): Promise<ReloadOutcome>;
  /** The messages that interceptors hold for a decision. */
  readonly heldMessages: HeldMessages;
  /** The figures, in the Prometheus text format. */
  metrics(): string;
  /** Takes no new work, lets running calls finish within the configured time, then ends everything. */
  close(): Promise<void>;
}

/** Builds a gateway. Nothing is connected or started before it is needed. */
export function createGateway(config: Config, options: GatewayOptions = {}): Gateway {
  const clock = systemClock;
  const setTimer = systemTimer;
  const { log, follow } = openLog(config, options.log);
  let running = config;
  // The first that can fail: nothing has been opened yet.
  const driftGuard = openDriftGuard(config.drift, { log, clock });
  const context = createContext({ ...contextOptionsOf(config), log, clock, setTimer });
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
  const held = new HeldMessages({ clock, setTimer, newId: context.newExchangeId });
  const recording = openRecording(config.record, {
    clock,
    setTimer,
    log,
    metrics: context.metrics,
    secrets: (text) => running.secrets.redact(text),
  });
  const intercepted = recording === undefined ? {} : { onEvent: recording.onIntercepted };
  const compose = (interceptors: readonly MessageInterceptor[]) =>
    composeInterceptors([...driftGuard, ...interceptors], {
      clock,
      setTimer,
      heldMessages: held,
      ...intercepted,
    });
  let custom = compose(options.interceptors ?? []);
  const concurrency = concurrencyOf(config);
  const identity = { clock, log, ask: createIssuerClient(setTimer), subjectTokens: createSubjectTokens() };
  const doors = createRouteAuthentications(identity);
  const audit = createGatewayAudit(config.audit, { clock, setTimer, log, metrics: context.metrics });
  const telemetry = createGatewayTelemetry(options.telemetry, config.secrets, setTimer, randomBytes(32));
  const sse = createHttpSseHandlers(context, () => publicPathOf(running));
  const table = createRouteTable({
    context,
    upstreams: {
      clock,
      setTimer,
      log,
      metrics: context.metrics,
      limits: context.limits.parse,
      get stdioLineBytes() {
        return running.limits.stdioLineBytes;
      },
      get queueBytes() {
        return running.limits.queueBytes;
      },
      newId: () => randomBytes(8).toString("hex"),
      environment,
      watchdog,
      demo: options.demo ?? missingDemo,
      parking: context.parking,
      onStderr: recording?.onStderr,
      credentials: identity,
    },
    taskOwners: createTaskOwners(clock),
    policies: {
      clock,
      setTimer,
      log,
      metrics: context.metrics,
      limits: context.limits.parse,
      newDecisionId: context.newExchangeId,
      onDecision: bothListeners(recording?.onDecision, telemetry.withDecisions(options.onDecision)),
      audit,
      providers: options.policies ?? {},
    },
    concurrencyLimit: createConcurrencyGuard(createConcurrency(concurrency)),
    recording,
    tracing: telemetry.route,
    onGone: (route) => {
      edge.use(edgeTable());
      doors.forget(route.name);
      void sse.forget(route, "this route has been taken out of the configuration");
    },
  });
  doors.prepare(config)();
  table.prepare(config, custom).commit(config.shutdown.grace);
  let isShuttingDown = false;
  const listeners: HttpListener[] = [];

  const admin = createAdmin(context.metrics, () => ({
    isReady: !isShuttingDown,
    routes: Object.fromEntries(table.routes.map(({ name, health }) => [name, health.state])),
  }));
  const edge = createHttpRouter(
    context,
    {
      streamableHttp: createStreamableHttpHandler(context),
      sseStream: sse.stream,
      sseMessages: sse.messages,
      extra: options.adminOnSamePort === true ? admin : {},
      receiving: createConcurrency(concurrency),
      isShuttingDown: () => isShuttingDown,
    },
    edgeTable(),
  );

  function edgeTable(): RoutingTable {
    const { listen: rules } = running;
    const guarded = (route: TableRoute) => ({ ...route, authentication: doors.of(route.name) });
    const routes = table.routes.map(guarded);
    return {
      access: {
        isLoopback: rules.unixSocket !== undefined || isLoopbackHost(rules.host),
        allowedHosts: [...rules.allowedHosts, ...hostsOf(running)],
        allowedOrigins: [...rules.allowedOrigins, ...originsOf(running)],
        corsOrigins: rules.cors.origins,
      },
      routes,
      draining: table.draining.map(guarded),
      wellKnown: createWellKnown(routes, publicPathOf(running), (issuer) => doors.issuerDocument(issuer)),
    };
  }

  /** Everything that can fail comes first; what follows happens at once, between two messages. */
  function reload(next: Config, changes: Pick<GatewayOptions, "interceptors">): ReloadOutcome {
    if (isShuttingDown) return { ok: false, problem: "the gateway is shutting down" };
    const { paths, needsRestart, applicable } = compareConfigs(running, next);
    // The listener stays where it is, whatever address the new configuration was checked for.
    const exposure = exposureProblem(applicable.listen, Object.values(applicable.routes));
    if (exposure !== undefined) return { ok: false, problem: `${running.listen.host}: ${exposure}` };
    try {
      const steps = changes.interceptors === undefined ? custom : compose(changes.interceptors);
      const openDoors = doors.prepare(applicable);
      const prepared = table.prepare(applicable, steps);
      running = applicable;
      follow(applicable);
      audit.follow(applicable.audit);
      telemetry.follow(applicable.secrets);
      custom = steps;
      Object.assign(concurrency, concurrencyOf(applicable));
      context.apply(contextOptionsOf(applicable));
      openDoors();
      prepared.commit(applicable.shutdown.grace);
      edge.use(edgeTable());
      return { ok: true, changed: paths, needsRestart };
    } catch (error) {
      return { ok: false, problem: GatewayError.from(error).message };
    }
  }

  async function listen() {
    // Asked for here and not kept: a configuration that was replaced is to be forgotten, secrets and all.
    const { listen: place, limits, admin: adminPlace } = running;
    const { tls, unixSocket, host, port } = place;
    const main = await createHttpListener(
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
      edge.handle,
    );
    listeners.push(main);
    let adminUrl: string | undefined;
    if (options.adminOnSamePort === true) adminUrl = main.address;
    else if (adminPlace !== false) {
      const own = await createHttpListener({ ...adminPlace, headerBytes: limits.headerBytes }, adminListener(admin));
      listeners.push(own);
      adminUrl = own.address;
    }
    return { url: place.publicUrl ?? main.address, adminUrl };
  }

  async function close(): Promise<void> {
    if (isShuttingDown) return;
    isShuttingDown = true;
    for (const listener of listeners) listener.stop();
    await within(running.shutdown.grace, table.drain());
    await held[Symbol.asyncDispose]();
    await sse.close("the gateway is shutting down");
    context.close("the gateway is shutting down");
    await table.close("the gateway is shutting down");
    await Promise.all(listeners.map((listener) => listener.close()));
    await audit.close();
    await recording?.close();
    await telemetry.close();
    await watchdog.close();
    watching[Symbol.dispose]();
  }

  return {
    listen,
    handle: edge.handle,
    reload: async (next, changes = {}) => reload(next, changes),
    serve: (channel, name, onGone) => {
      const { routes } = table;
      const found =
        (name === undefined && routes.length === 1 ? routes[0]?.route : undefined) ?? routeNamed(routes, name);
      return serveChannel(context, channel, {
        route: found,
        principal: anonymous,
        eras: "both",
        context: { type: "stdio", incarnation: channel.incarnation },
        mayStillRead: true,
        onGone,
      });
    },
    heldMessages: held,
    metrics: () => context.metrics.text(),
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The log that was handed in, which is its owner's to change, or one that goes with the configuration. */
function openLog(config: Config, given: Logger | undefined): { log: Logger; follow: (next: Config) => void } {
  if (given !== undefined) return { log: given, follow: () => {} };
  const secrets = createReloadableSecrets(config.secrets);
  const log = createLogger({
    level: config.log.level,
    pretty: false,
    redact: createLogRedaction(secrets.redact),
  });
  return {
    log,
    follow: (next) => {
      secrets.replace(next.secrets);
      log.setLevel(next.log.level);
    },
  };
}

function bothListeners(
  one: DecisionListener | undefined,
  other: DecisionListener | undefined,
): DecisionListener | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return (event) => {
    one(event);
    other(event);
  };
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
      const stop = systemTimer(milliseconds, resolve);
      void work.then(stop, stop);
    }),
  ]);
}

function missingDemo(): never {
  throw new GatewayError("config_invalid", "this build has no demo server");
}
