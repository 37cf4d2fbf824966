import { isDeepStrictEqual } from "node:util";
import type { Config, RouteConfig } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Guard, Interceptor } from "../../core/pipeline.ts";
import { newestModern } from "../../protocol/revisions.ts";
import { type Correlator, createCorrelator } from "../../sessions/pending/correlator.ts";
import { type CorrelationOptions, defaultCorrelationLimits } from "../../sessions/pending/limits.ts";
import { errorFields } from "../../telemetry/log.ts";
import type { RouteTracing } from "../../telemetry/tracing.ts";
import { createPendingGuard, onEntryFinished } from "./pending-guard.ts";
import type { RouteHandler, ServedRoute } from "../edge/router.ts";
import { createListChanges, type ListChanges } from "./list-changes.ts";
import { createObservedRoute } from "../passthrough/observed-route.ts";
import { createExchangeLog } from "./exchange-log.ts";
import { openPolicy, type OpenPolicy, type PolicyDeps } from "../wiring/policy.ts";
import { type GatewayRecording, joinWireObservers } from "../wiring/recording.ts";
import { createRateGuard } from "./limits.ts";
import { createRoute, type ReloadableRouteDeps, type Route } from "./route.ts";
import { meterCorrelation } from "./route-metrics.ts";
import type { OwnedContext } from "../context.ts";
import { createMeteringObserver, type WireObserver } from "../wiring/wire-observer.ts";
import {
  isSameUpstream,
  openUpstream,
  type OpenUpstream,
  type UpstreamDeps,
  type UpstreamIdentity,
  upstreamIdentityOf,
} from "../upstream/open-upstream.ts";
import { createUpstreamHealth, type UpstreamHealth } from "../upstream/health.ts";

/** What routes are built with, besides their configuration. */
export interface RouteTableDeps {
  readonly context: OwnedContext;
  readonly upstreams: UpstreamDeps;
  readonly policies: PolicyDeps;
  /** Bounds what all routes do at once. */
  readonly concurrencyLimit: Guard;
  /** Keeps the tasks of one caller from others. */
  readonly taskOwners: Guard;
  /** Records what passes; absent where nothing is recorded. */
  readonly recording: GatewayRecording | undefined;
  /** Makes what follows the messages of a route; absent where nobody wants to know. */
  readonly tracing: ((route: string) => RouteTracing) | undefined;
  /** Called when a route that was left is gone for good. */
  readonly onGone: (route: Route) => void;
}

/** A route in the table. */
export interface TableRoute extends ServedRoute {
  readonly name: string;
  readonly health: UpstreamHealth;
}

/** Routes that have been built and can take the place of those that run. */
export interface PreparedRoutes {
  /** Puts them in place, all at once; those that nobody wants any more are left within the grace. */
  commit(graceMs: number): void;
}

/** The routes of a gateway, by name. */
export interface RouteTable {
  readonly routes: readonly TableRoute[];
  /** Routes that are no longer configured and still finish what they began. */
  readonly draining: readonly TableRoute[];
  /**
   * Builds the routes of a configuration beside those that run, with the same connections and processes where their
   * upstream is the same. Throws, and leaves nothing behind, when one of them cannot be built.
   */
  prepare(config: Config, custom: Interceptor): PreparedRoutes;
  /** Takes no new requests; resolves when the open ones have ended. */
  drain(): Promise<void>;
  close(reason: string): Promise<void>;
}

/** One route as it stands under one configuration. */
interface RouteState {
  readonly config: RouteConfig;
  readonly fragment: UpstreamIdentity;
  readonly upstream: OpenUpstream;
  readonly serve: RouteHandler | undefined;
  readonly health: UpstreamHealth;
  readonly rateLimit: Guard | undefined;
  readonly policy: OpenPolicy | undefined;
}

/** One route for as long as its name is in use: what is kept over reloads, and how it stands. */
interface RouteEntry {
  readonly route: Route;
  readonly correlator: Correlator<Exchange>;
  readonly pendingGuard: Guard;
  readonly listChanges: ListChanges;
  state: RouteState;
}

