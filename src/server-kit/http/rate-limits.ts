import type { Clock } from "../../exchange.ts";

/** How many of something one key may have: all at once or spread, but no more than this in a minute. */
export interface MinuteRate {
  readonly perMinute: number;
}

/** Counts what keys take. */
export interface KeyedRateLimit {
  /** Takes one; answers with the seconds to wait where there is none left. */
  take(key: string): number | undefined;
  /** The seconds to wait if one were taken now, without taking it. */
  peek(key: string): number | undefined;
  /** Keys that are remembered. */
  readonly size: number;
}

interface Bucket {
  tokens: number;
  filledAt: number;
}

/** A bound on what strangers can make us remember. */
const maxBuckets = 10_000;
const sweepAtOnce = 2;

/**
 * Token buckets, one for each key. The rate is asked for at each use, so that a changed setting holds at once (KO-142).
 * A full bucket says no more than none, so those are dropped, a few with every new one.
 */
export function createKeyedRateLimit(rate: () => MinuteRate, clock: Clock): KeyedRateLimit {
  const buckets = new Map<string, Bucket>();

  function fill(bucket: Bucket, now: number): Bucket {
    const { perMinute } = rate();
    bucket.tokens = Math.min(perMinute, bucket.tokens + ((now - bucket.filledAt) * perMinute) / 60_000);
    bucket.filledAt = now;
    return bucket;
  }

  function sweep(now: number): void {
    let looked = 0;
    for (const [key, bucket] of buckets) {
      if (looked++ === sweepAtOnce) break;
      buckets.delete(key);
      if (fill(bucket, now).tokens < rate().perMinute && buckets.size < maxBuckets - 1)
        buckets.set(key, bucket);
    }
  }

  const waitOf = ({ tokens }: Bucket): number | undefined =>
    tokens >= 1 ? undefined : ((1 - tokens) * 60) / rate().perMinute;

  function bucketOf(key: string): Bucket {
    const now = clock.now();
    const known = buckets.get(key);
    if (known !== undefined) return fill(known, now);
    sweep(now);
    const made = { tokens: rate().perMinute, filledAt: now };
    buckets.set(key, made);
    return made;
  }

  return {
    take: (key) => {
      const bucket = bucketOf(key);
      const wait = waitOf(bucket);
      if (wait === undefined) bucket.tokens -= 1;
      return wait;
    },
    peek: (key) => {
      const known = buckets.get(key);
      return known === undefined ? undefined : waitOf(fill(known, clock.now()));
    },
    get size() {
      return buckets.size;
    },
  };
}
