import { GatewayError } from "../errors.ts";
import { type Clock, limitKeyOf, type Principal, type SessionContext, type SetTimer } from "../core/exchange.ts";
import { andThen, type MaybePromise } from "../lib/is-promise.ts";
import type { Seal } from "../lib/keys/sealing.ts";
import type { EndedSessions } from "./ended-sessions.ts";
import { openSessionId, sealSessionId, type SessionRecord } from "./session-record.ts";
import { continues, Session } from "./session.ts";

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
  /** Must be unique. */
  readonly newId: () => string;
  /** Names this process in the ids of its sessions. */
  readonly node: string;
  /** Seals the ids that clients hold. */
  readonly seal: Seal;
  /** Whether sealed ids open after a restart. */
  readonly isDurable: boolean;
  readonly ended: EndedSessions;
  /** Where other gateways serve the same sessions. */
  readonly sharing?: SessionSharing | undefined;
}

/** What gateways that serve the same sessions share about them. */
export interface SessionSharing {
  /** A session of another gateway is here now, too. */
  joined(session: Pick<SessionRecord, "id" | "openedBy">): void;
  /** This gateway has no more use for a session. Resolves with whether another has. */
  left(id: string): Promise<boolean>;
}

/** What the id of a session says, and whose it is. */
export interface OwnedRecord extends SessionRecord {
  /** The id of its principal. */
  readonly owner: string;
}

/** A session that another process opened, such as this one before a restart. */
export interface RestoredSession {
  readonly session: Session;
  readonly record: SessionRecord;
  /** Whether it is new in this process. */
  readonly isNew: boolean;
}

/** All sessions of a gateway. */
export interface SessionRegistry {
  /** Opens a session. At a limit the longest idle one is evicted, or the request is refused if all are busy. */
  open(route: string, principal: Principal): Session;
  /** Makes the id that the client of a session holds. Everything known of the session by now is sealed in it. */
  sealId(session: Session): string;
  /** The session in memory with that sealed id, if this principal opened it on this route. */
  find(sealedId: string, route: string, principal: Principal): Session | undefined;
  /**
   * Opens a session again from its sealed id, unless it has ended or belongs to another principal or route. A record that
   * was just read is not read again.
   */
  restore(
    sealedId: string,
    route: string,
    principal: Principal,
    known?: OwnedRecord,
  ): MaybePromise<RestoredSession | undefined>;
  /** The session of an exchange, for code that does not need to check its owner. */
  forContext(context: SessionContext | undefined): Session | undefined;
  /** What a sealed id says, unless it belongs to another principal or route. Whether the session has ended is not asked. */
  read(sealedId: string, route: string, principal: Principal): OwnedRecord | undefined;
  /** The ids of all sessions that clients can name. */
  readonly ids: readonly string[];
  /** A session has ended at another gateway. */
  endElsewhere(id: string): void;
  /** Another gateway serves a session now: forgets it here, so that it can continue there. */
  letGo(id: string): void;
  /** The open sessions of a route. */
  sessionsOf(route: string): readonly Session[];
  readonly size: number;
  /** How many sessions may be open; a reload changes them. */
  readonly limits: SessionLimits;
  /** Ends all sessions and stops the timer. */
  close(reason: string): void;
}

/** An expired session ends this much late at most. */
const sweepMs = 10_000;
/** How much longer an end is remembered than its id opens here: the clock of another gateway may be late. */
const skewMs = 60_000;
/** Characters at the end of a sealed id: the authentication tag and a part of the content. */
const tailLength = 32;
/** Of a client whose session has no upstream yet. */
const noHandshake = { protocolVersion: "", capabilities: "{}", clientInfo: "{}" };

