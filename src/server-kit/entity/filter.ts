import { createHash, createHmac, timingSafeEqual } from "node:crypto";

import type { FieldIssue } from "./failure.ts";
import type { Field } from "./fields.ts";
import { isObject } from "../../lib/is-object.ts";
import { withoutUndefined } from "../../lib/without-undefined.ts";
import {
  isScalar,
  type JsonObject,
  type JsonValue,
  type RowCondition,
  type Scalar,
  isStorable,
  notStorable,
} from "../stores/store.ts";

/** The tests of one field in a filter. */
export type FieldTests<Value> = {
  readonly eq?: Value;
  readonly ne?: Value;
  readonly gt?: Value;
  readonly gte?: Value;
  readonly lt?: Value;
  readonly lte?: Value;
  readonly in?: readonly Value[];
  readonly contains?: string;
  readonly startsWith?: string;
  readonly isNull?: boolean;
};

/** A filter: fields with a value or tests, combined by `and`, `or` and `not`. */
export type FilterOf<Record_> = {
  readonly [Name in keyof Record_ as NonNullable<Record_[Name]> extends Scalar ? Name : never]?:
    | NonNullable<Record_[Name]>
    | FieldTests<NonNullable<Record_[Name]>>;
} & {
  readonly and?: readonly FilterOf<Record_>[];
  readonly or?: readonly FilterOf<Record_>[];
  readonly not?: FilterOf<Record_>;
};

/** The condition of a filter, or the issues it has. */
export type ParsedFilter =
  | {
      readonly ok: true;
      readonly condition: RowCondition;
      /** How many tests it has; without any it holds for every record, or for none. */
      readonly tests: number;
    }
  | { readonly ok: false; readonly issues: readonly FieldIssue[] };

const maxDepth = 3;
const maxTerms = 20;
const comparisons = ["eq", "ne", "gt", "gte", "lt", "lte"] as const;
const logical = new Set(["and", "or", "not"]);

/** Parses a filter over the given fields (KO-012, KO-017). */
export function parseEntityFilter(filter: unknown, fields: readonly Field[], path = "filter"): ParsedFilter {
  const issues: FieldIssue[] = [];
  let tests = 0;
  let emptyGroups = 0;
  const byName = new Map(fields.map((field) => [field.name, field]));
  const condition = group(filter, path, 1);
  const terms = tests + emptyGroups;
  if (terms > maxTerms) issues.push({ path, message: `has ${terms} terms; at most ${maxTerms} are allowed` });
  return issues.length === 0 ? { ok: true, condition, tests } : { ok: false, issues };

  function group(value: unknown, place: string, depth: number): RowCondition {
    if (!isObject(value)) return fail(place, "expected an object");
    if (depth > maxDepth) return fail(place, `is nested deeper than ${maxDepth} levels`);
    const parts = Object.entries(value).map(([name, test]) => member(name, test, `${place}.${name}`, depth));
    // A store evaluates a group without tests as well.
    if (parts.length === 0) emptyGroups++;
    const [only] = parts;
    return parts.length === 1 && only !== undefined ? only : { kind: "and", parts };
  }

  function member(name: string, test: unknown, place: string, depth: number): RowCondition {
    if (name === "not") return { kind: "not", part: group(test, place, depth + 1) };
    if (name === "and" || name === "or") {
      if (!Array.isArray(test)) return fail(place, "expected an array of filters");
      if (test.length === 0) emptyGroups++;
      return { kind: name, parts: test.map((part, index) => group(part, `${place}.${index}`, depth + 1)) };
    }
    const field = byName.get(name);
    if (field === undefined) return fail(place, "not a filterable field");
    if (!isObject(test)) return compare(field, "eq", test, place);
    const parts = Object.entries(test).map(([operator, operand]) =>
      term(field, operator, operand, `${place}.${operator}`),
    );
    if (parts.length === 0) emptyGroups++;
    return { kind: "and", parts };
  }

  function term(field: Field, operator: string, operand: unknown, place: string): RowCondition {
    const comparison = comparisons.find((known) => known === operator);
    if (comparison !== undefined) return compare(field, comparison, operand, place);
    tests++;
    switch (operator) {
      case "in": {
        if (!Array.isArray(operand) || operand.length > 100) {
          return fail(place, "expected an array of at most 100 values");
        }
        const values = operand.filter((value): value is Scalar => matchesType(field, value));
        if (values.length < operand.length) return fail(place, `expected values of type ${typeOf(field)}`);
        if (!values.every(isStorable)) return fail(place, notStorable);
        return { kind: "in", field: field.name, values };
      }
      case "contains":
      case "startsWith":
        if (!isFreeText(field)) return fail(place, "only for free text fields");
        if (typeof operand !== "string") return fail(place, "expected string");
        if (!isStorable(operand)) return fail(place, notStorable);
        return { kind: operator, field: field.name, value: operand };
      case "isNull":
        if (typeof operand !== "boolean") return fail(place, "expected boolean");
        return { kind: "isNull", field: field.name, value: operand };
      default:
        return fail(place, "unknown operator; use eq, ne, gt, gte, lt, lte, in, contains, startsWith or isNull");
    }
  }

  function compare(field: Field, operator: (typeof comparisons)[number], value: unknown, place: string): RowCondition {
    tests++;
    if (!matchesType(field, value)) return fail(place, `expected ${typeOf(field)}`);
    if (!isStorable(value)) return fail(place, notStorable);
    return { kind: "compare", field: field.name, operator, value };
  }

  function fail(place: string, message: string): RowCondition {
    issues.push({ path: place, message });
    return { kind: "all" };
  }
}

