import { GatewayError } from "../errors.ts";
import type { Clock, Principal, SessionContext, SetTimer } from "../core/exchange.ts";
import { Session } from "./session.ts";

/** How many sessions there may be, and for how long. */
export interface SessionLimits {
  readonly sessions: number;
  readonly sessionsPerPrincipal: number;
  readonly idleMs: number;
  readonly ageMs: number;
}

export interface SessionRegistryOptions {
  /** Read whenever they are needed: whoever hands them in may change them. */
  readonly limits: SessionLimits;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Must be unguessable: 128 random bits or more in visible ASCII. */
  readonly newId: () => string;
}

/** All sessions of a gateway. */
export interface SessionRegistry {
  /** Opens a session; at a cap the oldest idle one of the same principal gives way, or the request is refused. */
  open(route: string, principal: Principal): Session;
  /** The session of that id, if this principal opened it on this route; another's is unknown, not forbidden. */
  find(id: string, route: string, principal: Principal): Session | undefined;
  /** The session that a message belongs to, as long as it lives, for code that already knows whose it is. */
  forContext(context: SessionContext | undefined): Session | undefined;
  readonly size: number;
  /** Ends all sessions and the sweeping. */
  close(reason: string): void;
}

/** At most this long after its time a session is ended. */
const sweepMs = 10_000;

/** Makes the registry. Caps count per principal before the global one, so that a flood evicts only itself. */
export function createSessionRegistry(options: SessionRegistryOptions): SessionRegistry {
  const { limits, clock, setTimer, newId } = options;
  const sweepEvery = (): number => Math.min(sweepMs, limits.idleMs, limits.ageMs);
  const sessions = new Map<string, Session>();
  const byPrincipal = new Map<string, Set<Session>>();
  let stopSweep: (() => void) | undefined;

  function remove(session: Session): void {
    sessions.delete(session.id);
    const own = byPrincipal.get(session.principal.id);
    own?.delete(session);
    if (own?.size === 0) byPrincipal.delete(session.principal.id);
  }

  /** The session idle for longest; sets keep opening order, so the first of equals is the oldest. */
  function oldestIdle(candidates: Iterable<Session>): Session | undefined {
    let oldest: Session | undefined;
    for (const session of candidates) {
      if (session.running > 0) continue;
      if (oldest === undefined || session.lastActiveAt < oldest.lastActiveAt) oldest = session;
    }
    return oldest;
  }

  function makeRoom(principal: Principal): void {
    const own = byPrincipal.get(principal.id);
    if (own !== undefined && own.size >= limits.sessionsPerPrincipal) {
      evict(oldestIdle(own), "sessions of this caller", own.size, limits.sessionsPerPrincipal);
    }
    if (sessions.size >= limits.sessions) {
      // Whoever holds most gives way first.
      const fullest = [...byPrincipal.values()].toSorted((a, b) => b.size - a.size)[0] ?? [];
      evict(oldestIdle(fullest) ?? oldestIdle(sessions.values()), "sessions", sessions.size, limits.sessions);
    }
  }

  function evict(session: Session | undefined, what: string, current: number, limit: number): void {
    if (session !== undefined) {
      session.end("gave way to a newer session", "evicted");
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
    open: (route, principal) => {
      makeRoom(principal);
      const session = new Session(newId(), route, principal, clock.now());
      sessions.set(session.id, session);
      const own = byPrincipal.get(principal.id) ?? new Set();
      byPrincipal.set(principal.id, own);
      own.add(session);
      session.onEnd(() => {
        remove(session);
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
      // Mostly it is the session itself; then there is nothing to look up.
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
