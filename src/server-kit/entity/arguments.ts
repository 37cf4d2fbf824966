import { z } from "zod";

import type { FieldIssue } from "../contract/contract.ts";
import { type Entity, isWritable } from "./entity.ts";
import { invalidArguments } from "../contract/failure.ts";
import { type Field, jsonSchemaOf } from "../contract/fields.ts";
import { isObject, type JsonObject, type JsonValue } from "../contract/row.ts";
import { filterSchema } from "./filter.ts";
import type { OperationName } from "../contract/operations.ts";

/** Which fields a call may send, and which of them it must. */
export interface InputFields {
  readonly fields: readonly Field[];
  /** Only what is given counts: nothing is required, defaults stay out, null clears what may be missing. */
  readonly isPartial: boolean;
}

/** The fields of a new record. */
export function createFields(entity: Entity): InputFields {
  return { fields: writable(entity), isPartial: false };
}

/** The fields of a change; the key is asked for apart. */
export function updateFields(entity: Entity): InputFields {
  return { fields: writable(entity).filter(({ name }) => name !== entity.key.name), isPartial: true };
}

/** The fields of a record that may exist already: the key belongs to it even where the server usually makes it. */
export function upsertFields(entity: Entity): InputFields {
  const others = writable(entity).filter(({ name }) => name !== entity.key.name);
  return { fields: [entity.key, ...others], isPartial: false };
}

/** What was sent for the fields of a plan; `undefined` is a field to be cleared. */
export type FieldValues = ReadonlyMap<string, JsonValue | undefined>;

/** Checks fields one by one; what is wrong goes to `issues`, so that all of it is told at once. */
export function readFields(
  plan: InputFields,
  given: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at = "",
): FieldValues {
  const read = new Map<string, JsonValue | undefined>();
  for (const field of plan.fields) {
    const value = given[field.name];
    if (plan.isPartial && value === undefined) continue;
    if (plan.isPartial && value === null && field.optional && !field.nullable) {
      read.set(field.name, undefined);
      continue;
    }
    const parsed = field.schema.safeParse(value);
    if (!parsed.success) issues.push(...toFieldIssues(parsed.error.issues, join(at, field.name)));
    // The field's schema has said that JSON can carry it.
    else if (parsed.data !== undefined) read.set(field.name, parsed.data as JsonValue);
  }
  return read;
}

/** The arguments as an object without anything undeclared (KO-012); throws in words otherwise. */
export function readObject(
  given: unknown,
  allowed: readonly string[],
  issues: FieldIssue[],
  at = "",
): Readonly<Record<string, unknown>> {
  if (!isObject(given)) {
    issues.push({ path: at, message: "expected an object" });
    return {};
  }
  for (const name of Object.keys(given)) {
    if (!allowed.includes(name)) issues.push({ path: join(at, name), message: "is no argument of this tool" });
  }
  return given;
}

/** The value of the key; reports what is wrong with it. */
export function readKey(
  entity: Entity,
  given: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at = "",
): JsonValue {
  const parsed = entity.key.schema.safeParse(given[entity.key.name]);
  if (parsed.success) return parsed.data as JsonValue;
  issues.push(...toFieldIssues(parsed.error.issues, join(at, entity.key.name)));
  return null;
}

/** An integer between bounds, or nothing. */
export function readInteger(
  given: Readonly<Record<string, unknown>>,
  name: string,
  bounds: { readonly min: number; readonly max: number },
  issues: FieldIssue[],
  at = "",
): number | undefined {
  const value = given[name];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= bounds.min && value <= bounds.max) {
    return value;
  }
  issues.push({ path: join(at, name), message: `expected an integer from ${bounds.min} to ${bounds.max}` });
  return undefined;
}

/** Throws what was found wrong, if anything. */
export function throwIfInvalid(issues: readonly FieldIssue[]): void {
  if (issues.length > 0) throw invalidArguments(issues);
}

/** What zod found, with dotted paths. */
export function toFieldIssues(issues: readonly z.core.$ZodIssue[], at = ""): readonly FieldIssue[] {
  return issues.map(({ path, message }) => ({
    path: [...(at === "" ? [] : [at]), ...path.map(String)].join("."),
    message,
  }));
}

function writable(entity: Entity): readonly Field[] {
  return [...entity.fields.values()].filter(({ name }) => isWritable(entity, name));
}

function join(at: string, name: string): string {
  return at === "" ? name : `${at}.${name}`;
}

/** The most records one call creates, changes or deletes by key. */
export const maxBatchRecords = 100;
/** The most records that deleting by filter takes at once. */
export const maxDeleteWhere = 1000;

