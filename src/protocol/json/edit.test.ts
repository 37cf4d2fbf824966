import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { scan } from "./scan.ts";
import {
  insertMember,
  replaceMember,
  splice,
  changeMembers,
  editObject,
  applyEdits,
  planEdits,
  type PointerEdit,
  type EditAction,
  type EditResult,
  removeAt,
  setAt,
} from "./edit.ts";
import { pointerStep, pointerTo } from "./read.ts";

function outlined(text: string) {
  const bytes = Buffer.from(text);
  const outline = scan(bytes, 0, 100);
  if (!outline.ok) throw new Error(outline.reason);
  return { bytes, outline };
}

describe("splicing", () => {
  it("[SC-012] replaces one member and leaves every other byte as it was", () => {
    const text =
      '{ "jsonrpc" : "2.0",\n"id": 12345678901234567890, "method":"tools/call","params":{"n":1.0,"name":"a"} }';
    expect(replaceMember(outlined(text), "id", "7")?.toString()).toBe(text.replace("12345678901234567890", "7"));
    expect(replaceMember(outlined(text), "params.name", '"b"')?.toString()).toBe(text.replace('"a"', '"b"'));
    expect(replaceMember(outlined(text), "result", "{}")).toBeUndefined();
  });

  it("replaces several spans at once, in any order, and refuses overlaps", () => {
    const bytes = Buffer.from("abcdef");
    const whole = { start: 0, end: 6 };
    const one = { span: { start: 1, end: 2 }, bytes: Buffer.from("X") };
    const two = { span: { start: 4, end: 6 }, bytes: Buffer.from("") };
    expect(splice(bytes, whole, [two, one]).toString()).toBe("aXcd");
    expect(splice(bytes, whole, []).toString()).toBe("abcdef");
    expect(() => splice(bytes, whole, [one, { span: { start: 0, end: 3 }, bytes: Buffer.from("") }])).toThrow(
      RangeError,
    );
  });

  it("gives the same message with only the id changed, for random messages and ids", () => {
    const id = fc.oneof(fc.integer(), fc.string());
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), id, id, (value, before, after) => {
        const message = { jsonrpc: "2.0", id: before, method: "m", params: { value } };
        const changed = replaceMember(outlined(JSON.stringify(message)), "id", JSON.stringify(after));
        expect(changed?.toString()).toBe(JSON.stringify({ ...message, id: after }));
      }),
    );
  });

  it("adds a member to an object, empty or not", () => {
    for (const text of ["{}", "{ }", '{"a":1}']) {
      const { bytes, outline } = outlined(text);
      const added = insertMember(bytes, outline, outline, "new", "[1]").toString();
      expect(JSON.parse(added)).toEqual({ new: [1], ...JSON.parse(text) });
    }
  });
});

function withMembers(text: string, changes: readonly (readonly [string, string | undefined])[]): string {
  const bytes = Buffer.from(text);
  const span = { start: bytes.indexOf("{"), end: bytes.lastIndexOf("}") + 1 };
  return changeMembers(bytes, span, new Map(changes)).toString();
}

describe("an edited object", () => {
  it("keeps all other bytes", () => {
    expect(withMembers(' {"a": 1.50, "big":12345678901234567890 ,"é":"\\u00e9"} ', [["a", "2"]])).toBe(
      '{"a": 2, "big":12345678901234567890 ,"é":"\\u00e9"}',
    );
  });

  it("loses, changes and gains members", () => {
    expect(
      withMembers('{"a":1,"b":2}', [
        ["a", undefined],
        ["c", "3"],
        ["d", undefined],
      ]),
    ).toBe('{"b":2,"c":3}');
    expect(withMembers('{"a":1}', [["a", undefined]])).toBe("{}");
    expect(withMembers("{}", [["a", "1"]])).toBe('{"a":1}');
  });

  it("has a changed member once, even if it was a duplicate", () => {
    expect(withMembers('{"a":1,"\\u0061":2,"b":3}', [["a", "9"]])).toBe('{"a":9,"b":3}');
    expect(withMembers('{"a":1,"a":2}', [["a", undefined]])).toBe("{}");
  });

  it("can be edited by a rule for all its members, with others in front", () => {
    const bytes = Buffer.from('{"keep":1.0,"x-drop":2,"change":3}');
    const edited = editObject(
      bytes,
      { start: 0, end: bytes.length },
      (name) => (name.startsWith("x-") ? "remove" : name === "change" ? { json: "4" } : "keep"),
      [["first", "0"]],
    );
    expect(edited.toString()).toBe('{"first":0,"keep":1.0,"change":4}');
  });

  it("is what JavaScript would make of the same changes", () => {
    const keys = fc.constantFrom("a", "b", "c", "_meta", "é");
    const objects = fc.dictionary(keys, fc.jsonValue(), { noNullPrototype: true });
    const changes = fc.array(fc.tuple(keys, fc.option(fc.jsonValue(), { nil: undefined })), { maxLength: 3 });
    fc.assert(
      fc.property(objects, changes, fc.nat(2), (object, wanted, indent) => {
        const result = new Map<string, unknown>(Object.entries(object));
        const texts = new Map<string, string | undefined>();
        for (const [key, value] of wanted) {
          texts.set(key, value === undefined ? undefined : JSON.stringify(value));
        }
        for (const [key, value] of texts) {
          if (value === undefined) result.delete(key);
          else result.set(key, JSON.parse(value));
        }
        const edited: unknown = JSON.parse(withMembers(JSON.stringify(object, null, indent), [...texts]));
        expect(edited).toEqual(JSON.parse(JSON.stringify(Object.fromEntries(result))));
      }),
    );
  });
});

