import type * as Driver from "pg";
import type { Pool, PoolClient } from "pg";

import { GatewayError } from "../errors.ts";
import { createPeerList } from "./peer-list.ts";
import { openTask, sealTask, type SharedStore, type SharedStoreOptions } from "./shared-store.ts";
import { connectMs, createStoreAccess, leaseMs } from "./store-access.ts";

export interface SharedPostgresOptions extends SharedStoreOptions {
  /** Connection string. */
  readonly url: string;
}

/** The lock keeps gateways that start together from creating a table twice, which PostgreSQL reports as an error. */
const schema = `
SELECT pg_advisory_xact_lock(hashtext('headgate_state'));
CREATE TABLE IF NOT EXISTS headgate_nodes (node text PRIMARY KEY, lease text NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS headgate_ended (session text PRIMARY KEY, expires timestamptz NOT NULL,
  noted timestamptz NOT NULL DEFAULT now());
CREATE INDEX IF NOT EXISTS headgate_ended_noted ON headgate_ended (noted);
CREATE TABLE IF NOT EXISTS headgate_owners (session text PRIMARY KEY, node text NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS headgate_tasks (task text PRIMARY KEY, started text NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS headgate_users (session text, node text, expires timestamptz NOT NULL,
  PRIMARY KEY (session, node));
CREATE UNLOGGED TABLE IF NOT EXISTS headgate_rates (key text PRIMARY KEY, step float8, burst float8, granted int,
  filled float8, expires timestamptz NOT NULL);
`;

const tables = ["nodes", "ended", "owners", "tasks", "users", "rates"] as const;
const inFuture = (parameter: string): string => `now() + ${parameter} * interval '1 millisecond'`;

const isAlive = (node: string): string =>
  `EXISTS (SELECT FROM headgate_nodes WHERE headgate_nodes.node = ${node} AND headgate_nodes.expires > now())`;

/** Sets the owner unless the present one is alive and stays. Nothing is returned if it does. */
const claim = `
INSERT INTO headgate_owners AS mine SELECT $1, $2, ${inFuture("$3")}
WHERE $4 IN ($2, $5) OR NOT ${isAlive("$4")} OR EXISTS (SELECT FROM headgate_owners WHERE session = $1)
ON CONFLICT (session) DO UPDATE SET node = excluded.node, expires = excluded.expires
WHERE mine.node IN (excluded.node, $5) OR NOT ${isAlive("mine.node")}
RETURNING node`;

const ending = `INSERT INTO headgate_ended VALUES ($1, ${inFuture("$2")}) ON CONFLICT DO NOTHING`;
const joining = `
INSERT INTO headgate_users SELECT $1, unnest($2::text[]), ${inFuture("$3")} ON CONFLICT DO NOTHING`;
const otherUsers = `
SELECT FROM headgate_users JOIN headgate_nodes USING (node) WHERE session = $1 AND headgate_nodes.expires > now()`;

/** Writes the lease, and says whether there was one. */
const renewal = `
WITH before AS (SELECT FROM headgate_nodes WHERE node = $1 AND expires > now()),
  written AS (INSERT INTO headgate_nodes VALUES ($1, $2, ${inFuture("$3")})
    ON CONFLICT (node) DO UPDATE SET lease = excluded.lease, expires = excluded.expires)
SELECT EXISTS (SELECT FROM before) AS held`;

const nowMs = "(extract(epoch FROM clock_timestamp()) * 1000)::float8";

/**
 * Gives out tokens by the generic cell rate algorithm: `filled` is the time at which a bucket is full again. In the order of
 * keys, so that gateways do not wait for each other in a circle.
 */
const takeTokens = `
INSERT INTO headgate_rates AS kept (key, step, burst, granted, filled, expires)
SELECT key, step, burst, least(wanted, floor(burst))::int, ${nowMs} + least(wanted, floor(burst)) * step,
  now() + (burst + 1) * step * interval '1 millisecond'
FROM unnest($1::text[], $2::float8[], $3::float8[], $4::int[]) AS given (key, step, burst, wanted) ORDER BY key
ON CONFLICT (key) DO UPDATE SET (granted, filled, expires) = (
  SELECT taken, greatest(kept.filled, at) + taken * excluded.step, excluded.expires
  FROM (SELECT at, greatest(0, least(excluded.granted,
    floor((at - greatest(kept.filled, at)) / excluded.step + excluded.burst + 0.000001)))::int AS taken
    FROM (SELECT ${nowMs} AS at) AS clock) AS taking)
RETURNING key, granted`;

/**
 * How far back each poll reads what has ended. Later than this, notices may have been missed. Polling, because LISTEN and
 * NOTIFY take a lock over all databases of the server at each commit.
 */
const noticeSeconds = 10;
/** Expired rows are deleted once in this many polls. */
const cleanUpEvery = 60;