/** Creates the registry. The limit per principal is checked first, so that a flood evicts only its own sessions. */
export function createSessionRegistry(options: SessionRegistryOptions): SessionRegistry {
  const { limits, clock, setTimer, newId, node, seal, isDurable, ended, sharing } = options;
  const sessions = new Map<string, Session>();
  const bySealedId = new Map<string, Session>();
  const byPrincipal = new Map<string, Set<Session>>();
  let stopSweep: (() => void) | undefined;

  /** `caller` is the one that opened it: a session of callers without credentials may continue from another address. */
  function remove(session: Session, caller: string): void {
    sessions.delete(session.id);
    if (session.sealedId !== undefined) bySealedId.delete(tailOf(session.sealedId));
    const own = byPrincipal.get(caller);
    own?.delete(session);
    if (own?.size === 0) byPrincipal.delete(caller);
  }

  function makeRoom(caller: string): void {
    const own = byPrincipal.get(caller);
    if (own !== undefined && own.size >= limits.sessionsPerPrincipal)
      evict(oldestIdle(own), endUnused.evicted, "sessions of this caller", own.size, limits.sessionsPerPrincipal);
    if (sessions.size < limits.sessions) return;
    const oldest = oldestOfFullest(byPrincipal) ?? oldestIdle(sessions.values());
    evict(oldest, endUnused.evicted, "sessions", sessions.size, limits.sessions);
  }

  function sweep(): void {
    const now = clock.now();
    for (const session of sessions.values()) {
      if (now - session.openedAt >= Math.min(limits.ageMs, session.maxAgeMs))
        session.end("the session has reached its age limit", "age");
      else if (isIdle(session, options)) endUnused.idle(session);
    }
    stopSweep = sessions.size === 0 ? undefined : setTimer(sweepEvery(limits), sweep);
  }

  function add(session: Session): Session {
    const caller = limitKeyOf(session.principal);
    sessions.set(session.id, session);
    const own = byPrincipal.get(caller) ?? new Set();
    byPrincipal.set(caller, own);
    own.add(session);
    session.onEnd((_reason, cause) => {
      remove(session, caller);
      if (session.sealedId !== undefined && !continues.has(cause)) remember(session);
    });
    stopSweep ??= setTimer(sweepEvery(limits), sweep);
    return session;
  }

  const endUnused = createUnusedEnds(options, remember);
  const wallOf = (time: number): number => clock.wall() - (clock.now() - time);

  function remember({ id, openedAt, maxAgeMs, principal }: Session): void {
    const opened = wallOf(openedAt);
    ended.add({ id, owner: principal.id, openedAt: opened, expiresAt: opened + maxAgeMs + skewMs });
  }

  function revive(sealedId: string, record: SessionRecord, route: string, principal: Principal): RestoredSession {
    const known = sessions.get(record.id);
    // Another request has brought it back meanwhile.
    if (known !== undefined) return { session: known, record, isNew: false };
    makeRoom(limitKeyOf(principal));
    const { id, openedAt, expiresAt } = record;
    const session = new Session(id, route, principal, clock.now() - (clock.wall() - openedAt), expiresAt - openedAt);
    session.touch(clock.now());
    session.state = "active";
    session.revision = record.revision;
    session.handshake = record.handshake;
    session.lists = record.lists;
    session.openedBy = record.openedBy;
    session.sealedId = sealedId;
    session.survivesRestart = isDurable;
    bySealedId.set(tailOf(sealedId), add(session));
    sharing?.joined(record);
    return { session, record, isNew: true };
  }

  function read(sealedId: string, route: string, { id: owner }: Principal): OwnedRecord | undefined {
    const record = openSessionId(seal, sealedId, route, owner);
    return record === undefined || clock.wall() >= expiryOf(record, limits) ? undefined : { ...record, owner };
  }

  return {
    limits,
    open: (route, principal) => {
      makeRoom(limitKeyOf(principal));
      return add(new Session(newId(), route, principal, clock.now(), limits.ageMs));
    },
    sealId: (session) => {
      const { route, principal } = session;
      const sealedId = sealSessionId(seal, recordOf(session, node, wallOf(session.openedAt)), route, principal.id);
      session.sealedId = sealedId;
      session.survivesRestart = isDurable;
      bySealedId.set(tailOf(sealedId), session);
      return sealedId;
    },
    read,
    restore: (sealedId, route, principal, known = read(sealedId, route, principal)) =>
      known === undefined
        ? undefined
        : andThen(ended.has(known), (isOver) => (isOver ? undefined : revive(sealedId, known, route, principal))),
    get ids() {
      return [...bySealedId.values()].map(({ id }) => id);
    },
    endElsewhere: (id) => {
      sessions.get(id)?.end("the session was ended at another gateway");
    },
    letGo: (id) => {
      sessions.get(id)?.end("the session has moved to another gateway", "moved");
    },
    find: (sealedId, route, principal) => {
      const session = bySealedId.get(tailOf(sealedId));
      const isTheirs = session?.route === route && session.principal.id === principal.id;
      if (!isTheirs || session.isOver || session.sealedId !== sealedId) return undefined;
      session.renew(principal);
      return session;
    },
    forContext: (context) => {
      // Usually it is the session itself.
      if (context instanceof Session) return context.isOver ? undefined : context;
      return context === undefined ? undefined : sessions.get(context.id);
    },
    sessionsOf: (route) => [...sessions.values()].filter((session) => session.route === route),
    get size() {
      return sessions.size;
    },
    close: (reason) => {
      stopSweep?.();
      for (const session of sessions.values()) session.end(reason, "shutdown");
    },
  };
}

