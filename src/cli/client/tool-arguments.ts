import { isObject } from "../../lib/is-object.ts";
import { UsageError } from "../define-command.ts";
import { closestName } from "../../lib/closest-name.ts";
import { propertiesOf, requiredOf, typesOf, type SchemaObject, type SchemaType } from "./input-schema.ts";

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
export function parseJsonObject(text: string, option: string): SchemaObject {
  const parsed = parseJson(text);
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

/** Converts text to one of the allowed types; to a string if that is allowed. */
export function convert(text: string, types: ReadonlySet<SchemaType>): ParseResult<unknown> {
  if (types.size === 0 || types.has("string")) return { ok: true, value: text };
  const parsed = parseJson(text);
  // An integer beyond 2^53 would be sent as another one.
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

function parseJson(text: string): ParseResult<unknown> {
  try {
    return { ok: true, value: JSON.parse(text) as unknown };
  } catch {
    return { ok: false, problem: `is not JSON: \`${text}\`` };
  }
}
