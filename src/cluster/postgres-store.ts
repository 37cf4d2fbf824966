import type * as Driver from "pg";
import type { Pool } from "pg";

import { GatewayError } from "../errors.ts";
import type { SharedStore, SharedStoreOptions } from "./shared-store.ts";
import { commandMs, connectMs, createStoreAccess, leaseMs } from "./store-access.ts";

export interface SharedPostgresOptions extends SharedStoreOptions {
  /** Connection string. */
  readonly url: string;
}

/** The lock keeps gateways that start together from creating a table twice, which is an error in PostgreSQL. */
const schema = `
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('headgate_state'));
CREATE TABLE IF NOT EXISTS headgate_nodes (node text PRIMARY KEY, url text NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS headgate_ended (session text PRIMARY KEY, expires timestamptz NOT NULL,
  noted timestamptz NOT NULL DEFAULT now());
CREATE INDEX IF NOT EXISTS headgate_ended_noted ON headgate_ended (noted);
CREATE TABLE IF NOT EXISTS headgate_owners (session text PRIMARY KEY, node text NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS headgate_tasks (task text PRIMARY KEY, node text NOT NULL, owner text NOT NULL,
  expires timestamptz NOT NULL);
COMMIT;
`;

const tables = ["nodes", "ended", "owners", "tasks"] as const;
const inFuture = (parameter: string): string => `now() + ${parameter} * interval '1 millisecond'`;

/** Sets the owner unless the present one is alive. Nothing is returned if it is. */
const claim = `
INSERT INTO headgate_owners AS mine VALUES ($1, $2, ${inFuture("$3")})
ON CONFLICT (session) DO UPDATE SET node = excluded.node, expires = excluded.expires
WHERE mine.node = excluded.node
  OR NOT EXISTS (SELECT FROM headgate_nodes WHERE headgate_nodes.node = mine.node AND headgate_nodes.expires > now())
RETURNING node`;

/**
 * How far back each poll reads what has ended. Later than this, notices may have been missed. Polling, because LISTEN and
 * NOTIFY take a lock over all databases of the server at each commit.
 */
const noticeSeconds = 10;
/** Expired rows are deleted once in so many polls. */
const cleanUpEvery = 60;

/** Opens a store on PostgreSQL, with tables of its own. */
export function openSharedPostgres(options: SharedPostgresOptions): SharedStore {
  const { node, advertise, clock, events } = options;
  const peers = new Map<string, string>();
  const access = createStoreAccess(options);
  let pool: Pool | undefined;
  let hasSchema = false;
  let polls = 0;
  let polledAt = clock.now();

  const query = async <Row extends object>(sql: string, values: readonly unknown[] = []): Promise<readonly Row[]> =>
    access.run(async () => {
      if (pool === undefined) throw new Error("not connected");
      return (await pool.query<Row>(sql, [...values])).rows;
    });

  async function open(): Promise<void> {
    const { Pool: PoolClass } = await loadDriver();
    pool = new PoolClass({
      connectionString: options.url,
      max: 4,
      connectionTimeoutMillis: connectMs,
      query_timeout: commandMs,
    });
    // The pool replaces an idle connection that breaks; the next command tells whether the store is away.
    pool.on("error", () => {});
  }

  /** Renews the lease, reads who else has one, and which sessions have ended. */
  async function renew(): Promise<void> {
    if (!hasSchema) await query(schema);
    hasSchema = true;
    if (advertise !== undefined) {
      await query(
        `INSERT INTO headgate_nodes VALUES ($1, $2, ${inFuture("$3")})
        ON CONFLICT (node) DO UPDATE SET expires = excluded.expires`,
        [node, advertise, leaseMs],
      );
    }
    const alive = await query<{ node: string; url: string }>(
      "SELECT node, url FROM headgate_nodes WHERE expires > now() AND node <> $1",
      [node],
    );
    peers.clear();
    for (const peer of alive) peers.set(peer.node, peer.url);
    await readNotices();
    if (++polls % cleanUpEvery === 1)
      for (const table of tables) await query(`DELETE FROM headgate_${table} WHERE expires <= now()`);
  }

  async function readNotices(): Promise<void> {
    const ended = await query<{ session: string }>(
      `SELECT session FROM headgate_ended WHERE noted > now() - interval '${noticeSeconds} seconds'`,
    );
    for (const { session } of ended) events.sessionEnded(session);
    const now = clock.now();
    if (now - polledAt > (noticeSeconds * 1000) / 2) events.reconnected();
    polledAt = now;
  }

  access.keepRenewing(open(), renew);

  return {
    ready: access.ready,
    peers,
    endSession: async (id, expiresAt) => {
      const ttlMs = expiresAt - clock.wall();
      const insert = `INSERT INTO headgate_ended VALUES ($1, ${inFuture("$2")}) ON CONFLICT DO NOTHING`;
      await query(insert, [id, ttlMs]);
    },
    hasEnded: async (ids) => {
      const select = "SELECT session FROM headgate_ended WHERE session = ANY($1) AND expires > now()";
      const ended = new Set((await query<{ session: string }>(select, [ids])).map(({ session }) => session));
      return ids.map((id) => ended.has(id));
    },
    claim: async (session, ttlMs) => {
      const [mine] = await query<{ node: string }>(claim, [session, node, ttlMs]);
      if (mine !== undefined) return mine.node;
      const select = "SELECT node FROM headgate_owners WHERE session = $1";
      const [theirs] = await query<{ node: string }>(select, [session]);
      return theirs?.node ?? node;
    },
    noteTask: async (task, { node: at, owner }, ttlMs) => {
      // A known task stays with its owner.
      const insert = `INSERT INTO headgate_tasks VALUES ($1, $2, $3, ${inFuture("$4")}) ON CONFLICT DO NOTHING`;
      await query(insert, [task, at, owner, ttlMs]);
    },
    findTasks: async (tasks) => {
      const select = "SELECT task, node, owner FROM headgate_tasks WHERE task = ANY($1) AND expires > now()";
      const found = await query<{ task: string; node: string; owner: string }>(select, [tasks]);
      const byTask = new Map(found.map(({ task, node: at, owner }) => [task, { node: at, owner }]));
      return tasks.map((task) => byTask.get(task));
    },
    close: async () => {
      access.close();
      // Peers learn within a second that this one has gone; if not, its lease ends.
      if (advertise !== undefined) await query("DELETE FROM headgate_nodes WHERE node = $1", [node]).catch(() => {});
      // Waits for running commands, which may never be answered.
      void pool?.end().catch(() => {});
    },
  };
}

async function loadDriver(): Promise<Pick<typeof Driver, "Pool">> {
  try {
    return (await import("pg")).default;
  } catch (error) {
    const message = "`state.postgres` needs the package `pg`: npm install pg";
    throw new GatewayError("config_invalid", message, { cause: error });
  }
}
