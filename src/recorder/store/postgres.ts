import type * as Driver from "pg";
import type { Pool, PoolClient } from "pg";

import type { RecordReader, RecordStore } from "./store-contract.ts";
import { createSqlReader, type ReaderDeps } from "./sql-reader.ts";
import { checkFormat, ensureSchema } from "./schema.ts";
import { createSqlStore, type StoreDeps } from "./sql-store.ts";
import { GatewayError } from "../../errors.ts";
import type { ColumnValue, SqlDatabase, SqlRow } from "./sql-database.ts";

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

/** All tables of recordings. */
const tables = ["capture", "pack", "exchange_own", "party", "subject", "block", "document", "frame_words"];

/** Opens a PostgreSQL database. The driver `pg` is loaded here and nowhere else. */
export async function openPostgres(url: string): Promise<SqlDatabase> {
  const place = locationOf(url);
  const driver = await loadDriver();
  const pool: Pool = new driver.Pool({ connectionString: url, max: 4, types: withNumbers(driver.types) });
  // A connection that breaks while nobody uses it is replaced when one is needed.
  pool.on("error", () => {});

  async function query(
    client: Pool | PoolClient,
    sql: string,
    values: readonly ColumnValue[],
  ): Promise<{ readonly rows: readonly SqlRow[]; readonly count: number }> {
    try {
      // Sums come as exact decimals, which are text to the driver.
      const result = await client.query<Record<string, ColumnValue>>(numbered(sql), [...values]);
      return { rows: result.rows, count: result.rowCount ?? 0 };
    } catch (error) {
      throw postgresError(place, error);
    }
  }

  function over(client: Pool | PoolClient): Pick<SqlDatabase, "all" | "run"> {
    return {
      all: async (sql, values = []) => (await query(client, sql, values)).rows,
      run: async (sql, values = []) => (await query(client, sql, values)).count,
    };
  }

  const own: SqlDatabase = {
    dialect: "postgres",
    location: place,
    ...over(pool),
    transaction: async (work) => {
      let client: PoolClient;
      try {
        client = await pool.connect();
      } catch (error) {
        throw postgresError(place, error);
      }
      let broken: Error | undefined;
      try {
        await query(client, "BEGIN", []);
        const value = await work({ ...own, ...over(client), transaction: (inner) => inner(own) });
        await query(client, "COMMIT", []);
        return value;
      } catch (error) {
        await client.query("ROLLBACK").catch((reason: unknown) => {
          broken = reason instanceof Error ? reason : new Error(String(reason));
        });
        throw error;
      } finally {
        client.release(broken);
      }
    },
    bytes: async () => {
      const sizes = tables.map((table) => `pg_total_relation_size('${table}')`).join(" + ");
      const { rows } = await query(pool, `SELECT ${sizes} AS bytes`, []);
      return Number(rows[0]?.["bytes"] ?? 0);
    },
    compact: async () => {
      for (const table of tables) await query(pool, `VACUUM ${table}`, []);
    },
    close: async () => {
      if (!pool.ended) await pool.end();
    },
  };
  return own;
}

async function loadDriver(): Promise<Pick<typeof Driver, "Pool" | "types">> {
  try {
    const loaded = await import("pg");
    return loaded.default;
  } catch (cause) {
    const message = "recording to PostgreSQL needs the package `pg`: npm install pg";
    throw new GatewayError("store_failed", message, { cause });
  }
}

/** The driver gives whole numbers of eight bytes as text; ours are small enough to be numbers. */
function withNumbers(types: typeof Driver.types): Driver.CustomTypesConfig {
  return {
    getTypeParser: (id, format) => (id === types.builtins.INT8 ? Number : types.getTypeParser(id, format)),
  };
}

/** `?` to `$1`, `$2` and so on; our statements hold no question mark otherwise. */
function numbered(sql: string): string {
  let count = 0;
  return sql.replaceAll("?", () => `$${++count}`);
}

function locationOf(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url);
    return `${protocol}//${host}${pathname}`;
  } catch {
    return "the PostgreSQL database";
  }
}

function postgresError(place: string, cause: unknown): GatewayError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new GatewayError("store_failed", `the recordings in ${place} cannot be used: ${reason}`, { cause });
}
