import { describe, expect, it } from "vitest";

import { argumentAt, parseHeaderParameters, headerTextOf } from "./header-parameters.ts";

const schema = (properties: Record<string, unknown>, rest: Record<string, unknown> = {}) => ({
  type: "object",
  properties,
  ...rest,
});
const yard = { type: "string", "x-mcp-header": "Yard" };

describe("the header parameters of a tool", () => {
  it("are found through properties, at any depth, in the order of the schema", () => {
    const reading = parseHeaderParameters(
      schema({
        yard,
        crate: { type: "string" },
        load: schema({ kilos: { type: "integer", "x-mcp-header": "Kilos" } }),
        fragile: { type: "boolean", "x-mcp-header": "Fragile" },
      }),
    );
    expect(reading).toEqual({
      ok: true,
      parameters: [
        { header: "Mcp-Param-Yard", path: ["yard"], type: "string" },
        { header: "Mcp-Param-Kilos", path: ["load", "kilos"], type: "integer" },
        { header: "Mcp-Param-Fragile", path: ["fragile"], type: "boolean" },
      ],
    });
  });

  it("are absent in a schema without annotations, and in values that are not schemas", () => {
    for (const value of [schema({ a: { type: "string" } }), {}, undefined, null, 5, "x", [], true]) {
      expect(parseHeaderParameters(value)).toEqual({ ok: true, parameters: [] });
    }
  });

  const detours: readonly (readonly [what: string, rest: Record<string, unknown>])[] = [
    ["items", { items: yard }],
    ["prefixItems", { prefixItems: [yard] }],
    ["additionalProperties", { additionalProperties: yard }],
    ["patternProperties", { patternProperties: { "^y": yard } }],
    ["oneOf", { oneOf: [schema({ yard })] }],
    ["anyOf", { anyOf: [schema({ yard })] }],
    ["allOf", { allOf: [schema({ yard })] }],
    ...["not", "if", "then", "else"].map((keyword) => [keyword, { [keyword]: schema({ yard }) }] as const),
    ["a definition that a reference leads to", { $defs: { yard }, properties: { a: { $ref: "#/$defs/yard" } } }],
    ["old definitions", { definitions: { yard } }],
    ["dependentSchemas", { dependentSchemas: { a: schema({ yard }) } }],
    ["properties that are a list", { properties: [yard] }],
    ["the root itself", { "x-mcp-header": "Root" }],
  ];

  it.each(detours)("spoil the tool when one is reached through %s", (_what, rest) => {
    const reading = parseHeaderParameters({ type: "object", ...rest });
    expect(reading).toMatchObject({ ok: false, reason: "unreachable" });
  });

  it.each(["", "a b", "a:b", "größe", "a\r\nb", 5, null, {}])("spoil the tool when the name is %j", (name) => {
    expect(parseHeaderParameters(schema({ a: { type: "string", "x-mcp-header": name } }))).toMatchObject({
      ok: false,
      reason: "not-a-token",
      path: "/properties/a/x-mcp-header",
    });
  });

  it.each(["number", "object", "array", "null", ["string", "null"], undefined])(
    "spoil the tool when the type is %j",
    (type) => {
      expect(parseHeaderParameters(schema({ a: { type, "x-mcp-header": "A" } }))).toMatchObject({
        ok: false,
        reason: "type",
      });
    },
  );

  it("spoil the tool when two differ by case only", () => {
    const reading = parseHeaderParameters(schema({ a: yard, b: { ...yard, "x-mcp-header": "YARD" } }));
    expect(reading).toMatchObject({ ok: false, reason: "duplicate", path: "/properties/b/x-mcp-header" });
  });

  it("are not taken from data, nor from properties that happen to have the name", () => {
    const data = {
      default: { "x-mcp-header": "A" },
      enum: [{ "x-mcp-header": "B" }],
      const: yard,
      examples: [yard],
    };
    expect(parseHeaderParameters(schema({ a: data }, { required: ["x-mcp-header"] }))).toMatchObject({
      ok: true,
    });
    expect(parseHeaderParameters(schema({ "x-mcp-header": { type: "string" } }))).toEqual({
      ok: true,
      parameters: [],
    });
  });

  it("are read from a schema of any depth and breadth", () => {
    let deep: unknown = schema({ yard });
    for (let depth = 0; depth < 5000; depth++) deep = { allOf: [deep] };
    expect(parseHeaderParameters(deep)).toMatchObject({ ok: false, reason: "unreachable" });
    const broad = Object.fromEntries(Array.from({ length: 200_000 }, (_, index) => [`p${index}`, true]));
    expect(parseHeaderParameters(schema(broad))).toEqual({ ok: true, parameters: [] });
  });
});

describe("the value of a header parameter", () => {
  it("is found by own members only", () => {
    expect(argumentAt({ a: { b: 1 } }, ["a", "b"])).toBe(1);
    expect(argumentAt({ a: {} }, ["a", "toString"])).toBeUndefined();
    expect(argumentAt({ a: [5] }, ["a", "0"])).toBeUndefined();
    expect(argumentAt(JSON.parse('{"__proto__":{"b":2}}'), ["__proto__", "b"])).toBe(2);
    expect(argumentAt(undefined, ["a"])).toBeUndefined();
  });

  it("has a text for strings, booleans and exact numbers, and none for the rest", () => {
    expect(["x", "", true, false, 42, -1, 0.5].map(headerTextOf)).toEqual([
      "x",
      "",
      "true",
      "false",
      "42",
      "-1",
      "0.5",
    ]);
    expect([null, undefined, {}, [], 2 ** 53, Number.POSITIVE_INFINITY].map(headerTextOf)).toEqual(
      Array.from({ length: 6 }, () => undefined),
    );
  });
});
