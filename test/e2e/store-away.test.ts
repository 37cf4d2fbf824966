// What becomes of each thing that gateways share when their store is away, slow, empty, or out of reach for one of them:
// nothing is less strict without the store than with it. Real Redis and PostgreSQL.
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { openRedisStore } from "../../src/cluster/redis-store.ts";
import type { SharedStore } from "../../src/cluster/shared-store.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { systemClock, systemTimer } from "../../src/lib/clock.ts";
import { createSeals } from "../../src/lib/keys/sealing.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { openSession, toolCall } from "../support/legacy-session.ts";
import { type LocalGateway, openGateway } from "../support/local-gateway.ts";
import { exchange, post } from "../support/raw-http.ts";
import { startRedis, startRedisPair } from "../support/redis.ts";
import { replicaConfig } from "../support/replica-config.ts";
import { openPair } from "../support/replicas.ts";
import { type StoreServer, storeServers } from "../support/store-server.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const call = toolCall(1, "test_simple_text");
const child = (): NonNullable<ConfigInput["upstream"]> => {
  const [command, ...args] = stdioFixture({ era: "legacy" });
  return { command, args };
};
const gauge = ({ gateway }: LocalGateway, name: string): number =>
  Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)$`, "mu").exec(gateway.metrics())?.[1] ?? 0);
const knows = async (gateway: LocalGateway, peers: number): Promise<void> =>
  eventually(() => expect(gauge(gateway, "headgate_peers")).toBe(peers));

let web: NonNullable<ConfigInput["upstream"]>;
const started = new AsyncDisposableStack();
beforeAll(async () => {
  web = { url: started.use(await startFixture({ era: "legacy" })).url };
});
afterAll(async () => started.disposeAsync());

describe.each(storeServers)("on %s", (_kind, startServer) => {
  let server: StoreServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(async () => server[Symbol.asyncDispose]());

  describe("rate limits", () => {
    const burst = 10;
    // Nothing is added while a test runs.
    const slow = { perSecond: 0.001, burst };
    const rule = { id: "few", allow: 'mcp.method == "tools/call"', rate: { ...slow, by: "mcp.arguments.key" } };
    const routes = (): NonNullable<ConfigInput["routes"]> => ({
      rates: { upstream: web, rates: { session: slow } },
      rules: { upstream: web, policy: { rules: [rule] } },
    });
    let keys = 0;

    /** How many calls of a new caller pass, of many that go to the gateways in turn. */
    async function passing(route: "rates" | "rules", gateways: readonly LocalGateway[]): Promise<number> {
      const urls = gateways.map(({ origin }) => `${origin}/${route}/mcp`);
      const { headers } = await openSession(urls[0] ?? "");
      const key = `key ${keys++}`;
      let passed = 0;
      for (let turn = 0; turn < 3 * burst; turn++) {
        const sent = toolCall(turn, "test_simple_text", { arguments: { key } });
        const { text } = await post(urls[turn % urls.length] ?? "", sent, headers);
        if (text.includes('"result"')) passed++;
      }
      return passed;
    }

    it("hold for all gateways together, for those of routes and of rules; without the store each has its part", async () => {
      const { state } = await server.createStore();
      await using pair = await openPair(state, { routes: routes() });
      const both = [pair.one, pair.two];
      // The handshake of a session counts, too: two messages. On a busy machine the store may be slow for a moment.
      await eventually(async () => expect(await passing("rates", both)).toBe(burst - 2));
      await eventually(async () => expect(await passing("rules", both)).toBe(burst));
      await eventually(async () => expect(await passing("rules", [pair.two])).toBe(burst));
      await server.stop();
      try {
        expect(await passing("rules", both)).toBe(burst);
        expect(await passing("rules", [pair.one])).toBe(burst / 2);
        expect(await passing("rates", both)).toBeLessThanOrEqual(burst - 2);
      } finally {
        await server.start();
      }
      await eventually(async () => expect(await passing("rules", [pair.one])).toBe(burst));
    });
  });

  describe("a session that is idle at one gateway", () => {
    it("goes on while another uses it, and ends for all when nobody does", async () => {
      const sessions = { idleTimeout: "2s" };
      const { state } = await server.createStore();
      await using pair = await openPair(state, { upstream: web, sessions });
      const session = await openSession(pair.one.url);
      expect((await post(pair.two.url, call, session.headers)).status).toBe(200);
      // The first forgets it, because only the second is asked.
      await eventually(async () => {
        expect((await post(pair.two.url, call, session.headers)).status).toBe(200);
        expect(gauge(pair.one, "headgate_sessions")).toBe(0);
      });
      expect((await post(pair.two.url, call, session.headers)).status).toBe(200);
      await eventually(() => expect(gauge(pair.two, "headgate_sessions")).toBe(0));
      for (const { url } of [pair.one, pair.two])
        await eventually(async () => expect((await post(url, call, session.headers)).status).toBe(404));
    });
  });

  describe("a gateway that is cut off from the store", () => {
    it("goes on with its processes, and leaves them to the gateway that took them over when the store is back", async () => {
      await using proxy = await startTcpProxy(server.target);
      const store = await server.createStore();
      const config = replicaConfig(store.state, { upstream: child() });
      await using owner = await openGateway({ ...config, state: { ...config.state, ...store.stateVia(proxy.port) } });
      const lease = await store.lease();
      await using other = await openGateway(config);
      await Promise.all([knows(owner, 1), knows(other, 1)]);
      const session = await openSession(owner.url);
      expect((await post(other.url, call, session.headers)).status).toBe(200);
      expect(gauge(owner, "headgate_children")).toBe(1);
      proxy.cut();
      expect((await post(owner.url, call, session.headers)).status).toBe(200);
      // Its lease ends, which takes 15 seconds without this.
      await lease.end();
      await knows(other, 0);
      expect((await post(other.url, call, session.headers)).status).toBe(200);
      expect(gauge(other, "headgate_children")).toBe(1);
      proxy.heal();
      await eventually(() => expect(gauge(owner, "headgate_children")).toBe(0));
      await knows(other, 1);
      for (const gateway of [owner, other])
        await eventually(async () => expect((await post(gateway.url, call, session.headers)).status).toBe(200));
      expect([gauge(owner, "headgate_children"), gauge(other, "headgate_children")]).toEqual([0, 1]);
      // Those that begin now are its own again.
      const next = await openSession(owner.url);
      expect((await post(other.url, call, next.headers)).status).toBe(200);
      expect([gauge(owner, "headgate_children"), gauge(other, "headgate_children")]).toEqual([1, 1]);
    });
  });

  describe("a store that has lost everything", () => {
    it("costs no session: gateways stay known, processes stay where they are", async () => {
      const routes = ["web", "local"];
      const store = await server.createStore();
      const upstreams = { web: { upstream: web }, local: { upstream: child() } };
      await using pair = await openPair(store.state, { routes: upstreams });
      const sessions = await Promise.all(routes.map(async (route) => openSession(`${pair.one.origin}/${route}/mcp`)));
      await store.empty();
      for (let turn = 0; turn < 3; turn++) {
        for (const [index, route] of routes.entries()) {
          for (const { origin } of [pair.one, pair.two]) {
            const { status } = await post(`${origin}/${route}/mcp`, call, sessions[index]?.headers ?? {});
            expect(status).toBe(200);
          }
        }
        // Until each has written its lease again, and read the other's.
        await eventually(async () => expect(await store.gateways()).toBe(2));
      }
      expect([gauge(pair.one, "headgate_children"), gauge(pair.two, "headgate_children")]).toEqual([1, 0]);
    });
  });

  describe("a store that has lost which sessions have ended", () => {
    it("is told again: a gateway that comes later lets none of them go on", async () => {
      const store = await server.createStore();
      await using pair = await openPair(store.state, { upstream: web });
      const [ended, kept] = [await openSession(pair.one.url), await openSession(pair.one.url)];
      expect((await exchange(pair.one.url, { method: "DELETE", headers: ended.headers })).status).toBe(200);
      await eventually(async () => expect(await store.ended()).toBe(1));
      await store.empty();
      await eventually(async () => expect(await store.ended()).toBe(1));
      await using third = await openGateway(pair.config);
      expect((await post(third.url, call, ended.headers)).status).toBe(404);
      expect((await post(third.url, call, kept.headers)).status).toBe(200);
    });
  });

  describe("a gateway that ends while the store is away", () => {
    it("still tells the others which sessions have ended, if the store comes back meanwhile", async () => {
      await using proxy = await startTcpProxy(server.target);
      const store = await server.createStore();
      const config = replicaConfig(store.state, { upstream: web });
      await using other = await openGateway(config);
      await using ending = await openGateway({ ...config, state: { ...config.state, ...store.stateVia(proxy.port) } });
      await Promise.all([knows(ending, 1), knows(other, 1)]);
      const [ended, kept] = [await openSession(ending.url), await openSession(ending.url)];
      proxy.cut();
      expect((await exchange(ending.url, { method: "DELETE", headers: ended.headers })).status).toBe(200);
      const closed = ending.gateway.close();
      proxy.heal();
      await closed;
      expect((await post(other.url, call, ended.headers)).status).toBe(404);
      expect((await post(other.url, call, kept.headers)).status).toBe(200);
    });
  });

  describe("a store that is slow", () => {
    it("delays no call for longer than a command may take, and counts as away", async () => {
      await using proxy = await startTcpProxy(server.target);
      const { stateVia } = await server.createStore();
      await using pair = await openPair({ ...stateVia(proxy.port), timeout: "250ms" }, { upstream: web });
      const session = await openSession(pair.one.url);
      proxy.delayMs = 1000;
      // Four lookups fail, the later ones without waiting for an answer.
      expect((await post(pair.two.url, call, session.headers)).status).toBe(200);
      expect((await exchange(pair.two.url, { method: "DELETE", headers: session.headers })).status).toBe(200);
      expect((await post(pair.two.url, call, session.headers)).status).toBe(404);
      proxy.delayMs = 0;
      // What was missed is told.
      await eventually(async () => expect((await post(pair.one.url, call, session.headers)).status).toBe(404));
    });
  });
});

describe("a store that is emptied while a gateway reads it", () => {
  it("takes no other gateway away", async () => {
    await using redis = await startRedis();
    const port = Number(new URL(redis.url).port);
    await using proxy = await startTcpProxy(port);
    const { peer: seal } = createSeals([Buffer.alloc(32, 1)]);
    const known: boolean[] = [];
    const join = (node: string, at: number, peersRead: () => void): SharedStore =>
      openRedisStore({
        url: `redis://127.0.0.1:${at}`,
        prefix: "test:",
        node,
        seal,
        advertise: `http://${node}.example`,
        configDigest: () => "same",
        commandMs: 5000,
        clock: systemClock,
        setTimer: systemTimer,
        events: { sessionEnded: () => {}, reconnected: () => {}, changed: () => {}, leaseLost: () => {}, peersRead },
      });
    const one = join("one", port, () => {});
    const two = join("two", proxy.port, () => known.push(two.peers.has("one")));
    try {
      await Promise.all([one.ready(), two.ready()]);
      await eventually(() => expect(known.at(-1)).toBe(true));
      known.length = 0;
      const emptied = Promise.withResolvers<void>();
      // The own lease has been written; those of the others are asked for.
      proxy.beforeSending = (bytes) => {
        if (!bytes.includes("MGET")) return undefined;
        proxy.beforeSending = undefined;
        return redis.send("FLUSHALL").then(() => emptied.resolve());
      };
      await emptied.promise;
      await eventually(() => expect(known.length).toBeGreaterThan(2));
      expect(known).not.toContain(false);
    } finally {
      await Promise.all([one.close(), two.close()]);
    }
  });
});

