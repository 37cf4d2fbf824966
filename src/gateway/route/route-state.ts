import { configuredRoute } from "../../core/exchange.ts";
import { isDeepStrictEqual } from "node:util";

import type { RouteConfig } from "../../config/config.ts";
import { type Guard, identityInterceptor, type Interceptor, type PipelineStep } from "../../core/pipeline.ts";
import { rejectionReply } from "../../core/reply.ts";
import { newestModern } from "../../protocol/revisions.ts";
import type { CorrelationOptions } from "../../sessions/pending/limits.ts";
import type { GatewayContext } from "../context.ts";
import { createObservedRoute, type ObservedRoute } from "../passthrough/observed-route.ts";
import { createUpstreamHealth, type UpstreamHealth } from "../upstream/http-upstream.ts";
import {
  isSameUpstream,
  type OpenUpstream,
  openUpstream,
  type PreparedMembers,
  prepareMembers,
  type UpstreamDeps,
  type UpstreamIdentity,
  upstreamIdentityOf,
} from "../upstream/open-upstream.ts";
import { type OpenPolicy, openPolicy, type PolicyDeps } from "../wiring/policy.ts";
import type { GatewayRecording } from "../wiring/recording.ts";
import {
  createMeteringObserver,
  type FindingLog,
  joinWireObservers,
  type WireObserver,
} from "../wiring/wire-observer.ts";
import { createByteGuard } from "./guards/byte-guard.ts";
import { createExchangeLog } from "./guards/exchange-log.ts";
import { createRateLimit } from "./guards/limits.ts";
import type { ListChanges } from "./guards/list-changes.ts";
import { createListenBounds } from "./guards/listen-bounds.ts";
import { createTaskLookup } from "./guards/task-owners.ts";
import { createMessageKinds, createMessageValidation, type SemanticChecks } from "./message-validation.ts";
import type { ReloadableRouteDeps } from "./route.ts";
import { createArgumentOverrides, createMemberResolution, createToolDiscovery } from "./federation-steps.ts";

/** What the state of a route is made with, besides its configuration. */
export interface RouteStateDeps {
  readonly context: GatewayContext;
  readonly upstreams: UpstreamDeps;
  readonly policies: PolicyDeps;
  /** Bounds how many requests run at once over all routes. */
  readonly concurrencyGuard: Guard;
  /** Keeps each caller's tasks hidden from other callers. */
  readonly taskOwners: Guard;
  /** Keeps what servers gave one caller to continue with from other callers. */
  readonly stateOwners: Guard;
  /** Absent if nothing is recorded. */
  readonly recording: GatewayRecording | undefined;
}

/** A route under one configuration, with everything opened for it. */
export interface RouteState {
  readonly config: RouteConfig;
  readonly identity: UpstreamIdentity;
  readonly upstream: OpenUpstream;
  /** Present in observe mode. */
  readonly observed: ObservedRoute | undefined;
  readonly health: UpstreamHealth;
  readonly rateLimit: PipelineStep | undefined;
  readonly policy: OpenPolicy | undefined;
  /** Uses other servers behind the same upstream, where only some of several have changed. */
  readonly commitMembers?: PreparedMembers["commit"] | undefined;
}

/** Something that is closed again if the configuration cannot be used. */
export type Closable = Pick<OpenUpstream, "close">;

/**
 * Opens the state of a route. Parts with unchanged configuration are kept from the previous state: connections and
 * processes, rate counters (a reload must not reset them) and what a policy remembers.
 */
export function openRouteState(
  config: RouteConfig,
  before: RouteState | undefined,
  correlation: CorrelationOptions,
  deps: RouteStateDeps,
  opened: Closable[],
): RouteState {
  const { context, policies } = deps;
  const isSame = (key: "rates" | "policy"): boolean => isDeepStrictEqual(before?.config[key], config[key]);
  const rateLimit = before !== undefined && isSame("rates") ? before.rateLimit : openRateLimit(config, context);
  const policy = before !== undefined && isSame("policy") ? before.policy : openPolicy(config, policies);
  if (policy !== undefined && policy !== before?.policy) opened.push(policy);
  const identity = upstreamIdentityOf(config);
  if (before !== undefined && isSameUpstream(before.identity, identity)) {
    return { ...before, config, rateLimit, policy, commitMembers: undefined };
  }
  const members =
    before === undefined
      ? undefined
      : prepareMembers(before.upstream, config, before.identity, ownUpstreamDeps(config, deps));
  if (before !== undefined && members !== undefined) {
    opened.push(...members.opened);
    return { ...before, config, identity, rateLimit, policy, commitMembers: members.commit };
  }
  const { upstream, observed } = openRouteUpstream(config, correlation, deps);
  opened.push(upstream);
  const health = createUpstreamHealth(config.name, context.metrics, context.clock);
  return { config, identity, upstream, observed, health, rateLimit, policy };
}

function openRateLimit({ name, rates }: RouteConfig, { createBuckets }: GatewayContext): PipelineStep | undefined {
  return createRateLimit(rates, (rate, of) => createBuckets(rate, `${configuredRoute(name)} ${of}`));
}

