import { DatabaseSync } from "node:sqlite";
import type { StatementSync } from "node:sqlite";

import { GatewayError } from "../../errors.ts";
import { createTableSql } from "./sql.ts";
import type { SqlDialect, SqlStatement, TableSql } from "./sql.ts";
import type { EntityStore, EntityTable } from "./store.ts";

const dialect: SqlDialect = {
  placeholder: (position) => `?${position}`,
  contains: (column, value) => `instr(${column}, ${value}) > 0`,
  startsWith: (column, value) => `substr(${column}, 1, length(${value})) = ${value}`,
  columnType: (kind) => (kind === "integer" || kind === "boolean" ? "INTEGER" : kind === "number" ? "REAL" : "TEXT"),
  collation: "COLLATE BINARY",
  same: (column, value) => `${column} IS ${value}`,
};

const maxPrepared = 200;

/**
 * A store in a SQLite file, or in memory without one, by the driver built into Node. A call blocks the process while
 * it runs, so it suits lists that an index serves.
 */
export function sqliteStore(file: string | DatabaseSync = ":memory:"): EntityStore {
  const database = typeof file === "string" ? new DatabaseSync(file) : file;
  const tables = new Map<string, TableSql>();
  const prepared = new Map<string, StatementSync>();
  const sqlOf = (table: EntityTable): TableSql => {
    const sql = tables.get(table.name) ?? createTableSql(table, dialect);
    tables.set(table.name, sql);
    return sql;
  };
  const prepare = (text: string): StatementSync => {
    const known = prepared.get(text);
    if (known !== undefined) return known;
    if (prepared.size >= maxPrepared) prepared.clear();
    const statement = database.prepare(text);
    prepared.set(text, statement);
    return statement;
  };
  const run = ({ text, values }: SqlStatement): number => Number(prepare(text).run(...values).changes);
  return {
    open: async (all) => {
      database.exec("PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON");
      for (const table of all) openTable(database, table, sqlOf(table));
    },
    list: async (table, query) => {
      const sql = sqlOf(table);
      const { text, values } = sql.list(query);
      return prepare(text)
        .all(...values)
        .map((raw) => sql.decode(raw));
    },
    count: async (table, where) => {
      const { text, values } = sqlOf(table).count(where);
      return Number(prepare(text).get(...values)?.["count"] ?? 0);
    },
    apply: async (changes) => {
      // Synchronous from BEGIN to COMMIT: nothing else of this process gets in between.
      database.exec("BEGIN IMMEDIATE");
      try {
        for (const [index, change] of changes.entries()) {
          if (run(sqlOf(change.table).change(change)) === 1) continue;
          database.exec("ROLLBACK");
          return { ok: false, index, problem: change.kind === "insert" ? "duplicate" : "stale" };
        }
        database.exec("COMMIT");
        return { ok: true };
      } catch (error) {
        if (database.isTransaction) database.exec("ROLLBACK");
        throw error;
      }
    },
    check: async () => {
      prepare("SELECT 1").get();
    },
    close: async () => {
      prepared.clear();
      if (typeof file === "string" && database.isOpen) database.close();
    },
  };
}

/** Makes the table and the columns that are missing; a foreign table is only looked at. */
function openTable(database: DatabaseSync, table: EntityTable, sql: TableSql): void {
  const name = table.mapping?.name ?? table.name;
  const isOurs = table.mapping?.isManaged ?? true;
  if (isOurs) database.exec(sql.create);
  const existing = new Set(
    database
      .prepare("SELECT name FROM pragma_table_info(?)")
      .all(name)
      .map((row) => row["name"]),
  );
  for (const field of table.fields) {
    const column = table.mapping?.columns.get(field.name)?.column ?? field.name;
    if (existing.has(column)) continue;
    if (!isOurs) {
      throw new GatewayError(
        "config_invalid",
        `entity ${table.entity}: the table ${name} has no column ${column} for the field ${field.name}`,
      );
    }
    database.exec(`ALTER TABLE "${name}" ADD COLUMN "${column}" ${dialect.columnType(field.kind)}`);
  }
}
