import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { runsOf } from "./runs.ts";

describe("runs of values", () => {
  it("end at every gap, and together hold every value at its place", () => {
    expect(runsOf([undefined, 1, 2, undefined, 3])).toEqual([
      { from: 1, values: [1, 2] },
      { from: 4, values: [3] },
    ]);
    fc.assert(
      fc.property(fc.array(fc.option(fc.nat(), { nil: undefined })), (values) => {
        const runs = runsOf(values);
        const again: (number | undefined)[] = values.map(() => undefined);
        for (const { from, values: own } of runs) own.forEach((value, index) => (again[from + index] = value));
        expect(again).toEqual(values);
        for (const { from } of runs) expect(values[from - 1]).toBeUndefined();
      }),
    );
  });
});
