import { GatewayError } from "../../errors.ts";
import { createTableSql } from "./sql.ts";
import type { SqlDialect, TableSql } from "./sql.ts";
import type { ApplyResult, RowChange, EntityStore, EntityTable } from "./store.ts";

const dialect: SqlDialect = {
  placeholder: (position) => `$${position}`,
  contains: (column, value) => `strpos(${column}, ${value}) > 0`,
  startsWith: (column, value) => `starts_with(${column}, ${value})`,
  columnType: (kind) => {
    switch (kind) {
      case "integer":
        return "bigint";
      case "number":
        return "double precision";
      case "boolean":
        return "smallint";
      case "string":
      case "json":
        return "text";
    }
  },
  collation: 'COLLATE "C"',
  same: (column, value) => `${column} IS NOT DISTINCT FROM ${value}`,
};

/** One connection of a pool, as far as the store needs it. */
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

/** A pool of the package `pg`, or what looks like one. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  query: PostgresClient["query"];
  end(): Promise<void>;
}

/**
 * A store in PostgreSQL, by a connection string or a pool that stays yours. Needs the optional package `pg`, which is
 * loaded when the store opens.
 */
export function postgresStore(connection: string | PostgresPool): EntityStore {
  const tables = new Map<string, TableSql>();
  let pool = typeof connection === "string" ? undefined : connection;
  const sqlOf = (table: EntityTable): TableSql => {
    const sql = tables.get(table.name) ?? createTableSql(table, dialect);
    tables.set(table.name, sql);
    return sql;
  };
  const opened = (): PostgresPool => {
    if (pool === undefined) throw new GatewayError("store_failed", "the store is not open");
    return pool;
  };
  return {
    open: async (all) => {
      if (typeof connection === "string") pool ??= await connect(connection);
      const client = await opened().connect();
      try {
        for (const table of all) await openTable(client, table, sqlOf(table));
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
        // A connection that failed inside a transaction is not given to anybody else.
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

async function openTable(client: PostgresClient, table: EntityTable, sql: TableSql): Promise<void> {
  const name = table.mapping?.name ?? table.name;
  const isOurs = table.mapping?.isManaged ?? true;
  if (isOurs) await client.query(sql.create);
  const { rows } = await client.query(
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
    [`"${name}"`],
  );
  const existing = new Set(rows.map((row) => row["attname"]));
  for (const field of table.fields) {
    const column = table.mapping?.columns.get(field.name)?.column ?? field.name;
    if (existing.has(column)) continue;
    if (!isOurs) {
      throw new GatewayError(
        "config_invalid",
        `entity ${table.entity}: the table ${name} has no column ${column} for the field ${field.name}`,
      );
    }
    await client.query(`ALTER TABLE "${name}" ADD COLUMN IF NOT EXISTS "${column}" ${dialect.columnType(field.kind)}`);
  }
}

async function connect(connectionString: string): Promise<PostgresPool> {
  const { default: pg } = await import("pg").catch((error: unknown) => {
    throw new GatewayError("config_invalid", "postgresStore needs the package pg; install it with: npm install pg", {
      cause: error,
    });
  });
  const pool = new pg.Pool({ connectionString });
  // A connection that breaks while nobody uses it is replaced by the pool; without a listener it ends the process.
  pool.on("error", () => {});
  return pool;
}
