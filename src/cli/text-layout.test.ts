import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { printable, printableLine, table, textWidth, wrap } from "./text-layout.ts";

/** Controls, letters and signs of many kinds; the built-in unit for all of them takes a second to set up. */
const character = fc.integer({ min: 0, max: 0x30_00 }).map((point) => String.fromCodePoint(point));

describe("wrap", () => {
  it("breaks at blanks and keeps line feeds", () => {
    expect(wrap("one two three\nfour", 8)).toEqual(["one two", "three", "four"]);
  });

  it("loses no word, and no line is too wide unless it is one word", () => {
    const word = fc.stringMatching(/^[a-z]{1,12}$/u);
    fc.assert(
      fc.property(fc.array(word, { minLength: 1 }), fc.integer({ min: 1, max: 30 }), (words, columns) => {
        const lines = wrap(words.join(" "), columns);
        expect(lines.join(" ")).toBe(words.join(" "));
        for (const line of lines) expect(line.length <= columns || !line.includes(" ")).toBe(true);
      }),
    );
  });
});

describe("table", () => {
  it("puts cells below each other and wraps the last one", () => {
    const long = Array.from({ length: 30 }, () => "word").join(" ");
    const text = table(
      [
        ["a", "number", "short"],
        ["bcd", "text", long],
        ["e", "text", ""],
      ],
      2,
    );
    const [first, second, third = "", ...rest] = text.split("\n");
    expect(first).toBe("  a    number  short");
    expect(second).toMatch(/^ {2}bcd {2}text {4}word word/u);
    expect(third).toMatch(/^ {15}word/u);
    expect(rest.at(-2)).toBe("  e    text");
    expect(text.split("\n").every((line) => line.length <= textWidth)).toBe(true);
  });

  it("is nothing without rows", () => {
    expect(table([], 2)).toBe("");
  });
});

describe("printable", () => {
  it("shows what could steer a terminal and keeps everything else", () => {
    expect(printable("a\u001B[31mred\u009B0m\rb\u202Ec")).toBe(String.raw`a\u001b[31mred\u009b0m\u000db\u202ec`);
    expect(printable("line\n\ttab Ærø 👩‍🚀 日本")).toBe("line\n\ttab Ærø 👩‍🚀 日本");
  });

  it("makes one line of many", () => {
    expect(printableLine("  a\n b\t\u0007 ")).toBe(String.raw`a b \u0007`);
  });

  it("leaves JSON meaning the same", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: character }), (value) => {
        expect(JSON.parse(printable(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});
