/** How many messages may come: some at once, and then so many a second. */
export interface Rate {
  /** Tokens that come back in a second; may be less than one. */
  readonly perSecond: number;
  /** Tokens that a full bucket holds; what comes back in a second, and at least one, unless given. */
  readonly burst?: number | undefined;
}

/** What one caller has left, up to the moment it was asked for. */
export interface TokenBucket {
  /** A message needs a whole one; whoever lets a message pass takes it off here. */
  tokens: number;
}

/** The buckets of one rate, one for each key. */
export interface TokenBuckets {
  /** The bucket of a key, filled up to now. */
  get(key: string): TokenBucket;
  /** How long until a bucket that has no whole token has one. */
  waitMs(bucket: TokenBucket): number;
  readonly size: number;
}

interface Entry extends TokenBucket {
  filledAt: number;
}

/** Buckets looked at whenever a new one is made: more than one, so that there are ever fewer that nobody needs. */
const sweepAtOnce = 2;

/**
 * Makes the buckets of a rate. A full bucket says no more than none at all, so those are dropped, a few with every
 * new one; beyond the bound the oldest gives way. Nothing here ever looks through all of them.
 */
export function createTokenBuckets(rate: Rate, now: () => number, mostBuckets = 10_000): TokenBuckets {
  const perMs = rate.perSecond / 1000;
  const burst = rate.burst ?? Math.max(1, Math.ceil(rate.perSecond));
  // In the order in which they were made or last looked at by the sweep.
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
      if (entry.tokens < burst && entries.size < mostBuckets - 1) entries.set(key, entry);
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
