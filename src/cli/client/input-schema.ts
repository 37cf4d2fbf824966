/** The types that JSON Schema knows. */
export type SchemaType = "string" | "number" | "integer" | "boolean" | "null" | "array" | "object";

/** An object with anything in it, which is what a JSON schema of a peer is to us. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** How deep references and alternatives are followed; a schema may refer to itself. */
const deepest = 8;

/** Whether a value is an object of JSON. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The schemas of an object's members by their names. */
export function propertiesOf(schema: JsonObject): ReadonlyMap<string, JsonObject> {
  const { properties } = schema;
  if (!isJsonObject(properties)) return new Map();
  // `true` is a schema too: it allows everything.
  return new Map(Object.entries(properties).map(([name, value]) => [name, isJsonObject(value) ? value : {}]));
}

/** The names of the members that an object must have. */
export function requiredOf({ required }: JsonObject): readonly string[] {
  return Array.isArray(required) ? required.filter((name) => typeof name === "string") : [];
}

/**
 * The types that a schema allows, as far as it says so plainly: by `type`, `enum`, `const`, its alternatives, or a
 * reference within `root`. Nothing where it does not say.
 */
export function typesOf(schema: JsonObject, root: JsonObject, depth = 0): ReadonlySet<SchemaType> {
  if (depth > deepest) return new Set();
  const { type, const: constant, anyOf, oneOf, allOf } = schema;
  const named = [type].flat().filter(isSchemaType);
  if (named.length > 0) return new Set(named);
  const values = Array.isArray(schema["enum"]) ? schema["enum"] : "const" in schema ? [constant] : [];
  if (values.length > 0) return new Set(values.map(typeOf));
  const target = referenceOf(schema, root);
  const inner = target === undefined ? [anyOf, oneOf, allOf].flat().filter(isJsonObject) : [target];
  return new Set(inner.flatMap((alternative) => [...typesOf(alternative, root, depth + 1)]));
}

/** What stands for a value of this schema in a line of help: the choices, or the type. */
export function typeLabel(schema: JsonObject, root: JsonObject, depth = 0): string {
  const choices = choicesOf(schema, root);
  if (choices.length > 0) return choices.map(String).join("|");
  const types = [...typesOf(schema, root)];
  if (types.length === 0 || depth > deepest) return "any";
  return types
    .map((type) => {
      const { items } = referenceOf(schema, root) ?? schema;
      return type === "array" && isJsonObject(items) ? `${typeLabel(items, root, depth + 1)}[]` : type;
    })
    .join("|");
}

/** The values of which a schema allows one, where it lists them. */
export function choicesOf(schema: JsonObject, root: JsonObject): readonly unknown[] {
  const { enum: listed, oneOf, anyOf } = referenceOf(schema, root) ?? schema;
  if (Array.isArray(listed)) return listed;
  const alternatives = [oneOf, anyOf].flat().filter(isJsonObject);
  return alternatives.length > 0 && alternatives.every((alternative) => "const" in alternative)
    ? alternatives.map(({ const: value }) => value)
    : [];
}

function referenceOf({ $ref: reference }: JsonObject, root: JsonObject): JsonObject | undefined {
  if (typeof reference !== "string" || !reference.startsWith("#/")) return undefined;
  let place: unknown = root;
  for (const part of reference.slice(2).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    place = isJsonObject(place) && Object.hasOwn(place, name) ? place[name] : undefined;
  }
  return isJsonObject(place) ? place : undefined;
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
