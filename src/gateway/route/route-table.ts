import type { Config, RouteConfig } from "../../config/config.ts";
import type { Exchange } from "../../core/exchange.ts";
import { identityInterceptor } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { type Correlator, createCorrelator } from "../../sessions/pending/correlator.ts";
import { type CorrelationOptions, defaultCorrelationLimits } from "../../sessions/pending/limits.ts";
import { errorFields } from "../../telemetry/log.ts";
import type { RouteTracing } from "../../telemetry/trace-context.ts";
import type { PassThroughHandler } from "../passthrough/observed-route.ts";
import type { UpstreamHealth } from "../upstream/http-upstream.ts";
import { createListChanges } from "./guards/list-changes.ts";
import { type ConcurrencyLimits, createConcurrencyGuard, createMessageCounters } from "./guards/limits.ts";
import { createPendingGuard } from "./guards/pending-guard.ts";
import { forgetRoute, meterCorrelation } from "./guards/route-metrics.ts";
import {
  type Closable,
  type LastingSteps,
  openRouteState,
  routeDepsOf,
  type RouteInterceptors,
  type RouteState,
  type RouteStateDeps,
  wireObserverOf,
} from "./route-state.ts";
import { createRoute, type Route } from "./route.ts";
import { createSemanticChecks } from "./message-validation.ts";

/** What a table of routes is made with. */
export interface RouteTableDeps extends RouteStateDeps {
  /** Absent if nothing is traced. */
  readonly tracing: ((route: string) => RouteTracing) | undefined;
  /** Called when a removed route has been drained. */
  readonly onGone: (route: Route) => void;
}

/** A route and where it is served. */
export interface TableRoute {
  readonly name: string;
  readonly route: Route;
  /** What its paths begin with; empty for the route at `/mcp`. */
  readonly prefixes: readonly string[];
  /** Origins whose pages may call the route and read its answers. */
  readonly cors: RouteConfig["cors"];
  /** Replaces Streamable HTTP in observe mode. */
  readonly passThrough: PassThroughHandler | undefined;
  readonly health: UpstreamHealth;
}

/** Routes of a new configuration, ready to replace the running ones. */
export interface PreparedRoutes {
  /** Puts them in place, all at once; removed routes are drained within the grace period. */
  commit(graceMs: number): void;
}

/** The routes of a gateway, by name. */
export interface RouteTable {
  readonly routes: readonly TableRoute[];
  /** Routes that are no longer configured and finish their running work. */
  readonly draining: readonly TableRoute[];
  /**
   * Builds the routes of a configuration beside the running ones, sharing connections and processes where the upstream
   * is the same. Throws, and leaves nothing open, when one of them cannot be built.
   */
  prepare(config: Config, interceptors: RouteInterceptors): PreparedRoutes;
  close(reason: string): Promise<void>;
}

/** A route for as long as its name is configured. */
interface RouteEntry extends LastingSteps {
  readonly route: Route;
  readonly correlator: Correlator<Exchange>;
  /** Changed in place by a reload. */
  readonly serverLimits: ConcurrencyLimits;
  state: RouteState;
}

const replaced = "the server of this route has been replaced; open a new session with initialize";
const removed = "this route has been taken out of the configuration";

/** Creates an empty table; the first configuration is applied like every later one. */
export function createRouteTable(deps: RouteTableDeps): RouteTable {
  const { context } = deps;
  const { log, metrics } = context;
  let entries = new Map<string, RouteEntry>();
  const draining = new Map<string, RouteEntry>();
  const all = (): RouteEntry[] => [...entries.values(), ...draining.values()];
  const meter = meterCorrelation(metrics, () => all().map(toTracked));

  function reconfigure(entry: RouteEntry, state: RouteState, interceptors: RouteInterceptors, graceMs: number): void {
    const { route, listChanges } = entry;
    const { policy: before, upstream } = entry.state;
    if (state.upstream !== upstream) {
      log.info({ route: route.name }, replaced);
      entry.semantic.forgetServer();
    }
    if (state.commitMembers !== undefined) {
      log.info({ route: route.name }, "the servers of this route have changed");
      entry.semantic.forgetServer();
      logFailure(route, state.commitMembers(graceMs));
    }
    entry.state = state;
    logFailure(route, route.reconfigure(routeDepsOf(state, interceptors, entry, deps), { reason: replaced, graceMs }));
    if (before === state.policy) return;
    if (before !== undefined) logFailure(route, before.close());
    // New rules mean new lists, so clients that cache a list are told to read it again.
    listChanges.announce();
  }

  function remove(entry: RouteEntry, graceMs: number): void {
    const { route } = entry;
    draining.set(route.name, entry);
    log.info({ route: route.name }, removed);
    const drained = route.drain({ reason: removed, graceMs }).then(() => {
      // It may have been configured again meanwhile.
      if (draining.get(route.name) !== entry) return;
      draining.delete(route.name);
      meter.gone(toTracked(entry));
      entry.correlator.close();
      if (entry.state.policy !== undefined) logFailure(route, entry.state.policy.close());
      forgetRoute(route.name, metrics);
      deps.onGone(route);
    });
    logFailure(route, drained);
  }

  function logFailure(route: Route, work: Promise<void>): void {
    work.catch((error: unknown) => {
      log.error({ ...errorFields(GatewayError.from(error)), route: route.name }, "failed to close upstream");
    });
  }

  function commit(
    prepared: readonly RouteState[],
    config: Config,
    interceptors: RouteInterceptors,
    graceMs: number,
  ): void {
    const next = new Map<string, RouteEntry>();
    for (const state of prepared) {
      const { name } = state.config;
      const options = correlationOf(state.config, config.limits);
      const entry = entries.get(name) ?? draining.get(name);
      draining.delete(name);
      entry?.correlator.configure(options);
      if (entry !== undefined) Object.assign(entry.serverLimits, serverLimitsOf(options));
      state.observed?.configure(options);
      if (entry !== undefined) reconfigure(entry, state, interceptors, graceMs);
      next.set(name, entry ?? createEntry(state, interceptors, options, deps));
    }
    const gone = [...entries].filter(([name]) => !next.has(name));
    entries = next;
    for (const [, entry] of gone) remove(entry, graceMs);
  }

  return {
    get routes() {
      return [...entries.values()].map(toTableRoute);
    },
    get draining() {
      return [...draining.values()].map(toTableRoute);
    },
    prepare: (config, interceptors) => {
      const opened: Closable[] = [];
      try {
        const prepared = Object.values(config.routes).map((route) =>
          openRouteState(route, entries.get(route.name)?.state, correlationOf(route, config.limits), deps, opened),
        );
        // Created here, where an error changes nothing.
        const steps = new Map(prepared.map(({ config: { name } }) => [name, interceptors(name)]));
        return {
          commit: (graceMs) => {
            commit(prepared, config, (route) => steps.get(route) ?? identityInterceptor, graceMs);
          },
        };
      } catch (error) {
        for (const one of opened) void one.close("the configuration cannot be used");
        throw error;
      }
    },
    close: async (reason) => {
      const last = all();
      await Promise.all(last.map(({ route }) => route.close(reason)));
      await Promise.all(last.map(async ({ state: { policy } }) => policy?.close()));
      for (const { correlator } of last) correlator.close();
    },
  };
}

