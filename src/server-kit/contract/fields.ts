import { z } from "zod";

import { GatewayError } from "../../errors.ts";
import { isObject, isScalar, type JsonObject, type JsonValue, type Scalar } from "./row.ts";

/** How a field's values are kept, compared and filtered. */
export type FieldKind = "string" | "integer" | "number" | "boolean" | "json";

/** One field of an entity, as far as the kit needs to understand it. */
export interface Field {
  readonly name: string;
  readonly kind: FieldKind;
  /** Whether null is one of its values. */
  readonly nullable: boolean;
  /** Whether a record may lack it. */
  readonly optional: boolean;
  /** The only values it can have, where the schema says so. */
  readonly choices: readonly Scalar[] | undefined;
  readonly format: string | undefined;
  /** What clients are told about it: the schema of its stored form. */
  readonly json: JsonObject;
  readonly schema: z.ZodType;
}

/** The fields of an entity's schema; throws for one that JSON cannot carry, naming entity and field. */
export function fieldsOf(entity: string, schema: z.ZodObject): ReadonlyMap<string, Field> {
  return new Map(
    Object.entries(schema.shape).map(([name, field]) => [name, toField(entity, name, field as z.ZodType)]),
  );
}

function toField(entity: string, name: string, schema: z.ZodType): Field {
  const json = jsonSchemaOf(schema, "output", `entity ${entity}, field ${name}`);
  const types = typesIn(json);
  const [first] = types.filter((type) => type !== "null");
  const isSimple = types.filter((type) => type !== "null").length === 1;
  return {
    name,
    kind: isSimple ? kindOf(first) : "json",
    nullable: types.includes("null") || schema.safeParse(null).success,
    optional: schema.safeParse(undefined).success && !hasDefault(schema),
    choices: choicesIn(json),
    format: typeof json["format"] === "string" ? json["format"] : undefined,
    json,
    schema,
  };
}

/** The JSON Schema of a zod schema; what cannot be said in JSON is a start-up error that says where it stands. */
export function jsonSchemaOf(schema: z.ZodType, io: "input" | "output", place: string): JsonObject {
  try {
    const { $schema: _, "~standard": __, ...json } = z.toJSONSchema(schema, { io });
    return compactSchema(JSON.parse(JSON.stringify(json)) as JsonObject);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new GatewayError(
      "config_invalid",
      `${place}: JSON cannot carry this type (${reason}); dates are z.iso.datetime(), big numbers are text`,
      { cause: error },
    );
  }
}

/**
 * Leaves out what tells a model nothing: the pattern of a format that is named, and the bounds of safe integers. Such
 * text is a good part of a catalogue, and every client pays for it. What is checked stays the same.
 */
function compactSchema<Value extends JsonValue>(value: Value): Value {
  if (typeof value !== "object" || value === null) return value;
  // Only members are left out, so what is left is what it was.
  if (Array.isArray(value)) return value.map((item: JsonValue) => compactSchema(item)) as unknown as Value;
  const entries = Object.entries(value as JsonObject).filter(
    ([keyword, member]) =>
      !(keyword === "pattern" && typeof (value as JsonObject)["format"] === "string") &&
      !(keyword === "maximum" && member === Number.MAX_SAFE_INTEGER) &&
      !(keyword === "minimum" && member === Number.MIN_SAFE_INTEGER),
  );
  return Object.fromEntries(entries.map(([keyword, member]) => [keyword, compactSchema(member)])) as Value;
}

/** The value a schema gives to a field that was left out, if any. */
export function defaultOf({ schema }: Field): JsonValue | undefined {
  const parsed = schema.safeParse(undefined);
  return parsed.success && parsed.data !== undefined ? (parsed.data as JsonValue) : undefined;
}

function hasDefault(schema: z.ZodType): boolean {
  const parsed = schema.safeParse(undefined);
  return parsed.success && parsed.data !== undefined;
}

function typesIn(json: JsonObject): readonly string[] {
  const { type, anyOf } = json;
  if (Array.isArray(anyOf)) return anyOf.flatMap((part) => (isObject(part) ? typesIn(part as JsonObject) : []));
  if (typeof type === "string") return [type];
  if (Array.isArray(type)) return type.filter((name): name is string => typeof name === "string");
  const choices = choicesIn(json);
  return choices === undefined ? [] : [...new Set(choices.map((choice) => typeof choice))];
}

function choicesIn(json: JsonObject): readonly Scalar[] | undefined {
  if (isScalar(json["const"])) return [json["const"]];
  if (Array.isArray(json["enum"])) return json["enum"].filter(isScalar);
  return undefined;
}

function kindOf(type: string | undefined): FieldKind {
  return type === "string" || type === "integer" || type === "number" || type === "boolean" ? type : "json";
}
