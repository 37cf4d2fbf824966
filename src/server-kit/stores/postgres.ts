import { Socket } from "node:net";

import { GatewayError } from "../../errors.ts";
import { type SetTimer, systemTimer } from "../../lib/clock.ts";
import { settlesWithin } from "../../lib/timeout.ts";
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
  ): Promise<{ readonly rows: readonly Readonly<Record<string, unknown>>[]; readonly rowCount: number | null }>;
  release(fault?: Error): void;
  on?(event: "error", listener: (error: Error) => void): unknown;
}

/** The part of a `pg` pool that the store uses. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
  end(): Promise<void>;
  on?(event: "error", listener: (error: Error) => void): unknown;
  on?(event: "connect" | "acquire", listener: (client: Pick<PostgresClient, "on">) => void): unknown;
}

/** The options of `postgresStore`. */
export interface PostgresStoreOptions {
  /** The longest that one list, count or change may take, connecting included. Default: 10 s. */
  readonly timeoutMs?: number;
  /** For tests. @internal */
  readonly setTimer?: SetTimer;
}

const defaultTimeoutMs = 10_000;
/** How long `close` waits for the goodbye of the server before it cuts the connections. */
const closeTimeoutMs = 2000;

/** A pool of the store's own. */
interface OwnPool {
  readonly pool: PostgresPool;
  /** Cuts all connections. */
  destroy(): void;
}

/**
 * A store in PostgreSQL, from a connection string or a pool, which stays yours to close. Needs the optional package
 * `pg`, which is loaded when the store opens. What takes longer than `timeoutMs` fails, and its connection is cut.
 *
 * @example
 * const store = postgresStore("postgres://localhost/notes");
 * const kit = await createServerKit({ name: "notes", entities: [Note], store });
 */
export function postgresStore(connection: string | PostgresPool, options: PostgresStoreOptions = {}): EntityStore {
  const { timeoutMs = defaultTimeoutMs, setTimer = systemTimer } = options;
  const sqlOf = createSql(dialect);
  let pool = typeof connection === "string" ? undefined : connection;
  let own: OwnPool | undefined;

  /** Uses one connection for a while; cuts it if the work fails or takes too long. */
  async function use<Result>(work: (client: PostgresClient) => Promise<Result>): Promise<Result> {
    if (pool === undefined) throw new GatewayError("store_failed", "the store is not open");
    const late = Promise.withResolvers<never>();
    const cancel = setTimer(timeoutMs, () => late.reject(new Error(`PostgreSQL did not answer in ${timeoutMs} ms`)));
    try {
      const connecting = pool.connect();
      let client: PostgresClient;
      try {
        client = await Promise.race([connecting, late.promise]);
      } catch (error) {
        // A connection that comes after all goes back to the pool.
        void connecting.then(
          (unused) => unused.release(),
          () => {},
        );
        throw error;
      }
      return await lend(client, async () => Promise.race([work(client), late.promise]));
    } finally {
      cancel();
    }
  }

  return {
    open: async (tables) => {
      if (typeof connection === "string" && own === undefined) {
        own = await connect(connection, timeoutMs);
        pool = own.pool;
      }
      if (pool !== undefined) ignoreLostConnections(pool);
      await use(async (client) => {
        for (const table of tables) await openTable(client, sqlOf(table));
      });
    },
    list: async (table, query) => {
      const sql = sqlOf(table);
      const { text, values } = sql.list(query);
      const { rows } = await use(async (client) => client.query(text, [...values]));
      return rows.map((raw) => sql.decode(raw));
    },
    count: async (table, where) => {
      const { text, values } = sqlOf(table).count(where);
      const { rows } = await use(async (client) => client.query(text, [...values]));
      return Number(rows[0]?.["count"] ?? 0);
    },
    apply: async (changes) => use(async (client) => applyAll(client, changes, sqlOf, timeoutMs)),
    check: async () => {
      await use(async (client) => client.query("SELECT 1"));
    },
    close: async () => {
      pool = undefined;
      if (own === undefined) return;
      const owned = own;
      own = undefined;
      // A server that hangs does not say goodbye, and must not keep this process from ending.
      const ended = owned.pool.end();
      if (await settlesWithin(ended, closeTimeoutMs, setTimer)) return;
      owned.destroy();
      await settlesWithin(ended, closeTimeoutMs, setTimer);
    },
  };
}

const watchedPools = new WeakSet<PostgresPool>();

/**
 * Keeps a terminated backend from ending the process: without a listener for `error` Node throws. The query that the
 * loss breaks fails anyway, and the pool replaces the connection. The pool listens only to idle connections.
 */
function ignoreLostConnections(pool: PostgresPool): void {
  if (watchedPools.has(pool)) return;
  watchedPools.add(pool);
  const watched = new WeakSet<object>();
  const watch = (client: Pick<PostgresClient, "on">): void => {
    if (watched.has(client)) return;
    watched.add(client);
    client.on?.("error", ignoreError);
  };
  pool.on?.("error", ignoreError);
  pool.on?.("connect", watch);
  // A connection that a host's pool had before.
  pool.on?.("acquire", watch);
}

function ignoreError(): void {
  // See ignoreLostConnections.
}

/** Runs work on a borrowed connection. The pool discards a connection on which something failed. */
async function lend<Result>(client: PostgresClient, work: () => Promise<Result>): Promise<Result> {
  let fault: Error | undefined;
  try {
    return await work();
  } catch (error) {
    fault = error instanceof Error ? error : new Error(String(error));
    throw error;
  } finally {
    client.release(fault);
  }
}

async function applyAll(
  client: PostgresClient,
  changes: readonly RowChange[],
  sqlOf: (table: EntityTable) => TableSql,
  timeoutMs: number,
): Promise<ApplyResult> {
  // The server gives up a statement that waits for a lock, even if its result is no longer read.
  await client.query(`BEGIN; SET LOCAL statement_timeout = ${Math.max(1, Math.ceil(timeoutMs))}`);
  for (const [index, change] of changes.entries()) {
    const { text, values } = sqlOf(change.table).change(change);
    const changed = await client.query(text, [...values]).then(
      ({ rowCount }) => rowCount === 1,
      (error: unknown) => {
        if (isUniqueViolation(error)) return "duplicate";
        throw error;
      },
    );
    if (changed === true) continue;
    await client.query("ROLLBACK");
    const problem = changed === "duplicate" || change.kind === "insert" ? "duplicate" : "stale";
    return { ok: false, index, problem };
  }
  await client.query("COMMIT");
  return { ok: true };
}

/** Whether PostgreSQL refused a value that another row has. */
function isUniqueViolation(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "23505";
}

async function openTable(client: PostgresClient, sql: TableSql): Promise<void> {
  if (sql.create !== undefined) await client.query(sql.create);
  const { rows } = await client.query(
    "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
    [`"${sql.name}"`],
  );
  const existing = new Set(rows.map((row) => row["attname"]));
  for (const text of sql.addColumns(existing)) await client.query(text);
  for (const text of sql.createIndexes) await client.query(text);
}

async function connect(connectionString: string, timeoutMs: number): Promise<OwnPool> {
  const { default: pg } = await import("pg").catch((error: unknown) => {
    throw new GatewayError("config_invalid", "postgresStore needs the package pg; install it with: npm install pg", {
      cause: error,
    });
  });
  const sockets = new Set<Socket>();
  const stream = (): Socket => {
    const socket = new Socket();
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    return socket;
  };
  return {
    pool: new pg.Pool({ connectionString, connectionTimeoutMillis: timeoutMs, stream }),
    destroy: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}
