import * as z from "zod";

import { isObject } from "../lib/is-object.ts";
import { configSchema } from "./schema.ts";

/** The part of JSON Schema that the configuration uses. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
  readonly title?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: JsonSchema | boolean;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
  readonly writeOnly?: boolean;
}

type ValuePath = readonly (string | number)[];

let cached: JsonSchema | undefined;

/** The JSON schema of a configuration file (2020-12). */
export function configJsonSchema(): JsonSchema {
  cached ??= {
    title: "Headgate configuration",
    ...simplify(z.toJSONSchema(configSchema, { io: "input", unrepresentable: "any" }) as JsonSchema),
  };
  return cached;
}

/** Omits what only the library accepts, and the bounds that every integer has. */
function simplify(schema: JsonSchema): JsonSchema {
  const entries = Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
    if (keyword === "maximum" && value === Number.MAX_SAFE_INTEGER) return [];
    if (keyword === "anyOf" && schema.anyOf !== undefined) {
      // A function cannot be written in a file.
      return [[keyword, schema.anyOf.filter(({ properties }) => properties?.["server"] === undefined).map(simplify)]];
    }
    if (keyword === "properties" && schema.properties !== undefined) {
      const properties = Object.entries(schema.properties).map(([key, inner]) => [key, simplify(inner)]);
      return [[keyword, Object.fromEntries(properties)]];
    }
    const isSchema = keyword === "items" || keyword === "additionalProperties";
    return [[keyword, isSchema && typeof value === "object" ? simplify(value as JsonSchema) : value]];
  });
  return Object.fromEntries(entries);
}

/** The schemas that may apply to a member or element of values with these schemas. */
function schemasBelow(schemas: readonly JsonSchema[], step: string | number): readonly JsonSchema[] {
  return schemas.flatMap(alternativesOf).flatMap(({ properties, additionalProperties, items }) => {
    if (typeof step === "number") return items === undefined ? [] : [items];
    const own = properties !== undefined && Object.hasOwn(properties, step) ? properties[step] : undefined;
    if (own !== undefined) return [own];
    return typeof additionalProperties === "object" ? [additionalProperties] : [];
  });
}

/** The schemas that may apply to the value at a path of the configuration. */
export function schemasAt(path: ValuePath): readonly JsonSchema[] {
  return path.reduce<readonly JsonSchema[]>(schemasBelow, [configJsonSchema()]);
}

/** A schema and the alternatives of its unions, flattened. */
export function alternativesOf(schema: JsonSchema): readonly JsonSchema[] {
  return [schema, ...(schema.anyOf ?? []).flatMap(alternativesOf)];
}

/** The forms of the object at a path; only those whose required keys are all present, if there are any. */
export function formsOf(path: ValuePath, present: unknown): readonly JsonSchema[] {
  const forms = schemasAt(path).flatMap(alternativesOf);
  const chosen = forms.filter(
    ({ required = [] }) =>
      required.length > 0 && isObject(present) && required.every((key) => Object.hasOwn(present, key)),
  );
  return chosen.length === 0 ? forms : chosen;
}

/** Whether the user chooses the keys of the object at a path. */
export function hasNames(path: ValuePath): boolean {
  return schemasAt(path)
    .flatMap(alternativesOf)
    .some(({ additionalProperties }) => typeof additionalProperties === "object");
}

/** The keys of an object at a path, of all alternatives. */
export function knownKeys(path: ValuePath): readonly string[] {
  return schemasAt(path)
    .flatMap(alternativesOf)
    .flatMap(({ properties = {} }) => Object.keys(properties));
}

/** The keys that an object at a path must have. */
export function requiredKeys(path: ValuePath): readonly string[] {
  return schemasAt(path).flatMap(({ required = [] }) => required);
}
