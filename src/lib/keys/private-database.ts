import { closeSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";

import { openDatabase } from "../lazy-modules.ts";
import { type DatabaseFiles, describeDamage, openDatabaseFile, watchDatabaseFiles } from "./database-files.ts";
import { makePrivate } from "./private-file.ts";

/** A private database of the state folder, which several processes may use. */
export interface PrivateDatabase<Statements> {
  /**
   * Works with its statements. If others have changed its files, they are opened again before. Throws if they cannot be
   * opened, and the next call tries again.
   */
  use<Answer>(work: (statements: Statements) => Answer): Answer;
  close(): void;
}

/** What a private database consists of. */
export interface PrivateDatabaseOptions<Statements> {
  /** In memory without a file. */
  readonly file: string | undefined;
  /** One of its tables, by which a file is known. */
  readonly table: string;
  readonly tables: string;
  readonly prepare: (database: DatabaseSync) => Statements;
  /** Others have changed the files, and the content is lost. Called before the statements are used again. */
  readonly onLost?: ((message: string, statements: Statements) => void) | undefined;
}

interface Opened<Statements> {
  readonly statements: Statements;
  readonly files: Pick<DatabaseFiles, "damage" | "failed" | "close">;
}

/** Opens a private database and makes its tables. */
export function openPrivateDatabase<Statements>(
  options: PrivateDatabaseOptions<Statements>,
): PrivateDatabase<Statements> {
  const { file = ":memory:", onLost } = options;
  let opened: Opened<Statements> | undefined = open(options);
  let lost: string | undefined;

  function ready(): Opened<Statements> {
    const damage = opened?.files.damage();
    if (damage !== undefined) {
      // Of a log that was moved, everything is written to the file at the end.
      if (damage !== "log moved") lost = describeDamage(file, damage);
      opened?.files.close();
      opened = undefined;
    }
    const present = (opened ??= open(options));
    if (lost !== undefined) {
      onLost?.(lost, present.statements);
      lost = undefined;
    }
    return present;
  }

  return {
    use: (work) => {
      const { statements, files } = ready();
      try {
        return work(statements);
      } catch (error) {
        files.failed(error);
        throw error;
      }
    },
    close: () => opened?.files.close(),
  };
}

function open<Statements>({ file, table, tables, prepare }: PrivateDatabaseOptions<Statements>): Opened<Statements> {
  const own = file === undefined ? undefined : openDatabaseFile(file, table);
  let database: DatabaseSync | undefined;
  try {
    database = openDatabase(file ?? ":memory:", { timeout: 2000 });
    const files = own === undefined ? inMemory(database) : watchDatabaseFiles(own, database);
    database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; ${tables}`);
    if (file !== undefined) makePrivate([file, `${file}-wal`, `${file}-shm`]);
    return { statements: prepare(database), files };
  } catch (error) {
    if (database?.isOpen === true) database.close();
    if (own !== undefined) closeSync(own.handle);
    throw error;
  }
}

const inMemory = (database: DatabaseSync): Opened<unknown>["files"] => ({
  damage: () => undefined,
  failed: () => {},
  close: () => database.close(),
});
