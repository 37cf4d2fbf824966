import { describe, expect, it } from "vitest";

import { choicesOf, propertiesOf, requiredOf, typeLabel, typesOf, type SchemaObject } from "./tool-arguments.ts";

const root: SchemaObject = {
  $defs: {
    color: { enum: ["red", "green"] },
    "a/b": { type: "integer" },
    loop: { $ref: "#/$defs/loop" },
    list: { type: "array", items: { type: "number" } },
    tree: { type: "array", items: { $ref: "#/$defs/tree" } },
  },
};

describe("typesOf", () => {
  it.each<[SchemaObject, readonly string[]]>([
    [{ type: "number" }, ["number"]],
    [{ type: ["string", "null"] }, ["string", "null"]],
    [{ type: "unheard-of" }, []],
    [{ enum: ["a", 1, null, true, [], {}] }, ["string", "number", "null", "boolean", "array", "object"]],
    [{ const: 5 }, ["number"]],
    [{ anyOf: [{ type: "integer" }, { type: "boolean" }] }, ["integer", "boolean"]],
    [{ allOf: [{ minimum: 3 }, { type: "integer" }] }, ["integer"]],
    [{ $ref: "#/$defs/color" }, ["string"]],
    [{ $ref: "#/$defs/a~1b" }, ["integer"]],
    [{ $ref: "#/$defs/loop" }, []],
    [{ $ref: "#/$defs/none" }, []],
    [{ $ref: "https://example.com/schema" }, []],
    [{}, []],
  ])("finds in %j the types %j", (schema, types) => {
    expect([...typesOf(schema, root)]).toEqual(types);
  });
});

describe("typeLabel", () => {
  it.each<[SchemaObject, string]>([
    [{ type: "number" }, "number"],
    [{ type: ["string", "null"] }, "string|null"],
    [{ $ref: "#/$defs/color" }, "red|green"],
    [{ oneOf: [{ const: 1, title: "One" }, { const: 2 }] }, "1|2"],
    [{ type: "array", items: { type: "string" } }, "string[]"],
    [{ $ref: "#/$defs/list" }, "number[]"],
    [{ type: "array" }, "array"],
    [{}, "any"],
  ])("writes %j as %s", (schema, label) => {
    expect(typeLabel(schema, root)).toBe(label);
  });

  it("ends with a schema that has itself inside", () => {
    expect(typeLabel({ $ref: "#/$defs/tree" }, root)).toMatch(/^any(?:\[\])+$/u);
  });
});

describe("the parts of a schema", () => {
  it("are read from whatever a server sends", () => {
    expect([...propertiesOf({ properties: { a: true, b: { type: "string" } } })]).toEqual([
      ["a", {}],
      ["b", { type: "string" }],
    ]);
    expect([...propertiesOf({ properties: [] })]).toEqual([]);
    expect(requiredOf({ required: ["a", 1] })).toEqual(["a"]);
    expect(requiredOf({ required: "a" })).toEqual([]);
    expect(choicesOf({ anyOf: [{ const: 1 }, { type: "string" }] }, root)).toEqual([]);
  });
});
