import { closeSync, existsSync, openSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";

import { GatewayError } from "../../errors.ts";
import type { RecordReader, RecordStore } from "./store-contract.ts";
import { createSqlReader, type ReaderDeps } from "./sql-reader.ts";
import { checkFormat, ensureSchema } from "./schema.ts";
import { createSqlStore, type StoreDeps } from "./sql-store.ts";
import type { ColumnValue, SqlDatabase, SqlRow } from "./sql-database.ts";

/** Opens a file of recordings to write to; it is made where there is none. */
export async function openSqliteStore(file: Omit<SqliteOptions, "readOnly">, options: StoreDeps): Promise<RecordStore> {
  const database = openSqlite(file);
  try {
    await ensureSchema(database);
    return createSqlStore(database, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Opens a file of recordings to read from, also while a gateway writes to it. */
export async function openSqliteReader(file: string, options: ReaderDeps): Promise<RecordReader> {
  if (!existsSync(file)) throw new GatewayError("store_failed", `there are no recordings in ${file}`);
  const database = openSqlite({ file, readOnly: true });
  try {
    await checkFormat(database);
    return createSqlReader(database, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** How a file is opened. */
export interface SqliteOptions {
  readonly file: string;
  /** Only to read: nothing is written, not even the form of the tables. */
  readonly readOnly?: boolean;
  /** Largest size in pages of 4 KiB, for tests of a full disk. */
  readonly maxPages?: number;
  /** Whether a commit waits for the disk, so that not even a loss of power undoes it. */
  readonly isDurable?: boolean;
}

/** How much of the file is given back at a time: some 8 MB, a matter of 50 ms. */
const vacuumPages = 2000;

/** Opens a file of recordings. Whoever made it may read it, nobody else. */
export function openSqlite(options: SqliteOptions): SqlDatabase {
  const { file, readOnly = false, maxPages, isDurable = false } = options;
  const database = openFile(file, readOnly);
  const statements = new Map<string, StatementSync>();
  let queue: Promise<unknown> = Promise.resolve();

  function prepared(sql: string): StatementSync {
    let statement = statements.get(sql);
    if (statement === undefined) {
      if (statements.size > 200) statements.clear();
      statement = database.prepare(sql);
      statements.set(sql, statement);
    }
    return statement;
  }

  function attempt<T>(work: () => T): Promise<T> {
    try {
      return Promise.resolve(work());
    } catch (error) {
      return Promise.reject(sqliteError(file, error));
    }
  }

  /** Does one thing after the other, and lets others in between. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = queue.then(async () => {
      // Nothing here waits by itself: long work in many pieces would let nobody in.
      await setImmediate();
      return work();
    });
    queue = result.catch(() => {});
    return result;
  }

  const pragma = (name: string): number => Number(Object.values(prepared(`PRAGMA ${name}`).get() ?? {})[0]);

  if (!readOnly) {
    // A kill never harms the file and undoes no commit (sqlite.org/wal.html).
    database.exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;");
    database.exec(`PRAGMA synchronous = ${isDurable ? "FULL" : "NORMAL"}`);
    database.exec("PRAGMA journal_size_limit = 8388608; PRAGMA wal_autocheckpoint = 2000;");
    if (maxPages !== undefined) database.exec(`PRAGMA max_page_count = ${maxPages}`);
  }
  database.exec("PRAGMA cache_size = -8000; PRAGMA temp_store = MEMORY;");

  const own: SqlDatabase = {
    dialect: "sqlite",
    location: file,
    all: (sql, values = []) => attempt(() => prepared(sql).all(...values) as unknown as readonly SqlRow[]),
    run: (sql, values: readonly ColumnValue[] = []) => attempt(() => Number(prepared(sql).run(...values).changes)),
    transaction: (work) =>
      inTurn(async () => {
        await attempt(() => {
          database.exec("BEGIN IMMEDIATE");
        });
        try {
          const value = await work(own);
          await attempt(() => {
            database.exec("COMMIT");
          });
          return value;
        } catch (error) {
          // A full disk has rolled it back already.
          if (database.isTransaction) database.exec("ROLLBACK");
          throw error;
        }
      }),
    bytes: () => attempt(() => (pragma("page_count") - pragma("freelist_count")) * pragma("page_size")),
    compact: async () => {
      let left = Number.POSITIVE_INFINITY;
      let free = await attempt(() => pragma("freelist_count"));
      // In steps: to give back much takes seconds, and what is to be written meanwhile must not wait as long.
      while (free > 0 && free < left) {
        left = free;
        free = await inTurn(() =>
          attempt(() => {
            database.exec(`PRAGMA incremental_vacuum(${vacuumPages})`);
            return pragma("freelist_count");
          }),
        );
      }
      await inTurn(() =>
        attempt(() => {
          database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
        }),
      );
    },
    close: async () => {
      await queue;
      if (!database.isOpen) return;
      statements.clear();
      database.close();
    },
  };
  return own;
}

function openFile(file: string, readOnly: boolean): DatabaseSync {
  try {
    // Made by us before SQLite does it, which would leave it readable for all.
    if (!readOnly) closeSync(openSync(file, "a", 0o600));
    return new DatabaseSync(file, { readOnly, timeout: 5000 });
  } catch (error) {
    throw sqliteError(file, error);
  }
}

function sqliteError(file: string, cause: unknown): GatewayError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new GatewayError("store_failed", `the recordings in ${file} cannot be used: ${reason}`, { cause });
}
