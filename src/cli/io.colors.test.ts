import { describe, expect, it } from "vitest";

import { createColors, colorsFor } from "./io.ts";

const terminal = { isTTY: true };

describe("colours", () => {
  it("are there on a terminal only, and not where somebody wants none", () => {
    const red = (stdout: object, env = {}): string => colorsFor({ stdout, env }).red("x");
    expect(red(terminal)).toBe("\u001B[31mx\u001B[39m");
    expect(red({})).toBe("x");
    expect(red(terminal, { NO_COLOR: "1" })).toBe("x");
    expect(red(terminal, { NO_COLOR: "" })).toBe("\u001B[31mx\u001B[39m");
    expect(red(terminal, { TERM: "dumb" })).toBe("x");
    expect(createColors(false).bold("x")).toBe("x");
  });
});
