import { describe, expect, it } from "vitest";

import { sleep, settlesWithin } from "./timeout.ts";

/** Timers that fire when told to. */
function createTimers() {
  const pending = new Set<() => void>();
  return {
    setTimer: (_milliseconds: number, callback: () => void) => {
      pending.add(callback);
      return () => {
        pending.delete(callback);
      };
    },
    fire: () => {
      for (const callback of pending) callback();
    },
    pending,
  };
}

describe("settlesWithin", () => {
  it("says whether the promise resolved in time, and leaves no timer behind", async () => {
    const { setTimer, fire, pending } = createTimers();
    expect(await settlesWithin(Promise.resolve(), 10, setTimer)).toBe(true);
    expect(pending.size).toBe(0);
    const late = settlesWithin(new Promise(() => {}), 10, setTimer);
    fire();
    expect(await late).toBe(false);
    expect(pending.size).toBe(0);
  });

  it("rejects as the promise does", async () => {
    await expect(settlesWithin(Promise.reject(new Error("no")), 10, createTimers().setTimer)).rejects.toThrow("no");
  });
});

describe("delay", () => {
  it("resolves when its timer fires", async () => {
    const { setTimer, fire } = createTimers();
    const waiting = sleep(10, setTimer);
    fire();
    await expect(waiting).resolves.toBeUndefined();
  });
});