function createEntry(
  state: RouteState,
  interceptors: RouteInterceptors,
  options: CorrelationOptions,
  deps: RouteTableDeps,
): RouteEntry {
  const { context, tracing } = deps;
  const { clock, setTimer, registry } = context;
  const { name } = state.config;
  const observer = wireObserverOf(name, deps);
  const correlator = createCorrelator<Exchange>({
    ...options,
    clock,
    setTimer,
    mode: "terminate",
    onFinished: (entry) => {
      pendingGuard.finished(entry);
    },
    onDiagnostic: (diagnostic, about) => {
      const exchange = about?.payload ?? pendingGuard.current;
      if (exchange !== undefined) observer.found(diagnostic, exchange);
    },
  });
  const pendingGuard = createPendingGuard(correlator, registry);
  const serverLimits = serverLimitsOf(options);
  const lasting: LastingSteps = {
    pendingGuard,
    serverMessages: createConcurrencyGuard(createMessageCounters(serverLimits, "server "), "server-to-client"),
    observer,
    semantic: createSemanticChecks(registry, (exchange) => pendingGuard.isInFlight(exchange)),
    listChanges: createListChanges(name, registry, (session, message) => {
      route.notify(session, message);
    }),
  };
  const route = createRoute(context, {
    ...routeDepsOf(state, interceptors, lasting, deps),
    name,
    observer,
    strayResponse: (exchange) => {
      observer.received(exchange.direction === "client-to-server" ? "client" : "upstream", exchange.message, exchange);
      pendingGuard.settleStray(exchange);
    },
    whenStored: storedOf(deps),
    tracing: tracing?.(name),
    onBegunAnew: (session) => {
      lasting.listChanges.announceTo(session);
    },
  });
  return { ...lasting, route, correlator, serverLimits, state };
}

/** What answers wait for: being recorded, and other gateways learning of the tasks in them. */
function storedOf({ recording, context: { cluster } }: RouteTableDeps): (() => Promise<void> | undefined) | undefined {
  if (cluster === undefined) return recording?.whenStored;
  return () => {
    const [stored, noted] = [recording?.whenStored(), cluster.tasks.whenNoted()];
    return stored === undefined || noted === undefined ? (stored ?? noted) : stored.then(() => noted);
  };
}

function toTracked({ route, correlator }: RouteEntry) {
  return { name: route.name, statistics: () => correlator.statistics() };
}

function toTableRoute({ route, state: { config, observed, health } }: RouteEntry): TableRoute {
  const { prefixes, cors } = config;
  return { name: route.name, route, prefixes, cors, passThrough: observed?.handle, health };
}

/** As many as may be pending, with those that have places of their own there. */
function serverLimitsOf({ limits: { total, perOwner, reserved } }: CorrelationOptions): ConcurrencyLimits {
  return { total: total + reserved, perPrincipal: perOwner + reserved };
}

function correlationOf({ timeouts }: RouteConfig, limits: Config["limits"]): CorrelationOptions {
  return {
    limits: {
      ...defaultCorrelationLimits,
      perScope: limits.pendingPerScope,
      perOwner: limits.pendingPerPrincipal,
      total: limits.pending,
    },
    ttl: {
      quickMs: timeouts.quick,
      toolMs: timeouts.tool,
      humanMs: timeouts.human,
      hardMs: timeouts.hard,
      tools: timeouts.tools,
    },
  };
}
