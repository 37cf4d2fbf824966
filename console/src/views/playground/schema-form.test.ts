import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { fieldsOf, valueOf } from "./schema-form.ts";

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

  it("is made of whatever a server calls a schema", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (schema) => {
        expect(Array.isArray(fieldsOf(schema))).toBe(true);
        expect(Array.isArray(fieldsOf({ properties: schema, required: schema }))).toBe(true);
      }),
    );
  });
});