/** What clients are told about the arguments of an operation. */
export function inputSchemaOf(entity: Entity, operation: OperationName, maxPageSize: number): JsonObject {
  const key = { [entity.key.name]: withoutDefault(entity.key.json) };
  const version: JsonObject =
    entity.version === undefined
      ? {}
      : { expectedVersion: { type: "integer", description: "Refuse if the record has another version." } };
  const removal = object({ ...key, ...version }, [entity.key.name]);
  const { filter, definitions } = filterSchema(entity.filterable);
  const $defs = Object.keys(definitions).length === 0 ? {} : { $defs: definitions };
  switch (operation) {
    case "List":
      return {
        ...object({
          pageSize: { type: "integer", minimum: 1, maximum: maxPageSize, default: Math.min(50, maxPageSize) },
          cursor: {
            type: "string",
            description: "nextCursor of the page before, with the same filter and sort.",
          },
          sort: {
            type: "array",
            maxItems: 3,
            items: { type: "string", enum: entity.sortable.flatMap(({ name }) => [name, `-${name}`]) },
            description: "Field names; a leading - sorts descending.",
          },
          filter,
          includeTotal: { type: "boolean", description: "Count all matching records too." },
        }),
        ...$defs,
      };
    case "Count":
      return { ...object({ filter }), ...$defs };
    case "New":
      return object({});
    case "Get":
      return object(key, [entity.key.name]);
    case "Delete":
      return removal;
    case "Create":
      return fieldsSchema(createFields(entity));
    case "Upsert":
      return fieldsSchema(upsertFields(entity));
    case "Update":
      return fieldsSchema(updateFields(entity), { ...key, ...version }, [entity.key.name]);
    case "CreateMany":
      return many(fieldsSchema(createFields(entity)));
    case "UpdateMany":
      return many(fieldsSchema(updateFields(entity), { ...key, ...version }, [entity.key.name]));
    case "DeleteMany":
      return object(
        {
          ids: {
            type: "array",
            minItems: 1,
            maxItems: maxBatchRecords,
            items: withoutDefault(entity.key.json),
          },
        },
        ["ids"],
      );
    case "DeleteWhere":
      return {
        ...object({ filter, max: { type: "integer", minimum: 1, maximum: maxDeleteWhere, default: 100 } }, ["filter"]),
        ...$defs,
      };
  }
}

/** The check of what an operation gives, and the same as JSON Schema. */
export interface OutputSchema {
  readonly schema: z.ZodType;
  readonly json: JsonObject;
}

/** What an operation gives (KO-013, KO-018); hidden fields are not in it. */
export function outputSchemaOf(entity: Entity, operation: OperationName): OutputSchema {
  const fields = [...entity.fields.values()].filter(({ name }) => !entity.hidden.has(name));
  const row = z.strictObject(Object.fromEntries(fields.map(({ name, schema }) => [name, schema])));
  const items = z.array(row);
  switch (operation) {
    case "List":
      return shape(
        z.strictObject({
          items,
          nextCursor: z.string().optional(),
          total: z.int().nonnegative().optional(),
        }),
      );
    case "CreateMany":
    case "UpdateMany":
      return shape(z.strictObject({ items }));
    case "Count":
      return shape(z.strictObject({ count: z.int().nonnegative() }));
    case "Delete":
      return shape(z.strictObject({ [entity.key.name]: entity.key.schema, deleted: z.literal(true) }));
    case "DeleteMany":
    case "DeleteWhere":
      return shape(z.strictObject({ deleted: z.int().nonnegative() }));
    case "New":
      return shape(row.partial());
    case "Get":
    case "Create":
    case "Update":
    case "Upsert":
      return shape(row);
  }

  function shape(schema: z.ZodType): OutputSchema {
    return { schema, json: jsonSchemaOf(schema, "output", `entity ${entity.name}, result of ${operation}`) };
  }
}

function fieldsSchema(plan: InputFields, more: JsonObject = {}, requiredMore: readonly string[] = []): JsonObject {
  const properties = Object.fromEntries(plan.fields.map((field) => [field.name, fieldInput(field, plan)]));
  const required = plan.isPartial
    ? []
    : plan.fields.filter(({ schema }) => !schema.safeParse(undefined).success).map(({ name }) => name);
  return object({ ...more, ...properties }, [...requiredMore, ...required]);
}

function fieldInput(field: Field, { isPartial }: InputFields): JsonObject {
  const json = jsonSchemaOf(field.schema, "input", field.name);
  if (!isPartial) return json;
  const bare = withoutDefault(json);
  if (!field.optional || field.nullable) return bare;
  return { anyOf: [bare, { type: "null", description: "Clears the field." }] };
}

function many(item: JsonObject): JsonObject {
  return object({ items: { type: "array", minItems: 1, maxItems: maxBatchRecords, items: item } }, ["items"]);
}

function object(properties: Readonly<Record<string, JsonValue>>, required: readonly string[] = []): JsonObject {
  return {
    type: "object",
    properties,
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  };
}

function withoutDefault(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => keyword !== "default"));
}
