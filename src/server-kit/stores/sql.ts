import { isScalar, type JsonValue, type Row, type Scalar } from "../contract/row.ts";
import type { EntityTable, RowChange, RowCondition, RowQuery, SortKey } from "./store.ts";

/** What SQL calls a value; `null` is a value like others here. */
export type SqlParameter = string | number | null;

/** A statement with its values. */
export interface SqlStatement {
  readonly text: string;
  readonly values: readonly SqlParameter[];
}

/** What differs from one database to the other. */
export interface SqlDialect {
  readonly placeholder: (position: number) => string;
  readonly contains: (column: string, value: string) => string;
  readonly startsWith: (column: string, value: string) => string;
  readonly columnType: (kind: EntityTable["fields"][number]["kind"]) => string;
  /** Makes the order of text that of its bytes. */
  readonly collation: string;
  /** How two values are the same although both may be null. */
  readonly same: (column: string, value: string) => string;
}

/** Writes the statements of one table in one dialect; values never stand in the text. */
export interface TableSql {
  readonly create: string;
  list(query: RowQuery): SqlStatement;
  count(where: RowCondition): SqlStatement;
  change(change: RowChange): SqlStatement;
  /** A row as the driver gave it, in the form of the entity. */
  decode(raw: Readonly<Record<string, unknown>>): Row;
}

