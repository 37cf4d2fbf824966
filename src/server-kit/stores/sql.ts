import { createHash } from "node:crypto";

import { GatewayError } from "../../errors.ts";
import {
  type EntityTable,
  type FieldKind,
  isScalar,
  type JsonValue,
  type Row,
  type RowChange,
  type RowCondition,
  type RowQuery,
  type Scalar,
  type SortKey,
  type TableField,
} from "./store.ts";

/** A value that a driver binds to a placeholder. */
export type SqlParameter = string | number | null;

/** A statement with its parameters. */
export interface SqlStatement {
  readonly text: string;
  readonly values: readonly SqlParameter[];
}

/** What differs between databases. */
export interface SqlDialect {
  readonly placeholder: (position: number) => string;
  readonly contains: (column: string, value: string) => string;
  readonly startsWith: (column: string, value: string) => string;
  readonly columnType: (kind: FieldKind) => string;
  /** Sorts text by its bytes. */
  readonly collation: string;
  readonly addColumn: string;
  /** Equality for which null equals null. */
  readonly same: (column: string, value: string) => string;
}

/** The statements of one table in one dialect; values are always parameters. */
export type TableSql = ReturnType<typeof createTableSql>;

/** Creates the statements of tables, each table's once. */
export function createSql(dialect: SqlDialect): (table: EntityTable) => TableSql {
  const tables = new Map<string, TableSql>();
  return (table) => {
    const sql = tables.get(table.name) ?? createTableSql(table, dialect);
    tables.set(table.name, sql);
    return sql;
  };
}

function createTableSql(table: EntityTable, dialect: SqlDialect) {
  const columns = createColumns(table, dialect);
  const name = table.mapping?.name ?? table.name;
  const isManaged = table.mapping?.isManaged ?? true;
  const all = table.fields.map((field) => columns.quoted(field.name)).join(", ");
  const from = `FROM ${quote(name)} WHERE`;
  return {
    /** The table's name in the database. */
    name,
    /** What creates the table; undefined if something else manages it. */
    create: isManaged
      ? `CREATE TABLE IF NOT EXISTS ${quote(name)} (${table.fields.map(definition).join(", ")})`
      : undefined,
    /** What adds the columns that the existing table lacks; throws if something else manages the table. */
    addColumns: (existing: ReadonlySet<unknown>): readonly string[] =>
      table.fields
        .filter((field) => !existing.has(columns.name(field.name)))
        .map((field) => {
          if (isManaged) return `ALTER TABLE ${quote(name)} ${dialect.addColumn} ${definition(field)}`;
          throw new GatewayError(
            "config_invalid",
            `entity ${table.entity}: the table ${name} has no column ${columns.name(field.name)} for the field ${field.name}`,
          );
        }),
    /** What creates the missing indexes; empty if something else manages the table. */
    createIndexes: isManaged
      ? [...table.unique.map((group) => index("UNIQUE ", group)), ...table.indexes.map((group) => index("", group))]
      : [],
    list: ({ where, sort, after, limit }: RowQuery): SqlStatement =>
      statement(dialect, (add) => {
        const conditions = [conditionSql(where, columns, add)];
        if (after !== undefined) conditions.push(afterSql(sort, after, columns, add));
        const order = sort.map(({ field, descending }) => {
          return `${columns.ordered(field)} ${descending ? "DESC NULLS LAST" : "ASC NULLS FIRST"}`;
        });
        return `SELECT ${all} ${from} ${conditions.join(" AND ")} ORDER BY ${order.join(", ")} LIMIT ${add(limit)}`;
      }),
    count: (where: RowCondition): SqlStatement =>
      statement(dialect, (add) => `SELECT count(*) AS count ${from} ${conditionSql(where, columns, add)}`),
    change: (change: RowChange): SqlStatement =>
      statement(dialect, (add) => {
        const encode = (field: TableField, row: Row): string => add(columns.encode(field, row[field.name]));
        const unchanged = (expected: Row): string =>
          table.fields
            .map((field) => dialect.same(columns.compared(field.name), encode(field, expected)))
            .join(" AND ");
        switch (change.kind) {
          case "insert": {
            const list = table.fields.map((field) => encode(field, change.row)).join(", ");
            return `INSERT INTO ${quote(name)} (${all}) VALUES (${list}) ON CONFLICT DO NOTHING`;
          }
          case "replace": {
            const list = table.fields.map((field) => `${columns.quoted(field.name)} = ${encode(field, change.row)}`);
            return `UPDATE ${quote(name)} SET ${list.join(", ")} WHERE ${unchanged(change.expected)}`;
          }
          case "remove":
            return `DELETE ${from} ${unchanged(change.expected)}`;
        }
      }),
    /** The row of a driver, in the form of the entity. */
    decode: (raw: Readonly<Record<string, unknown>>): Row => {
      const row: Record<string, JsonValue> = {};
      for (const field of table.fields) {
        const value = columns.decode(field, raw[columns.name(field.name)]);
        if (value !== null || field.nullable) row[field.name] = value;
      }
      return row;
    },
  };

  function index(kind: "UNIQUE " | "", group: readonly string[]): string {
    // The digest keeps the name unique where the database cuts long names.
    const digest = createHash("sha256")
      .update(JSON.stringify([name, kind, group]))
      .digest("hex")
      .slice(0, 12);
    const list = group.map((field) => columns.quoted(field)).join(", ");
    return `CREATE ${kind}INDEX IF NOT EXISTS ${quote(`headgate_${digest}`)} ON ${quote(name)} (${list})`;
  }

  function definition({ name: field, kind }: TableField): string {
    const isKey = field === table.key ? " NOT NULL PRIMARY KEY" : "";
    return `${columns.quoted(field)} ${dialect.columnType(kind)}${isKey}`;
  }
}

