import { z } from "zod";

import { GatewayError } from "../../errors.ts";
import { defineEntity, type Entity, type EntityOptions } from "./entity.ts";
import type { ColumnMapping, JsonValue, Scalar } from "../stores/store.ts";

/** The part of a Drizzle column that is read; the package stays optional. */
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

/** The part of a Drizzle table that the kit reads. */
export interface DrizzleTable {
  readonly $inferSelect: Readonly<Record<string, unknown>>;
}

/** The JSON form of a column's value: dates are ISO 8601 strings, big integers are not supported. */
export type DrizzleValue<Value> = Value extends Date ? string : Value extends bigint ? never : Value;

/** The schema of a Drizzle table. */
export type DrizzleSchema<Table extends DrizzleTable> = z.ZodObject<{
  [Name in keyof Table["$inferSelect"] & string]: z.ZodType<DrizzleValue<Table["$inferSelect"][Name]>>;
}>;

/**
 * Declares an entity from a Drizzle table. The store opens the same database and leaves the table to Drizzle's
 * migrations.
 *
 * @example
 * const sites = pgTable("sites", { id: uuid().primaryKey(), name: text().notNull() });
 * const Site = entityFromTable("Site", sites, { description: "Clinical trial sites" });
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
  // The shape comes from the columns that the type is inferred from.
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
    throw new GatewayError("config_invalid", `entity ${entity}: not a Drizzle table`);
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
          `entity ${entity}, field ${field}: a timestamp without time zone means another time on every machine; ` +
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
      // Not text to the database, so it has no collation; it sorts like its text anyway.
      return { encode: (value) => value };
    case "PgTimestamp":
      // The database stores microseconds, JavaScript only milliseconds: an unchanged row would look changed.
      return { encode: (value) => value, decode: toIso, compared: (column) => `date_trunc('milliseconds', ${column})` };
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
