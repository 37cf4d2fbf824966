import { describe, expect, it } from "vitest";

import { alternativesOf, configJsonSchema, schemasAt, type JsonSchema } from "./json-schema.ts";

/** Every field of the configuration with its path. */
function fieldsOf(schema: JsonSchema, path: string): readonly (readonly [string, JsonSchema])[] {
  return alternativesOf(schema).flatMap(({ properties = {}, additionalProperties }) => [
    ...Object.entries(properties).flatMap(([key, inner]) => [
      [`${path}${key}`, inner] as const,
      ...fieldsOf(inner, `${path}${key}.`),
    ]),
    ...(typeof additionalProperties === "object" ? fieldsOf(additionalProperties, `${path}*.`) : []),
  ]);
}

const fields = fieldsOf(configJsonSchema(), "");

describe("the JSON schema of the configuration", () => {
  it("describes every field in a sentence", () => {
    expect(fields.length).toBeGreaterThan(80);
    const silent = fields.filter(([, { description = "" }]) => !/^[A-Z`$].*\.$/u.test(description));
    expect(silent.map(([path]) => path)).toEqual([]);
  });

  it("keeps fields with defaults optional", () => {
    const { required = [] } = configJsonSchema();
    expect(required).toEqual([]);
    expect(schemasAt(["routes", "files"])[0]?.required).toBeUndefined();
    expect(schemasAt(["timeouts", "tool"])[0]?.default).toBe("5m");
  });

  it("refuses unknown keys", () => {
    expect(configJsonSchema().additionalProperties).toBe(false);
    expect(schemasAt(["limits", "eventStore"])[0]?.additionalProperties).toBe(false);
  });

  it("has only what can stand in a file", () => {
    expect(fields.filter(([path]) => path.endsWith(".server"))).toEqual([]);
    expect(fields.map(([path]) => path)).toContain("routes.*.upstream.demo");
    expect(JSON.parse(JSON.stringify(configJsonSchema()))).toEqual(configJsonSchema());
  });

  it("marks what is secret", () => {
    expect(schemasAt(["upstream", "headers", "x"])[0]?.writeOnly).toBe(true);
    expect(schemasAt(["routes", "a", "upstream", "env", "KEY"])[0]?.writeOnly).toBe(true);
    expect(schemasAt(["upstream", "url"])[0]?.writeOnly).toBeUndefined();
  });
});
