import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { scan } from "./scan.ts";
import { insertMember, replaceMember, splice } from "./edit.ts";

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
