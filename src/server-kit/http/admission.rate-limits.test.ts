import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createKeyedRateLimit } from "./admission.ts";

describe("a rate limit", () => {
  it("[KO-044] [KO-113] lets a key have its share in a minute and says how long to wait for more", async () => {
    const time = createFakeTime();
    const limit = createKeyedRateLimit(() => ({ perMinute: 60 }), time.clock);
    for (let taken = 0; taken < 60; taken += 1) expect(limit.take("a")).toBeUndefined();
    expect(limit.take("a")).toBe(1);
    expect(limit.take("b")).toBeUndefined();
    await time.advance(1000);
    expect(limit.peek("a")).toBeUndefined();
    expect(limit.take("a")).toBeUndefined();
    expect(limit.take("a")).toBe(1);
  });

  it("[KO-142] goes by the rate that holds now", async () => {
    const time = createFakeTime();
    let perMinute = 1;
    const limit = createKeyedRateLimit(() => ({ perMinute }), time.clock);
    expect(limit.take("a")).toBeUndefined();
    expect(limit.take("a")).toBe(60);
    perMinute = 60;
    await time.advance(1000);
    expect(limit.take("a")).toBeUndefined();
  });

  it("forgets keys that have their whole share again, and looks without remembering", async () => {
    const time = createFakeTime();
    const limit = createKeyedRateLimit(() => ({ perMinute: 10 }), time.clock);
    for (let key = 0; key < 100; key += 1) limit.take(`key-${key}`);
    expect(limit.size).toBe(100);
    await time.advance(60_000);
    for (let key = 0; key < 100; key += 1) limit.take("again" + String(key));
    expect(limit.size).toBeLessThanOrEqual(100);
    expect(limit.peek("nobody")).toBeUndefined();
    expect(limit.size).toBeLessThanOrEqual(100);
  });

  it("remembers no more keys than its bound", () => {
    const limit = createKeyedRateLimit(() => ({ perMinute: 10 }), createFakeTime().clock);
    for (let key = 0; key < 10_100; key += 1) limit.take(String(key));
    expect(limit.size).toBeLessThanOrEqual(10_000);
  });
});