function recordOf(session: Session, openedBy: string, openedAt: number): SessionRecord {
  const { id, maxAgeMs, revision, handshake = noHandshake, lists } = session;
  const times = { openedAt: Math.round(openedAt), expiresAt: Math.round(openedAt + maxAgeMs) };
  return { id, openedBy, ...times, revision, handshake, lists, upstream: session.readUpstream() };
}

function expiryOf({ openedAt, expiresAt }: SessionRecord, { ageMs }: SessionLimits): number {
  return Math.min(expiresAt, openedAt + ageMs);
}

function sweepEvery({ idleMs, ageMs }: SessionLimits): number {
  return Math.min(sweepMs, idleMs, ageMs);
}

type IdleBounds = Pick<SessionRegistryOptions, "clock" | "limits">;

function isIdle({ running, lastActiveAt }: Session, { clock, limits }: IdleBounds): boolean {
  return running === 0 && clock.now() - lastActiveAt >= limits.idleMs;
}

/** Ends sessions that are not used here. Where gateways share them, another may use them. */
function createUnusedEnds(
  { sharing, node, ...bounds }: Pick<SessionRegistryOptions, "sharing" | "node"> & IdleBounds,
  remember: (session: Session) => void,
): Readonly<Record<"idle" | "evicted", (session: Session) => void>> {
  const sharingOf = ({ sealedId }: Session): SessionSharing | undefined =>
    sealedId === undefined ? undefined : sharing;
  return {
    idle: (session) => {
      const reason = "the session was idle";
      const shared = sharingOf(session);
      if (shared === undefined) session.end(reason, "idle");
      else
        void shared.left(session.id).then((isUsed) => {
          if (isIdle(session, bounds)) session.end(reason, isUsed ? "moved" : "idle");
          else shared.joined({ id: session.id, openedBy: session.openedBy ?? node });
        });
    },
    evicted: (session) => {
      const shared = sharingOf(session);
      session.end("evicted for a newer session", shared === undefined ? "evicted" : "moved");
      void shared?.left(session.id).then((isUsed) => {
        if (!isUsed) remember(session);
      });
    },
  };
}

/**
 * Sessions are kept by this: ids of federations are long, come with every request, and would be hashed each time. Needed by
 * bench federation: "call of a".
 */
function tailOf(sealedId: string): string {
  return sealedId.slice(-tailLength);
}

/** Ends the longest idle session for a newer one; throws if all are busy. */
function evict(
  session: Session | undefined,
  end: (session: Session) => void,
  what: string,
  current: number,
  limit: number,
): void {
  if (session !== undefined) {
    end(session);
    return;
  }
  throw new GatewayError("overloaded", `too many ${what}: ${current}, at most ${limit}, and all are busy`, {
    details: { current, limit, retryAfter: 5 },
  });
}

/** The principal with most sessions loses one first. */
function oldestOfFullest(byPrincipal: ReadonlyMap<string, ReadonlySet<Session>>): Session | undefined {
  return oldestIdle([...byPrincipal.values()].toSorted((a, b) => b.size - a.size)[0] ?? []);
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
