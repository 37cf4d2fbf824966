import { closeSync, existsSync, openSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";

import { GatewayError } from "../../errors.ts";
import { makePrivate } from "../../lib/private-file.ts";
import type { ColumnValue, SqlDatabase, SqlRow } from "./sql-database.ts";
import type { ReaderDeps } from "./sql-reader.ts";
import { openSqlReader, openSqlStore } from "./sql-store.ts";
import type { RecordReader, RecordStore } from "./store-contract.ts";

/** Opens a SQLite file to write to, and creates it if needed. */
export async function openSqliteStore(file: Omit<SqliteOptions, "readOnly">, deps: ReaderDeps): Promise<RecordStore> {
  return openSqlStore(openSqlite(file), deps);
}

/** Opens a SQLite file to read from, also while a gateway writes to it. */
export async function openSqliteReader(file: string, deps: ReaderDeps): Promise<RecordReader> {
  if (!existsSync(file)) throw new GatewayError("store_failed", `no recordings found: ${file} does not exist`);
  return openSqlReader(openSqlite({ file, readOnly: true }), deps);
}

/** How a file is opened. */
export interface SqliteOptions {
  readonly file: string;
  /** Nothing is written, not even the tables. */
  readonly readOnly?: boolean;
  /** Maximum size in pages of 4 KiB, to test a full disk. */
  readonly maxPages?: number;
  /** Whether commits survive a power loss; they then wait for the disk. */
  readonly isDurable?: boolean;
}

/** Pages freed per step: 8 MB, about 50 ms. */
const vacuumPages = 2000;

/** Opens a SQLite file, which only its owner can read. */
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

  /** Runs one task after the other. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = queue.then(async () => {
      // SQLite never waits, so a long series of tasks would block the event loop.
      await setImmediate();
      return work();
    });
    queue = result.catch(() => {});
    return result;
  }

  const pragma = (name: string): number => Number(Object.values(prepared(`PRAGMA ${name}`).get() ?? {})[0]);

  if (!readOnly) {
    // In WAL mode a killed process neither corrupts the file nor loses a commit (sqlite.org/wal.html).
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
          // After a full disk SQLite has rolled back already.
          if (database.isTransaction) database.exec("ROLLBACK");
          throw error;
        }
      }),
    bytes: () => attempt(() => (pragma("page_count") - pragma("freelist_count")) * pragma("page_size")),
    compact: async () => {
      let left = Number.POSITIVE_INFINITY;
      let free = await attempt(() => pragma("freelist_count"));
      // In steps, so that writes do not wait for seconds.
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
    // SQLite would create the file readable for everyone; its neighbours get the permissions of the file.
    if (!readOnly) {
      closeSync(openSync(file, "a", 0o600));
      makePrivate([file, `${file}-wal`, `${file}-shm`]);
    }
    return new DatabaseSync(file, { readOnly, timeout: 5000 });
  } catch (error) {
    throw sqliteError(file, error);
  }
}

function sqliteError(file: string, cause: unknown): GatewayError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new GatewayError("store_failed", `cannot use the recordings in ${file}: ${reason}`, { cause });
}
