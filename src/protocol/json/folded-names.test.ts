import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { anyStep, findAmbiguousName, foldName, knownNames, type NamePath } from "./folded-names.ts";

function ambiguousIn(text: string, paths: readonly NamePath[] = [], anywhere: readonly string[] = []) {
  const bytes = Buffer.from(text);
  const found = findAmbiguousName(bytes, { start: 0, end: bytes.length }, knownNames(paths, anywhere));
  return found === undefined ? undefined : `${found.problem} ${found.name}`;
}

/** Every character that has another one under simple case folding, as the engine's own regular expressions know it. */
const cased = Array.from({ length: 0x1_e9_44 }, (_, code) => code)
  .filter((code) => code < 0xd8_00 || code > 0xdf_ff)
  .map((code) => String.fromCodePoint(code))
  .filter((character) => /[\p{Changes_When_Casefolded}\p{Changes_When_Casemapped}]/u.test(character));

describe("foldName", () => {
  it("folds whatever Unicode simple case folding does", () => {
    const all = cased.join("");
    const missed: string[] = [];
    for (const character of cased) {
      for (const [same] of all.matchAll(new RegExp(character, "giu")))
        if (foldName(same) !== foldName(character)) missed.push(`${character} ${same}`);
    }
    expect(cased.length).toBeGreaterThan(2500);
    expect(missed).toEqual([]);
  });

  it.each([
    ["Amount", "amount"],
    ["\u017fcope", "scope"],
    ["\u212aey", "key"],
    ["i\u0131d", "iid"],
    ["\u0130d", "id"],
    ["\u03c3\u03c2", "\u03a3\u03a3"],
    ["stra\u00dfe", "STRASSE"],
    ["stra\u1e9ee", "strasse"],
    ["\u00b5", "\u03bc"],
    ["\u{10400}", "\u{10428}"],
  ])("takes %s for %s", (one, other) => {
    expect(foldName(one)).toBe(foldName(other));
  });

  it.each([
    ["user_id", "userid"],
    ["\uff41", "a"],
    ["e\u0301", "\u00e9"],
    ["a ", "a"],
  ])("keeps %s and %s apart", (one, other) => {
    expect(foldName(one)).not.toBe(foldName(other));
  });
});

describe("findAmbiguousName", () => {
  it.each([
    '{"a":1,"__proto__":{"b":2}}',
    '{"a":[{"c":{"__proto__" :\n {}}}]}',
    String.raw`{"_\u005fproto__":{"b":2}}`,
    '{"__proto__":[1]}',
  ])("finds members in a prototype: %s", (text) => {
    expect(ambiguousIn(text)).toBe("prototype __proto__");
  });

  it.each(['{"__proto__":"p"}', '{"__proto__":null}', '{"__PROTO__":{}}', '{"a":"__proto__","b":{"proto":{}}}'])(
    "takes what is no prototype: %s",
    (text) => {
      expect(ambiguousIn(text)).toBeUndefined();
    },
  );
});

/** The names of a value that meet another one of their object, found the slow way. */
function repeatedIn(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const names = Array.isArray(value) ? [] : Object.keys(value).map(foldName);
  return new Set(names).size < names.length || Object.values(value).some(repeatedIn);
}

const letters = fc.constantFrom(
  "a",
  "A",
  "b",
  "B",
  "s",
  "S",
  "\u017f",
  "k",
  "\u212a",
  "\u00e9",
  "\u00c9",
  '"',
  "\\",
  "{",
);
const keys = fc.string({ unit: letters, minLength: 1, maxLength: 2 });
const { value: values } = fc.letrec<{ value: unknown; object: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom<unknown>(1, "A", '{"a":', null, true),
    tie("object"),
    fc.array(tie("value")),
  ),
  object: fc.dictionary(keys, tie("value"), { maxKeys: 40 }),
}));

