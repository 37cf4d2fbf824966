import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lineBounds } from "./line-end.ts";

describe("line bounds", () => {
  it("are those of a split at LF, CR LF and CR", () => {
    const text = fc.string({ unit: fc.constantFrom("\r", "\n", "a", "b") });
    fc.assert(
      fc.property(text, (lines) => {
        const bounds = lineBounds(Buffer.from(lines));
        const found = lines.split(/\r\n|\r|\n/).map((_, i) => lines.slice(bounds[i * 2], bounds[i * 2 + 1]));
        expect(found).toEqual(lines.split(/\r\n|\r|\n/));
        expect(bounds).toHaveLength(found.length * 2);
      }),
    );
  });
});
