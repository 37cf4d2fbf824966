import pg from "pg";

import { startPostgres } from "./postgres.ts";
import { startRedis } from "./redis.ts";
import type { SharedState } from "./replica-config.ts";

/** A real server for what gateways share, of either kind. */
export interface StoreServer extends AsyncDisposable {
  readonly stop: () => Promise<void>;
  readonly start: () => Promise<void>;
  /** What a proxy connects to: a port of this machine, or a socket file. */
  readonly target: number | string;
  /** A store of its own at this server: leases of gateways that ended while it was away are not in the way of others. */
  readonly createStore: () => Promise<StoreSpace>;
}

/** One store, as an operator sees it. */
export interface StoreSpace {
  readonly state: SharedState;
  /** The same through a proxy. */
  readonly stateVia: (port: number) => SharedState;
  /** How many gateways have joined. */
  readonly gateways: () => Promise<number>;
  /** The lease of the only gateway that has joined; it can be ended as time would. */
  readonly lease: () => Promise<{ readonly end: () => Promise<void> }>;
  /** How many ended sessions it remembers. */
  readonly ended: () => Promise<number>;
  /** Takes everything away. */
  readonly empty: () => Promise<void>;
}

/** The kinds of stores. */
export const storeServers: readonly (readonly [string, () => Promise<StoreServer>])[] = [
  ["Redis", startRedisServer],
  ["PostgreSQL", startPostgresServer],
];

async function startRedisServer(): Promise<StoreServer> {
  const server = await startRedis();
  let stores = 0;

  return {
    stop: server.stop,
    start: server.start,
    target: Number(new URL(server.url).port),
    createStore: async () => {
      const prefix = `test-${stores++}:`;
      const keys = async (of: string): Promise<string[]> => (await server.send("KEYS", `${prefix}${of}:*`)) as string[];
      return {
        state: { redis: { url: server.url, prefix } },
        stateVia: (port) => ({ redis: { url: `redis://127.0.0.1:${port}`, prefix } }),
        gateways: async () => Number(await server.send("SCARD", `${prefix}nodes`)),
        lease: async () => {
          const held = await keys("lease");
          return { end: async () => void (await server.send("DEL", ...held)) };
        },
        ended: async () => (await keys("ended")).length,
        empty: async () => void (await server.send("FLUSHALL")),
      };
    },
    [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
  };
}

const tables = ["nodes", "ended", "owners", "tasks", "users", "rates"].map((name) => `headgate_${name}`);

async function startPostgresServer(): Promise<StoreServer> {
  const server = await startPostgres();
  const folder = decodeURIComponent(/@([^/]+)/u.exec(server.connectionString)?.[1] ?? "");
  let stores = 0;

  async function query(url: string, sql: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  return {
    stop: server.stop,
    start: server.start,
    target: `${folder}/.s.PGSQL.5432`,
    createStore: async () => {
      const database = `test_${stores++}`;
      await query(server.connectionString, `CREATE DATABASE ${database}`);
      const url = server.connectionString.replace(/postgres$/u, database);
      const count = async (what: string): Promise<number> =>
        Number((await query(url, `SELECT count(*) AS count FROM ${what} WHERE expires > now()`))[0]?.["count"]);
      return {
        state: { postgres: url },
        stateVia: (port) => ({ postgres: `postgresql://postgres@127.0.0.1:${port}/${database}` }),
        gateways: async () => count("headgate_nodes"),
        lease: async () => {
          const [held] = await query(url, "SELECT node FROM headgate_nodes");
          return {
            end: async () =>
              void (await query(url, `DELETE FROM headgate_nodes WHERE node = '${String(held?.["node"])}'`)),
          };
        },
        ended: async () => count("headgate_ended"),
        empty: async () => void (await query(url, `TRUNCATE ${tables.join(", ")}`)),
      };
    },
    [Symbol.asyncDispose]: async () => server[Symbol.asyncDispose](),
  };
}
