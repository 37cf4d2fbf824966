import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createYieldScheduler } from "./upstream-binding.ts";

describe("a yield scheduler", () => {
  it("lets a few through at a time, in their order, and none at once", async () => {
    const time = createFakeTime();
    const pass = createYieldScheduler(time.setTimer);
    const through: number[] = [];
    for (let number = 0; number < 50; number++) void pass().then(() => through.push(number));
    expect(through).toEqual([]);
    await time.advance(0);
    expect(through).toHaveLength(20);
    await time.advance(5);
    expect(through).toHaveLength(40);
    await time.advance(5);
    expect(through).toEqual(Array.from({ length: 50 }, (_, number) => number));
    expect(time.pending()).toBe(0);
  });

  it("takes those who come later as well", async () => {
    const time = createFakeTime();
    const pass = createYieldScheduler(time.setTimer);
    const first = pass();
    await time.advance(0);
    await first;
    const second = pass();
    await time.advance(0);
    await expect(second).resolves.toBeUndefined();
  });
});
