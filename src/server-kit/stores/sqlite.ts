import { statSync } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";

import { GatewayError } from "../../errors.ts";
import { createSql, type SqlDialect, type SqlStatement } from "./sql.ts";
import type { EntityStore } from "./store.ts";
import { openDatabase } from "../../lib/lazy-modules.ts";

const dialect: SqlDialect = {
  placeholder: (position) => `?${position}`,
  contains: (column, value) => `instr(${column}, ${value}) > 0`,
  startsWith: (column, value) => `substr(${column}, 1, length(${value})) = ${value}`,
  columnType: (kind) => (kind === "integer" || kind === "boolean" ? "INTEGER" : kind === "number" ? "REAL" : "TEXT"),
  collation: "COLLATE BINARY",
  addColumn: "ADD COLUMN",
  same: (column, value) => `${column} IS ${value}`,
};

const maxPrepared = 200;

/**
 * A store in a SQLite file, or in memory without one, with the driver built into Node. A query blocks the process
 * while it runs, so use it where an index serves the lists.
 *
 * @example
 * const kit = await createServerKit({ name: "notes", entities: [Note], store: sqliteStore("notes.db") });
 */
export function sqliteStore(file: string | DatabaseSync = ":memory:"): EntityStore {
  const database = typeof file === "string" ? openDatabase(file) : file;
  const sqlOf = createSql(dialect);
  const prepared = new Map<string, StatementSync>();
  const prepare = (text: string): StatementSync => {
    const known = prepared.get(text);
    if (known !== undefined) return known;
    if (prepared.size >= maxPrepared) prepared.clear();
    const statement = database.prepare(text);
    prepared.set(text, statement);
    return statement;
  };
  const requireFile = createFileCheck(database);
  const run = ({ text, values }: SqlStatement): number => Number(prepare(text).run(...values).changes);
  return {
    open: async (tables) => {
      database.exec("PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON");
      for (const table of tables) {
        const sql = sqlOf(table);
        if (sql.create !== undefined) database.exec(sql.create);
        const rows = database.prepare("SELECT name FROM pragma_table_info(?)").all(sql.name);
        for (const text of sql.addColumns(new Set(rows.map((row) => row["name"])))) database.exec(text);
        for (const text of sql.createIndexes) database.exec(text);
      }
      requireFile();
    },
    list: async (table, query) => {
      requireFile();
      const sql = sqlOf(table);
      const { text, values } = sql.list(query);
      return prepare(text)
        .all(...values)
        .map((raw) => sql.decode(raw));
    },
    count: async (table, where) => {
      requireFile();
      const { text, values } = sqlOf(table).count(where);
      return Number(prepare(text).get(...values)?.["count"] ?? 0);
    },
    apply: async (changes) => {
      requireFile();
      // Synchronous from BEGIN to COMMIT, so that no other call of this process interferes.
      database.exec("BEGIN IMMEDIATE");
      let index = 0;
      try {
        for (const change of changes) {
          if (run(sqlOf(change.table).change(change)) !== 1) {
            database.exec("ROLLBACK");
            return { ok: false, index, problem: change.kind === "insert" ? "duplicate" : "stale" };
          }
          index += 1;
        }
        database.exec("COMMIT");
        return { ok: true };
      } catch (error) {
        if (database.isTransaction) database.exec("ROLLBACK");
        if (isUniqueViolation(error)) return { ok: false, index, problem: "duplicate" };
        throw error;
      }
    },
    check: async () => {
      requireFile();
      prepare("SELECT 1").get();
    },
    close: async () => {
      prepared.clear();
      if (typeof file === "string" && database.isOpen) database.close();
    },
  };
}

/** Whether SQLite refused a value that another row has (SQLITE_CONSTRAINT_UNIQUE). */
function isUniqueViolation(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === 2067;
}

/**
 * Creates the check that the files of a database are still those that it opened. SQLite itself keeps reading and
 * writing a file that was deleted or moved, and everything written is lost when the process ends.
 */
function createFileCheck(database: DatabaseSync): () => void {
  const opened = new Map<string, string>();
  return () => {
    const file = database.location();
    if (file === null || file === "") return;
    for (const path of [file, `${file}-wal`]) {
      const found = statSync(path, { throwIfNoEntry: false });
      const identity = found === undefined ? undefined : `${found.dev}:${found.ino}`;
      const before = opened.get(path);
      if (before === identity) continue;
      if (before === undefined && identity !== undefined) {
        opened.set(path, identity);
        continue;
      }
      const change = identity === undefined ? "was deleted or moved away" : "was replaced";
      throw new GatewayError("store_failed", `${path} ${change} while in use; put it back and restart`);
    }
  };
}
