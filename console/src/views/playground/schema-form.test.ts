import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { argumentsOf, fieldsOf, takesMore, valueOf } from "./schema-form.ts";

describe("a form made of a schema", () => {
  const fields = fieldsOf({
    type: "object",
    required: ["a", "s"],
    properties: {
      a: { type: "number", description: "first" },
      n: { type: "integer", default: 3 },
      s: { type: "string" },
      b: { type: "boolean" },
      c: { enum: ["x", "y"] },
      o: { type: "object" },
    },
  });
  const given = (name: string, text: string): unknown => {
    const field = fields.find((one) => one.name === name);
    if (field === undefined) throw new Error(name);
    return valueOf(field, text);
  };

  it("has a field for every property, in its kind", () => {
    expect(fields.map(({ kind }) => kind)).toEqual(["number", "integer", "text", "boolean", "choice", "json"]);
    expect(fields[1]?.initial).toBe("3");
  });

  it("gives values of the right type, and says what is wrong with others", () => {
    expect([given("a", "2.5"), given("s", ""), given("b", "true"), given("c", "x"), given("o", '{"k":1}')]).toEqual([
      2.5,
      "",
      true,
      "x",
      { k: 1 },
    ]);
    expect(given("n", "")).toBeUndefined();
    expect(() => given("a", "")).toThrow("a is required");
    expect(() => given("a", "x")).toThrow("not a number");
    expect(() => given("o", "{")).toThrow("not JSON");
  });

  it("offers choices by their names, one or several", () => {
    const titled = [
      { const: "n", title: "North" },
      { const: "s", title: "South" },
    ];
    const own = fieldsOf({
      properties: {
        quay: { type: "string", oneOf: titled },
        named: { type: "string", enum: ["n", "s"], enumNames: ["North", "South"] },
        quays: { type: "array", items: { anyOf: titled }, default: ["s"] },
        many: { type: "array", items: { type: "string", enum: ["n", "s"] } },
        either: { anyOf: [{ const: "n" }, { type: "number" }] },
      },
    });
    expect(own.map(({ kind }) => kind)).toEqual(["choice", "choice", "choices", "choices", "json"]);
    for (const { choices } of own.slice(0, 3))
      expect(choices).toEqual([
        { value: "n", label: "North" },
        { value: "s", label: "South" },
      ]);
    expect(own[2]?.initial).toBe("s");
    expect(own.slice(2, 4).map((field) => valueOf(field, "n\ns"))).toEqual([
      ["n", "s"],
      ["n", "s"],
    ]);
  });

  it("gives way to JSON where a schema takes more than fields", () => {
    const more = [{ type: "object", additionalProperties: true }, { anyOf: [] }, { $ref: "#/$defs/a" }];
    expect(more.map(takesMore)).toEqual([true, true, true]);
    expect([{ type: "object" }, { properties: { a: {} }, additionalProperties: true }, 5].map(takesMore)).toEqual([
      false,
      false,
      false,
    ]);
    expect(argumentsOf('{"a":1}')).toEqual({ a: 1 });
    expect(() => argumentsOf("{")).toThrow("not JSON");
    expect(() => argumentsOf("[]")).toThrow("JSON object");
  });

  it("is made of whatever a server calls a schema", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (schema) => {
        expect(Array.isArray(fieldsOf(schema))).toBe(true);
        expect(typeof takesMore(schema)).toBe("boolean");
        expect(Array.isArray(fieldsOf({ properties: schema, required: schema }))).toBe(true);
      }),
    );
  });
});
