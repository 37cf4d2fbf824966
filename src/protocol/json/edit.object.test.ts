import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { changeMembers, editObject } from "./edit.ts";

function edit(text: string, changes: readonly (readonly [string, string | undefined])[]): string {
  const bytes = Buffer.from(text);
  const span = { start: bytes.indexOf("{"), end: bytes.lastIndexOf("}") + 1 };
  return changeMembers(bytes, span, new Map(changes)).toString();
}

describe("an edited object", () => {
  it("keeps all other bytes", () => {
    expect(edit(' {"a": 1.50, "big":12345678901234567890 ,"é":"\\u00e9"} ', [["a", "2"]])).toBe(
      '{"a": 2, "big":12345678901234567890 ,"é":"\\u00e9"}',
    );
  });

  it("loses, changes and gains members", () => {
    expect(
      edit('{"a":1,"b":2}', [
        ["a", undefined],
        ["c", "3"],
        ["d", undefined],
      ]),
    ).toBe('{"b":2,"c":3}');
    expect(edit('{"a":1}', [["a", undefined]])).toBe("{}");
    expect(edit("{}", [["a", "1"]])).toBe('{"a":1}');
  });

  it("has a changed member once, even if it was a duplicate", () => {
    expect(edit('{"a":1,"\\u0061":2,"b":3}', [["a", "9"]])).toBe('{"a":9,"b":3}');
    expect(edit('{"a":1,"a":2}', [["a", undefined]])).toBe("{}");
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
        const edited: unknown = JSON.parse(edit(JSON.stringify(object, null, indent), [...texts]));
        expect(edited).toEqual(JSON.parse(JSON.stringify(Object.fromEntries(result))));
      }),
    );
  });
});
