import { isObject } from "../../lib/is-object.ts";

/** The types of JSON Schema. */
export type SchemaType = "string" | "number" | "integer" | "boolean" | "null" | "array" | "object";

/** A JSON schema from a peer: an object with anything in it. */
export type SchemaObject = Readonly<Record<string, unknown>>;

/** Limit for following references; a schema may refer to itself. */
const maxDepth = 8;

/** The schemas of the properties by name. */
export function propertiesOf(schema: SchemaObject): ReadonlyMap<string, SchemaObject> {
  const { properties } = schema;
  if (!isObject(properties)) return new Map();
  // `true` is a schema that allows everything.
  return new Map(Object.entries(properties).map(([name, value]) => [name, isObject(value) ? value : {}]));
}

/** The names of the required properties. */
export function requiredOf({ required }: SchemaObject): readonly string[] {
  return Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
}

/** The types that a schema allows by `type`, `enum`, `const`, alternatives or a reference within `root`; empty if unknown. */
export function typesOf(schema: SchemaObject, root: SchemaObject, depth = 0): ReadonlySet<SchemaType> {
  if (depth > maxDepth) return new Set();
  const { type, const: constant, anyOf, oneOf, allOf } = schema;
  const named = [type].flat().filter(isSchemaType);
  if (named.length > 0) return new Set(named);
  const values = Array.isArray(schema["enum"]) ? schema["enum"] : "const" in schema ? [constant] : [];
  if (values.length > 0) return new Set(values.map(typeOf));
  const target = referenceOf(schema, root);
  const inner = target === undefined ? [anyOf, oneOf, allOf].flat().filter(isObject) : [target];
  return new Set(inner.flatMap((alternative) => [...typesOf(alternative, root, depth + 1)]));
}

/** A placeholder for a value in a line of help: the choices, or the type. */
export function typeLabel(schema: SchemaObject, root: SchemaObject, depth = 0): string {
  const choices = choicesOf(schema, root);
  if (choices.length > 0) return choices.map(String).join("|");
  const types = [...typesOf(schema, root)];
  if (types.length === 0 || depth > maxDepth) return "any";
  return types
    .map((type) => {
      const { items } = referenceOf(schema, root) ?? schema;
      return type === "array" && isObject(items) ? `${typeLabel(items, root, depth + 1)}[]` : type;
    })
    .join("|");
}

/** The values that a schema lists; empty if it lists none. */
export function choicesOf(schema: SchemaObject, root: SchemaObject): readonly unknown[] {
  const { enum: listed, oneOf, anyOf } = referenceOf(schema, root) ?? schema;
  if (Array.isArray(listed)) return listed;
  const alternatives = [oneOf, anyOf].flat().filter(isObject);
  return alternatives.length > 0 && alternatives.every((alternative) => "const" in alternative)
    ? alternatives.map(({ const: value }) => value)
    : [];
}

function referenceOf({ $ref: reference }: SchemaObject, root: SchemaObject): SchemaObject | undefined {
  if (typeof reference !== "string" || !reference.startsWith("#/")) return undefined;
  let place: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    place = isObject(place) && Object.hasOwn(place, name) ? place[name] : undefined;
  }
  return isObject(place) ? place : undefined;
}

function isSchemaType(value: unknown): value is SchemaType {
  return (
    typeof value === "string" && ["string", "number", "integer", "boolean", "null", "array", "object"].includes(value)
  );
}

function typeOf(value: unknown): SchemaType {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  const type = typeof value;
  return type === "string" || type === "number" || type === "boolean" ? type : "object";
}