/** The columns of a table, by field. */
interface Columns {
  readonly dialect: SqlDialect;
  name(field: string): string;
  quoted(field: string): string;
  /** The expression that is compared. */
  compared(field: string): string;
  /** The expression that is sorted by. */
  ordered(field: string): string;
  scalar(field: string, value: Scalar): SqlParameter;
  encode(field: TableField, value: JsonValue | undefined): SqlParameter;
  decode(field: TableField, value: unknown): JsonValue;
}

function createColumns(table: EntityTable, dialect: SqlDialect): Columns {
  const mappingOf = (field: string) => table.mapping?.columns.get(field);
  const columns: Columns = {
    dialect,
    name: (field) => mappingOf(field)?.column ?? field,
    quoted: (field) => quote(columns.name(field)),
    compared: (field) => mappingOf(field)?.compared?.(columns.quoted(field)) ?? columns.quoted(field),
    ordered: (field) => {
      const isText = table.fields.some(({ name, kind }) => name === field && kind === "string");
      const column = columns.compared(field);
      return isText && mappingOf(field)?.encode === undefined ? `${column} ${dialect.collation}` : column;
    },
    scalar: (field, value) => {
      const encoded = mappingOf(field)?.encode?.(value) ?? value;
      return typeof encoded === "boolean" ? Number(encoded) : encoded;
    },
    encode: (field, value) => {
      if (value === undefined || value === null) return null;
      if (field.kind !== "json" && isScalar(value)) return columns.scalar(field.name, value);
      return JSON.stringify(value);
    },
    decode: ({ name, kind }, value) => {
      if (value === undefined || value === null) return null;
      const decode = mappingOf(name)?.decode;
      if (decode !== undefined) return decode(value);
      switch (kind) {
        case "boolean":
          return value === true || value === 1;
        case "integer":
        case "number":
          return Number(value);
        case "json":
          // Written by JSON.stringify, or parsed already by the driver of a JSON column.
          return (typeof value === "string" ? JSON.parse(value) : value) as JsonValue;
        case "string":
          return typeof value === "string" ? value : JSON.stringify(value);
      }
    },
  };
  return columns;
}

/** Binds a parameter and returns its placeholder. */
type AddParameter = (value: SqlParameter) => string;

function statement({ placeholder }: SqlDialect, write: (add: AddParameter) => string): SqlStatement {
  const values: SqlParameter[] = [];
  return { text: write((value) => placeholder(values.push(value))), values };
}

const comparisonSymbols = { eq: "=", gt: ">", gte: ">=", lt: "<", lte: "<=" } as const;

function conditionSql(condition: RowCondition, columns: Columns, add: AddParameter): string {
  switch (condition.kind) {
    case "all":
      return "1 = 1";
    case "and":
    case "or": {
      if (condition.parts.length === 0) return condition.kind === "and" ? "1 = 1" : "1 = 0";
      const operator = condition.kind === "and" ? " AND " : " OR ";
      return `(${condition.parts.map((part) => conditionSql(part, columns, add)).join(operator)})`;
    }
    case "not":
      return `NOT ${conditionSql(condition.part, columns, add)}`;
    case "compare": {
      const { field, operator } = condition;
      const column = columns.compared(field);
      const value = add(columns.scalar(field, condition.value));
      // Never NULL, so that NOT of a comparison with a null field is true.
      if (operator === "ne") return `(${column} IS NULL OR ${column} <> ${value})`;
      return `(${column} IS NOT NULL AND ${columns.ordered(field)} ${comparisonSymbols[operator]} ${value})`;
    }
    case "in": {
      if (condition.values.length === 0) return "1 = 0";
      const column = columns.compared(condition.field);
      const list = condition.values.map((value) => add(columns.scalar(condition.field, value)));
      return `(${column} IS NOT NULL AND ${column} IN (${list.join(", ")}))`;
    }
    case "contains":
    case "startsWith": {
      const column = columns.compared(condition.field);
      return `(${column} IS NOT NULL AND ${columns.dialect[condition.kind](column, add(condition.value))})`;
    }
    case "isNull":
      return `(${columns.compared(condition.field)} IS ${condition.value ? "" : "NOT "}NULL)`;
  }
}

/** All rows after a position: greater in the first key, or equal there and greater in the next, and so on. */
function afterSql(
  [key, ...rest]: readonly SortKey[],
  [value = null, ...others]: readonly (Scalar | null)[],
  columns: Columns,
  add: AddParameter,
): string {
  if (key === undefined) return "1 = 0";
  const column = columns.compared(key.field);
  const ordered = columns.ordered(key.field);
  const further = afterSql(rest, others, columns, add);
  if (value === null) {
    const greater = key.descending ? "1 = 0" : `${column} IS NOT NULL`;
    return `(${greater} OR (${column} IS NULL AND ${further}))`;
  }
  const bound = add(columns.scalar(key.field, value));
  const greater = key.descending
    ? `(${column} IS NULL OR ${ordered} < ${bound})`
    : `(${column} IS NOT NULL AND ${ordered} > ${bound})`;
  const same = add(columns.scalar(key.field, value));
  return `(${greater} OR (${column} IS NOT NULL AND ${column} = ${same} AND ${further}))`;
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
