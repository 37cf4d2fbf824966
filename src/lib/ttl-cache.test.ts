import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createTtlCache } from "./ttl-cache.ts";

describe("createKept", () => {
  it("keeps a value for its time, and none for no time", () => {
    let now = 0;
    const kept = createTtlCache<number>(10, () => now);
    kept.set("a", 1, 5);
    kept.set("b", 2, 0);
    expect([kept.get("a"), kept.get("b"), kept.size]).toEqual([1, undefined, 1]);
    now = 4.9;
    expect(kept.get("a")).toBe(1);
    now = 5;
    expect([kept.get("a"), kept.size]).toEqual([undefined, 0]);
  });

  it("forgets the longest unused first, and everything when told so", () => {
    const kept = createTtlCache<number>(2, () => 0);
    kept.set("a", 1, 1);
    kept.set("b", 2, 1);
    kept.get("a");
    kept.set("c", 3, 1);
    expect([kept.get("a"), kept.get("b"), kept.get("c")]).toEqual([1, undefined, 3]);
    kept.clear();
    expect(kept.size).toBe(0);
  });

  it("never holds more than it may, nor gives what was not kept last", () => {
    const step = fc.record({ key: fc.constantFrom("a", "b", "c", "d"), value: fc.nat(), ttl: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(step), fc.integer({ min: 1, max: 3 }), (steps, most) => {
        let now = 0;
        const kept = createTtlCache<number>(most, () => now);
        const last = new Map<string, { readonly value: number; readonly until: number }>();
        for (const { key, value, ttl } of steps) {
          now++;
          kept.set(key, value, ttl);
          if (ttl > 0) last.set(key, { value, until: now + ttl });
          expect(kept.size).toBeLessThanOrEqual(most);
          const found = kept.get(key);
          const expected = last.get(key);
          if (found !== undefined) expect([found, (expected?.until ?? 0) > now]).toEqual([expected?.value, true]);
        }
      }),
    );
  });
});
