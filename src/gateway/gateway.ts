import { randomBytes } from "node:crypto";
import type { RequestListener } from "node:http";

import { exposureProblem } from "../config/checks/auth.ts";
import type { Config } from "../config/config.ts";
import { anonymous } from "../core/exchange.ts";
import { keepAliveDuring } from "../lib/clock.ts";
import type { HeldMessages } from "../core/interceptors/held-messages.ts";
import type { MessageInterceptor } from "../core/interceptors/interceptor.ts";
import { GatewayError } from "../errors.ts";
import type { DecisionListener } from "../policy/provider/decision-event.ts";
import type { PolicyProvider } from "../policy/provider/provider.ts";
import type { Logger } from "../telemetry/log.ts";
import type { MetricSamples } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/trace-context.ts";
import type { McpServerFactory } from "../transports/in-process.ts";
import type { Channel, ChannelEvents } from "../transports/transport.ts";
import { compareConfigs, openServices, type Services } from "./services.ts";
import { contextOptionsOf, type PrimarySeat, type WorkerSeat } from "./context.ts";
import { accessRulesOf, publicPathOf } from "./edge/access.ts";
import type { AdminPaths, Readiness } from "./admin/admin.ts";
import { serveChannel } from "./edge/channel-client.ts";
import { createHttpSseHandlers } from "./edge/http-sse.ts";
import type { HttpListener } from "./edge/listener.ts";
import { createRouteAuthentications, type RouteAuthentications } from "./edge/route-authentication.ts";
import { createHttpRouter, type RoutingTable } from "./edge/router.ts";
import { endWork } from "./edge/shutdown.ts";
import { createStreamableHttpHandler } from "./edge/streamable-http.ts";
import { createAuthenticationWaits } from "./edge/waiting.ts";
import { createWellKnown } from "./edge/well-known.ts";
import { untried } from "./upstream/http-upstream.ts";
import { createHolds } from "./wiring/holds.ts";
import {
  concurrencyLimitsOf,
  createConcurrency,
  createConcurrencyGuard,
  createMessageCounters,
  type ConcurrencyLimits,
} from "./route/guards/limits.ts";
import { createRouteTable, type RouteTable, type TableRoute } from "./route/route-table.ts";
import type { Route } from "./route/route.ts";
import { createStateOwners } from "./route/guards/state-owners.ts";
import { createTaskOwners } from "./route/guards/task-owners.ts";
import { openAdmin, type OpenAdmin } from "./open-admin.ts";
import { openListeners } from "./open-listeners.ts";

/** Options of a gateway besides its configuration. */
export interface GatewayOptions {
  /** Your own interceptors for every message; to load those in a configuration, `await loadInterceptors(config)`. */
  readonly interceptors?: readonly MessageInterceptor[];
  /** Your own policy providers by route name, instead of configured rules. */
  readonly policies?: Readonly<Record<string, PolicyProvider>>;
  /** Called with every policy decision, in addition to log and metrics. */
  readonly onDecision?: DecisionListener;
  readonly log?: Logger;
  /** The environment from which child processes inherit the few variables that every program needs. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Traces every message; closed with the gateway. */
  readonly telemetry?: Telemetry | undefined;
  /** Serves the admin paths on the clients' listener. */
  readonly adminOnSamePort?: boolean;
  /** The token that the admin API accepts. Default: a random one, so only links of this gateway sign in. */
  readonly adminToken?: string | undefined;
  /**
   * A socket that already listens at the configured address: a file descriptor from the process that started this one.
   * @internal
   */
  readonly passedSocket?: number | undefined;
  /** The command that starts Headgate for this user, as shown in the console. Default: `headgate`. */
  readonly ownCommand?: string | undefined;
  /** The version that the admin API reports. */
  readonly version?: string;
  /** Creates the server of routes whose upstream is `demo`. */
  readonly demo?: McpServerFactory;
  /**
   * Given to one of several processes on one port.
   * @internal
   */
  readonly worker?: WorkerSeat;
  /**
   * Given to the process that started them.
   * @internal
   */
  readonly primary?: PrimarySeat;
}

/** Options of a reload besides the configuration. */
export interface ReloadOptions extends Pick<GatewayOptions, "interceptors"> {
  /** Do not replace the servers of running routes, for clients that cannot reconnect; the outcome lists their changes. */
  readonly keepServers?: boolean;
}

