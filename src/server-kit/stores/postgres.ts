import { GatewayError } from "../../errors.ts";
import { createSql, type SqlDialect, type TableSql } from "./sql.ts";
import type { ApplyResult, EntityStore, EntityTable, RowChange } from "./store.ts";

const columnTypes = {
  integer: "bigint",
  number: "double precision",
  boolean: "smallint",
  string: "text",
  json: "text",
} as const;

const dialect: SqlDialect = {
  placeholder: (position) => `$${position}`,
  contains: (column, value) => `strpos(${column}, ${value}) > 0`,
  startsWith: (column, value) => `starts_with(${column}, ${value})`,
  columnType: (kind) => columnTypes[kind],
  collation: 'COLLATE "C"',
  // Another process may add the same column at the same time.
  addColumn: "ADD COLUMN IF NOT EXISTS",
  same: (column, value) => `${column} IS NOT DISTINCT FROM ${value}`,
};

/** The part of a `pg` connection that the store uses. */
export interface PostgresClient {
  query(
    text: string,
    values?: unknown[],
  ): Promise<{
    readonly rows: readonly Readonly<Record<string, unknown>>[];
    readonly rowCount: number | null;
  }>;
  release(fault?: Error): void;
}

/** The part of a `pg` pool that the store uses. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  query: PostgresClient["query"];
  end(): Promise<void>;
}

/**
 * A store in PostgreSQL, from a connection string or a pool, which stays yours to close. Needs the optional package
 * `pg`, which is loaded when the store opens.
 *
 * @example
 * const store = postgresStore("postgres://localhost/notes");
 * const kit = await createServerKit({ name: "notes", entities: [Note], store });
 */
export function postgresStore(connection: string | PostgresPool): EntityStore {
  const sqlOf = createSql(dialect);
  let pool = typeof connection === "string" ? undefined : connection;
  const opened = (): PostgresPool => {
    if (pool === undefined) throw new GatewayError("store_failed", "the store is not open");
    return pool;
  };
  return {
    open: async (tables) => {
      if (typeof connection === "string") pool ??= await connect(connection);
      const client = await opened().connect();
      try {
        for (const table of tables) await openTable(client, sqlOf(table));
      } finally {
        client.release();
      }
    },
    list: async (table, query) => {
      const sql = sqlOf(table);
      const { text, values } = sql.list(query);
      const { rows } = await opened().query(text, [...values]);
      return rows.map((raw) => sql.decode(raw));
    },
    count: async (table, where) => {
      const { text, values } = sqlOf(table).count(where);
      const { rows } = await opened().query(text, [...values]);
      return Number(rows[0]?.["count"] ?? 0);
    },
    apply: async (changes) => {
      const client = await opened().connect();
      let fault: Error | undefined;
      try {
        return await applyAll(client, changes, sqlOf);
      } catch (error) {
        fault = error instanceof Error ? error : new Error(String(error));
        await client.query("ROLLBACK").catch(() => {});
        throw error;
      } finally {
        // The pool discards a connection that failed inside a transaction.
        client.release(fault);
      }
    },
    check: async () => {
      await opened().query("SELECT 1");
    },
    close: async () => {
      if (typeof connection === "string") await pool?.end();
      pool = undefined;
    },
  };
}

async function applyAll(
  client: PostgresClient,
  changes: readonly RowChange[],
  sqlOf: (table: EntityTable) => TableSql,
): Promise<ApplyResult> {
  await client.query("BEGIN");
  for (const [index, change] of changes.entries()) {
    const { text, values } = sqlOf(change.table).change(change);
    const { rowCount } = await client.query(text, [...values]);
    if (rowCount === 1) continue;
    await client.query("ROLLBACK");
    return { ok: false, index, problem: change.kind === "insert" ? "duplicate" : "stale" };
  }
  await client.query("COMMIT");
  return { ok: true };
}

async function openTable(client: PostgresClient, sql: TableSql): Promise<void> {
  if (sql.create !== undefined) await client.query(sql.create);
  const { rows } = await client.query(
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
    [`"${sql.name}"`],
  );
  const existing = new Set(rows.map((row) => row["attname"]));
  for (const text of sql.addColumns(existing)) await client.query(text);
}

async function connect(connectionString: string): Promise<PostgresPool> {
  const { default: pg } = await import("pg").catch((error: unknown) => {
    throw new GatewayError("config_invalid", "postgresStore needs the package pg; install it with: npm install pg", {
      cause: error,
    });
  });
  const pool = new pg.Pool({ connectionString });
  // The pool replaces an idle connection that breaks; without a listener the error would end the process.
  pool.on("error", () => {});
  return pool;
}
