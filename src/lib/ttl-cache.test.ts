import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createTtlCache } from "./ttl-cache.ts";

describe("a TTL cache", () => {
  it("keeps a value until it expires, and nothing with a TTL of 0", () => {
    let now = 0;
    const cache = createTtlCache<number>(10, () => now);
    cache.set("a", 1, 5);
    cache.set("b", 2, 0);
    expect([cache.get("a"), cache.get("b"), cache.size]).toEqual([1, undefined, 1]);
    now = 4.9;
    expect(cache.get("a")).toBe(1);
    now = 5;
    expect([cache.get("a"), cache.size]).toEqual([undefined, 0]);
  });

  it("drops the least recently used first, and everything on clear", () => {
    const cache = createTtlCache<number>(2, () => 0);
    cache.set("a", 1, 1);
    cache.set("b", 2, 1);
    cache.get("a");
    cache.set("c", 3, 1);
    expect([cache.get("a"), cache.get("b"), cache.get("c")]).toEqual([1, undefined, 3]);
    cache.delete("a");
    expect(cache.get("a")).toBeUndefined();
    cache.clear();
    expect(cache.size).toBe(0);
  });

  it("with a capacity of 0 stores nothing", () => {
    const cache = createTtlCache<number>(0, () => 0);
    cache.set("a", 1, 10);
    expect(cache.size).toBe(0);
  });

  it("never exceeds its capacity, and returns only what was set last", () => {
    const step = fc.record({ key: fc.constantFrom("a", "b", "c", "d"), value: fc.nat(), ttl: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(step), fc.integer({ min: 1, max: 3 }), (steps, most) => {
        let now = 0;
        const cache = createTtlCache<number>(most, () => now);
        const last = new Map<string, { readonly value: number; readonly until: number }>();
        for (const { key, value, ttl } of steps) {
          now++;
          cache.set(key, value, ttl);
          if (ttl > 0) last.set(key, { value, until: now + ttl });
          expect(cache.size).toBeLessThanOrEqual(most);
          const found = cache.get(key);
          const expected = last.get(key);
          if (found !== undefined) expect([found, (expected?.until ?? 0) > now]).toEqual([expected?.value, true]);
        }
      }),
    );
  });
});