/** A filter as JSON Schema, with the definitions that belong at the root of the schema. */
export interface FilterSchema {
  readonly filter: JsonObject;
  readonly definitions: Readonly<Record<string, JsonObject>>;
}

/** The JSON Schema of the argument `filter`. */
export function filterSchema(fields: readonly Field[]): FilterSchema {
  const nested = { $ref: "#/properties/filter" };
  const definitions: Record<string, JsonObject> = {};
  const properties: Record<string, JsonValue> = {};
  for (const field of fields) {
    if (logical.has(field.name)) continue;
    const isNullable = field.nullable || field.optional;
    if (field.choices === undefined) {
      // Fields of one kind share a definition.
      const name = `${typeOf(field)}${isNullable ? "OrNull" : ""}Test`;
      definitions[name] ??= testSchema(field);
      properties[field.name] = { $ref: `#/$defs/${name}` };
    } else {
      properties[field.name] = testSchema(field);
    }
  }
  return {
    filter: {
      type: "object",
      description: "Fields with a value or tests; all must hold. `and`, `or`, `not` combine filters.",
      properties: {
        ...properties,
        and: { type: "array", items: nested },
        or: { type: "array", items: nested },
        not: nested,
      },
      additionalProperties: false,
    },
    definitions,
  };
}

function testSchema(field: Field): JsonObject {
  const value: JsonObject = { type: field.kind, ...withoutUndefined({ format: field.format, enum: field.choices }) };
  const isOrdered = field.kind !== "boolean" && field.choices === undefined;
  const tests = {
    eq: value,
    ne: value,
    ...(isOrdered ? { gt: value, gte: value, lt: value, lte: value } : {}),
    in: { type: "array", items: value },
    ...(isFreeText(field) ? { contains: { type: "string" }, startsWith: { type: "string" } } : {}),
    ...(field.nullable || field.optional ? { isNull: { type: "boolean" } } : {}),
  };
  return { anyOf: [value, { type: "object", properties: tests, additionalProperties: false }] };
}

/** Text without a format; databases may store dates and UUIDs as other types than text. */
function isFreeText({ kind, format, choices }: Field): boolean {
  return kind === "string" && format === undefined && choices === undefined;
}

function typeOf({ kind, format }: Field): string {
  return format ?? kind;
}

function matchesType(field: Field, value: unknown): value is Scalar {
  if (!isScalar(value)) return false;
  switch (field.kind) {
    case "integer":
      return Number.isSafeInteger(value);
    case "json":
      return false;
    case "string":
      return typeof value === "string" && (field.format === undefined || field.schema.safeParse(value).success);
    case "number":
    case "boolean":
      return typeof value === field.kind;
  }
}

/** The list that a cursor belongs to. */
export interface CursorScope {
  readonly entity: string;
  readonly sort: readonly string[];
  readonly filter: JsonValue | undefined;
}

/** Writes and reads cursors: the sort values of a page's last record, signed for one list (KO-014). */
export type Cursors = ReturnType<typeof createCursors>;

const macBytes = 16;

/** Creates cursors signed with a secret, which all servers behind one address share. */
export function createCursors(secret: string | Uint8Array) {
  const sign = (scope: CursorScope, body: string): Buffer =>
    createHmac("sha256", secret).update(digestOf(scope)).update("\n").update(body).digest().subarray(0, macBytes);
  return {
    write: (scope: CursorScope, position: readonly (Scalar | null)[]): string => {
      const body = Buffer.from(JSON.stringify(position)).toString("base64url");
      return `${body}.${sign(scope, body).toString("base64url")}`;
    },
    /** The position, or undefined if the text is not a cursor of this list. */
    read: (scope: CursorScope, cursor: string): readonly (Scalar | null)[] | undefined => {
      const [body, mac, ...rest] = cursor.split(".");
      if (body === undefined || mac === undefined || rest.length > 0) return undefined;
      const given = Buffer.from(mac, "base64url");
      if (given.length !== macBytes || !timingSafeEqual(given, sign(scope, body))) return undefined;
      const position: unknown = JSON.parse(Buffer.from(body, "base64url").toString());
      return Array.isArray(position) && position.every(isPosition) ? position : undefined;
    },
  };
}

function isPosition(value: unknown): value is Scalar | null {
  return value === null || isScalar(value);
}

function digestOf({ entity, sort, filter }: CursorScope): string {
  return createHash("sha256")
    .update(JSON.stringify([entity, sort, filter ?? null]))
    .digest("base64url");
}
