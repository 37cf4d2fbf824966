import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { InexactNumber, MemberNames, readCelMembers, readCelValue, toCelValue, toJson } from "./json-value.ts";

function valueOf(text: string): unknown {
  const bytes = Buffer.from(text);
  return readCelValue(bytes, { start: 0, end: bytes.length });
}

describe("JSON for CEL", () => {
  it("keeps all digits", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const back = toJson(valueOf(text));
        // What is too big for CEL has no form to go back to.
        if (back !== undefined) expect(JSON.parse(back)).toEqual(JSON.parse(text));
      }),
    );
  });

  it.each([
    ["9223372036854775807", 9223372036854775807n],
    ["-0", 0n],
    ["0.5", 0.5],
    ["1E2", 100],
    ["true", true],
    ["false", false],
    ["null", null],
    ['"\\u0041\\n"', "A\n"],
    [' [ 1 , "a" ] '.trim(), [1n, "a"]],
  ])("reads %s", (text, expected) => {
    expect(valueOf(text)).toEqual(expected);
  });

  it.each([
    ["0.30000000000000004", 0.1 + 0.2],
    ["-0.0", -0],
    ["0e5", 0],
    ["1.000000000000000000000000", 1],
    ["0.000000000000000000000000012345", 1.2345e-26],
    ["1.2345678901234567e-10", Number("1.2345678901234567e-10")],
  ])("reads %s, which has no more digits than a double", (text, expected) => {
    expect(valueOf(text)).toBe(expected);
  });

  it.each(["100.0000000000000001", "0.123456789012345678", "1e-400", "-1.0000000000000000000001e2"])(
    "does not round %s to a double",
    (text) => {
      expect(valueOf(text)).toBeInstanceOf(InexactNumber);
    },
  );

  it.each(["9223372036854775808", "-9223372036854775809", "1e16", "1e999", "9".repeat(500_000)])(
    "does not round %#",
    (text) => {
      expect(valueOf(text)).toBeInstanceOf(InexactNumber);
      expect(toJson(valueOf(text))).toBeUndefined();
    },
  );

  it("reads only the named members", () => {
    const text =
      '{"skip":{"a":[1,{"b":"}]"}],"c":2} , "want" : {"x":1}, "n":-1.5e3,"s":"\\"","l\\u0061st":true,"lost":1,"\u00e4b":2}';
    const bytes = Buffer.from(text);
    const members = readCelMembers(
      bytes,
      { start: 0, end: bytes.length },
      new MemberNames(["want", "last", "none", "\u00e4b"]),
    );
    expect([...members]).toEqual([
      ["want", new Map([["x", 1n]])],
      ["last", true],
      ["\u00e4b", 2n],
    ]);
  });

  it("keeps names with a meaning in JavaScript", () => {
    expect(valueOf('{"__proto__":1,"constructor":2}')).toEqual(
      new Map([
        ["__proto__", 1n],
        ["constructor", 2n],
      ]),
    );
  });

  it("converts JavaScript values", () => {
    expect(toCelValue({ a: [1, 1.5, "x", null, true, undefined], big: 1e300 })).toEqual(
      new Map<string, unknown>([
        ["a", [1n, 1.5, "x", null, true, null]],
        ["big", new InexactNumber("1e+300")],
      ]),
    );
  });

  it("has no form for values outside JSON", () => {
    expect(
      [Number.NaN, undefined, new Date(0), [Number.POSITIVE_INFINITY], new Map([["a", undefined]])].map(toJson),
    ).toEqual(Array.from({ length: 5 }, () => undefined));
    expect(toJson({ a: new Set(["x"]) })).toBe('{"a":["x"]}');
  });
});
