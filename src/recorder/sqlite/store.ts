import { existsSync } from "node:fs";

import { GatewayError } from "../../errors.ts";
import type { RecordReader, RecordStore } from "../store-contract.ts";
import { createSqlReader } from "../sql/reader.ts";
import type { ReaderDeps } from "../sql/reader.ts";
import { checkFormat, ensureSchema } from "../sql/schema.ts";
import { createSqlStore, type StoreDeps } from "../sql/store.ts";
import { openSqlite, type SqliteOptions } from "./database.ts";

/** Opens a file of recordings to write to; it is made where there is none. */
export async function openSqliteStore(
  file: Omit<SqliteOptions, "readOnly">,
  options: StoreDeps,
): Promise<RecordStore> {
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