function openRouteUpstream(
  config: RouteConfig,
  correlation: CorrelationOptions,
  deps: RouteStateDeps,
): Pick<RouteState, "upstream" | "observed"> {
  const { clock, setTimer, log, metrics, newLabel } = deps.context;
  const upstream = openUpstream(config, ownUpstreamDeps(config, deps));
  if (config.mode !== "observe" || upstream.http === undefined) return { upstream, observed: undefined };
  const observed = createObservedRoute(config.name, upstream.http, {
    limits: deps.upstreams.limits,
    correlation,
    validation: config.validation,
    log,
    clock,
    setTimer,
    observer: wireObserverOf(config.name, deps, "warn"),
    exchangeLog: createExchangeLog(config.name, metrics, log, clock.now),
    onUnanswered: deps.recording?.onUnanswered,
    newLabel,
  });
  const close = async (reason: string): Promise<void> => {
    observed.close();
    await upstream.close(reason);
  };
  return { upstream: { ...upstream, close }, observed };
}

function ownUpstreamDeps({ name }: RouteConfig, deps: RouteStateDeps): UpstreamDeps {
  const observer = wireObserverOf(name, deps);
  const ownRequests: UpstreamDeps["ownRequests"] = {
    ...observer,
    // No message arrived, so only the recorder is told. Otherwise the request would stay open there.
    failed: (error, exchange) => {
      const { message } = rejectionReply(error, exchange.message.id);
      if (message !== undefined) deps.recording?.observer.sent("client", message, exchange);
    },
  };
  return { ...deps.upstreams, ownRequests };
}

/** The observer of a route's messages: metrics, and the recorder where one runs. */
export function wireObserverOf(
  route: string,
  { context, recording }: RouteStateDeps,
  level: FindingLog["level"] = "debug",
): WireObserver {
  const { metrics, log } = context;
  return joinWireObservers(createMeteringObserver(route, metrics, { log, level }), recording?.observer);
}

/** The step of a route's interceptors, by its name. */
export type RouteInterceptors = (route: string) => Interceptor;

/** Steps that live as long as the route's name is configured. */
export interface LastingSteps {
  readonly pendingGuard: Guard;
  /** Bounds how many messages of servers are here at once. */
  readonly serverMessages: Guard;
  readonly semantic: SemanticChecks;
  readonly listChanges: ListChanges;
  /** Sees every message on both sides, and what is found about them. */
  readonly observer: WireObserver;
}

/** The parts of a route. This is the only place that defines the order of the pipeline. */
export function routeDepsOf(
  state: RouteState,
  interceptors: RouteInterceptors,
  { pendingGuard, serverMessages, semantic, listChanges, observer }: LastingSteps,
  { context, recording, concurrencyGuard, taskOwners, stateOwners }: RouteStateDeps,
): ReloadableRouteDeps {
  const { config, upstream, health, rateLimit, policy } = state;
  const { metrics, log, clock } = context;
  const validation = createMessageValidation(config.validation, {
    semantic,
    onDiagnostics: (exchange, diagnostics) => {
      for (const diagnostic of diagnostics) observer.found(diagnostic, exchange);
    },
  });
  if (upstream.federation !== undefined) upstream.federation.filterList = policy?.filterList;
  const own = interceptors(config.name);
  const memberResolution = upstream.federation === undefined ? [] : [createMemberResolution(upstream.federation)];
  const overrides =
    upstream.federation?.options.overrides === undefined ? undefined : createArgumentOverrides(upstream.federation);
  return {
    serving: { eras: "both", supported: [newestModern] },
    forwardHeaders: config.forwardHeaders,
    keepAliveMs: config.timeouts.streamKeepAlive,
    quickMs: config.timeouts.quick,
    upstream,
    health,
    steps: [
      createExchangeLog(config.name, metrics, log, clock.now),
      ...(recording === undefined ? [] : [recording.gate]),
      validation.answers,
      // Before the rates, which may wait for those of other gateways.
      concurrencyGuard,
      serverMessages,
      ...(rateLimit === undefined ? [] : [rateLimit]),
      createByteGuard(context.bytes, observer),
      createMessageKinds(observer),
      createListenBounds(),
      taskOwners,
      stateOwners,
      validation.schemasLoaded,
      // Before the server is looked up, so that its calls are evaluated, limited and recorded as the real tool.
      ...(upstream.federation?.hasSearch === true ? [createToolDiscovery(upstream.federation)] : []),
      // Before everything that decides, so that rules can be about the server behind a name, and again after interceptors,
      // which may have changed the name.
      ...memberResolution,
      ...(own === identityInterceptor ? [] : [own, ...memberResolution]),
      ...(overrides === undefined ? [] : [overrides.set]),
      // After everything that could change a message, so that the policy decides about what is sent.
      // A decision point may write another name, too.
      ...(policy === undefined ? [] : [policy.step, ...memberResolution]),
      ...(overrides === undefined ? [] : [overrides.afterPolicy]),
      // Checks the message that is sent, not the one received.
      validation.messages,
      listChanges.guard,
      pendingGuard,
      // Innermost, so that the guards around it stay neighbours: a message waits once for all of them.
      ...(context.cluster === undefined ? [] : [createTaskLookup(context.cluster.tasks)]),
    ],
    // Overrides decide about arguments too, and headers must not say otherwise.
    isGuarded: policy !== undefined || overrides !== undefined,
  };
}
