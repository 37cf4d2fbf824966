import { describe, expect, it } from "vitest";

import { KeyedCounter } from "./keyed-counter.ts";

describe("a keyed counter", () => {
  it("counts each key for itself, up to its limit and never below zero", () => {
    const counter = new KeyedCounter();
    expect([counter.add("a", 2), counter.add("a", 2), counter.add("a", 2), counter.add("b", 2)]).toEqual([
      true,
      true,
      false,
      true,
    ]);
    counter.remove("a");
    for (let time = 0; time < 3; time++) counter.remove("b");
    counter.remove("unknown");
    expect([counter.of("a"), counter.of("b"), counter.of("unknown")]).toEqual([1, 0, 0]);
  });

  it("forgets idle keys and keeps the count of those in use", () => {
    const counter = new KeyedCounter();
    counter.add("busy");
    for (let key = 0; key < 5000; key++) {
      counter.add(`key ${key}`);
      counter.remove(`key ${key}`);
    }
    expect(counter.of("busy")).toBe(1);
  });
});
