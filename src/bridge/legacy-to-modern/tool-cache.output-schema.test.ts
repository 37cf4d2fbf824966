import { describe, expect, it } from "vitest";
import { needsWrapping, wrapOutputSchema } from "./tool-cache.ts";

describe("an output schema for legacy clients", () => {
  it("is wrapped unless its root is an object", () => {
    expect([{ type: "array" }, { anyOf: [] }, {}, { type: "object" }, true, undefined].map(needsWrapping)).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
  });

  it("keeps its dialect at the root and describes the value as result", () => {
    const $schema = "https://json-schema.org/draft/2020-12/schema";
    expect(wrapOutputSchema({ $schema, type: "array", items: { type: "string" } })).toEqual({
      $schema,
      type: "object",
      properties: { result: { $schema, type: "array", items: { type: "string" } } },
      required: ["result"],
    });
  });

  it("has its local references rebased, and no others", () => {
    const wrapped = wrapOutputSchema({
      anyOf: [
        { $ref: "#/$defs/a" },
        { $ref: "#" },
        { $ref: "#anchor" },
        { $ref: "other.json#/x" },
        { $dynamicRef: "#/b" },
      ],
      $defs: { a: { type: "array", items: { $ref: "#/$defs/a" } }, $ref: { $ref: "#/$defs/a" } },
    });
    expect(wrapped["properties"]).toEqual({
      result: {
        anyOf: [
          { $ref: "#/properties/result/$defs/a" },
          { $ref: "#/properties/result" },
          { $ref: "#anchor" },
          { $ref: "other.json#/x" },
          { $dynamicRef: "#/properties/result/b" },
        ],
        $defs: {
          a: { type: "array", items: { $ref: "#/properties/result/$defs/a" } },
          $ref: { $ref: "#/properties/result/$defs/a" },
        },
      },
    });
  });

  it("keeps data and embedded documents unchanged", () => {
    const schema = {
      enum: [{ $ref: "#/a" }],
      default: { $ref: "#/a" },
      properties: { default: { $ref: "#/a" } },
      items: { $id: "https://harbour.example/x", $ref: "#/a" },
      contains: { $id: "#anchor", $ref: "#/a" },
    };
    expect(wrapOutputSchema(schema)["properties"]).toEqual({
      result: {
        ...schema,
        properties: { default: { $ref: "#/properties/result/a" } },
        contains: { $id: "#anchor", $ref: "#/properties/result/a" },
      },
    });
    const own = { $id: "https://harbour.example/y", $ref: "#/a" };
    expect(wrapOutputSchema(own)["properties"]).toEqual({ result: own });
  });
});
