import { describe, expect, it } from "vitest";

import { createRestartBackoff } from "./child-pool.ts";

const options = { firstMs: 100, maxMs: 1000, loopAfter: 3, forgetMs: 5000 };

function createTime(): { now: number; clock: { now: () => number; wall: () => number } } {
  const time = { now: 0, clock: { now: () => time.now, wall: () => 0 } };
  return time;
}

describe("the wait after a crash", () => {
  it("is nothing before the first, then doubles up to the longest", () => {
    const time = createTime();
    const backoff = createRestartBackoff(options, time.clock);
    const waits = [backoff.waitMs];
    for (let crash = 0; crash < 6; crash += 1) {
      backoff.crashed();
      waits.push(backoff.waitMs);
      time.now += backoff.waitMs;
    }
    expect(waits).toEqual([0, 100, 200, 400, 800, 1000, 1000]);
  });

  it("begins anew when the last crash is long ago", () => {
    const time = createTime();
    const backoff = createRestartBackoff(options, time.clock);
    for (let crash = 0; crash < 4; crash += 1) backoff.crashed();
    expect([backoff.crashes, backoff.isLoop]).toEqual([4, true]);
    time.now += 5001;
    expect([backoff.crashes, backoff.isLoop]).toEqual([0, false]);
    backoff.crashed();
    expect(backoff.waitMs).toBe(100);
  });

  it("ends when a process works, but the next crash adds to those before", () => {
    const backoff = createRestartBackoff(options, createTime().clock);
    backoff.crashed();
    backoff.crashed();
    backoff.working();
    expect(backoff.waitMs).toBe(0);
    backoff.crashed();
    expect(backoff.waitMs).toBe(400);
  });

  it("holds others off while a start is tried in a loop, and only then", () => {
    const time = createTime();
    const backoff = createRestartBackoff(options, time.clock);
    backoff.crashed();
    time.now += 100;
    backoff.trying();
    expect(backoff.waitMs).toBe(0);
    backoff.crashed();
    backoff.crashed();
    time.now += 400;
    backoff.trying();
    expect(backoff.waitMs).toBe(400);
  });
});
