import { createHash } from "node:crypto";

import type { SharedStore, WantedTokens } from "../../cluster/shared-store.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { burstOf, type CreateBuckets, type Rate, type TokenBucket, type TokenBuckets } from "../../lib/token-bucket.ts";

export interface SharedRatesDeps {
  readonly now: () => number;
  /** Undefined before the start. */
  readonly store: () => Pick<SharedStore, "takeTokens"> | undefined;
  /** How many gateways share the rates, as last known. */
  readonly gateways: () => number;
}

interface Entry extends TokenBucket {
  /** When tokens came last. */
  grantedAt: number;
  /** How many were asked for then. */
  asked: number;
  /** Until when not to ask again, because the store has just said that there are none. */
  emptyUntil: number;
  /** The tokens of this gateway's own share, for while the store is unavailable. */
  spare: number;
  spareAt: number;
}

const maxBuckets = 10_000;
/** The size of a slice of tokens, as a share of the rate. */
const sliceMs = 100;
/** Tokens that are not used within this time are dropped, so that they do not add to a later burst. */
const unusedMs = 1000;

/**
 * Creates buckets that all gateways share: tokens are leased from the store in slices, which grow while a caller uses
 * them up quickly. While the store is unavailable, each gateway gives out its share of rate and burst.
 */
export function createSharedRates(deps: SharedRatesDeps): CreateBuckets {
  const leases = createTokenLeases(deps.store);
  return (rate, name) => createSharedBuckets(rate, name, deps, leases);
}

function createSharedBuckets(
  rate: Rate,
  name: string,
  { now, gateways }: SharedRatesDeps,
  leases: TokenLeases,
): TokenBuckets {
  const { perSecond } = rate;
  const burst = burstOf(rate);
  const slice = Math.min(burst, Math.max(1, (perSecond * sliceMs) / 1000));
  const entries = new BoundedMap<string, Entry>(maxBuckets);
  const spareMax = (): number => Math.max(1, burst / gateways());

  function get(key: string): Entry {
    const at = now();
    let entry = entries.get(key);
    if (entry === undefined) {
      entry = { tokens: 0, grantedAt: at, asked: 0, emptyUntil: at, spare: spareMax(), spareAt: at };
      entries.set(key, entry);
    }
    if (at - entry.grantedAt > unusedMs) entry.tokens = 0;
    return entry;
  }

  function spareOf(entry: Entry): number {
    const at = now();
    const gained = ((at - entry.spareAt) * perSecond) / 1000 / gateways();
    entry.spareAt = at;
    return (entry.spare = Math.min(spareMax(), entry.spare + gained));
  }

  return {
    get,
    refill: async (key) => {
      const entry = get(key);
      if (now() < entry.emptyUntil) return;
      // A caller that used up the last slice immediately gets a larger one.
      entry.asked = now() - entry.grantedAt < sliceMs ? Math.min(slice, Math.max(1, 2 * entry.asked)) : 1;
      try {
        const count = Math.floor(entry.asked);
        const granted = await leases.take({ key: digestOf(name, key), perSecond, burst, count });
        if (granted === 0 && entry.tokens < 1) entry.emptyUntil = now() + Math.min(sliceMs, 1000 / perSecond);
        entry.tokens += granted;
        entry.spare = Math.max(0, spareOf(entry) - granted);
      } catch {
        // The store is unavailable, which was already logged. Others that waited with this one may have taken some.
        const spare = spareOf(entry);
        if (spare < 1) return;
        entry.spare = spare - 1;
        entry.tokens++;
      }
      entry.grantedAt = now();
    },
    // Other gateways may take some until then.
    waitMs: () => 1000 / perSecond,
    get size() {
      return entries.size;
    },
  };
}

/** Asks the store for tokens. */
interface TokenLeases {
  /** Resolves with the number of tokens for this request; rejects while the store is unavailable. */
  take(wanted: WantedTokens): Promise<number>;
}

/** The requests that wait for tokens of one limit. */
interface Waiting {
  readonly wanted: WantedTokens;
  readonly settles: PromiseWithResolvers<number>[];
}

/** One command is on its way at a time; what is wanted meanwhile goes with the next one. */
function createTokenLeases(store: SharedRatesDeps["store"]): TokenLeases {
  let next = new Map<string, Waiting>();
  let isBusy = false;

  async function flush(): Promise<void> {
    const batch = [...next.values()];
    next = new Map();
    try {
      const shared = store();
      if (shared === undefined) throw new Error("the shared store is not connected");
      const granted = await shared.takeTokens(batch.map(({ wanted, settles }) => withCount(wanted, settles.length)));
      // They share one bucket.
      for (const [index, { settles }] of batch.entries())
        for (const [turn, settle] of settles.entries()) settle.resolve(turn === 0 ? (granted[index] ?? 0) : 0);
    } catch (error) {
      for (const { settles } of batch) for (const settle of settles) settle.reject(error);
    }
  }

  async function flushAll(): Promise<void> {
    while (next.size > 0) await flush();
    isBusy = false;
  }

  return {
    take: (wanted) => {
      const settle = Promise.withResolvers<number>();
      const known = next.get(wanted.key);
      if (known === undefined) next.set(wanted.key, { wanted, settles: [settle] });
      else known.settles.push(settle);
      // At the end of this turn, so that all requests of the turn go together.
      if (!isBusy) {
        isBusy = true;
        setImmediate(() => void flushAll());
      }
      return settle.promise;
    },
  };
}

/** Concurrent calls take one token each; only a single call gets some in advance for the next ones. */
function withCount(wanted: WantedTokens, waiting: number): WantedTokens {
  return waiting === 1 ? wanted : { ...wanted, count: waiting };
}

/** Callers are not named in the store. */
function digestOf(name: string, key: string): string {
  return createHash("sha256")
    .update(JSON.stringify([name, key]))
    .digest("base64url")
    .slice(0, 32);
}
