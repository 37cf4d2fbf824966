import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { within } from "./time-range.ts";

describe("a stretch of time inside another", () => {
  it("is as long as was asked for where the other one is long enough", () => {
    const time = fc.integer({ min: -1000, max: 1000 });
    const stretch = fc.tuple(time, fc.integer({ min: 1, max: 500 })).map(([from, ms]) => ({ from, to: from + ms }));
    fc.assert(
      fc.property(stretch, stretch, (asked, bounds) => {
        const { from, to } = within(asked, bounds);
        expect(from).toBeGreaterThanOrEqual(bounds.from);
        expect(to).toBeLessThanOrEqual(bounds.to);
        expect(to - from).toBe(Math.min(asked.to - asked.from, bounds.to - bounds.from));
      }),
    );
  });
});
