import { describe, expect, it } from "vitest";

import { andThen, isPromise } from "./is-promise.ts";

class Thenable {
  // oxlint-disable-next-line unicorn/no-thenable -- promises of other libraries look like this
  then(): void {}
}

describe("isPromise", () => {
  it("accepts promises and anything else with a then method, and no other value", () => {
    expect([Promise.resolve(1), new Thenable()].filter((value) => isPromise<unknown>(value))).toHaveLength(2);
    expect([undefined, null, 1, "then", {}, () => {}].filter((value) => isPromise<unknown>(value))).toEqual([]);
  });
});

describe("andThen", () => {
  it("continues at once with a value, and later with a promise", async () => {
    expect(andThen(1, (value) => value + 1)).toBe(2);
    expect(await andThen(Promise.resolve(1), (value) => value + 1)).toBe(2);
  });
});
