import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { diffLines, diffWords } from "./diff.ts";

describe("a comparison of texts", () => {
  it("shows what was added and removed", () => {
    expect(diffWords("Adds two numbers.", "Adds two big numbers.")).toEqual([
      { type: "same", text: "Adds two " },
      { type: "added", text: "big " },
      { type: "same", text: "numbers." },
    ]);
  });

  it("holds both texts, whatever they are", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", " ", "\n", "\u200B", "😀") });
    fc.assert(
      fc.property(word, word, fc.constantFrom(diffLines, diffWords), (before, after, compare) => {
        const parts = compare(before, after);
        const text = (left: string) => parts.flatMap(({ type, text: own }) => (type === left ? [] : [own])).join("");
        expect([text("added"), text("removed")]).toEqual([before, after]);
      }),
    );
  });
});