/** The result of a reload. */
export type ReloadOutcome =
  | {
      readonly ok: true;
      /** The changed keys, as paths such as `routes.files.timeouts.tool`. */
      readonly changed: readonly string[];
      /** Those among them that need a restart; all others apply from the next message. */
      readonly needsRestart: readonly string[];
    }
  /** Nothing was changed. */
  | { readonly ok: false; readonly problem: string };

/** Where a gateway listens. */
export interface ListeningGateway {
  readonly url: string;
  readonly adminUrl: string | undefined;
  /** The console with a link that signs in once; undefined if the admin paths are not on loopback. */
  readonly consoleUrl: string | undefined;
}

/** How long a worker may take to end after its last call: for its processes, and what it has to write. */
const workerEndMs = 7000;

function longestEndOf({ readinessDelay, grace }: Config["shutdown"]): number {
  return readinessDelay + grace + workerEndMs;
}

/** A gateway: routes, sessions and metrics. It listens when told to. */
export interface Gateway extends AsyncDisposable {
  /** Starts listening as configured. */
  listen(): Promise<ListeningGateway>;
  /** Serves HTTP requests of your own server, without listening itself. */
  readonly handle: RequestListener;
  /** Serves one client over a channel, such as the standard streams. The route may be omitted if there is only one. */
  serve(channel: Channel, route: string | undefined, onGone: () => void): ChannelEvents;
  /**
   * Applies a new configuration, all of it or nothing. Sessions and streams continue under the new rules. Upstreams that
   * have not changed keep their connections and processes; others finish running calls within
   * `shutdown.grace`. Interceptors stay unless others are given.
   */
  reload(config: Config, changes?: ReloadOptions): Promise<ReloadOutcome>;
  /** The messages that interceptors hold for a decision. */
  readonly heldMessages: HeldMessages;
  /** The metrics, in the Prometheus text format. */
  metrics(): string;
  /**
   * The metrics as values, and the health of the upstreams by route.
   * @internal
   */
  samples(): MetricSamples;
  /** @internal */
  health(): Readonly<Record<string, string>>;
  /**
   * Reports itself as not ready for `shutdown.readinessDelay`, then refuses new work, lets running calls finish within
   * `shutdown.grace`, answers the others with an error, and ends everything.
   */
  close(): Promise<void>;
  /** After `close`: how many audit lines and recorded frames could not be written at the end. */
  readonly lostRecords: () => number;
}

const shuttingDown = "the gateway is shutting down";

/**
 * Creates a gateway. Connections and processes are started only when they are needed.
 *
 * @example
 * const checked = parseConfig({ upstream: { url: "http://127.0.0.1:3000/mcp" } });
 * if (!checked.ok) throw new Error(checked.problems.map(({ message }) => message).join("\n"));
 * await using gateway = createGateway(checked.config);
 * const { url } = await gateway.listen();
 * console.log(`MCP clients connect to ${url}/mcp`);
 */
