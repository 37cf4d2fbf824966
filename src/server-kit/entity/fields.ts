import { z } from "zod";

import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import {
  type FieldKind,
  isScalar,
  type JsonObject,
  type JsonValue,
  type Scalar,
  type TableField,
} from "../stores/store.ts";

/** One field of an entity. */
export interface Field extends TableField {
  /** The only valid values, if the schema lists them. */
  readonly choices: readonly Scalar[] | undefined;
  readonly format: string | undefined;
  /** The JSON Schema of the stored form, as clients see it. */
  readonly json: JsonObject;
  readonly schema: z.ZodType;
}

/** The fields of an entity's schema; throws for a type that JSON cannot carry. */
export function fieldsOf(entity: string, schema: z.ZodObject): ReadonlyMap<string, Field> {
  return new Map(
    Object.entries(schema.shape).map(([name, field]) => [name, toField(entity, name, field as z.ZodType)]),
  );
}

function toField(entity: string, name: string, schema: z.ZodType): Field {
  const json = jsonSchemaOf(schema, "output", `entity ${entity}, field ${name}`);
  const types = typesIn(json);
  const [first, ...others] = types.filter((type) => type !== "null");
  const empty = schema.safeParse(undefined);
  return {
    name,
    kind: others.length === 0 ? kindOf(first) : "json",
    nullable: types.includes("null") || schema.safeParse(null).success,
    optional: empty.success && empty.data === undefined,
    choices: choicesIn(json),
    format: typeof json["format"] === "string" ? json["format"] : undefined,
    json,
    schema,
  };
}

/** The JSON Schema of a zod schema; `place` is named in the error about a type that JSON cannot carry. */
export function jsonSchemaOf(schema: z.ZodType, io: "input" | "output", place: string): JsonObject {
  try {
    const { $schema: _, "~standard": __, ...json } = z.toJSONSchema(schema, { io });
    return compactSchema(JSON.parse(JSON.stringify(json)) as JsonObject);
  } catch (error) {
    throw new GatewayError(
      "config_invalid",
      `${place}: JSON cannot carry this type (${thrownMessage(error)}); use z.iso.datetime() for dates and strings for big numbers`,
      { cause: error },
    );
  }
}

/**
 * Removes what tells a model nothing: the pattern of a named format, and the bounds of safe integers. They are a good
 * part of a tool list, and every client pays for them. Validation does not change.
 */
function compactSchema<Value extends JsonValue>(value: Value): Value {
  if (typeof value !== "object" || value === null) return value;
  // Members are only removed, so the type stays the same.
  if (Array.isArray(value)) return value.map((item: JsonValue) => compactSchema(item)) as unknown as Value;
  const schema = value as JsonObject;
  const entries = Object.entries(schema).filter(
    ([keyword, member]) =>
      !(keyword === "pattern" && typeof schema["format"] === "string") &&
      !(keyword === "maximum" && member === Number.MAX_SAFE_INTEGER) &&
      !(keyword === "minimum" && member === Number.MIN_SAFE_INTEGER),
  );
  return Object.fromEntries(entries.map(([keyword, member]) => [keyword, compactSchema(member)])) as Value;
}

/** The schema's default for a field, if it has one. */
export function defaultOf({ schema }: Field): JsonValue | undefined {
  const parsed = schema.safeParse(undefined);
  return parsed.success ? (parsed.data as JsonValue | undefined) : undefined;
}

function typesIn(json: JsonObject): readonly string[] {
  const { type, anyOf } = json;
  if (Array.isArray(anyOf)) return anyOf.flatMap((part) => (isObject(part) ? typesIn(part as JsonObject) : []));
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return type.filter((name): name is string => typeof name === "string");
  return [...new Set(choicesIn(json)?.map((choice) => typeof choice))];
}

function choicesIn(json: JsonObject): readonly Scalar[] | undefined {
  if (isScalar(json["const"])) return [json["const"]];
  if (Array.isArray(json["enum"])) return json["enum"].filter(isScalar);
  return undefined;
}

function kindOf(type: string | undefined): FieldKind {
  return type === "string" || type === "integer" || type === "number" || type === "boolean" ? type : "json";
}
