import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createMinuteLimit } from "./admission.ts";

describe("a rate limit", () => {
  it("[KO-044] [KO-113] allows so many a minute per key and says how long to wait for more", async () => {
    const time = createFakeTime();
    const limit = createMinuteLimit(() => 60, time.clock);
    for (let taken = 0; taken < 60; taken += 1) expect(limit.take("a")).toBeUndefined();
    expect(limit.take("a")).toBe(1);
    expect(limit.take("b")).toBeUndefined();
    await time.advance(1000);
    expect(limit.peek("a")).toBeUndefined();
    expect(limit.take("a")).toBeUndefined();
    expect(limit.take("a")).toBe(1);
  });

  it("[KO-142] follows a changed rate", async () => {
    const time = createFakeTime();
    let perMinute = 1;
    const limit = createMinuteLimit(() => perMinute, time.clock);
    expect(limit.take("a")).toBeUndefined();
    expect(limit.take("a")).toBe(60);
    perMinute = 60;
    await time.advance(1000);
    expect(limit.take("a")).toBeUndefined();
  });
});
