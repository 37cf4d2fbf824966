import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import type { WantedTokens } from "../../cluster/shared-store.ts";
import { createTokenBuckets, type TokenBuckets } from "../../lib/token-bucket.ts";
import { createSharedRates } from "./shared-rates.ts";

/** Gateways at one store, which counts its commands and can be away. */
function bench(count: number, rate: { readonly perSecond: number; readonly burst?: number }) {
  const time = createFakeTime();
  const shared = new Map<string, TokenBuckets>();
  const store = { isAway: false, commands: 0, takeTokens };
  async function takeTokens(wanted: readonly WantedTokens[]): Promise<readonly number[]> {
    store.commands++;
    if (store.isAway) throw new Error("away");
    return wanted.map(({ key, perSecond, burst, count: asked }) => {
      const buckets = shared.get(key) ?? createTokenBuckets({ perSecond, burst }, time.clock.now);
      shared.set(key, buckets);
      const bucket = buckets.get(key);
      const given = Math.min(asked, Math.floor(bucket.tokens + 1e-9));
      bucket.tokens -= given;
      return given;
    });
  }
  const gateways = Array.from({ length: count }, () =>
    createSharedRates({ now: time.clock.now, store: () => store, gateways: () => count })(rate, "limit"),
  );
  /** Whether a message passes, as the steps that limit rates do it. */
  async function send(at: number, key = "ann"): Promise<boolean> {
    const buckets = gateways[at % count];
    if (buckets === undefined) return false;
    if (buckets.get(key).tokens < 1) await buckets.refill?.(key);
    const bucket = buckets.get(key);
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }
  async function sendAll(total: number, to: (turn: number) => number = (turn) => turn): Promise<number> {
    let passed = 0;
    for (let turn = 0; turn < total; turn++) if (await send(to(turn))) passed++;
    return passed;
  }
  return { time, store, send, sendAll };
}

describe("a rate that gateways share", () => {
  it.each([
    [1, 10],
    [2, 10],
    [2, 100],
    [3, 1000],
    [5, 7],
  ])("lets through as much over %i gateways as over one: %i", async (gateways, perSecond) => {
    const { sendAll, time } = bench(gateways, { perSecond });
    expect(await sendAll(2 * perSecond + gateways)).toBe(perSecond);
    await time.advance(1000);
    // All of it may come to one of them.
    expect(await sendAll(2 * perSecond, () => 0)).toBe(perSecond);
  });

  it("lets through as much when messages come at the same time", async () => {
    const { send } = bench(2, { perSecond: 100 });
    const passed = await Promise.all(Array.from({ length: 150 }, (_, turn) => send(turn)));
    expect(passed.filter(Boolean)).toHaveLength(100);
  });

  it("asks the store once for many messages", async () => {
    const { sendAll, send, store } = bench(2, { perSecond: 10_000 });
    expect(await sendAll(4000)).toBe(4000);
    expect(store.commands).toBeLessThan(40);
    const before = store.commands;
    await Promise.all(Array.from({ length: 100 }, (_, turn) => send(0, `caller ${turn}`)));
    expect(store.commands - before).toBe(1);
  });

  it("asks no more for a moment when there is nothing left", async () => {
    const { sendAll, store } = bench(1, { perSecond: 0.1 });
    expect(await sendAll(100)).toBe(1);
    expect(store.commands).toBeLessThanOrEqual(2);
  });

  it("gives each gateway its part while the store is away, of rate and burst, and the whole when it is back", async () => {
    const { sendAll, time, store } = bench(2, { perSecond: 10, burst: 20 });
    store.isAway = true;
    expect(await sendAll(100, () => 0)).toBe(10);
    expect(await sendAll(100, () => 1)).toBe(10);
    await time.advance(1000);
    expect(await sendAll(100)).toBe(10);
    store.isAway = false;
    expect(await sendAll(100)).toBe(20);
    store.isAway = true;
    // What was given out counts, too.
    expect(await sendAll(100)).toBe(0);
  });

  it.each(["one after the other", "at the same time"])(
    "gives no more than its part while the store is away to messages that come %s",
    async (how) => {
      const { send, sendAll, store, time } = bench(2, { perSecond: 10, burst: 20 });
      store.isAway = true;
      const all = async (): Promise<number> =>
        how === "one after the other"
          ? sendAll(100, () => 0)
          : (await Promise.all(Array.from({ length: 100 }, () => send(0)))).filter(Boolean).length;
      expect(await all()).toBe(10);
      expect(await all()).toBe(0);
      await time.advance(1000);
      expect(await all()).toBe(5);
    },
  );

  it("lets nobody save up tokens at a gateway for a burst", async () => {
    const { sendAll, time } = bench(2, { perSecond: 100 });
    expect(await sendAll(20, () => 0)).toBe(20);
    await time.advance(10_000);
    expect(await sendAll(300)).toBe(100);
  });
});
