import { closeSync, existsSync, openSync, statSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import type { DatabaseSync, StatementSync } from "node:sqlite";

import { GatewayError } from "../../errors.ts";
import { makePrivate } from "../../lib/keys/private-file.ts";
import type { ColumnValue, SqlDatabase, SqlRow } from "./sql-database.ts";
import type { ReaderDeps } from "./sql-reader.ts";
import { openSqlReader, openSqlStore } from "./sql-store.ts";
import type { RecordReader, RecordStore } from "./store-contract.ts";
import { Database } from "../../lib/sqlite.ts";

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
  /** Refuses writes while the write-ahead log is larger, which a long reader keeps it. Default: 256 MiB. */
  readonly maxWalBytes?: number;
}

const defaultMaxWalBytes = 268_435_456;

/** Pages freed per step: 8 MB, about 50 ms. */
const vacuumPages = 2000;

/** Opens a SQLite file, which only its owner can read. */
export function openSqlite(options: SqliteOptions): SqlDatabase {
  const { file, readOnly = false, maxPages, isDurable = false, maxWalBytes = defaultMaxWalBytes } = options;
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

  const walFile = `${file}-wal`;
  let identity: string | undefined;
  let walIdentity: string | undefined;
  let isFileGone = false;
  let isGone = false;

  /** Throws if the open files are not those at their paths: what is written then, nobody can read. */
  function checkFiles(): void {
    if (readOnly) return;
    const wal = identityOf(walFile);
    // It exists from the first write on, as long as this connection is open.
    walIdentity ??= wal;
    isFileGone ||= identityOf(file) !== identity;
    isGone ||= isFileGone || wal !== walIdentity;
    if (isGone) throw new StoreGoneError(file, isFileGone);
  }

  /** Throws if a reader keeps the write-ahead log from being emptied. */
  function checkWal(): void {
    if (walBytes() <= maxWalBytes) return;
    checkpoint();
    const bytes = walBytes();
    if (bytes <= maxWalBytes) return;
    throw new Error(
      `a reader has kept the write-ahead log (${walFile}) from being emptied, and it is ${bytes} bytes long; end the reader`,
    );
  }

  const walBytes = (): number => statSync(walFile, { throwIfNoEntry: false })?.size ?? 0;

  /** Empties the write-ahead log, without waiting for readers. */
  function checkpoint(): void {
    database.exec("PRAGMA busy_timeout = 0");
    try {
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } finally {
      database.exec("PRAGMA busy_timeout = 5000");
    }
  }

  const pragma = (name: string): number => Number(Object.values(prepared(`PRAGMA ${name}`).get() ?? {})[0]);

  if (!readOnly) {
    // In WAL mode a killed process neither corrupts the file nor loses a commit (sqlite.org/wal.html).
    database.exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;");
    database.exec(`PRAGMA synchronous = ${isDurable ? "FULL" : "NORMAL"}`);
    database.exec("PRAGMA journal_size_limit = 8388608; PRAGMA wal_autocheckpoint = 2000;");
    identity = identityOf(file);
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
          checkFiles();
          checkWal();
          database.exec("BEGIN IMMEDIATE");
        });
        try {
          const value = await work(own);
          await attempt(() => {
            database.exec("COMMIT");
            checkFiles();
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
      await inTurn(() => attempt(checkpoint));
    },
    check: () => attempt(checkFiles),
    close: async () => {
      await queue;
      if (!database.isOpen) return;
      // SQLite itself does not do this for a file that was moved, which then lacks what stands in the log.
      if (isGone) await attempt(checkpoint).catch(() => {});
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
    return new Database(file, { readOnly, timeout: 5000 });
  } catch (error) {
    throw sqliteError(file, error);
  }
}

/** The error of a store whose file was deleted or moved; it has to be opened anew. */
export class StoreGoneError extends Error {
  /** Whether the file itself is gone. Of a log that is gone, everything is written to the file at the end. */
  readonly isFileGone: boolean;

  constructor(file: string, isFileGone: boolean) {
    super(`${file} was deleted or moved`);
    this.isFileGone = isFileGone;
  }
}

/** Device and inode of a file; undefined if there is none. */
function identityOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? undefined : `${found.dev} ${found.ino}`;
}

function sqliteError(file: string, cause: unknown): GatewayError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new GatewayError("store_failed", `cannot use the recordings in ${file}: ${reason}`, { cause });
}
