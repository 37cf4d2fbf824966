import type { FilterCondition } from "../contract.ts";
import { requiredWords } from "../filter/condition.ts";
import { captureStride, type SqlDatabase, type ColumnValue } from "./sql-database.ts";
import { columnOf, dimensionColumns, type DimensionTable } from "./columns.ts";

/** A condition as SQL. Where it is not exact it lets more through, and what comes is looked at again. */
export interface SqlCondition {
  readonly sql: string;
  readonly values: readonly ColumnValue[];
  readonly isExact: boolean;
}

const matchAll: SqlCondition = { sql: "1 = 1", values: [], isExact: false };

/** Writes a condition as SQL over the columns of `exchange`; what is about texts can be left to the second look. */
export function toSql(condition: FilterCondition, dialect: SqlDatabase["dialect"], leavesTexts = false): SqlCondition {
  switch (condition.type) {
    case "all":
      return joinConditions(condition.of, " AND ", "1 = 1", dialect, leavesTexts);
    case "any":
      return joinConditions(condition.of, " OR ", "1 = 0", dialect, leavesTexts);
    case "not": {
      const inner = toSql(condition.of, dialect, leavesTexts);
      // More than it should be, turned round, would be less.
      return inner.isExact ? { ...inner, sql: `NOT COALESCE(${inner.sql}, 1 = 0)` } : matchAll;
    }
    case "is": {
      const { field, value } = condition;
      if (field === "capture") {
        const number = "(SELECT number FROM capture WHERE capture.id = ?)";
        const sql = `(exchange.position >= ${number} * ${captureStride} AND exchange.position < (${number} + 1) * ${captureStride})`;
        return { sql, values: [value, value], isExact: true };
      }
      const column = `exchange.${columnOf.get(field) ?? field}`;
      // There is an index of what has not come to its end; the planner must be told that this is asked for.
      const hint = field === "state" && value === "open" ? "exchange.duration_ms IS NULL AND " : "";
      return { sql: `(${hint}${column} = ?)`, values: [value], isExact: true };
    }
    case "number": {
      const { field, is, value } = condition;
      const column = `exchange.${columnOf.get(field) ?? field}`;
      // The index only holds what took long; the planner must be told that this is asked for.
      const hint = field === "durationMs" && is.startsWith(">") && value >= 100 ? `${column} >= 100 AND ` : "";
      return { sql: `(${hint}${column} ${is} ?)`, values: [value], isExact: true };
    }
    case "modified":
      return { sql: "exchange.modified = 1", values: [], isExact: true };
    case "text":
      return leavesTexts ? matchAll : textSql(condition.text, dialect);
    case "like":
    case "pattern":
      return patternSql(condition, dialect);
    default:
      throw new TypeError("there is no such condition");
  }
}

function joinConditions(
  parts: readonly FilterCondition[],
  word: string,
  empty: string,
  dialect: SqlDatabase["dialect"],
  leavesTexts: boolean,
): SqlCondition {
  const written = parts.map((part) => toSql(part, dialect, leavesTexts));
  if (written.length === 0) return { sql: empty, values: [], isExact: true };
  return {
    sql: `(${written.map(({ sql }) => sql).join(word)})`,
    values: written.flatMap(({ values }) => values),
    isExact: written.every(({ isExact }) => isExact),
  };
}

/** Databases fold upper and lower case as we do for ASCII only; what goes beyond is left to the second look. */
function patternSql(
  condition: Extract<FilterCondition, { type: "like" | "pattern" }>,
  dialect: SqlDatabase["dialect"],
): SqlCondition {
  const { field, pattern } = condition;
  if (field === "capture") return matchAll;
  const column = `exchange.${columnOf.get(field) ?? field}`;
  if (condition.type === "pattern" || !/^[\x20-\x7e]*$/u.test(pattern))
    return { sql: `${column} IS NOT NULL`, values: [], isExact: false };
  const like = pattern.replaceAll(/[%\\_]/gu, String.raw`\$&`).replaceAll(/\*+/gu, "%");
  const word = dialect === "sqlite" ? "LIKE" : "ILIKE";
  return { sql: `${column} ${word} ? ESCAPE '\\'`, values: [like], isExact: false };
}

function textSql(text: string, dialect: SqlDatabase["dialect"]): SqlCondition {
  const words = requiredWords(text);
  if (words === undefined) return matchAll;
  const { whole, begin } = words;
  // What the index does not hold yet may have it too.
  const unindexed = `exchange.position IN (
    SELECT pack.owner FROM capture JOIN pack
      ON pack.position > capture.number * ${captureStride} + capture.indexed_seq
      AND pack.position <= capture.number * ${captureStride} + capture.last_seq
    WHERE capture.last_seq > capture.indexed_seq)`;
  const matching =
    dialect === "sqlite"
      ? "SELECT rowid FROM frame_words WHERE frame_words MATCH ?"
      : "SELECT position FROM frame_words WHERE words @@ CAST(? AS tsquery)";
  const query =
    dialect === "sqlite"
      ? [...whole.map((word) => `"${word}"`), `"${begin}" *`].join(" AND ")
      : [...whole.map((word) => `'${word}'`), `'${begin}':*`].join(" & ");
  return {
    sql: `(exchange.position IN (SELECT owner FROM pack WHERE position IN (${matching})) OR ${unindexed})`,
    values: [query],
    isExact: false,
  };
}

/**
 * What the shared rows of everything have that fits a condition, as SQL over the columns of their table; undefined where
 * the condition does not say.
 */
export function toDimensionSql(
  condition: FilterCondition,
  table: DimensionTable,
): Pick<SqlCondition, "sql" | "values"> | undefined {
  if (condition.type === "is") {
    const column = dimensionColumns[table].get(condition.field);
    return column === undefined ? undefined : { sql: `${table}.${column} = ?`, values: [condition.value] };
  }
  if (condition.type !== "all" && condition.type !== "any") return undefined;
  const parts = condition.of.map((part) => toDimensionSql(part, table));
  const known = parts.filter((part) => part !== undefined);
  // Of several, one that does not say is enough for any to fit.
  if (known.length === 0 || (condition.type === "any" && known.length < parts.length)) return undefined;
  return {
    sql: `(${known.map(({ sql }) => sql).join(condition.type === "all" ? " AND " : " OR ")})`,
    values: known.flatMap(({ values }) => values),
  };
}
