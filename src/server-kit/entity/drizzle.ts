import { z } from "zod";

import { GatewayError } from "../../errors.ts";
import { defineEntity, type Entity, type EntityOptions } from "./entity.ts";
import type { JsonValue, Scalar } from "../contract/row.ts";
import type { ColumnMapping } from "../stores/store.ts";

/** What is read of a Drizzle column; no type of the package itself is needed, so it stays optional. */
interface DrizzleColumn {
  readonly name: string;
  readonly dataType: string;
  readonly columnType: string;
  readonly notNull: boolean;
  readonly hasDefault: boolean;
  readonly primary: boolean;
  readonly default?: unknown;
  readonly enumValues?: readonly string[] | undefined;
  readonly length?: number | undefined;
  readonly mode?: string | undefined;
  readonly withTimezone?: boolean | undefined;
}

/** A Drizzle table, as far as the kit looks at it. */
export interface DrizzleTable {
  readonly $inferSelect: Readonly<Record<string, unknown>>;
}

/** A record of a Drizzle table as JSON has it: dates are ISO 8601 text. */
export type DrizzleRecord<Table extends DrizzleTable> = {
  [Name in keyof Table["$inferSelect"]]: Jsonified<Table["$inferSelect"][Name]>;
};

type Jsonified<Value> = Value extends Date ? string : Value extends bigint ? never : Value;

/** The schema that a table stands for. */
export type DrizzleSchema<Table extends DrizzleTable> = z.ZodObject<{
  [Name in keyof DrizzleRecord<Table> & string]: z.ZodType<DrizzleRecord<Table>[Name]>;
}>;

/**
 * An entity from a Drizzle table: one definition for the database and the server. The store opens the same database
 * and leaves the table itself to Drizzle's migrations.
 */
export function entityFromTable<Table extends DrizzleTable>(
  name: string,
  table: Table,
  options: Omit<EntityOptions<DrizzleSchema<Table>>, "table"> = {},
): Entity<DrizzleSchema<Table>> {
  const { tableName, columns } = readDrizzleTable(name, table);
  const shape: Record<string, z.ZodType> = {};
  const columnShapes = new Map<string, ColumnMapping>();
  for (const [field, column] of columns) {
    shape[field] = toSchema(name, field, column);
    columnShapes.set(field, { column: column.name, ...codecOf(column) });
  }
  const [primary] = columns.find(([, column]) => column.primary) ?? [];
  // The shape was made from the columns that the type is inferred from.
  const schema = z.object(shape) as unknown as DrizzleSchema<Table>;
  return defineEntity(name, schema, {
    ...(primary === undefined ? {} : { key: primary as keyof z.output<DrizzleSchema<Table>> & string }),
    ...options,
    table: { name: tableName, columns: columnShapes, isManaged: false },
  });
}

function readDrizzleTable(
  entity: string,
  table: DrizzleTable,
): { readonly tableName: string; readonly columns: readonly (readonly [string, DrizzleColumn])[] } {
  const symbols = Object.getOwnPropertySymbols(table);
  const read = (name: string): unknown => {
    const symbol = symbols.find(({ description }) => description === name);
    return symbol === undefined ? undefined : Reflect.get(table, symbol);
  };
  const [tableName, columns] = [read("drizzle:Name"), read("drizzle:Columns")];
  if (typeof tableName !== "string" || typeof columns !== "object" || columns === null) {
    throw new GatewayError("config_invalid", `entity ${entity}: this is no Drizzle table`);
  }
  // Drizzle keeps its columns by field name under this symbol.
  return { tableName, columns: Object.entries(columns as Readonly<Record<string, DrizzleColumn>>) };
}

function toSchema(entity: string, field: string, column: DrizzleColumn): z.ZodType {
  const value = valueSchema(entity, field, column);
  if (column.hasDefault && isPlain(column.default)) {
    return column.notNull ? value.prefault(column.default) : value.nullable().prefault(column.default);
  }
  return column.notNull ? value : value.nullish();
}

function valueSchema(entity: string, field: string, column: DrizzleColumn): z.ZodType {
  const [first, ...others] = column.enumValues ?? [];
  if (first !== undefined) return z.enum([first, ...others]);
  switch (column.dataType) {
    case "string":
      if (column.columnType === "PgUUID") return z.uuid();
      return column.length === undefined ? z.string() : z.string().max(column.length);
    case "number":
      return /Integer|Int|Serial/u.test(column.columnType) ? z.int() : z.number();
    case "boolean":
      return z.boolean();
    case "date":
      if (column.columnType === "PgTimestamp" && column.withTimezone !== true) {
        throw new GatewayError(
          "config_invalid",
          `entity ${entity}, field ${field}: a timestamp without time zone is another time on every machine; ` +
            "declare it withTimezone: true",
        );
      }
      return z.iso.datetime();
    case "json":
      return z.json();
    default:
      throw new GatewayError(
        "config_invalid",
        `entity ${entity}, field ${field}: columns of type ${column.columnType} cannot be served as JSON`,
      );
  }
}

function codecOf({ columnType, dataType, mode }: DrizzleColumn): Omit<ColumnMapping, "column"> {
  switch (columnType) {
    case "SQLiteTimestamp":
      // Drizzle writes whole seconds for mode "timestamp", milliseconds for "timestamp_ms".
      return epochCodec(mode === "timestamp" ? 1000 : 1);
    case "PgBoolean":
      return { encode: (value) => String(value), decode: (value) => value === true };
    case "PgUUID":
      // No text to the database, so it has no collation; its order is that of its text all the same.
      return { encode: (value) => value };
    case "PgTimestamp":
      // The database counts microseconds, which JavaScript's dates do not: a record would never be what was read.
      return {
        encode: (value) => value,
        decode: toIso,
        compared: (column) => `date_trunc('milliseconds', ${column})`,
      };
    default:
      return dataType === "date" ? { encode: (value) => value, decode: toIso } : {};
  }
}

function epochCodec(unit: number): Omit<ColumnMapping, "column"> {
  return {
    encode: (value: Scalar) => Math.floor(Date.parse(String(value)) / unit),
    decode: (value) => new Date(Number(value) * unit).toISOString(),
  };
}

function toIso(value: unknown): JsonValue {
  return value instanceof Date ? value.toISOString() : new Date(String(value)).toISOString();
}

function isPlain(value: unknown): value is JsonValue {
  return value !== undefined && (value === null || ["string", "number", "boolean"].includes(typeof value));
}
