import type { DatabaseSync } from "node:sqlite";

import { makePrivate } from "./private-file.ts";
import { openDatabase } from "../lazy-modules.ts";

/** Opens a private database of the state folder, which several processes may use, and makes its tables; in memory without a file. */
export function openPrivateDatabase(file: string | undefined, tables: string): DatabaseSync {
  const database = openDatabase(file ?? ":memory:");
  database.exec(`PRAGMA busy_timeout = 2000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; ${tables}`);
  if (file !== undefined) makePrivate([file, `${file}-wal`, `${file}-shm`]);
  return database;
}