/** What has been opened for a configuration, and is closed again where that cannot be used. */
type Closable = Pick<OpenUpstream, "close">;

const replaced = "the server of this route has been replaced; open a new session with initialize";
const removed = "this route has been taken out of the configuration";

/** Makes an empty table; the first configuration comes in like every later one. */
export function createRouteTable(deps: RouteTableDeps): RouteTable {
  const { context, upstreams, policies, concurrencyLimit, taskOwners } = deps;
  const { clock, setTimer, log, metrics, registry } = context;
  let entries = new Map<string, RouteEntry>();
  const leaving = new Map<string, RouteEntry>();
  const meter = meterCorrelation(metrics, () => [...entries.values(), ...leaving.values()].map(toTracked));

  function standingOf(config: RouteConfig, before: RouteState | undefined, opened: Closable[]): RouteState {
    const fragment = upstreamIdentityOf(config);
    const hasSameRates = before !== undefined && isDeepStrictEqual(before.config.rates, config.rates);
    // Counts go on where the limit is the same: a reload must be no way to start them afresh.
    const rateLimit = hasSameRates ? before.rateLimit : createRateGuard(config.rates, clock.now);
    // What a policy remembers, as how often somebody called, goes on where the policy is the same.
    const hasSamePolicy = before !== undefined && isDeepStrictEqual(before.config.policy, config.policy);
    const policy = hasSamePolicy ? before.policy : openPolicy(config, policies);
    if (policy !== undefined && policy !== before?.policy) opened.push(policy);
    if (before !== undefined && isSameUpstream(before.fragment, fragment)) {
      return { ...before, config, rateLimit, policy };
    }
    const upstream = openUpstream(config, upstreams);
    opened.push(upstream);
    const observed =
      config.mode === "observe" && upstream.http !== undefined
        ? createObservedRoute(config.name, upstream.http, {
            limits: upstreams.limits,
            log,
            clock,
            setTimer,
            observer: tapOf(config.name),
            newExchangeId: context.newExchangeId,
          })
        : undefined;
    return {
      config,
      fragment,
      rateLimit,
      policy,
      serve: observed?.serve,
      health: createUpstreamHealth(config.name, metrics, clock),
      upstream: {
        ...upstream,
        close: async (reason) => {
          observed?.close();
          await upstream.close(reason);
        },
      },
    };
  }

  function tapOf(name: string): WireObserver {
    return joinWireObservers(createMeteringObserver(name, metrics), deps.recording?.observer);
  }

  function partsOf(
    { config, upstream, health, rateLimit, policy }: RouteState,
    custom: Interceptor,
    { pendingGuard: correlate, listChanges }: Pick<RouteEntry, "pendingGuard" | "listChanges">,
  ) {
    return {
      serving: { eras: "both", supported: [newestModern] },
      forwardHeaders: config.forwardHeaders,
      upstream,
      health,
      steps: [
        createExchangeLog(config.name, metrics, log, clock.now),
        ...(deps.recording === undefined ? [] : [deps.recording.gate]),
        ...(rateLimit === undefined ? [] : [rateLimit]),
        concurrencyLimit,
        taskOwners,
        custom,
        // Behind everything that could change a message: what was decided about is what goes on.
        ...(policy === undefined ? [] : [policy.step]),
        listChanges.guard,
        correlate,
      ],
      isGuarded: policy !== undefined,
    } satisfies ReloadableRouteDeps;
  }

  function enter(standing: RouteState, custom: Interceptor, settings: CorrelationOptions): RouteEntry {
    const { name } = standing.config;
    const correlator = createCorrelator<Exchange>({
      ...settings,
      clock,
      setTimer,
      mode: "terminate",
      onFinished: onEntryFinished,
    });
    const correlate = createPendingGuard(correlator, registry);
    const listChanges = createListChanges(registry, (session, message) => {
      route.notify(session, message);
    });
    const parts = partsOf(standing, custom, { pendingGuard: correlate, listChanges });
    const tap = tapOf(name);
    const kept = deps.recording?.whenStored;
    const route = createRoute(context, {
      ...parts,
      name,
      observer: tap,
      whenStored: kept,
      tracing: deps.tracing?.(name),
    });
    return { route, correlator, pendingGuard: correlate, listChanges, state: standing };
  }

  function change(entry: RouteEntry, standing: RouteState, custom: Interceptor, graceMs: number): void {
    const { route, listChanges } = entry;
    const { policy: before } = entry.state;
    if (standing.upstream !== entry.state.upstream) log.info({ route: route.name }, replaced);
    entry.state = standing;
    watch(route, route.reconfigure(partsOf(standing, custom, entry), { reason: replaced, graceMs }));
    if (before === standing.policy) return;
    if (before !== undefined) watch(route, before.close());
    // Other rules, other lists: whoever keeps one is told to ask again.
    listChanges.announce();
  }

  function leave(entry: RouteEntry, graceMs: number): void {
    const { route } = entry;
    leaving.set(route.name, entry);
    log.info({ route: route.name }, removed);
    const left = route.drain({ reason: removed, graceMs }).then(() => {
      // It may have been configured again meanwhile.
      if (leaving.get(route.name) !== entry) return;
      leaving.delete(route.name);
      meter.gone(toTracked(entry));
      entry.correlator.close();
      if (entry.state.policy !== undefined) watch(route, entry.state.policy.close());
      context.forget(route.name);
      deps.onGone(route);
    });
    watch(route, left);
  }

  function watch(route: Route, work: Promise<void>): void {
    work.catch((error: unknown) => {
      log.error({ ...errorFields(GatewayError.from(error)), route: route.name }, "an upstream was not let go well");
    });
  }

  return {
    get routes() {
      return [...entries.values()].map(toTableRoute);
    },
    get draining() {
      return [...leaving.values()].map(toTableRoute);
    },
    prepare: (config, custom) => {
      const opened: Closable[] = [];
      const standings = Object.values(config.routes);
      try {
        const prepared = standings.map((route) => standingOf(route, entries.get(route.name)?.state, opened));
        return {
          commit: (graceMs) => {
            const next = new Map<string, RouteEntry>();
            for (const standing of prepared) {
              const { name } = standing.config;
              const settings = correlationOf(standing.config, config.limits);
              const entry = entries.get(name) ?? leaving.get(name);
              leaving.delete(name);
              entry?.correlator.configure(settings);
              if (entry !== undefined) change(entry, standing, custom, graceMs);
              next.set(name, entry ?? enter(standing, custom, settings));
            }
            const gone = [...entries].filter(([name]) => !next.has(name));
            entries = next;
            for (const [, entry] of gone) leave(entry, graceMs);
          },
        };
      } catch (error) {
        for (const one of opened) void one.close("the configuration cannot be used");
        throw error;
      }
    },
    drain: async () => {
      const all = [...entries.values(), ...leaving.values()];
      await Promise.all(all.map(({ correlator }) => correlator.drain()));
    },
    close: async (reason) => {
      const all = [...entries.values(), ...leaving.values()];
      await Promise.all(all.map(({ route }) => route.close(reason)));
      await Promise.all(all.map(async ({ state: { policy } }) => policy?.close()));
      for (const { correlator } of all) correlator.close();
    },
  };
}

function toTracked({ route, correlator }: RouteEntry) {
  return { name: route.name, statistics: () => correlator.statistics() };
}

function toTableRoute({ route, state: { config, serve, health } }: RouteEntry): TableRoute {
  return { name: route.name, route, prefixes: config.prefixes, serve, health };
}

function correlationOf({ timeouts }: RouteConfig, limits: Config["limits"]): CorrelationOptions {
  return {
    limits: { ...defaultCorrelationLimits, perScope: limits.pendingPerScope, total: limits.pending },
    ttl: {
      quickMs: timeouts.quick,
      toolMs: timeouts.tool,
      humanMs: timeouts.human,
      hardMs: timeouts.hard,
      tools: timeouts.tools,
    },
  };
}
