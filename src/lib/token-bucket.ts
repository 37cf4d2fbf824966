import { BoundedMap } from "./bounded-map.ts";

/** A rate limit: a burst, then a number per second. */
export interface Rate {
  /** Tokens added per second; may be less than one. */
  readonly perSecond: number;
  /** Capacity of a bucket; `perSecond`, at least 1, by default. */
  readonly burst?: number | undefined;
}

/** The tokens of one caller. */
export interface TokenBucket {
  /** A message needs a whole token; the caller subtracts it. */
  tokens: number;
}

/** The buckets of one rate limit, by key. */
export interface TokenBuckets {
  /** The bucket of a key, refilled up to now. */
  get(key: string): TokenBucket;
  /** How long until the bucket has a whole token. */
  waitMs(bucket: TokenBucket): number;
  /**
   * Where the limit is shared with other processes: gets tokens for a bucket that has none, if there are any. A message
   * is refused only if there are still none.
   */
  readonly refill?: (key: string) => Promise<void>;
  readonly size: number;
}

/** Creates the buckets of a rate limit; the name is unique in a gateway. */
export type CreateBuckets = (rate: Rate, name: string) => TokenBuckets;

/** Limits that are remembered by name; a forgotten one starts over. */
const maxNamed = 10_000;

/** Creates buckets that are the same for the same name and rate: a route and its views are one to a limit. */
export function createNamedTokenBuckets(now: () => number): CreateBuckets {
  const known = new BoundedMap<string, TokenBuckets>(maxNamed);
  return (rate, name) => {
    const key = JSON.stringify([name, rate.perSecond, burstOf(rate)]);
    const buckets = known.touch(key) ?? createTokenBuckets(rate, now);
    known.set(key, buckets);
    return buckets;
  };
}

interface Entry extends TokenBucket {
  filledAt: number;
}

/** How many tokens a bucket holds. */
export function burstOf({ burst, perSecond }: Rate): number {
  return burst ?? Math.max(1, Math.ceil(perSecond));
}

/** Buckets checked whenever a new one is created: more than one, so that unused ones are removed faster than added. */
const sweepAtOnce = 2;

/**
 * Creates the buckets of a rate limit. Full buckets are equivalent to missing ones, so they are dropped, a few with every
 * new one; beyond the limit the oldest is dropped. Never scans all of them.
 */
export function createTokenBuckets(rate: Rate, now: () => number, maxBuckets = 10_000): TokenBuckets {
  const perMs = rate.perSecond / 1000;
  const burst = burstOf(rate);
  // In order of creation or last sweep.
  const entries = new Map<string, Entry>();

  function fill(entry: Entry, at: number): void {
    entry.tokens = Math.min(burst, entry.tokens + (at - entry.filledAt) * perMs);
    entry.filledAt = at;
  }

  function sweep(at: number): void {
    let looked = 0;
    for (const [key, entry] of entries) {
      if (looked++ === sweepAtOnce) break;
      entries.delete(key);
      fill(entry, at);
      if (entry.tokens < burst && entries.size < maxBuckets - 1) entries.set(key, entry);
    }
  }

  return {
    get: (key) => {
      const at = now();
      let entry = entries.get(key);
      if (entry === undefined) {
        sweep(at);
        entry = { tokens: burst, filledAt: at };
        entries.set(key, entry);
      } else {
        fill(entry, at);
      }
      return entry;
    },
    waitMs: ({ tokens }) => Math.max(0, (1 - tokens) / perMs),
    get size() {
      return entries.size;
    },
  };
}

/** Counts operations in flight. */
export class InFlightCounter {
  count = 0;
  #waiting: (() => void)[] | undefined = undefined;

  begin(): void {
    this.count++;
  }

  end(): void {
    if (this.count === 0 || --this.count > 0 || this.#waiting === undefined) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    for (const resume of waiting) resume();
  }

  /** Resolves when none is in flight. */
  whenIdle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.count === 0) resolve();
      else (this.#waiting ??= []).push(resolve);
    });
  }
}