/** The statements for a table. */
export function createTableSql(table: EntityTable, dialect: SqlDialect): TableSql {
  const name = quote(table.mapping?.name ?? table.name);
  const columnOf = (field: string): string => quote(table.mapping?.columns.get(field)?.column ?? field);
  const comparedOf = (field: string): string =>
    table.mapping?.columns.get(field)?.compared?.(columnOf(field)) ?? columnOf(field);
  const columns = table.fields.map((field) => columnOf(field.name));
  return {
    create:
      `CREATE TABLE IF NOT EXISTS ${name} (` +
      table.fields
        .map(({ name: field, kind }) => {
          const isKey = field === table.key ? " NOT NULL PRIMARY KEY" : "";
          return `${columnOf(field)} ${dialect.columnType(kind)}${isKey}`;
        })
        .join(", ") +
      ")",
    list: ({ where, sort, after, limit }) => {
      const values = createParameterList(dialect);
      const conditions = [conditionSql(where, values)];
      if (after !== undefined) conditions.push(afterSql(sort, after, values));
      const order = sort.map((key) => orderSql(key)).join(", ");
      const text =
        `SELECT ${columns.join(", ")} FROM ${name} WHERE ${conditions.join(" AND ")} ` +
        `ORDER BY ${order} LIMIT ${values.add(limit)}`;
      return { text, values: values.all };
    },
    count: (where) => {
      const values = createParameterList(dialect);
      const text = `SELECT count(*) AS count FROM ${name} WHERE ${conditionSql(where, values)}`;
      return { text, values: values.all };
    },
    change: (change) => changeSql(change),
    decode: (raw) => {
      const row: Record<string, JsonValue> = {};
      for (const field of table.fields) {
        const value = decoded(field, raw[table.mapping?.columns.get(field.name)?.column ?? field.name]);
        if (value !== null || field.nullable) row[field.name] = value;
      }
      return row;
    },
  };

  function changeSql(change: RowChange): SqlStatement {
    const values = createParameterList(dialect);
    switch (change.kind) {
      case "insert": {
        const list = table.fields.map((field) => values.add(encoded(field, change.row[field.name])));
        const text =
          `INSERT INTO ${name} (${columns.join(", ")}) VALUES (${list.join(", ")}) ` +
          `ON CONFLICT (${columnOf(table.key)}) DO NOTHING`;
        return { text, values: values.all };
      }
      case "replace": {
        const list = table.fields.map(
          (field) => `${columnOf(field.name)} = ${values.add(encoded(field, change.row[field.name]))}`,
        );
        const text = `UPDATE ${name} SET ${list.join(", ")} WHERE ${unchanged(change.expected, values)}`;
        return { text, values: values.all };
      }
      case "remove":
        return {
          text: `DELETE FROM ${name} WHERE ${unchanged(change.expected, values)}`,
          values: values.all,
        };
    }
  }

  function unchanged(expected: Row, values: ParameterList): string {
    return table.fields
      .map((field) => dialect.same(comparedOf(field.name), values.add(encoded(field, expected[field.name]))))
      .join(" AND ");
  }

  function conditionSql(condition: RowCondition, values: ParameterList): string {
    switch (condition.kind) {
      case "all":
        return "1 = 1";
      case "and":
      case "or": {
        if (condition.parts.length === 0) return condition.kind === "and" ? "1 = 1" : "1 = 0";
        const joint = condition.kind === "and" ? " AND " : " OR ";
        return `(${condition.parts.map((part) => conditionSql(part, values)).join(joint)})`;
      }
      case "not":
        return `NOT ${conditionSql(condition.part, values)}`;
      case "compare": {
        const column = comparedOf(condition.field);
        const value = values.add(scalar(condition.field, condition.value));
        // Two-valued on purpose: what is null compares to nothing, and NOT of that is true.
        if (condition.operator === "ne") return `(${column} IS NULL OR ${column} <> ${value})`;
        return `(${column} IS NOT NULL AND ${ordered(condition.field)} ${comparisonSymbols[condition.operator]} ${value})`;
      }
      case "in": {
        if (condition.values.length === 0) return "1 = 0";
        const column = comparedOf(condition.field);
        const list = condition.values.map((value) => values.add(scalar(condition.field, value)));
        return `(${column} IS NOT NULL AND ${column} IN (${list.join(", ")}))`;
      }
      case "contains":
      case "startsWith": {
        const column = comparedOf(condition.field);
        return `(${column} IS NOT NULL AND ${dialect[condition.kind](column, values.add(condition.value))})`;
      }
      case "isNull":
        return `(${comparedOf(condition.field)} IS ${condition.value ? "" : "NOT "}NULL)`;
    }
  }

  /** Everything behind a position: greater in the first key, or the same there and greater in the next, and so on. */
  function afterSql(sort: readonly SortKey[], after: readonly (Scalar | null)[], values: ParameterList): string {
    const [key, ...rest] = sort;
    if (key === undefined) return "1 = 0";
    const [value = null, ...others] = after;
    const column = comparedOf(key.field);
    const further = afterSql(rest, others, values);
    if (value === null) {
      const beyond = key.descending ? "1 = 0" : `${column} IS NOT NULL`;
      return `(${beyond} OR (${column} IS NULL AND ${further}))`;
    }
    const bound = values.add(scalar(key.field, value));
    const beyond = key.descending
      ? `(${column} IS NULL OR ${ordered(key.field)} < ${bound})`
      : `(${column} IS NOT NULL AND ${ordered(key.field)} > ${bound})`;
    const same = values.add(scalar(key.field, value));
    return `(${beyond} OR (${column} IS NOT NULL AND ${column} = ${same} AND ${further}))`;
  }

  function orderSql({ field, descending }: SortKey): string {
    return `${ordered(field)} ${descending ? "DESC NULLS LAST" : "ASC NULLS FIRST"}`;
  }

  function ordered(field: string): string {
    const isText = table.fields.some(({ name: other, kind }) => other === field && kind === "string");
    const isPlain = table.mapping?.columns.get(field)?.encode === undefined;
    return isText && isPlain ? `${comparedOf(field)} ${dialect.collation}` : comparedOf(field);
  }

  function scalar(field: string, value: Scalar): SqlParameter {
    return plain(table.mapping?.columns.get(field)?.encode?.(value) ?? value);
  }

  function encoded(field: EntityTable["fields"][number], value: unknown): SqlParameter {
    if (value === undefined || value === null) return null;
    if (field.kind !== "json" && isScalar(value)) return scalar(field.name, value);
    return JSON.stringify(value);
  }

  function decoded(field: EntityTable["fields"][number], value: unknown): JsonValue {
    if (value === undefined || value === null) return null;
    const decode = table.mapping?.columns.get(field.name)?.decode;
    if (decode !== undefined) return decode(value);
    switch (field.kind) {
      case "boolean":
        return value === true || value === 1;
      case "integer":
      case "number":
        return Number(value);
      case "json":
        // Written by JSON.stringify, or by a driver that parsed a JSON column already.
        return (typeof value === "string" ? JSON.parse(value) : value) as JsonValue;
      case "string":
        return typeof value === "string" ? value : JSON.stringify(value);
    }
  }
}

const comparisonSymbols = { eq: "=", gt: ">", gte: ">=", lt: "<", lte: "<=" } as const;

interface ParameterList {
  readonly all: readonly SqlParameter[];
  add(value: SqlParameter): string;
}

function createParameterList({ placeholder }: SqlDialect): ParameterList {
  const all: SqlParameter[] = [];
  return { all, add: (value) => placeholder(all.push(value)) };
}

function plain(value: Scalar): SqlParameter {
  return typeof value === "boolean" ? Number(value) : value;
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
