import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";

import {
  createSuspendedCalls,
  defaultSuspensionLimits,
  type SuspendedCalls,
  type SuspensionLimits,
} from "../bridge/modern-to-legacy/suspended-calls.ts";
import type { ErrorCode, GatewayError } from "../errors.ts";
import { type Clock, type Exchange, type SetTimer, systemClock, systemTimer } from "../core/exchange.ts";
import type { Message, ParseLimits } from "../protocol/message.ts";
import { errorMessage, retryAfterOf } from "../core/reply.ts";
import { createEventStore, type EventStore, type EventStoreLimits } from "../sessions/event-store.ts";
import { createSessionRegistry, type SessionLimits, type SessionRegistry } from "../sessions/registry.ts";
import { errorFields, type Logger } from "../telemetry/log.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import { traceOf } from "../telemetry/trace-context.ts";
import { createKeepAlive, type SseResponseOptions } from "../transports/http/sse-response.ts";
import { type ClientAddress, createClientAddress } from "./edge/client-address.ts";
import { writeJson } from "./edge/http-reply.ts";
import { forgetRoute } from "./route/route-metrics.ts";
import type { Route } from "./route/route.ts";
import type { Config } from "../config/config.ts";
import { isLoopbackHost } from "./edge/access.ts";

/** What of the shared parts may change while the gateway runs. */
export interface ReloadableContextOptions {
  readonly parse: ParseLimits;
  readonly queueBytes: number;
  readonly sessions: SessionLimits;
  readonly eventStore: EventStoreLimits;
  readonly parking: Pick<SuspensionLimits, "suspended" | "suspendedPerPrincipal">;
  readonly keepAliveMs: number;
  /** Addresses and networks of proxies that may say who the client is. */
  readonly trustedProxies: readonly string[];
}

/** What the shared parts of a gateway are made of. */
export interface ContextOptions extends ReloadableContextOptions {
  readonly log: Logger;
  readonly clock?: Clock;
  readonly setTimer?: SetTimer;
}

/** The shared parts, and what ends them. */
export interface OwnedContext extends GatewayContext {
  /** Takes up other settings, for everything that happens from now on. */
  apply(settings: ReloadableContextOptions): void;
  /** Forgets what was kept and counted for a route that is no more. */
  forget(route: string): void;
  close(reason: string): void;
}

/** Makes what all routes of a gateway share: sessions, kept events, timers, counters. */
export function createContext(options: ContextOptions): OwnedContext {
  const { log, clock = systemClock, setTimer = systemTimer } = options;
  const metrics: Metrics = createMetrics();
  const node = randomBytes(4).toString("hex");
  let counter = 0;
  // Parts of the gateway keep these objects and look into them when they need to: they change in place.
  const sessionLimits = { ...options.sessions };
  const eventLimits = { ...options.eventStore };
  const parkingLimits = { ...defaultSuspensionLimits, ...options.parking };
  const limits = { parse: { ...options.parse }, queueBytes: options.queueBytes };
  let addressOf = createClientAddress(options.trustedProxies);
  const registry = createSessionRegistry({
    limits: sessionLimits,
    clock,
    setTimer,
    newId: () => randomBytes(24).toString("base64url"),
  });
  let streams = 0;
  const events = createEventStore(eventLimits, () => `${node}.${(streams++).toString(36)}`);
  const keepAlive = createKeepAlive(options.keepAliveMs, setTimer);
  const counted = (route: Route, code: ErrorCode): void => {
    metrics.metrics.refusals.labels({ route: route.name, code }).inc();
  };
  const optionsByRoute = new Map<string, SseResponseOptions>();
  const streamOptions = ({ name }: Route): SseResponseOptions => {
    let own = optionsByRoute.get(name);
    if (own === undefined) {
      const open = metrics.metrics.streams.labels({ route: name, leg: "client" });
      own = {
        get queueBytes() {
          return limits.queueBytes;
        },
        keepAlive,
        onOpen: () => {
          open.inc();
        },
        onClose: () => {
          open.dec();
        },
        onEvicted: () => {
          metrics.metrics.evictedReaders.labels({ route: name }).inc();
          log.warn({ route: name }, "a reader was too slow and has been cut off");
        },
      };
      optionsByRoute.set(name, own);
    }
    return own;
  };
  metrics.onCollect(() => {
    metrics.metrics.eventStoreBytes.labels({}).set(events.bytes);
  });

  return {
    clock,
    setTimer,
    log,
    metrics,
    registry,
    events,
    parking: createSuspendedCalls({
      clock,
      setTimer,
      newId: () => randomBytes(18).toString("base64url"),
      instance: node,
      secret: randomBytes(32),
      limits: parkingLimits,
    }),
    limits,
    newExchangeId: () => `${node}-${(counter++).toString(36)}`,
    addressOf: (request) => addressOf(request),
    streamOptions,
    countRefusal: counted,
    reportFailure: (route: Route, exchange: Exchange, error: GatewayError) => {
      counted(route, error.code);
      logFailure(log, route, exchange, error);
      return error;
    },
    refuse: (route: Route, response: ServerResponse, error: GatewayError, message: Message | undefined) => {
      counted(route, error.code);
      // A bug of ours must leave a trace, whatever the caller is told.
      if (error.code === "internal") log.error({ route: route.name, ...errorFields(error) }, "request failed");
      const { http, jsonrpc } = error.facts;
      const retryAfter = retryAfterOf(error);
      const headers: Record<string, string> = retryAfter === undefined ? {} : { "retry-after": String(retryAfter) };
      if (http === undefined) {
        response.destroy();
        return;
      }
      const data = { ...error.details, origin: "gateway", code: error.code };
      writeJson(
        response,
        http,
        errorMessage(message?.id, { code: jsonrpc ?? -32603, message: error.message, data }),
        headers,
      );
    },
    apply: (settings) => {
      Object.assign(sessionLimits, settings.sessions);
      Object.assign(eventLimits, settings.eventStore);
      Object.assign(parkingLimits, settings.parking);
      Object.assign(limits.parse, settings.parse);
      limits.queueBytes = settings.queueBytes;
      addressOf = createClientAddress(settings.trustedProxies);
      keepAlive.setInterval(settings.keepAliveMs);
    },
    forget: (route) => {
      optionsByRoute.delete(route);
      forgetRoute(route, metrics);
    },
    close: (reason) => {
      registry.close(reason);
      keepAlive.close();
    },
  };
}

