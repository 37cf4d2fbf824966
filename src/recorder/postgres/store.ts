import type { RecordReader, RecordStore } from "../store-contract.ts";
import { createSqlReader, type ReaderDeps } from "../sql/reader.ts";
import { checkFormat, ensureSchema } from "../sql/schema.ts";
import { createSqlStore, type StoreDeps } from "../sql/store.ts";
import { openPostgres } from "./database.ts";

/** Opens recordings in a PostgreSQL database to write to; tables are made where there are none. */
export async function openPostgresStore(url: string, options: StoreDeps): Promise<RecordStore> {
  const database = await openPostgres(url);
  try {
    await ensureSchema(database);
    return createSqlStore(database, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Opens recordings in a PostgreSQL database to read from. */
export async function openPostgresReader(url: string, options: ReaderDeps): Promise<RecordReader> {
  const database = await openPostgres(url);
  try {
    await checkFormat(database);
    return createSqlReader(database, options);
  } catch (error) {
    await database.close();
    throw error;
  }
}
