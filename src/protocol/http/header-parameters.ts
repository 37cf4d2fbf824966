import { isObject } from "../../lib/is-object.ts";
import { pointerStep } from "../json/read.ts";

/** An argument that the tool's input schema also maps to a header. */
export interface HeaderParameter {
  /** The full header name, such as `Mcp-Param-Yard`. */
  readonly header: string;
  /** The path of the value in the arguments. */
  readonly path: readonly string[];
  readonly type: "string" | "integer" | "boolean";
}

/** The header parameters of a tool, or why the tool must not be listed over HTTP. */
export type ParsedHeaderParameters =
  | { readonly ok: true; readonly parameters: readonly HeaderParameter[] }
  | {
      readonly ok: false;
      readonly reason: "unreachable" | "not-a-token" | "type" | "duplicate";
      /** JSON Pointer of the invalid annotation in the schema. */
      readonly path: string;
      readonly message: string;
    };

const annotation = "x-mcp-header";
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const noParameters: ParsedHeaderParameters = { ok: true, parameters: [] };

/** Keywords of JSON Schema (2020-12 and earlier) whose value is a schema or a list of schemas. */
const schemaKeywords = new Set(
  (
    "additionalItems additionalProperties allOf anyOf contains contentSchema else if items not oneOf prefixItems " +
    "propertyNames then unevaluatedItems unevaluatedProperties"
  ).split(" "),
);
/** Keywords whose value contains named schemas, except `properties`, the only one that may lead to an annotation. */
const schemaMapKeywords = new Set(["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"]);

interface Visit {
  readonly schema: unknown;
  /** JSON Pointer of the schema. */
  readonly pointer: string;
  /** The path of the argument; undefined if it is not reached through `properties` alone. */
  readonly path: readonly string[] | undefined;
}

/**
 * Reads the header parameters of a tool from its input schema. An annotation must be reachable through `properties`
 * alone, be a unique HTTP token, ignoring case, and belong to a string, an integer or a boolean; one invalid
 * annotation invalidates the tool (MCP 2026-07-28, Streamable HTTP, "Schema Extension").
 */
export function parseHeaderParameters(inputSchema: unknown): ParsedHeaderParameters {
  const parameters: HeaderParameter[] = [];
  const seen = new Set<string>();
  // A work list instead of recursion: a server may nest its schema arbitrarily deep.
  const work: Visit[] = [{ schema: inputSchema, pointer: "", path: [] }];
  for (let visit = work.pop(); visit !== undefined; visit = work.pop()) {
    const { schema, pointer, path } = visit;
    if (!isObject(schema)) continue;
    if (Object.hasOwn(schema, annotation)) {
      const parameter = readAnnotation(schema, pointer, path, seen);
      if ("ok" in parameter) return parameter;
      parameters.push(parameter);
    }
    // Reversed, so that parameters come in the order of the schema.
    for (const inner of innerSchemas(visit, schema).toReversed()) work.push(inner);
  }
  return parameters.length === 0 ? noParameters : { ok: true, parameters };
}

/** The value at a path in the arguments; undefined if absent. */
export function argumentAt(values: unknown, path: readonly string[]): unknown {
  let value = values;
  for (const key of path) {
    if (!isObject(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

/** The header text of an argument; undefined for null, objects and integers beyond 2^53. */
export function headerTextOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "true" : "false";
  if (typeof value !== "number" || !Number.isFinite(value)) return undefined;
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return undefined;
  return String(value);
}

function readAnnotation(
  schema: Readonly<Record<string, unknown>>,
  pointer: string,
  path: readonly string[] | undefined,
  seen: Set<string>,
): HeaderParameter | (ParsedHeaderParameters & { readonly ok: false }) {
  const at = `${pointer}/${annotation}`;
  const bad = (reason: "unreachable" | "not-a-token" | "type" | "duplicate", message: string) =>
    ({ ok: false, reason, path: at, message: `${at}: ${message}` }) as const;
  if (path === undefined || path.length === 0) {
    return bad("unreachable", "only a property that is reached through `properties` alone may have a header");
  }
  const name = schema[annotation];
  if (typeof name !== "string" || !token.test(name)) {
    return bad("not-a-token", "must be a non-empty HTTP token (RFC 9110 section 5.6.2)");
  }
  const { type } = schema;
  if (type !== "string" && type !== "integer" && type !== "boolean") {
    return bad("type", "only a property of type string, integer or boolean may have a header");
  }
  const folded = name.toLowerCase();
  if (seen.has(folded)) return bad("duplicate", `another property has the header ${name}`);
  seen.add(folded);
  return { header: `Mcp-Param-${name}`, path, type };
}

function innerSchemas({ pointer, path }: Visit, schema: Readonly<Record<string, unknown>>): Visit[] {
  const inner: Visit[] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    const at = `${pointer}${pointerStep(keyword)}`;
    const isMap = keyword === "properties" || schemaMapKeywords.has(keyword);
    if (isMap && isObject(value)) {
      for (const [key, named] of Object.entries(value)) {
        const inside = keyword === "properties" && path !== undefined ? [...path, key] : undefined;
        inner.push({ schema: named, pointer: `${at}${pointerStep(key)}`, path: inside });
      }
    } else if (isMap || schemaKeywords.has(keyword)) {
      const list: readonly unknown[] = Array.isArray(value) ? value : [value];
      for (const [index, one] of list.entries()) {
        inner.push({ schema: one, pointer: list === value ? `${at}/${index}` : at, path: undefined });
      }
    }
  }
  return inner;
}
