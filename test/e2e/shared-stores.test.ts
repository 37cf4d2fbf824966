// What gateways share, on every store that there is: real servers, which stop, freeze and come back.
import { basename } from "node:path";

import { createClient } from "@redis/client";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { openSharedPostgres } from "../../src/cluster/postgres-store.ts";
import { openRedisStore } from "../../src/cluster/redis-store.ts";
import type { OwnerClaim, SharedStore, SharedStoreOptions } from "../../src/cluster/shared-store.ts";
import { createSeals } from "../../src/lib/keys/sealing.ts";
import { systemClock, systemTimer } from "../../src/lib/clock.ts";
import { eventually } from "../support/eventually.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openSession } from "../support/legacy-session.ts";
import { startPostgres } from "../support/postgres.ts";
import { exchange, post } from "../support/raw-http.ts";
import { redisPrograms, startRedis } from "../support/redis.ts";
import type { SharedState } from "../support/replica-config.ts";
import { openPair } from "../support/replicas.ts";

/** A store's server, as tests use it. */
interface StoreServer extends AsyncDisposable {
  readonly state: SharedState;
  readonly open: (options: SharedStoreOptions) => SharedStore;
  readonly freeze: () => Promise<void> | void;
  readonly thaw: () => Promise<void> | void;
  readonly stop: () => Promise<void>;
  readonly start: () => Promise<void>;
  /** Takes away the lease of a gateway. */
  readonly forget: (node: string) => Promise<void>;
  /** Ways to have writes refused while reads are answered, by what is then said; and back. */
  readonly refusals: Readonly<
    Record<string, readonly [refuse: () => Promise<unknown>, accept: () => Promise<unknown>]>
  >;
}

async function startRedisStore(program: string): Promise<StoreServer> {
  const server = await startRedis({ program });
  const forget = async (node: string): Promise<void> => {
    const client = await createClient({ url: server.url }).connect();
    await client.del(`test:lease:${node}`);
    client.destroy();
  };
  const setting =
    (name: string, value: string): (() => Promise<unknown>) =>
    () =>
      server.send("CONFIG", "SET", name, value);
  const refusals: StoreServer["refusals"] = {
    "out of memory": [setting("maxmemory", "1"), setting("maxmemory", "0")],
    "without its copies": [setting("min-replicas-to-write", "1"), setting("min-replicas-to-write", "0")],
    "a copy of another": [
      () => server.send("REPLICAOF", "127.0.0.1", "1"),
      () => server.send("REPLICAOF", "NO", "ONE"),
    ],
  };
  // The scheme that its users would write.
  const url = server.url.replace("redis:", `${basename(program).split("-")[0]}:`);
  const open = (options: SharedStoreOptions) => openRedisStore({ ...options, url, prefix: "test:" });
  return { ...server, state: { redis: { url } }, forget, refusals, open };
}

const kinds: readonly (readonly [string, () => Promise<StoreServer>])[] = [
  ...redisPrograms.map((program) => [basename(program), () => startRedisStore(program)] as const),
  [
    "PostgreSQL",
    async () => {
      const server = await startPostgres();
      const url = server.connectionString;
      const forget = async (node: string): Promise<void> => {
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        await client.query("DELETE FROM headgate_nodes WHERE node = $1", [node]);
        await client.end();
      };
      const readOnly = (value: string) => async (): Promise<void> => {
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        await client.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
        await client.query("SELECT pg_reload_conf()");
        await client.end();
      };
      const refusals = { "a standby, as after a failover": [readOnly("on"), readOnly("off")] } as const;
      const open = (options: SharedStoreOptions) => openSharedPostgres({ ...options, url });
      return { ...server, state: { postgres: url }, forget, refusals, open };
    },
  ],
];

const { peer: seal } = createSeals([Buffer.alloc(32, 1)]);

