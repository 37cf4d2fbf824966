import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import { createBreaker } from "./call.ts";

describe("breaker", () => {
  it("[PA-106] starts closed", () => {
    const { clock } = createFakeTime();
    const first = createBreaker(clock);
    first.trip("failure", 30);
    expect(first.check()).toBeDefined();
    expect(createBreaker(clock).check()).toBeUndefined();
  });

  it("[PA-112] closes when its time is over", async () => {
    const time = createFakeTime();
    const breaker = createBreaker(time.clock);
    breaker.trip("failure", 30);
    await time.advance(29_999);
    expect(breaker.check()).toEqual({ kind: "failure", remainingSeconds: 1 });
    await time.advance(1);
    expect(breaker.check()).toBeUndefined();
    expect(breaker.check()).toBeUndefined();
  });

  it("rounds the remaining seconds up", async () => {
    const time = createFakeTime();
    const breaker = createBreaker(time.clock);
    expect(breaker.trip("rate", 12)).toEqual({ kind: "rate", remainingSeconds: 12 });
    await time.advance(1500);
    expect(breaker.check()).toEqual({ kind: "rate", remainingSeconds: 11 });
  });

  it("[PA-116] keeps the latest end of several failures, with its kind", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ kind: fc.constantFrom("rate" as const, "failure" as const), seconds: fc.nat(1000) })),
        (trips) => {
          const breaker = createBreaker(createFakeTime().clock);
          for (const { kind, seconds } of trips) breaker.trip(kind, seconds);
          const latest = trips.reduce((most, { seconds }) => Math.max(most, seconds), 0);
          const open = breaker.check();
          expect(open?.remainingSeconds ?? 0).toBe(latest);
          if (open !== undefined) {
            expect(trips.find(({ seconds }) => seconds === latest)?.kind).toBe(open.kind);
          }
        },
      ),
    );
  });
});
