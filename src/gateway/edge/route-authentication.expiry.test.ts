import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { longerOf, onExpiry } from "./route-authentication.ts";

describe("credentials that expire", () => {
  it("are told of when their time comes, once", async () => {
    const time = createFakeTime(0);
    let told = 0;
    onExpiry(
      () => principalNamed("a", { expiresAt: 1000 }),
      time,
      () => (told += 1),
    );
    await time.advance(999);
    expect(told).toBe(0);
    await time.advance(1);
    expect([told, time.pending()]).toEqual([1, 0]);
  });

  it.each([
    ["ahead, within a minute", 7_200_000, 60_000],
    ["back, later", -3_600_000, 7_200_000],
  ])("are told of when the clock is set %s", async (_how, jump, after) => {
    const time = createFakeTime(0);
    let told = 0;
    onExpiry(
      () => principalNamed("a", { expiresAt: 3_600_000 }),
      time,
      () => (told += 1),
    );
    time.jump(jump);
    await time.advance(after - 1);
    expect(told).toBe(0);
    await time.advance(1);
    expect([told, time.pending()]).toEqual([1, 0]);
  });

  it("may be replaced meanwhile by some that hold for longer", async () => {
    const time = createFakeTime(0);
    let [expiresAt, told] = [1000, 0];
    onExpiry(
      () => principalNamed("a", { expiresAt }),
      time,
      () => (told += 1),
    );
    expiresAt = 3000;
    await time.advance(2999);
    expect(told).toBe(0);
    await time.advance(1);
    expect(told).toBe(1);
  });

  it("set no timer for a client that has gone, nor for tokens that never expire", () => {
    const time = createFakeTime(0);
    const stop = onExpiry(
      () => principalNamed("a", { expiresAt: 1000 }),
      time,
      () => {},
    );
    stop();
    onExpiry(
      () => principalNamed("b"),
      time,
      () => {},
    );
    expect(time.pending()).toBe(0);
  });

  it("are waited for longer than a timer can", async () => {
    const time = createFakeTime(0);
    let told = 0;
    const expiresAt = 2 ** 32;
    onExpiry(
      () => principalNamed("a", { expiresAt }),
      time,
      () => (told += 1),
    );
    await time.advance(expiresAt - 1);
    expect(told).toBe(0);
    await time.advance(1);
    expect(told).toBe(1);
  });

  it("give way to those that hold for longer", () => {
    const [brief, long, always] = [
      principalNamed("a", { expiresAt: 1 }),
      principalNamed("a", { expiresAt: 2 }),
      principalNamed("a"),
    ];
    expect(longerOf(brief, long)).toBe(long);
    expect(longerOf(long, brief)).toBe(long);
    expect(longerOf(always, long)).toBe(always);
  });
});
