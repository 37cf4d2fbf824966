import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";

import { AgentError } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-object.ts";

/** Any schema that follows the Standard Schema specification: Zod, ArkType, Valibot and others. */
export interface AnySchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** What a schema's author gets after validation. */
export type OutputOf<Schema extends AnySchema> = NonNullable<Schema["~standard"]["types"]>["output"];

/**
 * Gives a schema the JSON Schema that models are shown: for libraries, such as Valibot, whose schemas cannot say it
 * themselves. Validation stays with the schema.
 */
export function withJsonSchema<Schema extends AnySchema>(
  schema: Schema,
  jsonSchema: JsonObject,
): Pick<Schema, "~standard"> {
  const convert = (): JsonObject => ({ ...jsonSchema });
  // Read once: some libraries make it anew, bound to the schema, each time.
  const standard = schema["~standard"];
  return { "~standard": { ...standard, jsonSchema: { input: convert, output: convert } } as typeof standard };
}

/** The schema as the SDK takes it, or an error that says how to give its JSON Schema. */
export function toSdkSchema(schema: AnySchema, tool: string): StandardSchemaWithJSON {
  const standard: unknown =
    isJsonObject(schema) || typeof schema === "function" ? schema["~standard"] : undefined;
  if (!isObject(standard) || typeof standard["validate"] !== "function") {
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${tool}" is no Standard Schema: give it one such as z.object({ … })`,
      { details: { tool } },
    );
  }
  // Zod of every 4.x version can be converted; the SDK knows how.
  if (!isObject(standard["jsonSchema"]) && standard["vendor"] !== "zod") {
    throw new AgentError(
      "schema_unsupported",
      `the schema of tool "${tool}" (${String(standard["vendor"])}) cannot say its JSON Schema: wrap it with withJsonSchema(schema, jsonSchema)`,
      { details: { tool, vendor: standard["vendor"] } },
    );
  }
  return schema as StandardSchemaWithJSON;
}

function isObject(value: unknown): value is JsonObject {
  return (typeof value === "object" || typeof value === "function") && value !== null;
}
