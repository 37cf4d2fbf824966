// What a shared store may answer instead of what was asked: each answer makes it count as unavailable, nothing is given out or taken
// over meanwhile, and the log says what to do. Real Redis and PostgreSQL where they can be brought to it; otherwise a proxy.
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";

import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { openSharedPostgres } from "../../src/cluster/postgres-store.ts";
import { openRedisStore } from "../../src/cluster/redis-store.ts";
import type { SharedStore, SharedStoreOptions } from "../../src/cluster/shared-store.ts";
import { systemClock, systemTimer } from "../../src/lib/clock.ts";
import { createSeals } from "../../src/lib/keys/sealing.ts";
import { eventually } from "../support/eventually.ts";
import { type PostgresServer, startPostgres } from "../support/postgres.ts";
import { type RedisServer, sendRedis, startRedis } from "../support/redis.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const { peer: seal } = createSeals([Buffer.alloc(32, 1)]);
const minute = 60_000;

/** One gateway at a store, with what its log would say. */
function join(open: (options: SharedStoreOptions) => SharedStore) {
  const changes: (readonly [isUp: boolean, reason: string])[] = [];
  const ended: string[] = [];
  const store = open({
    node: "one",
    seal,
    advertise: "http://one.example",
    configDigest: () => "",
    commandMs: 1000,
    clock: systemClock,
    setTimer: systemTimer,
    events: {
      sessionEnded: (id) => void ended.push(id),
      reconnected: () => {},
      leaseLost: () => {},
      peersRead: () => {},
      changed: (isUp, reason) => void changes.push([isUp, reason]),
    },
  });
  return { store, changes, ended, [Symbol.asyncDispose]: async () => store.close() };
}

type Joined = ReturnType<typeof join>;

const rate = { key: "ann", perSecond: 0.001, burst: 1, count: 1 };
const settle = async (asked: Promise<unknown>): Promise<unknown> => asked.catch(() => "refused");

/** Joins, makes the store refuse, compares what is then said and answered, and lets it go on. */
async function expectAwayWhile(
  open: (options: SharedStoreOptions) => SharedStore,
  said: RegExp,
  refuse: (joined: Joined) => Promise<unknown>,
  accept: (joined: Joined) => Promise<unknown>,
): Promise<void> {
  await using one = join(open);
  const { store, changes } = one;
  await store.ready();
  await eventually(async () => {
    await store.endSession("over", Date.now() + minute);
    expect(await store.claim("owned", { candidate: "two", ttlMs: minute })).toBe("two");
  });
  await refuse(one);
  try {
    await eventually(() => expect(changes).toContainEqual([false, expect.stringMatching(said)]));
    // Where reads are answered, they are right; nothing is given out.
    expect([[true, false], "refused"]).toContainEqual(await settle(store.hasEnded(["over", "open"])));
    expect(await settle(store.takeTokens([rate]))).toBe("refused");
    expect(await settle(store.claim("new", { candidate: "one", ttlMs: minute }))).toBe("refused");
    expect(await settle(store.endSession("next", Date.now() + minute))).toBe("refused");
  } finally {
    await accept(one);
  }
  await eventually(() => expect(changes.at(-1)).toEqual([true, ""]));
  await eventually(async () => {
    await store.endSession("next", Date.now() + minute);
    expect(await store.hasEnded(["next"])).toEqual([true]);
  });
}

type RefusalCase = readonly [
  answer: string,
  said: RegExp,
  refuse: () => Promise<unknown>,
  accept: () => Promise<unknown>,
];