/** Opens a store on PostgreSQL, with tables of its own. */
export function openSharedPostgres(options: SharedPostgresOptions): SharedStore {
  const { node, seal, clock, events } = options;
  const [list, access] = [createPeerList(options), createStoreAccess(options)];
  let pool: Pool | undefined;
  let hasSchema = false;
  let polls = 0;
  let polledAt = clock.now();

  const query = async <Row extends object>(sql: string, values: readonly unknown[] = []): Promise<readonly Row[]> =>
    access.run(async () => {
      if (pool === undefined) throw new Error("not connected");
      return queryWithin<Row>(await pool.connect(), options.commandMs, sql, values);
    });

  async function open(): Promise<void> {
    const { Pool: PoolClass } = await loadDriver();
    pool = new PoolClass({
      connectionString: options.url,
      max: 4,
      connectionTimeoutMillis: connectMs,
      query_timeout: options.commandMs,
    });
    // The pool replaces an idle connection that breaks; the next command shows whether the store is unavailable.
    pool.on("error", () => {});
    // One that breaks while it is in use fails the query; without a listener, it would end this process, too.
    pool.on("connect", (client) => client.on("error", () => {}));
  }

  /** Renews the lease, reads who else has one, and which sessions have ended. */
  async function renew(): Promise<void> {
    if (!hasSchema) await query(schema);
    hasSchema = true;
    const write = async (): Promise<boolean> =>
      (await query<{ held: boolean }>(renewal, [node, list.lease(), leaseMs])).some(({ held }) => held);
    const isLost = list.wasLost(await write());
    if (isLost) await write();
    const alive = await query<{ node: string; lease: string }>(
      "SELECT node, lease FROM headgate_nodes WHERE expires > now() AND node <> $1",
      [node],
    );
    const held = alive.map((peer): [string, string] => [peer.node, peer.lease]);
    const leftBehind = list.leftBehind(held);
    if (leftBehind.length > 0) await query("DELETE FROM headgate_nodes WHERE node = ANY($1)", [leftBehind]);
    list.read(held.filter(([name]) => !leftBehind.includes(name)));
    events.peersRead();
    if (isLost) events.leaseLost();
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
    refresh: () => renew().catch(() => {}),
    get peers() {
      return list.peers;
    },
    get since() {
      return list.since;
    },
    endSession: async (id, expiresAt) => {
      await query(ending, [id, expiresAt - clock.wall()]);
    },
    hasEnded: async (ids) => {
      const select = "SELECT session FROM headgate_ended WHERE session = ANY($1) AND expires > now()";
      const ended = new Set((await query<{ session: string }>(select, [ids])).map(({ session }) => session));
      return ids.map((id) => ended.has(id));
    },
    claim: async (session, { candidate, ttlMs, holder = "", leaving = "" }) => {
      const [mine] = await query<{ node: string }>(claim, [session, candidate, ttlMs, holder, leaving]);
      if (mine !== undefined) return mine.node;
      const select = "SELECT node FROM headgate_owners WHERE session = $1";
      const [theirs] = await query<{ node: string }>(select, [session]);
      return theirs?.node ?? (holder === "" ? candidate : holder);
    },
    ownersOf: async (sessions) => {
      const select = "SELECT session, node FROM headgate_owners WHERE session = ANY($1) AND expires > now()";
      const rows = await query<{ session: string; node: string }>(select, [sessions]);
      const alive = rows.filter((row) => row.node === node || list.peers.has(row.node));
      const owners = new Map(alive.map((row) => [row.session, row.node]));
      return sessions.map((session) => owners.get(session));
    },
    join: async (session, nodes, ttlMs) => {
      await query(joining, [session, nodes, ttlMs]);
    },
    leave: async (session) => {
      await query("DELETE FROM headgate_users WHERE session = $1 AND node = $2", [session, node]);
      return (await query(otherUsers, [session])).length > 0;
    },
    takeTokens: async (wanted) => {
      const columns = [
        wanted.map(({ key }) => key),
        wanted.map(({ perSecond }) => 1000 / perSecond),
        wanted.map(({ burst }) => burst),
        wanted.map(({ count }) => count),
      ];
      const rows = await query<{ key: string; granted: number }>(takeTokens, columns);
      const granted = new Map(rows.map((row) => [row.key, row.granted]));
      return wanted.map(({ key }) => granted.get(key) ?? 0);
    },
    noteTask: async (task, started, ttlMs) => {
      // A known task stays with its owner.
      const insert = `INSERT INTO headgate_tasks VALUES ($1, $2, ${inFuture("$3")}) ON CONFLICT DO NOTHING`;
      await query(insert, [task, sealTask(seal, task, started), ttlMs]);
    },
    findTasks: async (tasks) => {
      const select = "SELECT task, started FROM headgate_tasks WHERE task = ANY($1) AND expires > now()";
      const found = await query<{ task: string; started: string }>(select, [tasks]);
      const byTask = new Map(found.map(({ task, started }) => [task, openTask(seal, task, started)]));
      return tasks.map((task) => byTask.get(task));
    },
    close: async () => {
      access.close();
      // Peers learn within a second that this gateway is gone; otherwise its lease expires.
      await query("DELETE FROM headgate_nodes WHERE node = $1", [node]).catch(() => {});
      // Waits for running commands, which may never be answered.
      void pool?.end().catch(() => {});
    },
  };
}

/**
 * Runs a statement in a transaction with a limit. Otherwise, a server whose tables are locked would go on waiting for each
 * statement that was given up here, with a connection for each. The limit is of the transaction, because servers between may
 * give the connection to others (PgBouncer).
 */
async function queryWithin<Row extends object>(
  client: PoolClient,
  limitMs: number,
  sql: string,
  values: readonly unknown[],
): Promise<readonly Row[]> {
  try {
    await client.query(`BEGIN; SET LOCAL statement_timeout = ${Math.ceil(limitMs)}`);
    const { rows } = await client.query<Row>(sql, [...values]);
    await client.query("COMMIT");
    client.release();
    return rows;
  } catch (error) {
    // After an answer of the server, the connection is as good as before. If there was none, it is closed.
    const isAnswer = /^[\dA-Z]{5}$/u.test(String((Object(error) as { readonly code?: unknown }).code));
    const isUsable =
      isAnswer &&
      (await client.query("ROLLBACK").then(
        () => true,
        () => false,
      ));
    client.release(!isUsable);
    throw error;
  }
}

async function loadDriver(): Promise<Pick<typeof Driver, "Pool">> {
  try {
    return (await import("pg")).default;
  } catch (error) {
    const message = "`state.postgres` needs the package `pg`: npm install pg";
    throw new GatewayError("config_invalid", message, { cause: error });
  }
}