function afterEdits(text: string, edits: readonly PointerEdit[], values: readonly string[] = []): string {
  const bytes = Buffer.from(text);
  const span = { start: 0, end: bytes.length };
  const outcome = applyEdits(
    bytes,
    span,
    planEdits(edits),
    values.map((value) => Buffer.from(value)),
  );
  return outcome.ok ? splice(bytes, span, outcome.replacements).toString() : outcome.problem;
}

describe("edits of JSON", () => {
  it("leave every other byte as it was", () => {
    const text = '{ "a" : 1.0, "b":[ 1e2 , {"c":"x"} ],\n"d":"\\u0041" }';
    expect(afterEdits(text, [{ pointer: "/b/1/c", action: "redact" }])).toBe(text.replace('"x"', '"[redacted]"'));
  });

  it.each<[string, string, PointerEdit[], string[], string]>([
    [
      "escaped names",
      '{"a/b":{"m~n":1}}',
      [{ pointer: "/a~1b/m~0n", action: "redact" }],
      [],
      '{"a/b":{"m~n":"[redacted]"}}',
    ],
    [
      "any member",
      '{"a":1,"b":{"c":2}}',
      [{ pointer: "/*", action: "redact" }],
      [],
      '{"a":"[redacted]","b":"[redacted]"}',
    ],
    [
      "a named one before any",
      '{"a":1,"b":2}',
      [
        { pointer: "/*", action: "remove" },
        { pointer: "/a", action: "redact" },
      ],
      [],
      '{"a":"[redacted]"}',
    ],
    ["removal of all", '{"a":1}', [{ pointer: "/a", action: "remove" }], [], "{}"],
    [
      "removal from arrays",
      "[1,[2,3],4]",
      [
        { pointer: "/0", action: "remove" },
        { pointer: "/1/1", action: "remove" },
      ],
      [],
      "[[2],4]",
    ],
    [
      "removal behind changes",
      '[{"x":1},2]',
      [
        { pointer: "/0/x", action: "redact" },
        { pointer: "/1", action: "remove" },
      ],
      [],
      '[{"x":"[redacted]"}]',
    ],
    [
      "nested additions",
      '{"a":{}}',
      [
        { pointer: "/a/b/c", action: { set: 0 } },
        { pointer: "/d", action: { set: 1 } },
      ],
      ["1", "2"],
      '{"a":{"b":{"c":1}},"d":2}',
    ],
    ["elements", "[1,2]", [{ pointer: "/1", action: { set: 0 } }], ["9"], "[1,9]"],
    [
      "elements that are not there",
      "[1]",
      [{ pointer: "/1", action: { set: 0 } }],
      ["9"],
      "the array has no element 1",
    ],
    [
      "steps into arrays by name",
      '[{"b":1}]',
      [{ pointer: "/b", action: { set: 0 } }],
      ["9"],
      'an array has no member "b"',
    ],
    ["members of texts", '{"a":"x"}', [{ pointer: "/a/b", action: { set: 0 } }], ["9"], 'a string has no member "b"'],
  ])("know %s", (_, text, edits, values, expected) => {
    expect(afterEdits(text, edits, values)).toBe(expected);
  });

  const actions = fc.constantFrom<EditAction>("redact", "remove", { set: 0 });
  const names = fc.string().filter((name) => name !== "*" && !/^(?:0|[1-9]\d*)$/u.test(name));

  it("never take an array for an object, whatever the step, the action, the elements and the other edits", () => {
    fc.assert(
      fc.property(
        actions,
        names,
        fc.array(fc.jsonValue({ maxDepth: 2 })),
        fc.boolean(),
        (action, name, list, isDeep) => {
          const pointer = `/a${pointerStep(name)}${isDeep ? "/x" : ""}`;
          const edits: PointerEdit[] = [
            { pointer: "/a/0", action: "redact" },
            { pointer: "/a/*/kept", action: "remove" },
            { pointer, action },
          ];
          const text = JSON.stringify({ a: list });
          expect(afterEdits(text, edits, ["9"])).toMatch(/^an array has no member /u);
        },
      ),
    );
  });

  it("leave nothing of what they redact, and valid JSON, whatever the value", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (inner) => {
        const text = JSON.stringify({ list: [{ secret: inner, kept: inner }], kept: inner });
        const expected = { list: [{ secret: "[redacted]", kept: inner }], kept: inner };
        expect(afterEdits(text, [{ pointer: "/list/*/secret", action: "redact" }])).toBe(JSON.stringify(expected));
      }),
    );
  });
});

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
