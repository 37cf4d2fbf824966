import { describe, expect, it } from "vitest";

import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { withRetry } from "./call.ts";

function attempts(results: readonly string[]) {
  const made: number[] = [];
  return {
    made,
    attempt: (now: () => number) => async () => {
      made.push(now());
      return results[made.length - 1] ?? "ok";
    },
  };
}

describe("retry", () => {
  it("[PA-117] makes a single attempt without retries", async () => {
    const time = createFakeTime();
    const { made, attempt } = attempts(["bad"]);
    const result = await withRetry(attempt(time.clock.now), {
      retries: 0,
      backoffMs: 500,
      setTimer: time.setTimer,
      isTransient: (value) => value === "bad",
    });
    expect(result).toBe("bad");
    expect(made).toEqual([0]);
    expect(time.pending()).toBe(0);
  });

  it("[PA-120] pauses the same time between attempts and not after the last", async () => {
    const time = createFakeTime();
    const { made, attempt } = attempts(["bad", "bad", "bad"]);
    const result = withRetry(attempt(time.clock.now), {
      retries: 2,
      backoffMs: 500,
      setTimer: time.setTimer,
      isTransient: (value) => value === "bad",
    });
    await time.advance(1000);
    expect(await result).toBe("bad");
    expect(made).toEqual([0, 500, 1000]);
    expect(time.pending()).toBe(0);
  });

  it("stops at the first result that is final", async () => {
    const time = createFakeTime();
    const { made, attempt } = attempts(["bad", "ok"]);
    const result = withRetry(attempt(time.clock.now), {
      retries: 5,
      backoffMs: 10,
      setTimer: time.setTimer,
      isTransient: (value) => value === "bad",
    });
    await time.advance(10);
    expect(await result).toBe("ok");
    expect(made).toHaveLength(2);
  });

  it("ends the pause on abort", async () => {
    const time = createFakeTime();
    const { made, attempt } = attempts(["bad", "bad"]);
    const controller = new AbortController();
    const result = withRetry(attempt(time.clock.now), {
      retries: 1,
      backoffMs: 500,
      setTimer: time.setTimer,
      signal: controller.signal,
      isTransient: (value) => value === "bad",
    });
    await settled();
    controller.abort();
    expect(await result).toBe("bad");
    expect(made).toHaveLength(1);
    expect(time.pending()).toBe(0);
  });

  it("reports every retry", async () => {
    const time = createFakeTime();
    const { made, attempt } = attempts(["bad", "bad", "good"]);
    let told = 0;
    const result = withRetry(attempt(time.clock.now), {
      retries: 5,
      backoffMs: 1,
      setTimer: time.setTimer,
      isTransient: (value) => value === "bad",
      onRetry: () => void told++,
    });
    await time.advance(10);
    expect([await result, made.length, told]).toEqual(["good", 3, 2]);
  });

  it("does not start an attempt without time for it", async () => {
    const time = createFakeTime();
    const { made, attempt } = attempts(["bad", "bad"]);
    const result = await withRetry(attempt(time.clock.now), {
      retries: 3,
      backoffMs: 500,
      setTimer: time.setTimer,
      isTransient: (value) => value === "bad",
      hasTime: () => false,
    });
    expect(result).toBe("bad");
    expect(made).toHaveLength(1);
  });
});
