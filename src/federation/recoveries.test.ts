import { describe, expect, it } from "vitest";

import { Recoveries } from "./recoveries.ts";

/** Timers that run when told; how long each was to wait. */
function fakeTimers() {
  const waits: number[] = [];
  let due: (() => void) | undefined;
  return {
    waits,
    setTimer: (ms: number, run: () => void) => {
      waits.push(ms);
      due = run;
      return () => {
        due = undefined;
      };
    },
    isWaiting: () => due !== undefined,
    run: async () => {
      due?.();
      await new Promise(setImmediate);
    },
  };
}

describe("a server that sessions wait for", () => {
  it("is asked for one of them at a time, less and less often, and for all when it answers", async () => {
    const { waits, setTimer, run } = fakeTimers();
    const recoveries = new Recoveries(setTimer, () => undefined);
    const asked: string[] = [];
    let isBack = false;
    for (const name of ["a", "b", "c"])
      recoveries.watch("server", { name }, async () => {
        asked.push(name);
        return isBack;
      });
    for (let tries = 0; tries < 8; tries++) await run();
    expect(asked).toEqual(["a", "b", "c", "a", "b", "c", "a", "b"]);
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    isBack = true;
    await run();
    expect(asked.slice(8).toSorted()).toEqual(["a", "b", "c"]);
    expect(waits).toHaveLength(9);
  });

  it("is asked no more when the last of them has ended", () => {
    const { setTimer, isWaiting } = fakeTimers();
    const recoveries = new Recoveries(setTimer, () => undefined);
    const [one, other] = [{}, {}];
    for (const session of [one, other]) recoveries.watch("server", session, async () => false);
    recoveries.leave(one);
    expect(isWaiting()).toBe(true);
    recoveries.leave(other);
    expect(isWaiting()).toBe(false);
  });

  it("is asked again for a session that found it away once more", async () => {
    const { waits, setTimer, run } = fakeTimers();
    const recoveries = new Recoveries(setTimer, () => undefined);
    recoveries.watch("server", {}, async () => true);
    recoveries.watch("server", {}, async () => false);
    await run();
    expect(waits).toEqual([1000, 1000]);
  });
});
