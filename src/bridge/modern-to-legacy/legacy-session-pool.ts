import type { SetTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { cancelledError } from "../../transports/transport.ts";
import type { BridgedCall } from "./bridged-call.ts";
import type { LegacySession } from "./legacy-session.ts";

/** Bounds of the sessions that one scope may open. */
export interface PoolLimits {
  /** Sessions at once, where the server does not say which call asks. */
  readonly sessions: number;
  /** Calls that may wait for a session. */
  readonly waiting: number;
  /** How long an idle session beyond the first is kept. */
  readonly idleMs: number;
}

/** A session for one call, released when the server has answered. */
export interface SessionLease {
  readonly session: LegacySession;
  release(): void;
}

/** The legacy sessions of one scope: one if each call has its own stream, else one for each call that may be asked. */
export type LegacySessionPool = ReturnType<typeof createLegacySessionPool>;

interface QueuedCall {
  readonly call: BridgedCall;
  readonly resolve: (session: LegacySession) => void;
}

/** Makes a pool; its first session is opened with the first request. */
export function createLegacySessionPool(limits: PoolLimits, setTimer: SetTimer, createSession: () => LegacySession) {
  const primary = createSession();
  const sessions: LegacySession[] = [primary];
  const queue: QueuedCall[] = [];
  /** Idle sessions, with what stops their timer. */
  const idle = new Map<LegacySession, () => void>();
  const sharedLease: SessionLease = { session: primary, release: () => {} };
  let isClosed = false;

  function lease(call: BridgedCall): SessionLease | Promise<SessionLease> {
    return primary.hasStreamPerCall ? sharedLease : leaseExclusive(call);
  }

  async function leaseExclusive(call: BridgedCall): Promise<SessionLease> {
    await primary.ready(call.relatedExchange);
    if (primary.hasStreamPerCall) return sharedLease;
    const session = await acquire(call);
    try {
      await session.ready(call.relatedExchange);
    } catch (error) {
      if (session !== primary) drop(session, "the session could not be opened");
      release(session);
      throw GatewayError.from(error);
    }
    return { session, release: () => release(session) };
  }

  /** A free session, a new one, or the next that is released. */
  function acquire(call: BridgedCall): LegacySession | Promise<LegacySession> {
    if (isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    const free = sessions.find(({ exclusiveCall }) => exclusiveCall === undefined);
    if (free !== undefined) return assign(free, call);
    if (sessions.length < limits.sessions) return assign(add(), call);
    if (queue.length >= limits.waiting) throw new GatewayError("overloaded", "all sessions with the upstream are busy");
    return new Promise((resolve, reject) => {
      const queued: QueuedCall = {
        call,
        resolve: (session) => {
          off();
          resolve(assign(session, call));
        },
      };
      queue.push(queued);
      const off = call.cancellation.onCancel((reason) => {
        const index = queue.indexOf(queued);
        if (index >= 0) queue.splice(index, 1);
        reject(cancelledError(reason));
      });
    });
  }

  function add(): LegacySession {
    const session = createSession();
    sessions.push(session);
    return session;
  }

  function assign(session: LegacySession, call: BridgedCall): LegacySession {
    idle.get(session)?.();
    idle.delete(session);
    session.exclusiveCall = call;
    return session;
  }

  function release(session: LegacySession): void {
    session.exclusiveCall = undefined;
    if (!sessions.includes(session)) {
      // A session that was dropped leaves room for a new one.
      const next = sessions.length < limits.sessions ? queue.shift() : undefined;
      next?.resolve(add());
      return;
    }
    const next = queue.shift();
    if (next !== undefined) next.resolve(session);
    else if (session !== primary && !isClosed) {
      const stop = setTimer(limits.idleMs, () => drop(session, "the session was idle"));
      idle.set(session, stop);
    }
  }

  function drop(session: LegacySession, reason: string): void {
    idle.get(session)?.();
    idle.delete(session);
    const index = sessions.indexOf(session);
    if (index >= 0) sessions.splice(index, 1);
    void session.close(reason);
  }

  return {
    /** Serves lists, subscriptions, discovery and every call that cannot be asked for input. */
    primary,
    get size(): number {
      return sessions.length;
    },
    /** The primary session, shared. */
    sharedLease,
    /** A session for a call that the server may ask for input. */
    lease,
    close: async (reason: string): Promise<void> => {
      isClosed = true;
      for (const stop of idle.values()) stop();
      idle.clear();
      await Promise.all(sessions.map((session) => session.close(reason)));
    },
  };
}
