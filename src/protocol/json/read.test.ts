import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { scan } from "./scan.ts";
import { elementsOf, findMember, membersOf } from "./read.ts";

/** Scans a text that must be JSON and gives its bytes and span. */
function scanned(text: string) {
  const bytes = Buffer.from(text);
  const outline = scan(bytes, 0, Number.MAX_SAFE_INTEGER);
  if (!outline.ok) throw new Error(`not JSON: ${text}`);
  return { bytes, outline };
}

function members(text: string): [string, string][] {
  const { bytes, outline } = scanned(text);
  return [...membersOf(bytes, outline)].map(({ name, value }) => [
    name,
    bytes.toString("utf8", value.start, value.end),
  ]);
}

function elements(text: string): string[] {
  const { bytes, outline } = scanned(text);
  return [...elementsOf(bytes, outline)].map(({ start, end }) => bytes.toString("utf8", start, end));
}

describe("walking over checked JSON", () => {
  it("gives members in order, with duplicates, decoded names and exact values", () => {
    expect(members(' { "a" : 1.0 , "\\u0061":"}\\"," ,"b":[ {"c":"]"} ],"":null}')).toEqual([
      ["a", "1.0"],
      ["a", '"}\\","'],
      ["b", '[ {"c":"]"} ]'],
      ["", "null"],
    ]);
    expect(members("{ }")).toEqual([]);
  });

  it("finds the first member of a name in any spelling, as going through all of them does", () => {
    const spelled = fc.constantFrom(
      "name",
      "n\\u0061me",
      "nam",
      "names",
      "uri",
      'n\\"ame',
      "\\u006E\\u0061\\u006d\\u0065",
      "",
    );
    const value = fc.constantFrom("1", '"name"', '{"name":"inner"}', '["name", "}"]');
    const texts = fc
      .array(fc.tuple(spelled, value), { maxLength: 5 })
      .map((pairs) => ` { ${pairs.map(([name, json]) => `"${name}" :${json}`).join(" , ")}}`);
    fc.assert(
      fc.property(texts, (text) => {
        const { bytes, outline } = scanned(text);
        const first = [...membersOf(bytes, outline)].find(({ name }) => name === "name");
        expect(findMember(bytes, outline, "name")).toEqual(first?.value);
      }),
    );
  });

  it("gives elements in order", () => {
    expect(elements('[1 , "a,]", {"x":[]},[[]],true]')).toEqual(["1", '"a,]"', '{"x":[]}', "[[]]", "true"]);
    expect(elements("[ \n]")).toEqual([]);
  });

  it("agrees with JSON.parse on any object and array, however it is laid out", () => {
    const text = fc.tuple(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(undefined, 1, "\t"));
    fc.assert(
      fc.property(fc.array(text, { maxLength: 5 }), (values) => {
        const array = values.map(([value]) => value);
        const json = JSON.stringify(array, undefined, values[0]?.[1]);
        expect(elements(json).map((element) => JSON.parse(element))).toEqual(JSON.parse(json));
      }),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), (object) => {
        const json = JSON.stringify(object, undefined, 2);
        const built = members(json).map(([name, value]) => [name, JSON.parse(value)]);
        expect(built).toEqual(Object.entries(JSON.parse(json) as object));
      }),
    );
  });
});
