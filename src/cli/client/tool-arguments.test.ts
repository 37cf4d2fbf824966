import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { parseVerbatimJson } from "../../lib/canonical-json.ts";
import { UsageError } from "../define-command.ts";
import { parseJsonObject, parsePairs, type SchemaObject, toArguments, unknownArguments } from "./tool-arguments.ts";

const schema: SchemaObject = {
  type: "object",
  properties: {
    text: { type: "string" },
    count: { type: "integer" },
    ratio: { type: "number" },
    flag: { type: "boolean" },
    list: { type: "array", items: { type: "string" } },
    map: { type: "object" },
    either: { type: ["number", "null"] },
    loose: { type: ["string", "number"] },
    any: {},
  },
};

/** Controls, letters and signs of many kinds; the built-in unit for all of them takes a second to set up. */
const character = fc.integer({ min: 0, max: 0x30_00 }).map((point) => String.fromCodePoint(point));

/** What the words of a command line become. */
function read(words: readonly string[], by: SchemaObject = schema) {
  return toArguments(parsePairs(words), by);
}

describe("arguments on the command line", () => {
  it.each<[string, SchemaObject]>([
    ["text=5", { text: "5" }],
    ["text=", { text: "" }],
    ["text=a=b", { text: "a=b" }],
    ["text=two\nlines", { text: "two\nlines" }],
    ["count=-5", { count: -5 }],
    ["ratio=1e3", { ratio: 1000 }],
    ["flag=false", { flag: false }],
    ['list=["a"]', { list: ["a"] }],
    ['map={"a":1}', { map: { a: 1 } }],
    ["either=null", { either: null }],
    ["loose=5", { loose: "5" }],
    ["loose:=5", { loose: 5 }],
    ["any=5", { any: "5" }],
    ["unknown=5", { unknown: "5" }],
    ["unknown:=[1]", { unknown: [1] }],
  ])("%j becomes what the schema says", (word, value) => {
    expect(read([word])).toEqual({ ok: true, value });
  });

  it.each([
    [["count=1.5"], "argument `count` must be an integer, not `1.5`"],
    [["ratio=ten"], "argument `ratio` must be a number, not `ten`"],
    [["flag=yes"], "argument `flag` must be a boolean, not `yes`"],
    [["list=a,b"], "argument `list` must be an array, not `a,b`"],
    [["either=x"], "argument `either` must be a number or null, not `x`"],
    [["any:=x"], "argument `any` is not JSON: `x`"],
    [["count=9007199254740993"], "argument `count` is too large to be sent exactly: `9007199254740993`"],
  ])("%j is refused", (words, problem) => {
    expect(read(words)).toEqual({ ok: false, problem });
  });

  it.each([
    [["text"], "`text` is not an argument; expected KEY=VALUE or KEY:=JSON"],
    [["=x"], "`=x` is not an argument; expected KEY=VALUE or KEY:=JSON"],
    [["text=a", "text=b"], "argument `text` was given twice"],
  ])("%j is a usage error", (words, problem) => {
    expect(() => read(words)).toThrow(new UsageError(problem));
  });

  it("must have what the tool requires, and no name that it forbids", () => {
    const strict: SchemaObject = { ...schema, required: ["text", "count"], additionalProperties: false };
    expect(read([], strict)).toEqual({ ok: false, problem: "missing `text`, `count`" });
    expect(read(["txt=1"], strict)).toEqual({
      ok: false,
      problem: "unknown argument `txt`; did you mean `text`?",
    });
    expect(read(["x=1"], { additionalProperties: false })).toEqual({
      ok: false,
      problem: "unknown argument `x`; the tool takes none",
    });
    expect(read(["texxt=1"], { ...schema, required: ["text"] })).toEqual({
      ok: false,
      problem: "missing `text`; `texxt` is unknown",
    });
  });

  it("may be unknown to the tool, which is then pointed out", () => {
    const unknown = (words: readonly string[], own: SchemaObject) => unknownArguments(parsePairs(words), own);
    const open: SchemaObject = { properties: { to: {}, delay_ms: {} } };
    expect(unknown(["to=1", "dealy_ms=2"], open)).toEqual(["unknown argument `dealy_ms`; did you mean `delay_ms`?"]);
    expect(unknown(["to=1"], open)).toEqual([]);
    expect(unknown(["x=1"], {})).toEqual([]);
    expect(unknown(["x=1"], { ...open, additionalProperties: { type: "string" } })).toEqual([]);
    expect(unknown(["x=1"], { ...open, patternProperties: {} })).toEqual([]);
  });

  it("cannot reach into prototypes", () => {
    const made = read(["__proto__=x"]);
    expect(made.ok && Object.entries(made.value)).toEqual([["__proto__", "x"]]);
  });

  it("carry every text unchanged", () => {
    fc.assert(
      fc.property(fc.string({ unit: character }), (text) => {
        expect(read([`text=${text}`])).toEqual({ ok: true, value: { text } });
      }),
    );
  });

  it("carry every JSON value unchanged", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.stringify(value);
        expect(read([`any:=${json}`])).toEqual({ ok: true, value: { any: JSON.parse(json) } });
      }),
    );
  });
});

describe("parseJsonObject", () => {
  it("takes objects only", () => {
    expect(parseJsonObject('{"a":1}', "--args")).toEqual({ a: 1 });
    const exact = '{"a":12345678901234567890,"b":[1.0,1e400]}';
    expect(JSON.stringify(parseJsonObject(exact, "--args", parseVerbatimJson))).toBe(exact);
    for (const text of ["[]", "1", "null", "{", ""]) {
      expect(() => parseJsonObject(text, "--args")).toThrow(
        new UsageError(`--args takes a JSON object, not \`${text}\``),
      );
    }
  });
});
