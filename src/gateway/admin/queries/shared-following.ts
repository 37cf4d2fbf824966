import { once } from "node:events";

import type { FilterCondition } from "../../../recorder/contract.ts";

/** Exchanges that began or changed, as a JSON array. */
export interface FollowedBatch {
  readonly count: number;
  readonly json: string;
}

/** Notifications about followed traffic. */
export interface FollowListener {
  /** The first batch is empty: from then on nothing is missed without being counted. */
  onBatch(batch: FollowedBatch): void;
  /** Called with how many exchanges were left out, because there were too many at once. */
  onOmitted(count: number): void;
}

/** Follows traffic until the signal aborts. */
export type FollowTraffic = (
  where: FilterCondition | undefined,
  listener: FollowListener,
  signal: AbortSignal,
) => Promise<unknown>;

interface Followed {
  readonly listeners: Set<FollowListener>;
  readonly stop: AbortController;
  readonly over: Promise<unknown>;
  isReady: boolean;
}

/** Makes listeners with the same filter share one query, however many pages show it. */
export function createSharedFollowing(follow: FollowTraffic) {
  const followed = new Map<string, Followed>();

  function start(where: FilterCondition | undefined): Followed {
    const listeners = new Set<FollowListener>();
    const stop = new AbortController();
    const follower: FollowListener = {
      onBatch: (batch) => {
        own.isReady = true;
        for (const one of listeners) one.onBatch(batch);
      },
      onOmitted: (count) => {
        for (const one of listeners) one.onOmitted(count);
      },
    };
    const own: Followed = { listeners, stop, over: follow(where, follower, stop.signal), isReady: false };
    // Listeners get the failure; it may also come after the last one has left.
    own.over.catch(() => {});
    return own;
  }

  return async (where: FilterCondition | undefined, listener: FollowListener, signal: AbortSignal): Promise<void> => {
    if (signal.aborted) return;
    const key = JSON.stringify(where ?? null);
    const own = followed.get(key) ?? start(where);
    followed.set(key, own);
    own.listeners.add(listener);
    if (own.isReady) listener.onBatch({ count: 0, json: "[]" });
    try {
      await Promise.race([own.over, once(signal, "abort")]);
    } finally {
      own.listeners.delete(listener);
      if (own.listeners.size === 0) {
        if (followed.get(key) === own) followed.delete(key);
        own.stop.abort();
      }
    }
  };
}
