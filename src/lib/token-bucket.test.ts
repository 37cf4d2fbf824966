import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { createTokenBuckets } from "./token-bucket.ts";

describe("token buckets", () => {
  it("[SC-071] give a burst at once and then the rate", async () => {
    const { clock, advance } = createFakeTime();
    const buckets = createTokenBuckets({ perSecond: 2, burst: 3 }, clock.now);
    const take = (): boolean => {
      const bucket = buckets.get("a");
      if (bucket.tokens < 1) return false;
      bucket.tokens--;
      return true;
    };
    expect([take(), take(), take(), take()]).toEqual([true, true, true, false]);
    expect(buckets.waitMs(buckets.get("a"))).toBe(500);
    await advance(500);
    expect([take(), take()]).toEqual([true, false]);
    await advance(60_000);
    expect([take(), take(), take(), take()]).toEqual([true, true, true, false]);
  });

  it("hold a second's worth unless told otherwise, and never less than one", () => {
    const now = () => 0;
    expect(createTokenBuckets({ perSecond: 7.5 }, now).get("a").tokens).toBe(8);
    expect(createTokenBuckets({ perSecond: 0.1 }, now).get("a").tokens).toBe(1);
  });

  it("keep callers apart", () => {
    const buckets = createTokenBuckets({ perSecond: 1, burst: 1 }, () => 0);
    buckets.get("a").tokens--;
    expect([buckets.get("a").tokens, buckets.get("b").tokens]).toEqual([0, 1]);
  });

  it("forget callers that have been quiet until their bucket was full", async () => {
    const { clock, advance } = createFakeTime();
    const buckets = createTokenBuckets({ perSecond: 1, burst: 1 }, clock.now);
    for (let caller = 0; caller < 100; caller++) buckets.get(`old ${caller}`).tokens--;
    expect(buckets.size).toBe(100);
    await advance(1000);
    for (let caller = 0; caller < 100; caller++) buckets.get(`new ${caller}`).tokens--;
    expect(buckets.size).toBe(100);
    expect(buckets.get("new 0").tokens).toBe(0);
  });

  it("are never more than their bound", () => {
    const buckets = createTokenBuckets({ perSecond: 0.001, burst: 1 }, () => 0, 10);
    for (let caller = 0; caller < 1000; caller++) buckets.get(`${caller}`).tokens--;
    expect(buckets.size).toBeLessThanOrEqual(10);
    expect(buckets.get("999").tokens).toBe(0);
  });

  it("never let more pass than burst and rate allow, however the calls are spread", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(400), { maxLength: 200 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 20 }),
        (pauses, burst, perSecond) => {
          let now = 0;
          let passed = 0;
          const buckets = createTokenBuckets({ perSecond, burst }, () => now);
          for (const pause of pauses) {
            now += pause;
            const bucket = buckets.get("a");
            if (bucket.tokens < 1) continue;
            bucket.tokens--;
            passed++;
          }
          expect(passed).toBeLessThanOrEqual(burst + (now * perSecond) / 1000 + 1e-6);
        },
      ),
    );
  });
});
