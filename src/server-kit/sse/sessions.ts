import type { McpServer } from "@modelcontextprotocol/server";

import type { Clock, Principal, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import { createKeepAlive } from "../../transports/http/sse-response.ts";
import { createMessageEncoder, jsonEvent } from "./sse-transport.ts";
import { isoTime, SseSession, type SseEndReason, type SseSessionLimits } from "./session.ts";

/** The limits of all sessions as they stand now. */
export interface SseSessionsLimits extends SseSessionLimits {
  /** Most open streams; 0 for no bound. */
  readonly maxConnections: number;
  /** Period of the heartbeat. */
  readonly keepAliveMs: number;
}

/** What the sessions of an edge need from it. */
export interface SseSessionsDeps {
  readonly limits: () => SseSessionsLimits;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly createServer: (sessionId: string, log: Logger) => McpServer;
  readonly onWritten: (bytes: number) => void;
  /** Told after every open and close. */
  readonly onChange: () => void;
  /** Told once for every session that is over. */
  readonly onEnd: (reason: SseEndReason) => void;
}

/** What a new session is opened with. */
export interface SseSessionOptions {
  readonly principal: Principal;
  readonly log: Logger;
  /** The path to post to, of the session with this id. */
  readonly endpoint: (sessionId: string) => string;
}

/** All open sessions of the document's profile. */
export interface SseSessions {
  /** Opens a session; undefined where there are as many as the limit allows (KO-074). */
  open(opening: SseSessionOptions): SseSession | undefined;
  get(id: string): SseSession | undefined;
  readonly size: number;
  /** Sessions closed because their reader was too slow. */
  readonly evictions: number;
  /** Wall time of the last open or close. */
  readonly lastChange: number;
  /** Resolves when no session waits for a reply, or after so many milliseconds. */
  drain(timeoutMs: number): Promise<void>;
  /** Ends all of them with `end`, and resolves when their streams are done. */
  endAll(): Promise<void>;
}

/** Makes the set of sessions; one timer beats for all of them. */
export function createSseSessions(options: SseSessionsDeps): SseSessions {
  const { limits: rules, clock, setTimer } = options;
  const open = new Map<string, SseSession>();
  const frame = createMessageEncoder();
  const waiters = new Set<() => void>();
  let evictions = 0;
  let lastChange = clock.wall();

  // All streams of one beat get the same bytes.
  let beatAt = Number.NaN;
  let beatFrame: Uint8Array = new Uint8Array();
  const keepAlive = createKeepAlive(rules().keepAliveMs, setTimer);
  const pulse = {
    keepAlive(): void {
      keepAlive.setInterval(rules().keepAliveMs);
      if (clock.wall() !== beatAt) {
        beatAt = clock.wall();
        beatFrame = jsonEvent("heartbeat", { timestamp: isoTime(clock) });
      }
      for (const session of open.values()) session.heartbeat(beatFrame);
    },
  };

  function changed(): void {
    lastChange = clock.wall();
    if (open.size === 0) keepAlive.delete(pulse);
    else keepAlive.add(pulse);
    options.onChange();
  }

  const isQuiet = (): boolean => [...open.values()].every(({ running }) => running === 0);
  function tellWaiters(): void {
    if (waiters.size > 0 && isQuiet()) for (const waiter of waiters) waiter();
  }

  function onEnd(session: SseSession, reason: SseEndReason): void {
    open.delete(session.id);
    if (reason === "slow-consumer") evictions += 1;
    // A client that goes is no fault (KO-077); one that is too slow deserves to be looked at (KO-072).
    const level = reason === "slow-consumer" || reason === "failed" ? "warn" : "debug";
    session.log[level]({ reason }, "stream closed");
    options.onEnd(reason);
    changed();
    tellWaiters();
  }

  return {
    open: ({ principal, log, endpoint }) => {
      const { maxConnections } = rules();
      if (maxConnections > 0 && open.size >= maxConnections) return undefined;
      const id = options.newId();
      const sessionLog = log.child({ session: id.slice(0, 8) });
      const session = new SseSession({
        id,
        principal,
        endpoint: endpoint(id),
        limits: rules,
        clock,
        setTimer,
        log: sessionLog,
        createServer: () => options.createServer(id, sessionLog),
        frame,
        onWritten: options.onWritten,
        onEnd,
        onDrained: tellWaiters,
      });
      open.set(id, session);
      changed();
      session.open();
      sessionLog.debug({ principal: principal.id }, "stream opened");
      return session;
    },
    get: (id) => open.get(id),
    get size() {
      return open.size;
    },
    get evictions() {
      return evictions;
    },
    get lastChange() {
      return lastChange;
    },
    drain: async (timeoutMs) => {
      if (isQuiet()) return;
      const done = Promise.withResolvers<void>();
      waiters.add(done.resolve);
      const stop = setTimer(timeoutMs, done.resolve);
      await done.promise;
      waiters.delete(done.resolve);
      stop();
    },
    endAll: async () => {
      const all = [...open.values()];
      for (const session of all) session.end("shutdown");
      keepAlive.close();
      await Promise.all(all.map(async ({ finished }) => finished));
    },
  };
}
