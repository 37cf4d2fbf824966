import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { formatMs } from "./text.ts";

describe("formatMs", () => {
  it.each([
    [0.5, "500 µs"],
    [12.34, "12.3 ms"],
    [59_999, "60.00 s"],
    [60_000, "1 min 0 s"],
    [119_600, "2 min 0 s"],
    [90_400, "1 min 30 s"],
  ])("writes %d ms as %s", (ms, text) => {
    expect(formatMs(ms)).toBe(text);
  });

  it("never writes 60 seconds beside minutes", () => {
    fc.assert(
      fc.property(fc.double({ min: 60_000, max: 1e9, noNaN: true }), (ms) => {
        expect(Number(/min (\d+) s/u.exec(formatMs(ms))?.[1])).toBeLessThan(60);
      }),
    );
  });
});