function logFailure(log: Logger, route: Route, exchange: Exchange, error: GatewayError): void {
  const fields = {
    exchange: exchange.id,
    trace: traceOf(exchange)?.traceId,
    route: route.name,
    method: exchange.message.method,
    code: error.code,
    reason: error.message,
    cause: error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : undefined,
  };
  log[error.facts.level](fields, "exchange failed");
}

/** What the shared parts are told. */
export function contextOptionsOf({ limits, sessions, timeouts, listen }: Config): ReloadableContextOptions {
  return {
    parse: { maxBytes: limits.bodyBytes, maxDepth: limits.depth, maxBatch: limits.batch },
    queueBytes: limits.queueBytes,
    sessions: {
      sessions: limits.sessions,
      sessionsPerPrincipal: limits.sessionsPerPrincipal,
      idleMs: sessions.idle,
      ageMs: sessions.age,
    },
    eventStore: limits.eventStore,
    parking: { suspended: limits.parked, suspendedPerPrincipal: limits.parkedPerPrincipal },
    keepAliveMs: timeouts.streamKeepAlive,
    trustedProxies: listen.trustedProxies,
  };
}

/** How much may run at once. */
export function concurrencyOf({ limits }: Config) {
  return { total: limits.concurrentRequests, perPrincipal: limits.perPrincipalRequests };
}

/** Hosts that are ours besides those of this machine. */
export function hostsOf({ listen }: Config): readonly string[] {
  const publicHost = listen.publicUrl === undefined ? [] : [new URL(listen.publicUrl).host];
  return isLoopbackHost(listen.host) ? publicHost : [];
}

/** What stands before our paths where a proxy is before us. */
export function publicPathOf({ listen }: Config): string {
  return listen.publicUrl === undefined ? "" : new URL(listen.publicUrl).pathname.replace(/\/$/u, "");
}

/** Origins that are ours. */
export function originsOf({ listen }: Config): readonly string[] {
  return listen.publicUrl === undefined ? [] : [new URL(listen.publicUrl).origin];
}

/** What all parts of a running gateway share. */
export interface GatewayContext {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly registry: SessionRegistry;
  readonly events: EventStore;
  /** Where calls of modern clients wait while a legacy server asks. */
  readonly parking: SuspendedCalls;
  readonly limits: { readonly parse: ParseLimits; readonly queueBytes: number };
  /** Short, unique in this process, and not a secret. */
  readonly newExchangeId: () => string;
  /** From which address an HTTP request comes; proxies are believed only where they are trusted. */
  readonly addressOf: ClientAddress;
  readonly streamOptions: (route: Route) => SseResponseOptions;
  /** Counts a message that the gateway itself refused. */
  readonly countRefusal: (route: Route, code: ErrorCode) => void;
  /** Logs and counts a failed exchange; the answer is the error to tell the caller. */
  readonly reportFailure: (route: Route, exchange: Exchange, error: GatewayError) => GatewayError;
  /** Answers an HTTP request with an error of ours, with the id of the message where there was one. */
  readonly refuse: (route: Route, response: ServerResponse, error: GatewayError, message: Message | undefined) => void;
}
