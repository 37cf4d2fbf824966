import type { McpServer } from "@modelcontextprotocol/server";

import type { Clock, Principal, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import { createKeepAlive } from "../../transports/http/sse-response.ts";
import { isoTime, jsonEvent, type SseEndReason, SseSession, type SseSessionLimits } from "./session.ts";

/** The current limits of all sessions. */
export interface SseSessionsLimits extends SseSessionLimits {
  /** How many streams may be open; 0 for no limit. */
  readonly maxConnections: number;
  /** The interval of the heartbeat. */
  readonly keepAliveMs: number;
}

export interface SseSessionsDeps {
  readonly limits: () => SseSessionsLimits;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly createServer: (sessionId: string, log: Logger) => McpServer;
  readonly onWritten: (bytes: number) => void;
  /** Called after every open and close. */
  readonly onChange: () => void;
  /** Called once for every session that ends. */
  readonly onEnd: (reason: SseEndReason) => void;
}

/** A new session. */
export interface SseSessionOptions {
  readonly principal: Principal;
  readonly log: Logger;
  /** The path that a session's client posts to. */
  readonly endpoint: (sessionId: string) => string;
}

/** The open sessions of the HTTP+SSE profile. */
export type SseSessions = ReturnType<typeof createSseSessions>;

/** Creates the sessions; they share one heartbeat timer. */
export function createSseSessions(deps: SseSessionsDeps) {
  const { limits, clock, setTimer } = deps;
  const open = new Map<string, SseSession>();
  const waiters = new Set<() => void>();
  let evictions = 0;
  let lastChange = clock.wall();

  // All streams get the same bytes.
  let heartbeatAt = Number.NaN;
  let heartbeat: Uint8Array = new Uint8Array();
  const keepAlive = createKeepAlive(limits().keepAliveMs, setTimer);
  const heartbeatTarget = {
    keepAlive(): void {
      keepAlive.setInterval(limits().keepAliveMs);
      if (clock.wall() !== heartbeatAt) {
        heartbeatAt = clock.wall();
        heartbeat = jsonEvent("heartbeat", { timestamp: isoTime(clock) });
      }
      for (const session of open.values()) session.heartbeat(heartbeat);
    },
  };

  function changed(): void {
    lastChange = clock.wall();
    if (open.size === 0) keepAlive.delete(heartbeatTarget);
    else keepAlive.add(heartbeatTarget);
    deps.onChange();
  }

  const isDrained = (): boolean => [...open.values()].every(({ running }) => running === 0);
  function notifyWaiters(): void {
    if (waiters.size > 0 && isDrained()) for (const waiter of waiters) waiter();
  }

  function onEnd(session: SseSession, reason: SseEndReason): void {
    open.delete(session.id);
    if (reason === "slow-consumer") evictions += 1;
    // A client may leave at any time (KO-077); one that is too slow is worth a warning (KO-072).
    const level = reason === "slow-consumer" || reason === "failed" ? "warn" : "debug";
    session.log[level]({ reason }, "stream closed");
    deps.onEnd(reason);
    changed();
    notifyWaiters();
  }

  return {
    /** Opens a session; undefined at the limit (KO-074). */
    open: ({ principal, log, endpoint }: SseSessionOptions): SseSession | undefined => {
      const { maxConnections } = limits();
      if (maxConnections > 0 && open.size >= maxConnections) return undefined;
      const id = deps.newId();
      const sessionLog = log.child({ session: id.slice(0, 8) });
      const session = new SseSession({
        id,
        principal,
        endpoint: endpoint(id),
        limits,
        clock,
        setTimer,
        log: sessionLog,
        createServer: () => deps.createServer(id, sessionLog),
        onWritten: deps.onWritten,
        onEnd,
        onDrained: notifyWaiters,
      });
      open.set(id, session);
      changed();
      session.open();
      sessionLog.debug({ principal: principal.id }, "stream opened");
      return session;
    },
    get: (id: string): SseSession | undefined => open.get(id),
    get size(): number {
      return open.size;
    },
    /** How many sessions were closed because their client read too slowly. */
    get evictions(): number {
      return evictions;
    },
    /** The wall time of the last open or close. */
    get lastChange(): number {
      return lastChange;
    },
    /** Resolves when no request is running, or after the timeout. */
    drain: async (timeoutMs: number): Promise<void> => {
      if (isDrained()) return;
      const done = Promise.withResolvers<void>();
      waiters.add(done.resolve);
      const stop = setTimer(timeoutMs, done.resolve);
      await done.promise;
      waiters.delete(done.resolve);
      stop();
    },
    /** Ends all sessions; resolves when their streams are done. */
    endAll: async (): Promise<void> => {
      const all = [...open.values()];
      for (const session of all) session.end("shutdown");
      keepAlive.close();
      await Promise.all(all.map(async ({ finished }) => finished));
    },
  };
}