describe.each(kinds)("a store on %s", (_name, startServer) => {
  let server: StoreServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(async () => server[Symbol.asyncDispose]());

  /** One gateway at the store. */
  async function join(node: string, advertise: string | undefined = `http://${node}.example`, ownSeal = seal) {
    const told: string[] = [];
    const changes: boolean[] = [];
    let reconnections = 0;
    let losses = 0;
    const store = server.open({
      node,
      seal: ownSeal,
      advertise,
      configDigest: () => "same",
      commandMs: 5000,
      clock: systemClock,
      setTimer: systemTimer,
      events: {
        sessionEnded: (id) => told.push(id),
        reconnected: () => void reconnections++,
        changed: (isUp) => changes.push(isUp),
        leaseLost: () => void losses++,
        peersRead: () => {},
      },
    });
    await store.ready();
    return {
      store,
      told,
      changes,
      reconnections: () => reconnections,
      losses: () => losses,
      [Symbol.asyncDispose]: async () => store.close(),
    };
  }

  it("tells gateways of each other, and that one has gone", async () => {
    await using one = await join("one");
    const two = await join("two");
    const expected = { url: "http://two.example", since: 0, config: "same" };
    await eventually(() => expect(one.store.peers.get("two")).toMatchObject(expected));
    expect(one.store.peers.size).toBe(1);
    await two.store.close();
    await eventually(() => expect(one.store.peers.size).toBe(0));
  });

  it("tells all gateways that a session has ended, also those that come later, until it would have expired", async () => {
    await using one = await join("one");
    await using two = await join("two");
    const later = Date.now() + 60_000;
    // The subscription of the other may come a moment after it is ready.
    await eventually(async () => {
      await one.store.endSession("over", later);
      expect(two.told).toContain("over");
    });
    await eventually(() => one.store.endSession("expired", Date.now() - 1));
    await using three = await join("three");
    await eventually(async () =>
      expect(await three.store.hasEnded(["open", "over", "expired"])).toEqual([false, true, false]),
    );
  });

  it("gives a session one owner while that is alive, also if several ask at the same time", async () => {
    const one = await join("one");
    await using two = await join("two");
    const owners = await Promise.all(
      ["one", "two"].map((node) => eventually(() => one.store.claim("contested", { candidate: node, ttlMs: 60_000 }))),
    );
    expect(new Set(owners).size).toBe(1);
    expect(await eventually(() => one.store.claim("mine", { candidate: "one", ttlMs: 60_000 }))).toBe("one");
    expect(await eventually(() => two.store.claim("mine", { candidate: "two", ttlMs: 60_000 }))).toBe("one");
    await one.store.close();
    await eventually(async () =>
      expect(await two.store.claim("mine", { candidate: "two", ttlMs: 60_000 })).toBe("two"),
    );
  });

  it("leaves a session to the gateway that holds it while that is alive and stays", async () => {
    await using _one = await join("one");
    await using two = await join("two");
    await using three = await join("three");
    const claim = { holder: "one", ttlMs: 60_000 };
    const claimed = async ({ store }: typeof two, session: string, more: Omit<OwnerClaim, "ttlMs">) =>
      eventually(() => store.claim(session, { ...claim, ...more }));
    expect(await claimed(two, "held", { candidate: "two" })).toBe("one");
    // The first to take it over keeps it.
    expect(await claimed(two, "held", { candidate: "two", leaving: "one" })).toBe("two");
    expect(await claimed(three, "held", { candidate: "three", leaving: "one" })).toBe("two");
    expect(await claimed(three, "held", { candidate: "three", holder: "two", leaving: "two" })).toBe("three");
    expect(await claimed(two, "orphaned", { candidate: "two", holder: "gone" })).toBe("two");
  });

  it("ends the lease of a gateway that was killed when another starts at its address", async () => {
    await using killed = await join("killed", "http://same.example");
    await using other = await join("other");
    await eventually(() => expect(other.store.peers.has("killed")).toBe(true));
    await using next = await join("next", "http://same.example");
    expect(next.store.peers.has("killed")).toBe(false);
    // It is alive in this test, and learns that it has lost its lease.
    await eventually(() => expect(killed.losses()).toBe(1));
    await eventually(() => expect(other.store.peers.get("killed")?.since).toBe(killed.store.since));
  });

  it("tells a gateway that lost its lease, and lets it and others know since when it holds the new one", async () => {
    await using one = await join("one");
    await using two = await join("two");
    await eventually(() => expect(two.store.peers.has("one")).toBe(true));
    await server.forget("one");
    await eventually(() => expect(one.losses()).toBe(1));
    expect(one.store.since).toBeGreaterThan(0);
    await eventually(() => expect(two.store.peers.get("one")?.since).toBe(one.store.since));
    expect(two.store.since).toBe(0);
    expect(await eventually(() => two.store.ownersOf(["unclaimed"]))).toEqual([undefined]);
    await eventually(() => two.store.claim("taken over", { candidate: "two", ttlMs: 60_000 }));
    expect(await eventually(() => one.store.ownersOf(["taken over", "unclaimed"]))).toEqual(["two", undefined]);
  });

  it("knows whether another gateway that is alive has a session", async () => {
    await using one = await join("one");
    const two = await join("two");
    await eventually(() => two.store.join("both", ["two", "one"], 60_000));
    await eventually(() => two.store.join("gone", ["two", "three"], 60_000));
    expect(await eventually(() => one.store.leave("both"))).toBe(true);
    expect(await eventually(() => two.store.leave("both"))).toBe(false);
    expect(await eventually(() => two.store.leave("gone"))).toBe(false);
    expect(await eventually(() => one.store.leave("never shared"))).toBe(false);
    await eventually(() => two.store.join("left", ["two", "one"], 60_000));
    await two.store.close();
    expect(await eventually(() => one.store.leave("left"))).toBe(false);
  });

  it("gives out each token of a rate limit once, and more as time passes", async () => {
    await using one = await join("one");
    await using two = await join("two");
    const slow = { key: "slow", perSecond: 0.001, burst: 10 };
    const takes = await Promise.all(
      [one, two, one, two].map(({ store }) => eventually(() => store.takeTokens([{ ...slow, count: 3 }]))),
    );
    expect(takes.flat().toSorted((a, b) => a - b)).toEqual([1, 3, 3, 3]);
    const quick = { key: "quick", perSecond: 1000, burst: 5, count: 50 };
    const mixed = () => one.store.takeTokens([{ ...slow, count: 1 }, quick, { ...slow, key: "other", count: 1 }]);
    expect(await eventually(mixed)).toEqual([0, 5, 1]);
    await eventually(async () => expect((await one.store.takeTokens([quick]))[0]).toBeGreaterThan(0));
  });

  it("remembers who started a task; the first one counts", async () => {
    await using one = await join("one");
    await eventually(() => one.store.noteTask("task", { node: "one", owner: "ann of staff" }, 60_000));
    await eventually(() => one.store.noteTask("task", { node: "two", owner: "bob" }, 60_000));
    const found = await eventually(() => one.store.findTasks(["none", "task"]));
    expect(found).toEqual([undefined, { node: "one", owner: "ann of staff" }]);
  });

  it("takes a task that was not noted by a gateway for nobody's", async () => {
    await using one = await join("one");
    const { peer: otherSeal } = createSeals([Buffer.alloc(32, 2)]);
    await using stranger = await join("stranger", undefined, otherSeal);
    await eventually(() => stranger.store.noteTask("forged", { node: "one", owner: "eve" }, 60_000));
    expect(await eventually(() => one.store.findTasks(["forged"]))).toEqual([{ node: "", owner: "" }]);
  });

  it("fails fast while it does not answer, and is used again when it does", async () => {
    await using one = await join("one");
    await server.freeze();
    try {
      for (let attempt = 0; attempt < 4; attempt++)
        await expect(one.store.hasEnded(["any"])).rejects.toThrow(/the shared store is unavailable/u);
    } finally {
      await server.thaw();
    }
    await eventually(async () => expect(await one.store.hasEnded(["any"])).toEqual([false]));
    // On a busy machine it may have been slow before, too.
    await eventually(() => expect(one.changes.slice(-2)).toEqual([false, true]));
  });

  it("is away while it refuses writes, although it answers reads, which is said once; and is back without a restart", async () => {
    for (const [how, [refuse, accept]] of Object.entries(server.refusals)) {
      await using one = await join("one");
      await using _two = await join("two");
      await eventually(() => expect(one.store.peers.has("two")).toBe(true));
      await refuse();
      try {
        await eventually(() => expect([how, one.changes.at(-1)]).toEqual([how, false]));
        const said = one.changes.length;
        // Several renewals fail meanwhile.
        for (let reads = 0; reads < 3; reads++) {
          await eventually(async () => expect(await one.store.hasEnded(["any"])).toEqual([false]));
          await expect(one.store.claim("any", { candidate: "one", ttlMs: 60_000 })).rejects.toThrow(/unavailable/u);
        }
        expect([how, one.changes.length, one.store.peers.has("two")]).toEqual([how, said, true]);
      } finally {
        await accept();
      }
      await eventually(async () => {
        expect([how, one.changes.at(-1)]).toEqual([how, true]);
        expect(await one.store.claim(how, { candidate: "one", ttlMs: 60_000 })).toBe("one");
      });
    }
  });

  it("is what two gateways need to end a session together, and may be restarted meanwhile", async () => {
    await using upstream = await legacyUpstream((call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} }));
    await using pair = await openPair(server.state, { upstream: { url: upstream.url } });
    const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
    const session = await openSession(pair.one.url);
    await server.stop();
    expect((await post(pair.two.url, ping, session.headers)).status).toBe(200);
    await server.start();
    await eventually(() => expect(pair.one.gateway.metrics()).toMatch(/^headgate_peers 1$/mu));
    // Ended at one; the other learns it, sooner or later.
    expect((await exchange(pair.two.url, { method: "DELETE", headers: session.headers })).status).toBe(200);
    expect((await post(pair.two.url, ping, session.headers)).status).toBe(404);
    const next = await openSession(pair.one.url);
    expect((await post(pair.two.url, ping, next.headers)).status).toBe(200);
    await eventually(async () => {
      await exchange(pair.two.url, { method: "DELETE", headers: next.headers });
      expect((await post(pair.one.url, ping, next.headers)).status).toBe(404);
    });
  });
});
