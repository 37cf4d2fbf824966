import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { pointerTo } from "./read.ts";
import { type EditResult, removeAt, setAt } from "./edit.ts";

function textOf(edit: EditResult): string {
  return edit.ok ? edit.bytes.toString() : edit.problem;
}

describe("setting by pointer", () => {
  it.each([
    ['{"a":1}', "/a", '{"a":X}'],
    ['{ "a" : 1 , "b":2 }', "/b", '{ "a" : 1 , "b":X }'],
    ['{"a":{"b":[10,11,12]},"n":9007199254740993}', "/a/b/1", '{"a":{"b":[10,X,12]},"n":9007199254740993}'],
    ['{"a":[1]}', "/a/-", '{"a":[1,X]}'],
    ['{"a":[ ]}', "/a/-", '{"a":[X ]}'],
    ['{"a":{}}', "/a/b", '{"a":{"b":X}}'],
    ['{"a":1}', "/b", '{"b":X,"a":1}'],
    ['{"a/b":{"c~d":1}}', "/a~1b/c~0d", '{"a/b":{"c~d":X}}'],
    [String.raw`{"\u0061":1}`, "/a", String.raw`{"\u0061":X}`],
    ['{"":{"é":1}}', "//é", '{"":{"é":X}}'],
  ])("turns %s at %s into %s", (before, pointer, after) => {
    expect(textOf(setAt(Buffer.from(before), pointer, "X"))).toBe(after);
  });

  it.each([
    ["", "not a JSON Pointer to a member"],
    ["a", "not a JSON Pointer to a member"],
    ["/a~2", "not a JSON Pointer to a member"],
    ["/x/y", "/x/y has no parent object or array"],
    ["/n/y", "/n/y has no parent object or array"],
    ["/a/3", "beyond the end"],
    ["/a/01", "beyond the end"],
  ])("refuses the pointer %j", (pointer, problem) => {
    const edit = setAt(Buffer.from('{"a":[1,2,3],"n":1}'), pointer, "X");
    expect(edit.ok).toBe(false);
    expect(textOf(edit)).toContain(problem);
  });
});

describe("removing by pointer", () => {
  it.each([
    ['{"a":1}', "/a", "{}"],
    ['{"a":1, "b":2, "c":3}', "/a", '{"b":2, "c":3}'],
    ['{"a":1, "b":2, "c":3}', "/b", '{"a":1, "c":3}'],
    ['{"a":1, "b":2, "c":3 }', "/c", '{"a":1, "b":2 }'],
    ["[1,[2,3]]", "/1/0", "[1,[3]]"],
  ])("turns %s without %s into %s", (before, pointer, after) => {
    expect(textOf(removeAt(Buffer.from(before), pointer))).toBe(after);
  });

  it("refuses what is not there", () => {
    expect(removeAt(Buffer.from('{"a":[]}'), "/a/0")).toEqual({ ok: false, problem: "there is no /a/0" });
  });
});

describe("edits by pointer", () => {
  const keyed = fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue(), {
    minKeys: 1,
    noNullPrototype: true,
  });

  it("equal the same edit of the value, and undo each other", () => {
    fc.assert(
      fc.property(keyed, fc.jsonValue(), fc.nat(3), (object, value, indent) => {
        const bytes = Buffer.from(JSON.stringify({ outer: [object] }, null, indent));
        const [key = ""] = Object.keys(object);
        const pointer = pointerTo(["outer", 0, key]);
        const set = setAt(bytes, pointer, JSON.stringify(value));
        expect(JSON.parse(textOf(set))).toEqual({
          outer: [JSON.parse(JSON.stringify({ ...object, [key]: value })) as unknown],
        });
        const { [key]: gone, ...rest } = object;
        expect(JSON.parse(textOf(removeAt(bytes, pointer)))).toEqual(JSON.parse(JSON.stringify({ outer: [rest] })));
        const back = setAt(set.ok ? set.bytes : bytes, pointer, JSON.stringify(gone));
        expect(JSON.parse(textOf(back))).toEqual(JSON.parse(bytes.toString()));
      }),
    );
  });
});
