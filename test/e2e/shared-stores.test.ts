// What gateways share, on every store that there is: real servers, which stop, freeze and come back.
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { openSharedPostgres } from "../../src/cluster/postgres-store.ts";
import { openRedisStore } from "../../src/cluster/redis-store.ts";
import type { SharedStore, SharedStoreOptions } from "../../src/cluster/shared-store.ts";
import { systemClock, systemTimer } from "../../src/lib/clock.ts";
import { eventually } from "../support/eventually.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openSession } from "../support/legacy-session.ts";
import { startPostgres } from "../support/postgres.ts";
import { exchange, post } from "../support/raw-http.ts";
import { startRedis } from "../support/redis.ts";
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
}

const kinds: readonly (readonly [string, () => Promise<StoreServer>])[] = [
  [
    "Redis",
    async () => {
      const server = await startRedis();
      return { ...server, open: (options) => openRedisStore({ ...options, url: server.url, prefix: "test:" }) };
    },
  ],
  [
    "PostgreSQL",
    async () => {
      const server = await startPostgres();
      const url = server.connectionString;
      return { ...server, state: { postgres: url }, open: (options) => openSharedPostgres({ ...options, url }) };
    },
  ],
];

describe.each(kinds)("a store on %s", (_name, startServer) => {
  let server: StoreServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(async () => server[Symbol.asyncDispose]());

  /** One gateway at the store. */
  async function join(node: string, advertise: string | undefined = `http://${node}.example`) {
    const told: string[] = [];
    const changes: boolean[] = [];
    let reconnections = 0;
    const store = server.open({
      node,
      advertise,
      clock: systemClock,
      setTimer: systemTimer,
      events: {
        sessionEnded: (id) => told.push(id),
        reconnected: () => void reconnections++,
        changed: (isUp) => changes.push(isUp),
      },
    });
    await store.ready();
    return {
      store,
      told,
      changes,
      reconnections: () => reconnections,
      [Symbol.asyncDispose]: async () => store.close(),
    };
  }

  it("tells gateways of each other, and that one has gone", async () => {
    await using one = await join("one");
    const two = await join("two");
    await eventually(() => expect(one.store.peers).toEqual(new Map([["two", "http://two.example"]])));
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
    const owners = await Promise.all([one, two].map(({ store }) => eventually(() => store.claim("contested", 60_000))));
    expect(new Set(owners).size).toBe(1);
    expect(await eventually(() => one.store.claim("mine", 60_000))).toBe("one");
    expect(await eventually(() => two.store.claim("mine", 60_000))).toBe("one");
    await one.store.close();
    await eventually(async () => expect(await two.store.claim("mine", 60_000)).toBe("two"));
  });

  it("remembers who started a task; the first one counts", async () => {
    await using one = await join("one");
    await eventually(() => one.store.noteTask("task", { node: "one", owner: "ann of staff" }, 60_000));
    await eventually(() => one.store.noteTask("task", { node: "two", owner: "bob" }, 60_000));
    const found = await eventually(() => one.store.findTasks(["none", "task"]));
    expect(found).toEqual([undefined, { node: "one", owner: "ann of staff" }]);
  });

  it("fails fast while it does not answer, and is used again when it does", async () => {
    await using one = await join("one");
    await server.freeze();
    try {
      for (let attempt = 0; attempt < 4; attempt++)
        await expect(one.store.hasEnded(["any"])).rejects.toThrow(/the shared store is away/u);
    } finally {
      await server.thaw();
    }
    await eventually(async () => expect(await one.store.hasEnded(["any"])).toEqual([false]));
    // On a busy machine it may have been slow before, too.
    expect(one.changes.slice(-2)).toEqual([false, true]);
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
