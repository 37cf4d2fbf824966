import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { createTurnLimiter, perTurn } from "./turn-limiter.ts";

describe("a turn limiter", () => {
  it("lets the first callers pass at once and all others in order, so many per turn of the event loop", async () => {
    const pass = createTurnLimiter();
    const count = 5 * perTurn - 1;
    const through: number[] = [];
    for (let index = 0; index < count; index += 1) {
      const turn = pass();
      if (turn === undefined) through.push(index);
      else void turn.then(() => through.push(index));
    }
    expect(through).toHaveLength(perTurn);
    const sizes: number[] = [];
    while (through.length < count) {
      const before = through.length;
      await setImmediate();
      sizes.push(through.length - before);
    }
    expect(Math.max(...sizes)).toBeLessThanOrEqual(perTurn);
    expect(through).toEqual(Array.from({ length: count }, (_, index) => index));
  });

  it("lets callers pass at once again when nobody has come for a turn", async () => {
    const pass = createTurnLimiter();
    for (let index = 0; index < perTurn; index += 1) expect(pass()).toBeUndefined();
    await pass();
    await expect.poll(() => pass()).toBeUndefined();
  });

  it("lets nobody overtake those who wait", async () => {
    const pass = createTurnLimiter();
    const order: string[] = [];
    for (let index = 0; index < perTurn; index += 1) void pass();
    const first = pass()?.then(() => order.push("first"));
    const second = pass()?.then(() => order.push("second"));
    await Promise.all([first, second]);
    expect(order).toEqual(["first", "second"]);
  });
});
