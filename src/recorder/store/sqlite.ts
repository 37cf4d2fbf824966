import { closeSync, existsSync, statSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import type { DatabaseSync, StatementSync } from "node:sqlite";

import { GatewayError } from "../../errors.ts";
import {
  type DatabaseFiles,
  describeDamage,
  emptyLog,
  type FileDamage,
  type OpenDatabaseFile,
  openDatabaseFile,
  watchDatabaseFiles,
} from "../../lib/keys/database-files.ts";
import { makePrivate } from "../../lib/keys/private-file.ts";
import { type ColumnValue, type SqlDatabase, type SqlRow, storeError } from "./sql-database.ts";
import type { ReaderDeps } from "./sql-reader.ts";
import { openSqlReader, openSqlStore } from "./sql-store.ts";
import type { RecordReader, RecordStore } from "./store-contract.ts";
import { openDatabase } from "../../lib/lazy-modules.ts";

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
  /** Maximum size in pages of 16 KiB, to test a full disk. */
  readonly maxPages?: number;
  /** Whether commits survive a power loss; they then wait for the disk. */
  readonly isDurable?: boolean;
  /** Refuses writes while the write-ahead log is larger, which a long reader keeps it. Default: 256 MiB. */
  readonly maxWalBytes?: number;
}

const defaultMaxWalBytes = 268_435_456;

/** Four times the usual: each page costs four system calls on its way into the log and from there into the file. */
const pageBytes = 16_384;
/** Pages freed per step: 8 MB, about 50 ms. */
const vacuumPages = 500;
/** Pages in the write-ahead log after which they are copied into the file. */
const checkpointPages = 500;

/** Opens a SQLite file, which only its owner can read. */
export function openSqlite(options: SqliteOptions): SqlDatabase {
  const { file, readOnly = false, maxPages, isDurable = false, maxWalBytes = defaultMaxWalBytes } = options;
  const { database, files } = openFile(file, readOnly);
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
      return Promise.reject(storeError(file, error));
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

  /** Throws if the files are not as SQLite left them: what is written then, nobody can read. */
  function checkFiles(): void {
    const damage = files?.damage();
    if (damage !== undefined) throw new StoreGoneError(file, damage);
  }

  /** Copies the log into the file as SQLite would by itself, but not into a file that another program has overwritten. */
  function checkpoint(): void {
    checkFiles();
    if ((files?.logFrames() ?? 0) < checkpointPages) return;
    database.exec("PRAGMA wal_checkpoint(PASSIVE)");
    // From now on, the file is known as it is.
    checkFiles();
  }

  /** Throws if a reader keeps the write-ahead log from being emptied. */
  function checkWal(): void {
    if (walBytes() <= maxWalBytes) return;
    emptyLog(database);
    const bytes = walBytes();
    if (bytes <= maxWalBytes) return;
    throw new Error(
      `a reader has kept the write-ahead log (${walFile}) from being emptied, and it is ${bytes} bytes long; end the reader`,
    );
  }

  const walBytes = (): number => statSync(walFile, { throwIfNoEntry: false })?.size ?? 0;

  const pragma = (name: string): number => Number(Object.values(prepared(`PRAGMA ${name}`).get() ?? {})[0]);

  if (!readOnly) {
    // In WAL mode a killed process neither corrupts the file nor loses a commit (sqlite.org/wal.html).
    database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${isDurable ? "FULL" : "NORMAL"}`);
    database.exec("PRAGMA journal_size_limit = 8388608; PRAGMA wal_autocheckpoint = 0");
    if (maxPages !== undefined) database.exec(`PRAGMA max_page_count = ${maxPages}`);
  }
  // Where SQLite expects to save work by an index made for one query, it reads every exchange to make it.
  database.exec("PRAGMA cache_size = -4000; PRAGMA temp_store = MEMORY; PRAGMA automatic_index = OFF;");

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
            checkpoint();
          });
          return value;
        } catch (error) {
          // After a full disk SQLite has rolled back already.
          if (database.isTransaction) database.exec("ROLLBACK");
          files?.failed(error instanceof GatewayError ? error.cause : error);
          await attempt(checkFiles);
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
            checkFiles();
            database.exec(`PRAGMA incremental_vacuum(${vacuumPages})`);
            checkpoint();
            return pragma("freelist_count");
          }),
        );
      }
      await inTurn(() =>
        attempt(() => {
          checkFiles();
          emptyLog(database);
          checkFiles();
        }),
      );
    },
    check: () => attempt(checkFiles),
    close: async () => {
      await queue;
      if (!database.isOpen) return;
      statements.clear();
      if (files === undefined) database.close();
      else files.close();
    },
  };
  return own;
}

function openFile(file: string, readOnly: boolean): { database: DatabaseSync; files: DatabaseFiles | undefined } {
  try {
    if (readOnly) return { database: openDatabase(file, { readOnly, timeout: 5000 }), files: undefined };
    // SQLite would create the file readable for everyone; its neighbours get the permissions of the file.
    const own = openDatabaseFile(file, "headgate");
    makePrivate([file, `${file}-wal`, `${file}-shm`]);
    return openWatched(own);
  } catch (error) {
    throw storeError(file, error);
  }
}

function openWatched(own: OpenDatabaseFile): { database: DatabaseSync; files: DatabaseFiles } {
  let database: DatabaseSync | undefined;
  try {
    database = openDatabase(own.file, { timeout: 5000 });
    if (own.isNew) database.exec(`PRAGMA page_size = ${pageBytes}; PRAGMA auto_vacuum = INCREMENTAL;`);
    return { database, files: watchDatabaseFiles(own, database) };
  } catch (error) {
    database?.close();
    closeSync(own.handle);
    throw error;
  }
}

/** The error of a store whose files others have changed; it has to be reopened. */
export class StoreGoneError extends Error {
  readonly damage: FileDamage;

  constructor(file: string, damage: FileDamage) {
    super(describeDamage(file, damage));
    this.damage = damage;
  }
}
