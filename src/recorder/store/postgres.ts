import type * as Driver from "pg";
import type { Pool, PoolClient } from "pg";

import { GatewayError } from "../../errors.ts";
import { type ColumnValue, type SqlDatabase, type SqlRow, storeError } from "./sql-database.ts";
import type { ReaderDeps } from "./sql-reader.ts";
import { openSqlReader, openSqlStore } from "./sql-store.ts";
import type { RecordReader, RecordStore } from "./store-contract.ts";

/** Opens a PostgreSQL database to write to, and creates its tables if needed. */
export async function openPostgresStore(url: string, deps: ReaderDeps): Promise<RecordStore> {
  return openSqlStore(await openPostgres(url), deps);
}

/** Opens a PostgreSQL database to read from. */
export async function openPostgresReader(url: string, deps: ReaderDeps): Promise<RecordReader> {
  return openSqlReader(await openPostgres(url), deps);
}

const tables = ["capture", "pack", "exchange", "caller", "outcome", "block", "frame_words"];

const connectMs = 5000;
/**
 * The server itself ends a statement of a transaction that takes longer, such as one that waits for a lock. The writer
 * thread gives up earlier; without this its statements would pile up in the server.
 */
const statementMs = 30_000;

/** Opens a PostgreSQL database. Only this function loads the driver `pg`. */
export async function openPostgres(url: string): Promise<SqlDatabase> {
  const location = locationOf(url);
  const driver = await loadDriver();
  const pool: Pool = new driver.Pool({
    connectionString: url,
    max: 4,
    connectionTimeoutMillis: connectMs,
    types: withNumbers(driver.types),
  });
  // The pool replaces an idle connection that breaks.
  pool.on("error", () => {});

  async function query(
    client: Pool | PoolClient,
    sql: string,
    values: readonly ColumnValue[],
  ): Promise<{ readonly rows: readonly SqlRow[]; readonly count: number }> {
    try {
      // The driver returns sums, which are exact decimals, as text.
      const result = await client.query<Record<string, ColumnValue>>(numbered(sql), [...values]);
      return { rows: result.rows, count: result.rowCount ?? 0 };
    } catch (error) {
      throw storeError(location, error);
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
    location,
    ...over(pool),
    transaction: async (work) => {
      let client: PoolClient;
      try {
        client = await pool.connect();
      } catch (error) {
        throw storeError(location, error);
      }
      let broken: Error | undefined;
      try {
        // Without values, so that both go in one round trip.
        await query(client, `BEGIN; SET LOCAL statement_timeout = ${statementMs}`, []);
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
    check: async () => {},
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

/** The driver returns 8-byte integers as text; ours fit into a number. */
function withNumbers(types: typeof Driver.types): Driver.CustomTypesConfig {
  return {
    getTypeParser: (id, format) => (id === types.builtins.INT8 ? Number : types.getTypeParser(id, format)),
  };
}

/** Turns `?` into `$1`, `$2` and so on; our statements have no other question marks. */
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