export function createGateway(config: Config, options: GatewayOptions = {}): Gateway {
  const { worker, primary } = checkOptions(config, options);
  let running = config;
  let closing: Promise<void> | undefined;
  let lostByWorkers = 0;
  /** First the one for clients. */
  const listeners: HttpListener[] = [];
  const services = openServices(config, options, () => running);
  const { context, audit, telemetry, heldMessages } = services;
  let interceptors = options.interceptors ?? [];
  const holds = createHolds(heldMessages, () => {
    if (closing === undefined) table.prepare(running, stepsOf(interceptors)).commit(running.shutdown.grace);
  });
  const stepsOf = (own: readonly MessageInterceptor[]) => services.composeInterceptors([...own, ...holds.interceptors]);
  const concurrency = concurrencyLimitsOf(config);
  const counters = createMessageCounters(concurrency);
  const authentications = openAuthentications(services, concurrency, () => running);
  const sse = createHttpSseHandlers(context, counters, () => publicPathOf(running));
  const table = openRouteTable(services, options, () => running, {
    concurrencyGuard: createConcurrencyGuard(counters),
    recordings: () => admin.recordingsServer(),
    onGone: (route) => {
      router.use(routingTable());
      authentications.forget(route.name);
      void sse.forget(route, "this route has been taken out of the configuration");
    },
  });
  authentications.prepare(config)();
  table.prepare(config, stepsOf(interceptors)).commit(config.shutdown.grace);
  const health = () => Object.fromEntries(table.routes.map(({ name, health: { state } }) => [name, state]));
  const readiness = () => readinessOf(closing === undefined, health, primary);
  const admin = openAdmin(services, holds, options, () => running, readiness);
  const router = createHttpRouter(
    context,
    {
      streamableHttp: createStreamableHttpHandler(context, counters),
      sseStream: sse.stream,
      sseMessages: sse.messages,
      extra: options.adminOnSamePort === true ? adminPathsOn(admin, worker) : () => undefined,
      receiving: createConcurrency(concurrency),
      endsConnections: () => closing !== undefined && listeners.length === 0,
    },
    routingTable(),
  );

  function routingTable(): RoutingTable {
    return routingTableOf(running, table, authentications);
  }

  /** Everything that can fail comes first; the rest is synchronous, between two messages. */
  function reload(next: Config, changes: ReloadOptions): ReloadOutcome {
    if (closing !== undefined) return { ok: false, problem: shuttingDown };
    const { paths, needsRestart, applicable } = compareConfigs(running, next, changes.keepServers);
    // The listener stays where it is, whatever address the new configuration was checked for.
    const exposure = exposureProblem(applicable.listen, Object.values(applicable.routes));
    if (exposure !== undefined) return { ok: false, problem: `${running.listen.host}: ${exposure}` };
    try {
      const { interceptors: own = interceptors } = changes;
      const applyAuthentication = authentications.prepare(applicable);
      const prepared = table.prepare(applicable, stepsOf(own));
      running = applicable;
      interceptors = own;
      services.followLog(applicable);
      services.cluster.follow(applicable);
      audit.follow(applicable.audit);
      telemetry.follow(applicable.secrets);
      Object.assign(concurrency, concurrencyLimitsOf(applicable));
      context.apply(contextOptionsOf(applicable));
      applyAuthentication();
      prepared.commit(applicable.shutdown.grace);
      router.use(routingTable());
      return { ok: true, changed: paths, needsRestart };
    } catch (error) {
      return { ok: false, problem: GatewayError.from(error).message };
    }
  }

  async function end(): Promise<void> {
    for (const listener of [...listeners, services.cluster]) listener.endKeepAlive();
    await services.cluster.refresh();
    lostByWorkers = (await primary?.stop(longestEndOf(running.shutdown))) ?? 0;
    await endWork(context, running.shutdown, primary === undefined ? listeners[0] : undefined);
    heldMessages.close();
    await services.cluster.close();
    // First, so that sessions of HTTP+SSE clients end because of this and not because their connection does.
    context.close(shuttingDown);
    await sse.close(shuttingDown);
    await table.close(shuttingDown);
    await Promise.all(listeners.map((listener) => listener.close()));
    await admin.close();
    await services.close();
  }

  const close = (): Promise<void> => (closing ??= keepAliveDuring(end));

  return {
    listen: () =>
      audit.tried().then(() => openListeners(running, { ...options, ...services, router, admin }, listeners)),
    handle: router.handle,
    reload: async (next, changes = {}) => reload(next, changes),
    serve: (channel, name, onGone) =>
      serveChannel(context, channel, {
        route: routeNamed(table.routes, name),
        principal: anonymous,
        eras: "both",
        transport: { type: "stdio", incarnation: channel.incarnation },
        mayStillRead: true,
        get isLate() {
          return context.openWork.isClosed;
        },
        onGone,
      }),
    heldMessages,
    metrics: () => context.metrics.text(),
    samples: context.metrics.samples,
    health,
    lostRecords: () => services.lostRecords() + lostByWorkers,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** What the router needs to know of a configuration. */
function routingTableOf(running: Config, table: RouteTable, authentications: RouteAuthentications): RoutingTable {
  const authenticated = (route: TableRoute) => ({ ...route, authentication: authentications.of(route.name) });
  const routes = table.routes.map(authenticated);
  return {
    access: accessRulesOf(running),
    corsOrigins: running.cors.origins,
    trustedProxies: running.listen.trustedProxies,
    routes,
    draining: table.draining.map(authenticated),
    wellKnown: createWellKnown(routes, publicPathOf(running), (issuer, request) =>
      authentications.issuerDocument(issuer, request),
    ),
  };
}

function openAuthentications({ identity }: Services, limits: ConcurrencyLimits, running: () => Config) {
  const waits = createAuthenticationWaits(limits, () => running().listen.trustedProxies);
  return createRouteAuthentications({ ...identity, waits });
}

function openRouteTable(
  services: Services,
  options: GatewayOptions,
  running: () => Config,
  {
    recordings,
    ...deps
  }: Pick<Parameters<typeof createRouteTable>[0], "concurrencyGuard" | "onGone"> & {
    readonly recordings: McpServerFactory;
  },
): RouteTable {
  const { context, recording, telemetry, audit, watchdog, identity } = services;
  const { clock, setTimer, log, metrics, limits, suspendedCalls, seals, newId } = context;
  const shared = { clock, setTimer, log, metrics, limits: limits.parse };
  return createRouteTable({
    ...deps,
    context,
    upstreams: {
      ...shared,
      get stdioLineBytes() {
        return running().limits.stdioLineBytes;
      },
      get queueBytes() {
        return running().limits.queueBytes;
      },
      newId: () => randomBytes(8).toString("hex"),
      environment: options.environment ?? {},
      watchdog,
      demo: options.demo ?? missingDemo,
      recordings,
      suspendedCalls,
      seals,
      bytes: context.bytes,
      onStderr: recording?.onStderr,
      credentials: identity,
      serverFacts: context.serverFacts,
    },
    policies: {
      ...shared,
      createBuckets: context.createBuckets,
      newDecisionId: newId,
      onDecision: joinListeners(recording?.onDecision, telemetry.withDecisions(options.onDecision)),
      audit,
      providers: options.policies ?? {},
    },
    taskOwners: createTaskOwners(clock, context.taskOwners),
    stateOwners: createStateOwners(clock),
    recording,
    tracing: telemetry.route,
  });
}

function joinListeners(
  one: DecisionListener | undefined,
  other: DecisionListener | undefined,
): DecisionListener | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return (event) => {
    one(event);
    other(event);
  };
}

/** Where the admin paths are on the clients' port, workers hand such requests on. */
function adminPathsOn({ paths }: OpenAdmin, worker: WorkerSeat | undefined): AdminPaths {
  return worker === undefined ? paths : (path) => (paths(path) === undefined ? undefined : worker.admin);
}

/** With workers, the gateway is ready while all of them serve. */
async function readinessOf(
  isOpen: boolean,
  health: Gateway["health"],
  primary: PrimarySeat | undefined,
): Promise<Readiness> {
  if (primary === undefined) return { isReady: isOpen, routes: health() };
  const workers = await primary.health();
  return { isReady: isOpen && workers.every((one) => one !== undefined), routes: joinHealth(workers) };
}

/** The worst state of each upstream among the workers; a worker that has not tried it does not count. */
function joinHealth(workers: readonly (Readonly<Record<string, string>> | undefined)[]): Record<string, string> {
  const joined: Record<string, string> = {};
  for (const [route, state] of workers.flatMap((routes = {}) => Object.entries(routes))) {
    const known = joined[route];
    if (known === undefined || known === untried || (known === "ok" && state !== untried)) joined[route] = state;
  }
  return joined;
}

function routeNamed(routes: readonly TableRoute[], name: string | undefined): Route {
  // Without a name, the route at `/mcp`: the only one, views aside.
  const found = routes.find(({ route, prefixes }) =>
    name === undefined ? prefixes.includes("") : route.name === name,
  );
  if (found !== undefined) return found.route;
  const names = routes.map(({ route }) => route.name).join(", ");
  throw new GatewayError("config_invalid", `name one of the routes: ${names}`);
}

function missingInterceptors(): GatewayError {
  const message = "the configuration names interceptors: pass `await loadInterceptors(config)`";
  return new GatewayError("config_invalid", message);
}

/** Refuses a configuration that needs more than it is created with. */
function checkOptions({ interceptors, workers }: Config, options: GatewayOptions): GatewayOptions {
  if (interceptors.length > 0 && options.interceptors === undefined) throw missingInterceptors();
  if (workers > 1 && options.worker === undefined && options.primary === undefined) throw oneProcessOnly();
  if (workers > 1 && options.passedSocket !== undefined) throw oneSocketOnly();
  return options;
}

function oneProcessOnly(): GatewayError {
  const message =
    "`workers` is for `headgate run`: a program that uses the library, and `headgate stdio`, are one process";
  return new GatewayError("config_invalid", message);
}

function oneSocketOnly(): GatewayError {
  const message = "`workers`: each worker has a socket of its own, and systemd passes one; disable the socket unit";
  return new GatewayError("config_invalid", message);
}

function missingDemo(): never {
  throw new GatewayError("config_invalid", "this build has no demo server");
}
