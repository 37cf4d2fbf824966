import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../exchange.ts";
import { cancelledError } from "../../transports/cancel.ts";
import type { BridgedCall } from "./bridged-call.ts";
import type { LegacyPeer } from "./legacy-peer.ts";

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
export interface Lease {
  readonly peer: LegacyPeer;
  release(): void;
}

/** The legacy sessions of one scope: one where calls can be told apart, else as many as calls that may ask. */
export interface LegacyPool {
  /** Serves everything that asks nothing: lists, subscriptions, discovery. */
  readonly primary: LegacyPeer;
  readonly size: number;
  /** The first session, for a call that cannot be asked anything. */
  readonly sharedLease: Lease;
  /** A session for a call that the server may ask something in. */
  lease(call: BridgedCall): Lease | Promise<Lease>;
  close(reason: string): Promise<void>;
}

interface Waiting {
  readonly call: BridgedCall;
  readonly resolve: (peer: LegacyPeer) => void;
}

/** Makes a pool with its first session, which is opened with the first request. */
export function createLegacyPool(
  limits: PoolLimits,
  setTimer: SetTimer,
  openPeer: () => LegacyPeer,
): LegacyPool {
  const primary = openPeer();
  const peers: LegacyPeer[] = [primary];
  const queue: Waiting[] = [];
  const idle = new Map<LegacyPeer, () => void>();
  /** Of the first session, for all who need none for themselves. */
  const sharedLease: Lease = { peer: primary, release: () => {} };
  let isClosed = false;

  function lease(call: BridgedCall): Lease | Promise<Lease> {
    return primary.tellsCallsApart ? sharedLease : ownLease(call);
  }

  async function ownLease(call: BridgedCall): Promise<Lease> {
    await primary.ready(call.related);
    if (primary.tellsCallsApart) return sharedLease;
    const peer = await taken(call);
    try {
      await peer.ready(call.related);
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
  function taken(call: BridgedCall): LegacyPeer | Promise<LegacyPeer> {
    if (isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    const free = peers.find(({ asker }) => asker === undefined);
    if (free !== undefined) return take(free, call);
    if (peers.length < limits.sessions) {
      const peer = openPeer();
      peers.push(peer);
      return take(peer, call);
    }
    if (queue.length >= limits.waiting)
      throw new GatewayError("overloaded", "all sessions with the upstream are taken by running calls");
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
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

  function take(peer: LegacyPeer, call: BridgedCall): LegacyPeer {
    idle.get(peer)?.();
    idle.delete(peer);
    peer.asker = call;
    return peer;
  }

  function giveBack(peer: LegacyPeer): void {
    peer.asker = undefined;
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

  function drop(peer: LegacyPeer, reason: string): void {
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
