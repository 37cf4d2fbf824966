import type { FilterCondition } from "../contract.ts";
import { requiredWords } from "../filter/condition.ts";
import { exchangeFields, type DimensionTable } from "../exchange-fields.ts";
import { columnOf } from "./schema.ts";
import { captureStride, type ColumnValue, type SqlDatabase } from "./sql-database.ts";

/** A condition as SQL. If it is not exact it lets more through, and each row is checked again. */
export interface SqlCondition {
  readonly sql: string;
  readonly values: readonly ColumnValue[];
  readonly isExact: boolean;
}

const matchAll: SqlCondition = { sql: "1 = 1", values: [], isExact: false };

/** Writes a condition as SQL over `exchange_view AS exchange`; text conditions can be left to the second check. */
export function toSql(condition: FilterCondition, dialect: SqlDatabase["dialect"], skipsTexts = false): SqlCondition {
  switch (condition.type) {
    case "all":
      return joinConditions(condition.of, " AND ", "1 = 1", dialect, skipsTexts);
    case "any":
      return joinConditions(condition.of, " OR ", "1 = 0", dialect, skipsTexts);
    case "not": {
      const inner = toSql(condition.of, dialect, skipsTexts);
      // A condition that lets too much through would, negated, let too little through.
      return inner.isExact ? { ...inner, sql: `NOT COALESCE(${inner.sql}, 1 = 0)` } : matchAll;
    }
    case "is": {
      const { field, value } = condition;
      if (field === "capture") {
        const number = "(SELECT number FROM capture WHERE capture.id = ?)";
        const sql = `(exchange.position >= ${number} * ${captureStride} AND exchange.position < (${number} + 1) * ${captureStride})`;
        return { sql, values: [value, value], isExact: true };
      }
      const column = columnOf(field);
      // Lets the planner use the index of unfinished exchanges.
      const hint = field === "state" && value === "open" ? "exchange.duration_ms IS NULL AND " : "";
      return { sql: `(${hint}${column} = ?)`, values: [value], isExact: true };
    }
    case "number": {
      const { field, is, value } = condition;
      const column = columnOf(field);
      // Lets the planner use the index, which only holds durations of 100 ms and more.
      const hint = field === "durationMs" && is.startsWith(">") && value >= 100 ? `${column} >= 100 AND ` : "";
      return { sql: `(${hint}${column} ${is} ?)`, values: [value], isExact: true };
    }
    case "modified":
      return { sql: "exchange.modified = 1", values: [], isExact: true };
    case "text":
      return skipsTexts ? matchAll : textSql(condition.text, dialect);
    case "like":
    case "pattern":
      return patternSql(condition, dialect);
    default:
      throw new TypeError("unknown condition type");
  }
}

function joinConditions(
  parts: readonly FilterCondition[],
  word: string,
  empty: string,
  dialect: SqlDatabase["dialect"],
  skipsTexts: boolean,
): SqlCondition {
  const written = parts.map((part) => toSql(part, dialect, skipsTexts));
  if (written.length === 0) return { sql: empty, values: [], isExact: true };
  return {
    sql: `(${written.map(({ sql }) => sql).join(word)})`,
    values: written.flatMap(({ values }) => values),
    isExact: written.every(({ isExact }) => isExact),
  };
}

/** Databases fold case as we do for ASCII only; other patterns are left to the second check. */
function patternSql(
  condition: Extract<FilterCondition, { type: "like" | "pattern" }>,
  dialect: SqlDatabase["dialect"],
): SqlCondition {
  const { field, pattern } = condition;
  if (field === "capture") return matchAll;
  const column = columnOf(field);
  if (condition.type === "pattern" || !isAscii(pattern))
    return { sql: `${column} IS NOT NULL`, values: [], isExact: false };
  const word = dialect === "sqlite" ? "LIKE" : "ILIKE";
  return { sql: `${column} ${word} ? ESCAPE '\\'`, values: [likePattern(pattern)], isExact: false };
}

function isAscii(pattern: string): boolean {
  return /^[\x20-\x7e]*$/u.test(pattern);
}

function likePattern(pattern: string): string {
  return pattern.replaceAll(/[%\\_]/gu, String.raw`\$&`).replaceAll(/\*+/gu, "%");
}

function textSql(text: string, dialect: SqlDatabase["dialect"]): SqlCondition {
  const words = requiredWords(text);
  if (words === undefined) return matchAll;
  const { whole, begin } = words;
  // Frames that are not indexed yet may have the text too.
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

/** What a condition says of the rows of a table, as SQL over it; undefined if it does not restrict them. */
export function toDimensionSql(
  condition: FilterCondition,
  table: DimensionTable,
): Pick<SqlCondition, "sql" | "values"> | undefined {
  if (condition.type === "is") {
    const { field, value } = condition;
    if (field === "capture" || exchangeFields[field].table !== table) return undefined;
    return { sql: `${table}.${exchangeFields[field].column} = ?`, values: [value] };
  }
  if (condition.type === "like") {
    const { field, pattern } = condition;
    // Both databases fold ASCII letters alike; the exchanges found are checked again.
    if (field === "capture" || exchangeFields[field].table !== table || !isAscii(pattern)) return undefined;
    const sql = `LOWER(${table}.${exchangeFields[field].column}) LIKE ? ESCAPE '\\'`;
    return { sql, values: [likePattern(pattern).toLowerCase()] };
  }
  if (condition.type !== "all" && condition.type !== "any") return undefined;
  const parts = condition.of.map((part) => toDimensionSql(part, table));
  const known = parts.filter((part) => part !== undefined);
  // An alternative that does not restrict the rows makes the whole condition unrestricted.
  if (known.length === 0 || (condition.type === "any" && known.length < parts.length)) return undefined;
  return {
    sql: `(${known.map(({ sql }) => sql).join(condition.type === "all" ? " AND " : " OR ")})`,
    values: known.flatMap(({ values }) => values),
  };
}
