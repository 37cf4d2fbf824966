import { closestName } from "../../lib/closest-name.ts";
import { isObject } from "../../lib/is-object.ts";
import { pointerSteps } from "../../protocol/json/read.ts";
import { UsageError } from "../define-command.ts";

/** A parsed value, or what is wrong with it. */
export type ParseResult<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly problem: string };

/** One argument of the command line. */
export interface ArgumentPair {
  readonly key: string;
  readonly text: string;
  /** Given as `key:=json`: parsed as JSON whatever the schema says. */
  readonly isJson: boolean;
}

/** Parses `key=value` and `key:=json`. */
export function parsePairs(words: readonly string[]): readonly ArgumentPair[] {
  const pairs: ArgumentPair[] = [];
  for (const word of words) {
    const { key, json, text } = /^(?<key>[^=]+?)(?<json>:?)=(?<text>.*)$/su.exec(word)?.groups ?? {};
    if (key === undefined || text === undefined) {
      throw new UsageError(`\`${word}\` is not an argument; expected KEY=VALUE or KEY:=JSON`);
    }
    if (pairs.some((pair) => pair.key === key)) {
      throw new UsageError(`argument \`${key}\` was given twice`);
    }
    pairs.push({ key, text, isJson: json === ":" });
  }
  return pairs;
}

/** Parses the JSON object of an option. */
export function parseJsonObject(text: string, option: string, parse = parseAnyJson): SchemaObject {
  const parsed = parseJson(text, parse);
  if (parsed.ok && isObject(parsed.value)) return parsed.value;
  throw new UsageError(`${option} takes a JSON object, not \`${text}\``);
}

/** The arguments of a tool, converted and checked by its input schema. */
export function toArguments(pairs: readonly ArgumentPair[], schema: SchemaObject): ParseResult<SchemaObject> {
  const properties = propertiesOf(schema);
  const entries: [string, unknown][] = [];
  for (const { key, text, isJson } of pairs) {
    const property = properties.get(key);
    if (property === undefined && schema["additionalProperties"] === false) {
      return { ok: false, problem: unknownKey(key, properties) };
    }
    const read = isJson ? parseJson(text) : convert(text, typesOf(property ?? {}, schema));
    if (!read.ok) return { ok: false, problem: `argument \`${key}\` ${read.problem}` };
    entries.push([key, read.value]);
  }
  const missing = requiredOf(schema).filter((name) => !pairs.some(({ key }) => key === name));
  if (missing.length > 0) {
    // An unknown name is probably the missing one, misspelt.
    const stray = pairs.find(({ key }) => !properties.has(key));
    const problem = `missing ${missing.map((name) => `\`${name}\``).join(", ")}`;
    return { ok: false, problem: stray === undefined ? problem : `${problem}; \`${stray.key}\` is unknown` };
  }
  return { ok: true, value: Object.fromEntries(entries) };
}

/** What to say about arguments that the schema does not mention, but allows. */
export function unknownArguments(pairs: readonly ArgumentPair[], schema: SchemaObject = {}): readonly string[] {
  const properties = propertiesOf(schema);
  // A schema without properties, with patterns or with alternatives does not say what there is.
  const isPartial = ["patternProperties", "$ref", "anyOf", "oneOf", "allOf"].some((keyword) => keyword in schema);
  if (properties.size === 0 || isPartial || isObject(schema["additionalProperties"])) return [];
  return pairs.flatMap(({ key }) => (properties.has(key) ? [] : [unknownKey(key, properties)]));
}

/** Converts text to one of the allowed types; to a string if that is allowed. */
export function convert(text: string, types: ReadonlySet<SchemaType>): ParseResult<unknown> {
  if (types.size === 0 || types.has("string")) return { ok: true, value: text };
  const parsed = parseJson(text);
  // An integer beyond 2^53 would lose digits.
  if (parsed.ok && Number.isInteger(parsed.value) && !Number.isSafeInteger(parsed.value)) {
    return { ok: false, problem: `is too large to be sent exactly: \`${text}\`` };
  }
  if (parsed.ok && isOfTypes(parsed.value, types)) return parsed;
  return { ok: false, problem: `must be ${[...types].map(withArticle).join(" or ")}, not \`${text}\`` };
}

function isOfTypes(value: unknown, types: ReadonlySet<SchemaType>): boolean {
  if (value === null) return types.has("null");
  if (Array.isArray(value)) return types.has("array");
  if (typeof value === "number") return types.has("number") || (types.has("integer") && Number.isInteger(value));
  if (typeof value === "boolean") return types.has("boolean");
  return isObject(value) && types.has("object");
}

function unknownKey(key: string, properties: ReadonlyMap<string, SchemaObject>): string {
  const meant = closestName(key, properties.keys());
  if (meant !== undefined) return `unknown argument \`${key}\`; did you mean \`${meant}\`?`;
  const names = [...properties.keys()].map((name) => `\`${name}\``).join(", ");
  return `unknown argument \`${key}\`; ${names === "" ? "the tool takes none" : `expected one of ${names}`}`;
}

function withArticle(type: SchemaType): string {
  if (type === "null") return "null";
  return `${/^[aio]/u.test(type) ? "an" : "a"} ${type}`;
}

const parseAnyJson = (text: string): unknown => JSON.parse(text);

function parseJson(text: string, parse = parseAnyJson): ParseResult<unknown> {
  try {
    return { ok: true, value: parse(text) };
  } catch {
    return { ok: false, problem: `is not JSON: \`${text}\`` };
  }
}

/** The types of JSON Schema. */
type SchemaType = "string" | "number" | "integer" | "boolean" | "null" | "array" | "object";

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
  for (const name of pointerSteps(reference.slice(1)))
    place = isObject(place) && Object.hasOwn(place, name) ? place[name] : undefined;
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
