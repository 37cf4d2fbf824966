import { describe, expect, it } from "vitest";
import { createGrowthRule } from "./young-generation.ts";

const megabyte = 1_048_576;

describe("createGrowthRule", () => {
  it("lets the young generation grow to 16 MB, whatever is alive in it", () => {
    const mayGrow = createGrowthRule();
    const sizes = [2, 4, 8];
    expect(sizes.map((size) => mayGrow({ size: size * megabyte, used: 0 }))).toEqual([true, true, true]);
    expect(mayGrow({ size: 16 * megabyte, used: 0 })).toBe(false);
  });

  it("lets it grow further after three collections in a row that left much", () => {
    const mayGrow = createGrowthRule();
    const shares = [0.3, 0.3, 0.01, 0.3, 0.3, 0.3, 0.3, 0.01];
    const answers = shares.map((share) => mayGrow({ size: 16 * megabyte, used: share * 16 * megabyte }));
    expect(answers).toEqual([false, false, false, false, false, true, true, false]);
  });
});
