import { GatewayError } from "../errors.ts";
import { type Clock, limitKeyOf, type Principal, type SessionContext, type SetTimer } from "../core/exchange.ts";
import { Session } from "./session.ts";

/** How many sessions may be open, and for how long. */
export interface SessionLimits {
  readonly sessions: number;
  readonly sessionsPerPrincipal: number;
  readonly idleMs: number;
  readonly ageMs: number;
}

export interface SessionRegistryOptions {
  /** Read on every use, so they may change. */
  readonly limits: SessionLimits;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Must be unguessable: 128 random bits or more in visible ASCII. */
  readonly newId: () => string;
}

/** All sessions of a gateway. */
export interface SessionRegistry {
  /** Opens a session. At a limit the longest idle one is evicted, or the request is refused if all are busy. */
  open(route: string, principal: Principal): Session;
  /** The session with that id, if this principal opened it on this route. */
  find(id: string, route: string, principal: Principal): Session | undefined;
  /** The session of an exchange, for code that does not need to check its owner. */
  forContext(context: SessionContext | undefined): Session | undefined;
  readonly size: number;
  /** How many sessions may be open; a reload changes them. */
  readonly limits: SessionLimits;
  /** Ends all sessions and stops the timer. */
  close(reason: string): void;
}

/** An expired session ends this much late at most. */
const sweepMs = 10_000;

/** Creates the registry. The limit per principal is checked first, so that a flood evicts only its own sessions. */
export function createSessionRegistry(options: SessionRegistryOptions): SessionRegistry {
  const { limits, clock, setTimer, newId } = options;
  const sweepEvery = (): number => Math.min(sweepMs, limits.idleMs, limits.ageMs);
  const sessions = new Map<string, Session>();
  const byPrincipal = new Map<string, Set<Session>>();
  let stopSweep: (() => void) | undefined;

  /** `caller` is the one that opened it: a session of callers without credentials may go on from another address. */
  function remove(session: Session, caller: string): void {
    sessions.delete(session.id);
    const own = byPrincipal.get(caller);
    own?.delete(session);
    if (own?.size === 0) byPrincipal.delete(caller);
  }

  function makeRoom(caller: string): void {
    const own = byPrincipal.get(caller);
    if (own !== undefined && own.size >= limits.sessionsPerPrincipal) {
      evict(oldestIdle(own), "sessions of this caller", own.size, limits.sessionsPerPrincipal);
    }
    if (sessions.size >= limits.sessions) {
      // The principal with most sessions loses one first.
      const fullest = [...byPrincipal.values()].toSorted((a, b) => b.size - a.size)[0] ?? [];
      evict(oldestIdle(fullest) ?? oldestIdle(sessions.values()), "sessions", sessions.size, limits.sessions);
    }
  }

  function evict(session: Session | undefined, what: string, current: number, limit: number): void {
    if (session !== undefined) {
      session.end("evicted for a newer session", "evicted");
      return;
    }
    throw new GatewayError("overloaded", `too many ${what}: ${current}, at most ${limit}, and all are busy`, {
      details: { current, limit, retryAfter: 5 },
    });
  }

  function sweep(): void {
    const now = clock.now();
    for (const session of sessions.values()) {
      if (now - session.openedAt >= limits.ageMs) session.end("the session has reached its age limit", "age");
      else if (session.running === 0 && now - session.lastActiveAt >= limits.idleMs)
        session.end("the session was idle", "idle");
    }
    stopSweep = sessions.size === 0 ? undefined : setTimer(sweepEvery(), sweep);
  }

  return {
    limits,
    open: (route, principal) => {
      const caller = limitKeyOf(principal);
      makeRoom(caller);
      const session = new Session(newId(), route, principal, clock.now());
      sessions.set(session.id, session);
      const own = byPrincipal.get(caller) ?? new Set();
      byPrincipal.set(caller, own);
      own.add(session);
      session.onEnd(() => {
        remove(session, caller);
      });
      stopSweep ??= setTimer(sweepEvery(), sweep);
      return session;
    },
    find: (id, route, principal) => {
      const session = sessions.get(id);
      const isTheirs = session?.route === route && session.principal.id === principal.id;
      if (!isTheirs || session.isOver) return undefined;
      session.renew(principal);
      return session;
    },
    forContext: (context) => {
      // Usually it is the session itself.
      if (context instanceof Session) return context.isOver ? undefined : context;
      return context === undefined ? undefined : sessions.get(context.id);
    },
    get size() {
      return sessions.size;
    },
    close: (reason) => {
      stopSweep?.();
      for (const session of sessions.values()) session.end(reason, "shutdown");
    },
  };
}

/** The session idle for longest. */
export function oldestIdle(candidates: Iterable<Session>): Session | undefined {
  let oldest: Session | undefined;
  for (const session of candidates) {
    if (session.running > 0) continue;
    if (oldest === undefined || session.lastActiveAt < oldest.lastActiveAt) oldest = session;
  }
  return oldest;
}