describe("a store that fails over", () => {
  it("is found again by its sentinel: gateways, sessions and their ends go on", async () => {
    await using store = await startRedisPair();
    const routes = { web: { upstream: web }, local: { upstream: child() } };
    await using pair = await openPair(store.state, { routes });
    const [kept, ended] = [
      await openSession(`${pair.one.origin}/web/mcp`),
      await openSession(`${pair.one.origin}/web/mcp`),
    ];
    const local = await openSession(`${pair.one.origin}/local/mcp`);
    for (const { headers } of [kept, ended])
      expect((await post(`${pair.two.origin}/web/mcp`, call, headers)).status).toBe(200);
    await store.primary.stop();
    for (const { origin } of [pair.one, pair.two]) {
      expect((await post(`${origin}/web/mcp`, call, kept.headers)).status).toBe(200);
      expect((await post(`${origin}/local/mcp`, call, local.headers)).status).toBe(200);
    }
    // Told to the others when there is a primary again.
    expect((await exchange(`${pair.two.origin}/web/mcp`, { method: "DELETE", headers: ended.headers })).status).toBe(
      200,
    );
    await store.switched;
    const resumed = async () => (await post(`${pair.one.origin}/web/mcp`, call, ended.headers)).status;
    await eventually(async () => expect(await resumed()).toBe(404));
    await eventually(async () => expect(await store.replica.send("EXISTS", "hg:nodes")).toBe(1));
    for (const { origin } of [pair.one, pair.two]) {
      expect((await post(`${origin}/web/mcp`, call, kept.headers)).status).toBe(200);
      expect((await post(`${origin}/local/mcp`, call, local.headers)).status).toBe(200);
    }
    await Promise.all([knows(pair.one, 1), knows(pair.two, 1)]);
    expect([gauge(pair.one, "headgate_children"), gauge(pair.two, "headgate_children")]).toEqual([1, 0]);
  });
});

describe("gateways with different configurations", () => {
  it("say so, until they are the same again", async () => {
    await using redis = await startRedis();
    const config = replicaConfig(redis.state, { upstream: web });
    await using one = await openGateway(config);
    await using two = await openGateway({ ...config, limits: { sessions: 7 } });
    for (const gateway of [one, two])
      await eventually(() => expect(gauge(gateway, "headgate_peers_with_other_configuration")).toBe(1));
    await two[Symbol.asyncDispose]();
    await eventually(() => expect(gauge(one, "headgate_peers_with_other_configuration")).toBe(0));
    await using three = await openGateway(config);
    await knows(three, 1);
    expect(gauge(three, "headgate_peers_with_other_configuration")).toBe(0);
  });
});
