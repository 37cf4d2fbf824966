import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { anyDuration, duration, formatDuration, parseDuration } from "./duration.ts";

describe("durations", () => {
  it.each([
    ["250ms", 250],
    ["30s", 30_000],
    ["5m", 300_000],
    ["1h", 3_600_000],
    ["2d", 172_800_000],
    ["1.5s", 1500],
    ["0.2ms", 1],
  ])("%s are %d milliseconds", (text, milliseconds) => {
    expect(parseDuration(text)).toBe(milliseconds);
  });

  it.each(["", "5", "5 m", "5M", "-5s", "1e3s", "5minutes", ".5s", "s"])("%j is none", (text) => {
    expect(parseDuration(text)).toBeUndefined();
    expect(duration.safeParse(text).success).toBe(false);
  });

  it("may be a number of milliseconds", () => {
    expect(duration.parse(1500)).toBe(1500);
    expect(duration.safeParse(1.5).success).toBe(false);
    expect(duration.safeParse(-1).success).toBe(false);
  });

  it("are never longer than a timer can wait", () => {
    expect(duration.parse("24d")).toBe(2_073_600_000);
    for (const tooLong of ["25d", "600h", 2_147_483_648]) expect(duration.safeParse(tooLong).success).toBe(false);
  });

  it("are longer than nothing, except where nothing is meant", () => {
    expect(duration.safeParse("0s").success).toBe(false);
    expect(anyDuration.parse("0s")).toBe(0);
  });

  it("read back as they are written", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 2_073_600_000 }), (milliseconds) => {
        expect(parseDuration(formatDuration(milliseconds))).toBe(milliseconds);
      }),
    );
  });

  it("are written in the largest unit that fits", () => {
    expect([0, 250, 60_000, 90_000, 86_400_000].map(formatDuration)).toEqual(["0ms", "250ms", "1m", "90s", "1d"]);
  });
});
