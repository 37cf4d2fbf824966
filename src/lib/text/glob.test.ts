import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createFoldedGlobTest, createGlobTest } from "./glob.ts";

describe("a test for method names", () => {
  it.each<[patterns: string[] | undefined, method: string, expected: boolean]>([
    [undefined, "anything", true],
    [[], "tools/call", false],
    [["tools/call"], "tools/call", true],
    [["tools/call"], "tools/calls", false],
    [["tools/call"], "Tools/call", false],
    [["tools/*"], "tools/list", true],
    [["tools/*"], "tools", false],
    [["*"], "notifications/tools/list_changed", true],
    [["*/list"], "resources/templates/list", true],
    [["*list*"], "notifications/tools/list_changed", true],
    [["resources/*/list"], "resources/templates/list", true],
    [["resources/*/list"], "resources/list", false],
    [["a*a"], "a", false],
    [["a*a"], "aa", true],
    [["a*ab*b"], "aab", false],
    [["a*ab*b"], "aabb", true],
    [["ping", "tools/*"], "ping", true],
    [["tools.call"], "tools/call", false],
  ])("says for %j and %s: %s", (patterns, method, expected) => {
    expect(createGlobTest(patterns)(method)).toBe(expected);
  });

  it("takes no longer for a name that a peer made to be slow", () => {
    const hasManyStars = createGlobTest([`${"*a".repeat(50)}b`]);
    expect(hasManyStars("a".repeat(100_000))).toBe(false);
  });
});

describe("a test without regard to letter case", () => {
  it("says what a regular expression says", () => {
    const letters = fc.constantFrom("a", "A", "*", ".", "ß", "ſ", "s", "\u212A", "k", "É", "é", "İ", "💥", "\n");
    const text = fc.array(letters, { maxLength: 8 }).map((parts) => parts.join(""));
    fc.assert(
      fc.property(text, text, (pattern, name) => {
        const form = new RegExp(`^${pattern.replaceAll(".", String.raw`\.`).replaceAll("*", "[^]*")}$`, "i");
        expect(createFoldedGlobTest(pattern)(name)).toBe(form.test(name));
      }),
    );
  });

  it("takes no longer for a name that a peer made to be slow", () => {
    const hasManyStars = createFoldedGlobTest(`${"*a".repeat(50)}*b`);
    for (const letter of ["a", "A", "aé"]) expect(hasManyStars(letter.repeat(50_000))).toBe(false);
  });
});
