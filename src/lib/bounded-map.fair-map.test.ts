import { describe, expect, it } from "vitest";

import { FairMap } from "./bounded-map.ts";

describe("a fair map", () => {
  it("keeps what others put in, whatever one owner does", () => {
    const map = new FairMap<number>(40);
    map.set("bob", "bob's", 1);
    for (let key = 0; key < 400; key++) map.set("ann", `ann's ${key}`, key);
    expect([map.get("bob's"), map.get("ann's 399"), map.get("ann's 0")]).toEqual([1, 399, undefined]);
    expect(map.size).toBeLessThanOrEqual(11);
  });

  it("is bounded over all owners, and drops the oldest", () => {
    const map = new FairMap<number>(40);
    for (let key = 0; key < 400; key++) map.set(`owner ${key}`, `key ${key}`, key);
    expect(map.size).toBeLessThanOrEqual(40);
    expect([map.get("key 0"), map.get("key 399")]).toEqual([undefined, 399]);
  });

  it("moves a key that is set again to its new owner", () => {
    const map = new FairMap<string>(4);
    map.set("ann", "key", "old");
    map.set("bob", "key", "new");
    expect([map.get("key"), map.size]).toEqual(["new", 1]);
    map.delete("key");
    map.delete("key");
    expect([map.get("key"), map.size]).toEqual([undefined, 0]);
  });
});
