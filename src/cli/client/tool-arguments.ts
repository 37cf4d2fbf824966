import { closestName } from "../../lib/closest-name.ts";
import { isJsonObject, propertiesOf, requiredOf, typesOf, type JsonObject, type SchemaType } from "./input-schema.ts";

/** A value, or the one thing that is wrong with how it was given. */
export type ParseResult<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly problem: string };

/** One argument as it stands on the command line. */
export interface ArgumentPair {
  readonly key: string;
  readonly text: string;
  /** Given as `key:=json`, so that the schema has no say. */
  readonly isJson: boolean;
}

/** Takes `key=value` and `key:=json` apart. */
export function parsePairs(words: readonly string[]): ParseResult<readonly ArgumentPair[]> {
  const pairs: ArgumentPair[] = [];
  for (const word of words) {
    const { key, json, text } = /^(?<key>[^=]+?)(?<json>:?)=(?<text>.*)$/su.exec(word)?.groups ?? {};
    if (key === undefined || text === undefined) {
      return { ok: false, problem: `\`${word}\` is no argument; arguments are KEY=VALUE or KEY:=JSON` };
    }
    if (pairs.some((pair) => pair.key === key)) {
      return { ok: false, problem: `argument \`${key}\` is given twice` };
    }
    pairs.push({ key, text, isJson: json === ":" });
  }
  return { ok: true, value: pairs };
}

/** Reads a JSON object that was given for an option. */
export function parseJsonObject(text: string, option: string): ParseResult<JsonObject> {
  const parsed = parseJson(text);
  if (parsed.ok && isJsonObject(parsed.value)) return { ok: true, value: parsed.value };
  return { ok: false, problem: `${option} takes a JSON object, not \`${text}\`` };
}

/** Makes the arguments of a tool from what was given, with the types and names of its schema. */
export function toArguments(pairs: readonly ArgumentPair[], schema: JsonObject): ParseResult<JsonObject> {
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
    // A name that nothing asks for is most likely the missing one, misspelt.
    const stray = pairs.find(({ key }) => !properties.has(key));
    const problem = `${missing.map((name) => `\`${name}\``).join(", ")} must be given`;
    return { ok: false, problem: stray === undefined ? problem : `${problem}; \`${stray.key}\` is unknown` };
  }
  return { ok: true, value: Object.fromEntries(entries) };
}

/** Makes a value of some text: of the types that are allowed, text before all others. */
export function convert(text: string, types: ReadonlySet<SchemaType>): ParseResult<unknown> {
  if (types.size === 0 || types.has("string")) return { ok: true, value: text };
  const parsed = parseJson(text);
  // An integer beyond 2^53 would go out as another one.
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
  return isJsonObject(value) && types.has("object");
}

function unknownKey(key: string, properties: ReadonlyMap<string, JsonObject>): string {
  const meant = closestName(key, properties.keys());
  if (meant !== undefined) return `there is no argument \`${key}\`; did you mean \`${meant}\`?`;
  const names = [...properties.keys()].map((name) => `\`${name}\``).join(", ");
  return `there is no argument \`${key}\`; ${names === "" ? "it takes none" : `there are ${names}`}`;
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
