import { describe, expect, it } from "vitest";

import { InFlightCounter } from "./token-bucket.ts";

/** Whether a promise has been resolved by now. */
async function isDone(promise: Promise<void>): Promise<boolean> {
  const other = Symbol("not yet");
  return (await Promise.race([promise, Promise.resolve(other)])) !== other;
}

describe("a tally", () => {
  it("is idle as long as nothing has begun", async () => {
    expect(await isDone(new InFlightCounter().whenIdle())).toBe(true);
  });

  it("tells everybody who waits when the last has ended, once", async () => {
    const tally = new InFlightCounter();
    tally.begin();
    tally.begin();
    const [one, other] = [tally.whenIdle(), tally.whenIdle()];
    tally.end();
    expect([tally.count, await isDone(one)]).toEqual([1, false]);
    tally.end();
    await Promise.all([one, other]);
    tally.begin();
    expect(await isDone(tally.whenIdle())).toBe(false);
  });

  it("never counts below nothing", () => {
    const tally = new InFlightCounter();
    tally.end();
    tally.begin();
    expect(tally.count).toBe(1);
  });
});