describe("Redis that answers", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ more: ["--enable-debug-command", "yes"] });
  });
  afterAll(async () => server[Symbol.asyncDispose]());

  let stores = 0;
  const open = (options: SharedStoreOptions): SharedStore =>
    openRedisStore({ ...options, url: server.url, prefix: `test-${stores++}:` });
  const config = (name: string, value: string) => () => server.send("CONFIG", "SET", name, value);
  const acl = (...rules: string[]) => server.send("ACL", "SETUSER", "default", ...rules);
  /** An operator of its own, whom the rules of others do not concern. */
  const operator = (...command: string[]): Promise<unknown> =>
    sendRedis({ url: server.url, username: "operator", password: "operator" }, command);
  beforeAll(async () => {
    await server.send("ACL", "SETUSER", "operator", "on", ">operator", "~*", "&*", "+@all");
  });

  const cases: readonly RefusalCase[] = [
    ["OOM", /^OOM .*\(Redis is out of memory: raise/u, config("maxmemory", "1"), config("maxmemory", "0")],
    [
      "NOREPLICAS",
      /^NOREPLICAS .*\(.*min-replicas/u,
      config("min-replicas-to-write", "1"),
      config("min-replicas-to-write", "0"),
    ],
    [
      "READONLY",
      /^READONLY .*\(a replica: name the primary/u,
      () => server.send("REPLICAOF", "127.0.0.1", "1"),
      () => server.send("REPLICAOF", "NO", "ONE"),
    ],
    [
      "MASTERDOWN",
      /^MASTERDOWN .*\(a replica without its primary/u,
      async () => {
        await config("replica-serve-stale-data", "no")();
        await server.send("REPLICAOF", "127.0.0.1", "1");
      },
      async () => {
        await server.send("REPLICAOF", "NO", "ONE");
        await config("replica-serve-stale-data", "yes")();
      },
    ],
    [
      "NOPERM of a command",
      /^NOPERM .*\(let the Redis user/u,
      () => acl("-set"),
      () => operator("ACL", "SETUSER", "default", "+@all"),
    ],
    [
      "NOPERM of the keys",
      /^NOPERM .*\(let the Redis user/u,
      () => acl("resetkeys"),
      () => operator("ACL", "SETUSER", "default", "~*"),
    ],
    [
      "NOAUTH",
      /^NOAUTH .*\(set user and password/u,
      async () => {
        await acl("resetpass", ">changed");
        await operator("CLIENT", "KILL", "TYPE", "normal");
      },
      () => operator("ACL", "SETUSER", "default", "nopass"),
    ],
    [
      "BUSY",
      /^BUSY .*\(a script of another program/u,
      async () => {
        await config("busy-reply-threshold", "1")();
        void operator("EVAL", "while true do end", "0").catch(() => {});
      },
      () => operator("SCRIPT", "KILL"),
    ],
    [
      "MISCONF",
      /^MISCONF .*\(Redis cannot save/u,
      async () => {
        const { dir } = (await operator("CONFIG", "GET", "dir")) as { readonly dir: string };
        rmSync(dir, { recursive: true });
        await config("save", "1 1000000")();
        await operator("BGSAVE");
      },
      config("save", ""),
    ],
  ];

  it.each(cases)("%s is away until it answers otherwise", async (_answer, said, refuse, accept) => {
    await expectAwayWhile(open, said, refuse, accept);
  });

  it("LOADING is away until it answers otherwise", async () => {
    await using loading = await startRedis({
      more: ["--key-load-delay", "400000", "--loading-process-events-interval-bytes", "1024"],
    });
    const openThere = (options: SharedStoreOptions): SharedStore =>
      openRedisStore({ ...options, url: loading.url, prefix: "test:" });
    let started: Promise<void> | undefined;
    const restart = async (): Promise<void> => {
      for (let key = 0; key < 8; key++) await loading.send("SET", `fill ${key}`, randomBytes(4000).toString("hex"));
      await loading.send("SAVE");
      await loading.stop();
      started = loading.start();
    };
    await expectAwayWhile(openThere, /^LOADING .*\(Redis reads its file/u, restart, async () => started);
  });

  it("counts as away while it refuses a subscription to session ends (NOPERM)", async () => {
    const said = /NOPERM .*channel.*\(let the Redis user/u;
    const prefix = `test-${stores++}:`;
    const openAs = (node: string) => (options: SharedStoreOptions) =>
      openRedisStore({ ...options, node, url: server.url, prefix });
    const [one, two] = [join(openAs("one")), join(openAs("two"))];
    try {
      await Promise.all([one.store.ready(), two.store.ready()]);
      await acl("resetchannels");
      await eventually(() => expect(one.changes.at(-1)).toEqual([false, expect.stringMatching(said)]));
      await operator("ACL", "SETUSER", "default", "allchannels");
      await eventually(() => expect(one.changes.at(-1)).toEqual([true, ""]));
      await eventually(async () => {
        await two.store.endSession("over", Date.now() + minute);
        expect(one.ended).toContain("over");
      });
      await acl("resetchannels");
      await using three = join(openAs("three"));
      await expect(three.store.ready()).rejects.toThrow(said);
    } finally {
      await operator("ACL", "SETUSER", "default", "allchannels");
      await Promise.all([one.store.close(), two.store.close()]);
    }
  });

  it("with errors of a cluster says that it is of one", async () => {
    for (const [line, said] of [
      ["-MOVED 3999 127.0.0.1:1\r\n", /^MOVED .*\(a server of a Redis Cluster/u],
      ["-ASK 3999 127.0.0.1:1\r\n", /^ASK .*\(a server of a Redis Cluster/u],
      ["-CLUSTERDOWN The cluster is down\r\n", /^CLUSTERDOWN .*\(a server of a Redis Cluster/u],
      ["-CROSSSLOT Keys in request don't hash to the same slot\r\n", /^CROSSSLOT .*\(a server of a Redis Cluster/u],
    ] as const) {
      await using proxy = await startTcpProxy(Number(new URL(server.url).port));
      const through = (options: SharedStoreOptions): SharedStore =>
        openRedisStore({ ...options, url: `redis://127.0.0.1:${proxy.port}`, prefix: `test-${stores++}:` });
      // Every command of the gateway gets this answer.
      const refuse = async (): Promise<void> => {
        proxy.answerInstead = (bytes) => line.repeat(commandsIn(bytes));
      };
      const accept = async (): Promise<void> => {
        proxy.answerInstead = undefined;
      };
      await expectAwayWhile(through, said, refuse, accept);
    }
  });

  it("goes on after its scripts were flushed", async () => {
    await using one = join(open);
    await one.store.ready();
    await server.send("SCRIPT", "FLUSH");
    await eventually(async () => expect(await one.store.takeTokens([{ ...rate, burst: 5 }])).toEqual([1]));
    expect(await one.store.claim("s", { candidate: "one", ttlMs: minute })).toBe("one");
  });
});

/** How many commands a piece of the protocol (RESP) has: each is an array, which begins with a star. */
function commandsIn(bytes: Buffer): number {
  return bytes.toString("latin1").match(/(?:^|\r\n)\*\d+\r\n/gu)?.length ?? 0;
}

describe("PostgreSQL that answers", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
    await admin("CREATE ROLE gateway LOGIN PASSWORD 'first'", "CREATE DATABASE shared OWNER gateway");
  });
  afterAll(async () => server[Symbol.asyncDispose]());

  async function admin(...statements: string[]): Promise<readonly Readonly<Record<string, unknown>>[]> {
    const client = new pg.Client({ connectionString: server.connectionString });
    await client.connect();
    try {
      let rows: readonly Readonly<Record<string, unknown>>[] = [];
      for (const statement of statements) rows = (await client.query<Record<string, unknown>>(statement)).rows;
      return rows;
    } finally {
      await client.end();
    }
  }

  const url = (): string =>
    server.connectionString.replace("postgres@", "gateway:first@").replace(/\/postgres$/u, "/shared");
  const open = (options: SharedStoreOptions): SharedStore => openSharedPostgres({ ...options, url: url() });
  const endAll = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway'";
  const tables = async (): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: server.connectionString.replace(/\/postgres$/u, "/shared") });
    await client.connect();
    return client;
  };

  const cases: readonly RefusalCase[] = [
    [
      "a read-only transaction",
      /read-only transaction.*\(a standby/u,
      () => admin("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"),
      () =>
        admin(
          "SET default_transaction_read_only = off",
          "ALTER SYSTEM RESET default_transaction_read_only",
          "SELECT pg_reload_conf()",
        ),
    ],
    [
      "too many connections",
      /too many connections.*\(raise `max_connections`/u,
      () => admin("ALTER ROLE gateway CONNECTION LIMIT 0", endAll),
      () => admin("ALTER ROLE gateway CONNECTION LIMIT -1"),
    ],
    [
      "a role that may not log in",
      /not permitted to log in.*\(check the user/u,
      () => admin("ALTER ROLE gateway NOLOGIN", endAll),
      () => admin("ALTER ROLE gateway LOGIN"),
    ],
    [
      "another password",
      /password authentication failed.*\(check the password/u,
      () =>
        admin(
          "ALTER ROLE gateway PASSWORD 'second'",
          `DO $$ BEGIN EXECUTE format('COPY (VALUES (''local all postgres trust''), (''local all all scram-sha-256'')) TO %L', current_setting('hba_file')); END $$`,
          "SELECT pg_reload_conf()",
          endAll,
        ),
      () => admin("ALTER ROLE gateway PASSWORD 'first'"),
    ],
    [
      "a table that it may not write",
      /permission denied.*\(let the user of `state.postgres`/u,
      async () => {
        const client = await tables();
        for (const name of ["nodes", "owners", "ended", "rates"])
          await client.query(`ALTER TABLE headgate_${name} OWNER TO postgres`);
        await client.end();
      },
      async () => {
        const client = await tables();
        for (const name of ["nodes", "owners", "ended", "rates"])
          await client.query(`ALTER TABLE headgate_${name} OWNER TO gateway`);
        await client.end();
      },
    ],
  ];

  it.each(cases)("%s is away until it answers otherwise", async (_answer, said, refuse, accept) => {
    await expectAwayWhile(open, said, refuse, accept);
  });

  it("nothing because of a lock is away, and does not collect connections that wait", async () => {
    const holder = await tables();
    holder.on("error", () => {});
    const waiting = async (): Promise<number> =>
      Number((await admin("SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway'"))[0]?.["count"]);
    await expectAwayWhile(
      open,
      /canceling statement due to|Query read timeout|no answer/u,
      async ({ store }) => {
        const names = ["nodes", "ended", "owners", "users", "rates", "tasks"].map((name) => `headgate_${name}`);
        await holder.query(`BEGIN; LOCK TABLE ${names.join(", ")} IN ACCESS EXCLUSIVE MODE`);
        for (let attempt = 0; attempt < 20; attempt++)
          await settle(store.claim("any", { candidate: "one", ttlMs: minute }));
        await eventually(async () => expect(await waiting()).toBeLessThanOrEqual(4));
      },
      () => holder.query("COMMIT"),
    );
    await holder.end();
  });

  it("that it ends all connections is noticed by no caller who comes later", async () => {
    await using one = join(open);
    await one.store.ready();
    await admin(endAll);
    await eventually(async () => expect(await one.store.hasEnded(["open"])).toEqual([false]));
    await eventually(() => expect(one.changes.at(-1)?.[0] ?? true).toBe(true));
  });
});
