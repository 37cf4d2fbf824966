import { randomBytes } from "node:crypto";
import type { ServerResponse } from "node:http";
import {
  createSuspendedCalls,
  defaultSuspensionLimits,
  type SuspensionLimits,
} from "../bridge/modern-to-legacy/parking.ts";
import type { ErrorCode, GatewayError } from "../errors.ts";
import { systemClock, systemTimer } from "../exchange.ts";
import type { Clock, Exchange, SetTimer } from "../exchange.ts";
import type { Message, ParseLimits } from "../protocol/message.ts";
import { errorMessage, retryAfterOf } from "../reply.ts";
import { createEventStore } from "../sessions/event-store.ts";
import type { EventStoreLimits } from "../sessions/event-store.ts";
import { createSessionRegistry } from "../sessions/registry.ts";
import type { SessionLimits } from "../sessions/registry.ts";
import { errorFields } from "../telemetry/error-fields.ts";
import type { Logger } from "../telemetry/log.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { traceOf } from "../telemetry/trace-context.ts";
import { createKeepAlive } from "../transports/http/keep-alive.ts";
import type { SseResponseOptions } from "../transports/http/sse-response.ts";
import { createClientAddress } from "./client-address.ts";
import type { GatewayContext } from "./context.ts";
import { writeJson } from "./http-reply.ts";
import { forgetRoute } from "./route-meters.ts";
import type { Route } from "./route.ts";

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
      if (error.code === "internal")
        log.error({ route: route.name, ...errorFields(error) }, "request failed");
      const { http, jsonrpc } = error.facts;
      const retryAfter = retryAfterOf(error);
      const headers: Record<string, string> =
        retryAfter === undefined ? {} : { "retry-after": String(retryAfter) };
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