describe("findAmbiguousName", () => {
  it("finds two names of one object at any depth, and nothing else, whatever the value and its spelling", () => {
    let found = 0;
    fc.assert(
      fc.property(values, fc.constantFrom(0, 1, "\t"), fc.boolean(), (value, space, isEscaped) => {
        const plain = JSON.stringify(value, undefined, space);
        const text = isEscaped
          ? plain.replaceAll(/[^\x20-\x7e\n\t]/gu, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)
          : plain;
        const isFound = ambiguousIn(text) !== undefined;
        if (isFound) found++;
        expect([text, isFound]).toEqual([text, repeatedIn(value)]);
      }),
      { numRuns: 2000 },
    );
    expect(found).toBeGreaterThan(200);
  });

  it.each([
    ['{"amount":5,"Amount":5000}', "repeated Amount"],
    ['{"scope":"own","\u017fcope":"all"}', "repeated \u017fcope"],
    [String.raw`{"scope":"own","\u0053cope":"all"}`, "repeated Scope"],
    ['{"a":[{"b":{"c":1,"C":2}}]}', "repeated C"],
    ['{"a":{"x":1},"b":{"X":1},"X":{}}', undefined],
    ['{"a":"A","b":["B","b"]}', undefined],
    ["{}", undefined],
    ["[]", undefined],
    ['"a"', undefined],
  ])("says of %s: %s", (text, expected) => {
    expect(ambiguousIn(text)).toBe(expected);
  });

  it("compares each of many names with all others, in linear time", () => {
    const many = Array.from({ length: 50_000 }, (_, index) => `"name${index}":0`).join(",");
    expect(ambiguousIn(`{${many}}`)).toBeUndefined();
    expect(ambiguousIn(`{${many},"NAME7":0}`)).toBe("repeated NAME7");
    expect(ambiguousIn(`{"\u017fign":0,${many},"Sign":0}`)).toBe("repeated Sign");
  });

  const paths: readonly NamePath[] = [
    ["arguments", "amount"],
    ["arguments", "filter", "owner"],
    ["arguments", "items", anyStep, "price"],
    ["arguments", anyStep, "tenant"],
  ];

  it.each([
    ['{"arguments":{"amount":1,"filter":{"owner":1},"items":[{"price":1}]}}', undefined],
    ['{"arguments":{"Amount":1}}', "variant Amount"],
    ['{"arguments":{"AMOUNT":1}}', "variant AMOUNT"],
    ['{"arguments":{"Filter":{"owner":1}}}', "variant Filter"],
    ['{"arguments":{"filter":{"Owner":1}}}', "variant Owner"],
    ['{"arguments":{"items":[1,{"x":1},{"Price":1}]}}', "variant Price"],
    ['{"arguments":{"items":{"x":{"Price":1}}}}', "variant Price"],
    ['{"arguments":{"other":{"Tenant":1}}}', "variant Tenant"],
    ['{"arguments":{"filter":{"Tenant":1}}}', "variant Tenant"],
    ['{"arguments":{"other":{"Amount":1,"Owner":1,"Price":1}}}', undefined],
    ['{"Amount":1,"arguments":{"list":[{"Amount":1}]}}', undefined],
  ])("knows names at their places: %s is %s", (text, expected) => {
    expect(ambiguousIn(text, paths)).toBe(expected);
  });

  it("accepts each of two spellings that are both known", () => {
    const both = [["amount"], ["Amount"]];
    expect(ambiguousIn('{"Amount":1}', both)).toBeUndefined();
    expect(ambiguousIn('{"AMOUNT":1}', both)).toBe("variant AMOUNT");
  });

  it("knows names at any depth", () => {
    expect(ambiguousIn('{"a":[{"b":{"Owner":1}}]}', [], ["owner"])).toBe("variant Owner");
    expect(ambiguousIn('{"a":[{"b":{"owner":1}}]}', [], ["owner"])).toBeUndefined();
  });
});
