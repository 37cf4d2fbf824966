import { describe, expect, it } from "vitest";

import { createTtlMap } from "./ttl-map.ts";

describe("a memory", () => {
  it("forgets what is over, and the oldest when there is too much", () => {
    let now = 0;
    const memory = createTtlMap<string>(2, () => now);
    memory.set("a", "A", 10);
    memory.set("b", "B", 100);
    memory.set("c", "C", 100);
    expect([memory.get("a"), memory.get("b"), memory.get("c"), memory.size]).toEqual([undefined, "B", "C", 2]);
    now = 100;
    expect([memory.get("b"), memory.size]).toEqual([undefined, 1]);
  });

  it("keeps the place of what is said again at its end", () => {
    const memory = createTtlMap<number>(2, () => 0);
    memory.set("a", 1, 10);
    memory.set("b", 1, 10);
    memory.set("a", 2, 10);
    memory.set("c", 1, 10);
    expect([memory.get("a"), memory.get("b")]).toEqual([2, undefined]);
    memory.delete("a");
    expect(memory.get("a")).toBeUndefined();
  });

  it("may be told to keep nothing", () => {
    const memory = createTtlMap<number>(0, () => 0);
    memory.set("a", 1, 10);
    expect(memory.size).toBe(0);
  });
});
