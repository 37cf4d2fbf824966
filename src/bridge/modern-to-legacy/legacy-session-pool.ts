import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../core/exchange.ts";
import { cancelledError } from "../../transports/transport.ts";
import type { BridgedCall } from "./bridged-call.ts";
import type { LegacySession } from "./legacy-session.ts";

/** Bounds of the sessions that one scope may open. */
export interface PoolLimits {
  /** Sessions at once, where the server does not say which call asks. */
  readonly sessions: number;
  /** Calls that may wait for a session. */
  readonly waiting: number;
  /** How long a session beyond the first is kept without a call. */
  readonly idleMs: number;
}

/** A session for one call; to be given back when the server has answered. */
export interface SessionLease {
  readonly peer: LegacySession;
  release(): void;
}

/** The legacy sessions of one scope: one where calls can be told apart, else as many as calls that may ask. */
export interface LegacySessionPool {
  /** Serves everything that asks nothing: lists, subscriptions, discovery. */
  readonly primary: LegacySession;
  readonly size: number;
  /** The first session, for a call that cannot be asked anything. */
  readonly sharedLease: SessionLease;
  /** A session for a call that the server may ask something in. */
  lease(call: BridgedCall): SessionLease | Promise<SessionLease>;
  close(reason: string): Promise<void>;
}

interface QueuedCall {
  readonly call: BridgedCall;
  readonly resolve: (peer: LegacySession) => void;
}

/** Makes a pool with its first session, which is opened with the first request. */
export function createLegacySessionPool(
  limits: PoolLimits,
  setTimer: SetTimer,
  openPeer: () => LegacySession,
): LegacySessionPool {
  const primary = openPeer();
  const peers: LegacySession[] = [primary];
  const queue: QueuedCall[] = [];
  const idle = new Map<LegacySession, () => void>();
  /** Of the first session, for all who need none for themselves. */
  const sharedLease: SessionLease = { peer: primary, release: () => {} };
  let isClosed = false;

  function lease(call: BridgedCall): SessionLease | Promise<SessionLease> {
    return primary.hasStreamPerCall ? sharedLease : ownLease(call);
  }

  async function ownLease(call: BridgedCall): Promise<SessionLease> {
    await primary.ready(call.relatedExchange);
    if (primary.hasStreamPerCall) return sharedLease;
    const peer = await taken(call);
    try {
      await peer.ready(call.relatedExchange);
    } catch (error) {
      if (peer !== primary) drop(peer, "the session could not be opened");
      giveBack(peer);
      throw GatewayError.from(error);
    }
    return {
      peer,
      release: () => {
        giveBack(peer);
      },
    };
  }

  /** A session that this call has for itself: a free one, a new one, or the next that is given back. */
  function taken(call: BridgedCall): LegacySession | Promise<LegacySession> {
    if (isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    const free = peers.find(({ exclusiveCall: asker }) => asker === undefined);
    if (free !== undefined) return take(free, call);
    if (peers.length < limits.sessions) {
      const peer = openPeer();
      peers.push(peer);
      return take(peer, call);
    }
    if (queue.length >= limits.waiting)
      throw new GatewayError("overloaded", "all sessions with the upstream are taken by running calls");
    return new Promise((resolve, reject) => {
      const waiting: QueuedCall = {
        call,
        resolve: (peer) => {
          off();
          resolve(take(peer, call));
        },
      };
      queue.push(waiting);
      const off = call.cancellation.onCancel((reason) => {
        const at = queue.indexOf(waiting);
        if (at >= 0) queue.splice(at, 1);
        reject(cancelledError(reason));
      });
    });
  }

  function take(peer: LegacySession, call: BridgedCall): LegacySession {
    idle.get(peer)?.();
    idle.delete(peer);
    peer.exclusiveCall = call;
    return peer;
  }

  function giveBack(peer: LegacySession): void {
    peer.exclusiveCall = undefined;
    if (!peers.includes(peer)) {
      // Its place is free for one of those who wait.
      const next = peers.length < limits.sessions ? queue.shift() : undefined;
      if (next === undefined) return;
      const fresh = openPeer();
      peers.push(fresh);
      next.resolve(fresh);
      return;
    }
    const next = queue.shift();
    if (next !== undefined) next.resolve(peer);
    else if (peer !== primary && !isClosed) {
      const stop = setTimer(limits.idleMs, () => {
        drop(peer, "the session is not needed any more");
      });
      idle.set(peer, stop);
    }
  }

  function drop(peer: LegacySession, reason: string): void {
    idle.get(peer)?.();
    idle.delete(peer);
    const at = peers.indexOf(peer);
    if (at >= 0) peers.splice(at, 1);
    void peer.close(reason);
  }

  return {
    primary,
    get size() {
      return peers.length;
    },
    sharedLease,
    lease,
    close: async (reason) => {
      isClosed = true;
      for (const stop of idle.values()) stop();
      idle.clear();
      await Promise.all(peers.map((peer) => peer.close(reason)));
    },
  };
}
