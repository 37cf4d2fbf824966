import { z } from "zod";

import { type FieldIssue, invalidArguments } from "./failure.ts";
import { type EntityModel, isWritable, type OperationName } from "./entity.ts";
import { type Field, jsonSchemaOf } from "./fields.ts";
import { isObject } from "../../lib/is-object.ts";
import { isStorable, type JsonObject, type JsonValue, notStorable } from "../stores/store.ts";
import { filterSchema } from "./filter.ts";

/** The fields that a call may send. */
export interface InputFields {
  readonly fields: readonly Field[];
  /** Nothing is required, defaults do not apply, and null clears an optional field. */
  readonly isPartial: boolean;
}

/** The fields of a new record. */
export function createFields(entity: EntityModel): InputFields {
  return { fields: writable(entity), isPartial: false };
}

/** The fields of a change, without the key. */
export function updateFields(entity: EntityModel): InputFields {
  return { fields: writable(entity).filter(({ name }) => name !== entity.key.name), isPartial: true };
}

/** The fields of an upsert; includes the key even if the server usually generates it. */
export function upsertFields(entity: EntityModel): InputFields {
  const others = writable(entity).filter(({ name }) => name !== entity.key.name);
  return { fields: [entity.key, ...others], isPartial: false };
}

/** The values that a call sent, by field; `undefined` clears the field. */
export type FieldValues = ReadonlyMap<string, JsonValue | undefined>;

/** Validates fields one by one and collects what is wrong in `issues`. */
export function readFields(
  { fields, isPartial }: InputFields,
  given: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at = "",
): FieldValues {
  const read = new Map<string, JsonValue | undefined>();
  for (const field of fields) {
    const value = given[field.name];
    if (isPartial && value === undefined) continue;
    if (isPartial && value === null && field.optional && !field.nullable) {
      read.set(field.name, undefined);
      continue;
    }
    if (!isStorable(value)) {
      // Before the schema, which may not survive deep nesting.
      issues.push({ path: join(at, field.name), message: notStorable });
      continue;
    }
    const parsed = field.schema.safeParse(value);
    if (!parsed.success) issues.push(...toFieldIssues(parsed.error.issues, join(at, field.name)));
    // Every field's schema produces JSON.
    else if (parsed.data !== undefined) read.set(field.name, parsed.data as JsonValue);
  }
  return read;
}

/** The arguments as an object; anything undeclared is an issue (KO-012). */
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
    if (!allowed.includes(name)) issues.push({ path: join(at, name), message: "unknown argument" });
  }
  return given;
}

/** The value of the key. */
export function readKey(
  entity: EntityModel,
  given: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at = "",
): JsonValue {
  const parsed = entity.key.schema.safeParse(given[entity.key.name]);
  if (parsed.success) return parsed.data as JsonValue;
  issues.push(...toFieldIssues(parsed.error.issues, join(at, entity.key.name)));
  return null;
}

/** An optional integer within bounds. */
export function readInteger(
  given: Readonly<Record<string, unknown>>,
  name: string,
  bounds: { readonly min: number; readonly max: number },
  issues: FieldIssue[],
  at = "",
): number | undefined {
  const value = given[name];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= bounds.min && value <= bounds.max) return value;
  issues.push({ path: join(at, name), message: `expected an integer from ${bounds.min} to ${bounds.max}` });
  return undefined;
}

/** Reads arguments; throws a failure with all issues if there are any. */
export function readArguments<Value>(read: (issues: FieldIssue[]) => Value): Value {
  const issues: FieldIssue[] = [];
  const value = read(issues);
  if (issues.length > 0) throw invalidArguments(issues);
  return value;
}

/** The issues of zod, with dotted paths. */
export function toFieldIssues(issues: readonly z.core.$ZodIssue[], at = ""): readonly FieldIssue[] {
  return issues.map(({ path, message }) => ({
    path: [...(at === "" ? [] : [at]), ...path.map(String)].join("."),
    message,
  }));
}

function writable(entity: EntityModel): readonly Field[] {
  return [...entity.fields.values()].filter(({ name }) => isWritable(entity, name));
}

function join(at: string, name: string): string {
  return at === "" ? name : `${at}.${name}`;
}

/** How many records one call creates, changes or deletes by key at most. */
export const maxBatchRecords = 100;
/** How many records one call deletes by filter at most. */
export const maxDeleteWhere = 1000;

/** The input schema of an operation, as clients see it. */
export function inputSchemaOf(entity: EntityModel, operation: OperationName, maxPageSize: number): JsonObject {
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
          cursor: { type: "string", description: "nextCursor of the page before, with the same filter and sort." },
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
        { ids: { type: "array", minItems: 1, maxItems: maxBatchRecords, items: withoutDefault(entity.key.json) } },
        ["ids"],
      );
    case "DeleteWhere":
      return {
        ...object({ filter, max: { type: "integer", minimum: 1, maximum: maxDeleteWhere, default: 100 } }, ["filter"]),
        ...$defs,
      };
  }
}

/** What an operation returns, as validator and as JSON Schema. */
export interface OutputSchema {
  readonly schema: z.ZodType;
  readonly json: JsonObject;
}

/** The output schema of an operation, without hidden fields (KO-013, KO-018). */
export function outputSchemaOf(entity: EntityModel, operation: OperationName): OutputSchema {
  const fields = [...entity.fields.values()].filter(({ name }) => !entity.hidden.has(name));
  const row = z.strictObject(Object.fromEntries(fields.map(({ name, schema }) => [name, schema])));
  const items = z.array(row);
  switch (operation) {
    case "List":
      return shape(
        z.strictObject({ items, nextCursor: z.string().optional(), total: z.int().nonnegative().optional() }),
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

function fieldsSchema(input: InputFields, more: JsonObject = {}, requiredMore: readonly string[] = []): JsonObject {
  const properties = Object.fromEntries(input.fields.map((field) => [field.name, fieldInput(field, input)]));
  const required = input.isPartial
    ? []
    : input.fields.filter(({ schema }) => !schema.safeParse(undefined).success).map(({ name }) => name);
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
  return { type: "object", properties, ...(required.length === 0 ? {} : { required }), additionalProperties: false };
}

function withoutDefault(schema: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(schema).filter(([keyword]) => keyword !== "default"));
}
