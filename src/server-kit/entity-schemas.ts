import { z } from "zod";

import { createFields, updateFields, upsertFields } from "./arguments.ts";
import type { InputFields } from "./arguments.ts";
import type { Entity } from "./entity.ts";
import { jsonSchemaOf } from "./fields.ts";
import type { Field } from "./fields.ts";
import { filterSchema } from "./filter.ts";
import type { OperationName } from "./operations.ts";
import type { JsonObject, JsonValue } from "./row.ts";

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
        ...object({ filter, max: { type: "integer", minimum: 1, maximum: maxDeleteWhere, default: 100 } }, [
          "filter",
        ]),
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

function fieldsSchema(
  plan: InputFields,
  more: JsonObject = {},
  requiredMore: readonly string[] = [],
): JsonObject {
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

function object(
  properties: Readonly<Record<string, JsonValue>>,
  required: readonly string[] = [],
): JsonObject {
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
