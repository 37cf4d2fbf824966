import { describe, expect, it } from "vitest";

import { BoundedMap } from "./bounded-map.ts";

describe("a bounded map", () => {
  it("drops the oldest entry beyond its capacity", () => {
    const map = new BoundedMap<string, number>(2);
    map.set("a", 1).set("b", 2).set("c", 3);
    expect([...map]).toEqual([
      ["b", 2],
      ["c", 3],
    ]);
  });

  it("counts an entry that is set or touched again as the newest", () => {
    const map = new BoundedMap<string, number>(2);
    map.set("a", 1).set("b", 2).set("a", 3);
    map.set("c", 4);
    expect(map.touch("a")).toBe(3);
    map.set("d", 5);
    expect([...map.keys()]).toEqual(["a", "d"]);
    expect(map.touch("b")).toBeUndefined();
  });

  it("with a capacity of 0 stores nothing", () => {
    expect(new BoundedMap<string, number>(0).set("a", 1).size).toBe(0);
  });
});
