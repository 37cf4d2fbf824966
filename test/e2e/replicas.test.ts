// Several gateways behind a proxy that sends each request to the next one. Real Redis, real processes where they die.
import { EventEmitter } from "node:events";
import { Agent, type IncomingMessage } from "node:http";

import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { sendToPeer } from "../../src/gateway/edge/peer-requests.ts";
import { createSeals } from "../../src/lib/keys/sealing.ts";
import { createCertificate } from "../support/certificate.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { fakeUpstream, type UpstreamStream } from "../support/fake-upstream.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { principalNamed } from "../support/principals.ts";
import { exchange, openStream, post, postHeaders } from "../support/raw-http.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { startRestartable } from "../support/restartable-gateway.ts";
import { newSecret, replicaConfig } from "../support/replica-config.ts";
import { openPair } from "../support/replicas.ts";
import { startRoundRobin } from "../support/round-robin.ts";
import { connectV1 } from "../support/v1-client.ts";

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });

describe("two gateways with the same keys and nothing else", () => {
  it("serve each other's sessions with an HTTP server, whichever gets the request", async () => {
    await using fixture = await startFixture({ era: "legacy" });
    const config: ConfigInput = { upstream: { url: fixture.url }, state: { keys: [newSecret()] } };
    await using one = await openGateway(config);
    await using two = await openGateway(config);
    await using proxy = await startRoundRobin([one.origin, two.origin]);
    await using client = await connectV1({ via: "http", url: proxy.url });
    for (let call = 0; call < 6; call++) {
      expect(await client.callTool("test_simple_text")).toMatchObject({ isError: false });
    }
  });

  it("go on with the sessions of every server behind one endpoint; one that lost its own gets the handshake again", async () => {
    const answer: Answering = (call, { id, method }) => {
      const result = method === "tools/list" ? { tools: [{ name: "a", inputSchema: { type: "object" } }] } : {};
      return call.reply({ jsonrpc: "2.0", id, result });
    };
    await using one = await legacyUpstream(answer);
    await using two = await legacyUpstream(answer);
    const upstreams = { one: { url: one.url }, two: { url: two.url } };
    const config: ConfigInput = { state: { keys: [newSecret()] }, routes: { both: { upstreams } } };
    await using first = await openGateway(config);
    await using second = await openGateway(config);
    const session = await openSession(first.url);
    await first.gateway.close();
    two.forget();
    for (const name of ["one__a", "two__a"]) {
      const answered = await post(second.url, toolCall(3, name), session.headers);
      expect(answered).toMatchObject({ status: 200, json: { id: 3, result: {} } });
    }
    expect([...one.of("DELETE"), ...two.of("DELETE")]).toEqual([]);
    expect([one.sessions, two.sessions]).toEqual([["upstream-1"], ["upstream-1", "upstream-2"]]);
    expect(two.received("tools/call").at(-1)?.headers).toMatchObject({ "mcp-session-id": "upstream-2" });
  });
});

describe("two gateways that know each other", () => {
  it("serve a session with a stdio server where its process is", async () => {
    await using redis = await startRedis();
    const [command, ...args] = stdioFixture({ era: "legacy" });
    await using pair = await openPair(redis.state, { upstream: { command, args } });
    await using client = await connectV1({ via: "http", url: pair.proxy.url });
    for (let call = 0; call < 6; call++) {
      expect(await client.callTool("test_simple_text")).toMatchObject({ isError: false });
    }
    // Questions and their answers cross the gateways too.
    expect(await client.callTool("test_elicitation", { args: { message: "who?" } })).toMatchObject({ isError: false });
    expect(client.asked).toContain("elicitation/create");
    const children = [pair.one, pair.two].map(
      ({ gateway }) => /headgate_children\{[^}]*\} (\d+)/u.exec(gateway.metrics())?.[1],
    );
    expect(children.map(Number).reduce((sum, count) => sum + (Number.isNaN(count) ? 0 : count), 0)).toBe(1);
  });

  it.each(["a secret", "TLS"])("bring the answer to a question to the gateway that asked, with %s", async (how) => {
    await using redis = await startRedis();
    using certificate = createCertificate("gateways");
    const { certFile, keyFile } = certificate;
    const peersOnly = { listen: { host: "127.0.0.1", port: 0 }, tls: { certFile, keyFile, caFile: certFile } };
    const cluster = how === "TLS" ? { cluster: peersOnly } : {};
    await using upstream = await legacyUpstream(async (call, { method }) => {
      if (method === undefined) return call.replyRaw(202);
      const stream = call.stream();
      await stream.send({ jsonrpc: "2.0", id: "question", method: "roots/list" });
    });
    await using pair = await openPair(redis.state, { upstream: { url: upstream.url }, ...cluster });
    for (const url of await readPeers(redis)) expect(url).toMatch(how === "TLS" ? /^https:/u : /^http:/u);
    const session = await openSession(pair.one.url);
    // The call runs at the first gateway; the answer to its question comes to the second.
    await using call = await session.stream(toolCall(7, "asks"));
    expect(await nextMessage(call)).toMatchObject({ id: "question", method: "roots/list" });
    const answer = { jsonrpc: "2.0", id: "question", result: { roots: [] } };
    expect(await post(pair.two.url, answer, session.headers)).toMatchObject({ status: 202 });
    await eventually(() => {
      const answered = upstream.calls.some(({ json }) => Reflect.get(Object(json), "id") === "question");
      expect(answered).toBe(true);
    });
  });

  it("bring a resumed stream to the gateway that sent its events", async () => {
    const running = Promise.withResolvers<UpstreamStream>();
    const answer: Answering = (call) => {
      running.resolve(call.stream());
    };
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(answer);
    await using pair = await openPair(redis.state, { upstream: { url: upstream.url } });
    const session = await openSession(pair.one.url);
    const call = await session.stream(toolCall(7, "slow"));
    const tell = async (data: string) =>
      (await running.promise).send({
        jsonrpc: "2.0",
        method: "notifications/message",
        params: { level: "info", data },
      });
    await tell("first");
    const first = await call.next();
    const seen = first?.data === "" ? await call.next() : first;
    call.close();
    await tell("second");
    const headers = { ...session.headers, accept: "text/event-stream", "last-event-id": seen?.id ?? "" };
    await using resumed = await openStream(pair.two.url, { headers });
    expect(await nextMessage(resumed)).toMatchObject({ params: { data: "second" } });
    await (await running.promise).send(textResult(7, "done"));
    expect(await nextMessage(resumed)).toMatchObject({ id: 7, result: {} });
    expect(pair.two.gateway.metrics()).toMatch(/^headgate_forwarded_requests_total\{.*\} 1$/mu);
  });

  it("end a session together", async () => {
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(pong);
    await using pair = await openPair(redis.state, { upstream: { url: upstream.url } });
    const session = await openSession(pair.one.url);
    expect((await post(pair.two.url, ping, session.headers)).status).toBe(200);
    expect((await exchange(pair.two.url, { method: "DELETE", headers: session.headers })).status).toBe(200);
    await eventually(async () => expect((await post(pair.one.url, ping, session.headers)).status).toBe(404));
    // A gateway that was not there learns it from the store.
    await using three = await openGateway(pair.config);
    await eventually(async () => expect((await post(three.url, ping, session.headers)).status).toBe(404));
  });

  it("take a request of a peer only with the secret", async () => {
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(pong);
    const config = replicaConfig(redis.state, { upstream: { url: upstream.url } });
    await using _gateway = await openGateway(config);
    const peers = await readPeers(redis);
    for (const url of peers) {
      expect((await post(`${url}/mcp`, ping, {})).status).toBe(401);
      expect((await post(`${url}/mcp`, ping, { "headgate-peer": "hp1.x.y" })).status).toBe(401);
    }
    expect(peers).toHaveLength(1);
  });

  it("take what was heard on the wire neither with another message nor twice", async () => {
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(pong);
    const config = replicaConfig(redis.state, { upstream: { url: upstream.url } });
    await using _gateway = await openGateway(config);
    const [url = ""] = await readPeers(redis);
    await using wire = await fakeUpstream((call) => call.replyRaw(204));
    const body = Buffer.from(JSON.stringify(ping));
    const heard = async (): Promise<Readonly<Record<string, string>>> => {
      const headers = { ...postHeaders, host: "gateway.example" };
      const request = { method: "POST", url: "/mcp", headers, socket: new EventEmitter() };
      const seal = createSeals([Buffer.from(config.cluster?.secret ?? "")]).peer;
      const caller = {
        body,
        principal: principalNamed("alice"),
        address: "10.0.0.9",
        credentialHeaders: new Set<string>(),
      };
      // Only these members are read.
      const forwarded = { ...caller, request: request as unknown as IncomingMessage };
      await sendToPeer({ seal, agent: new Agent(), subjectTokens: new WeakMap() }, wire.url, forwarded, Date.now);
      const { "content-length": _, ...sent } = wire.calls.at(-1)?.headers ?? {};
      return sent as Readonly<Record<string, string>>;
    };
    const first = await heard();
    expect((await exchange(`${url}/mcp`, { method: "POST", headers: first, body: ping })).status).not.toBe(401);
    expect((await exchange(`${url}/mcp`, { method: "POST", headers: first, body: ping })).status).toBe(401);
    const other = { jsonrpc: "2.0", id: 1, method: "roots/ls" };
    expect((await exchange(`${url}/mcp`, { method: "POST", headers: await heard(), body: other })).status).toBe(401);
  });
});

/** The URLs that gateways have announced. */
async function readPeers(redis: RedisServer): Promise<readonly string[]> {
  const { createClient } = await import("@redis/client");
  const client = createClient({ url: redis.url });
  await client.connect();
  const nodes = await client.sMembers("hg:nodes");
  const urls = await client.mGet(nodes.map((node) => `hg:lease:${node}`));
  client.destroy();
  return urls.filter((url) => url !== null);
}

describe("the store that gateways share", () => {
  it("is needed to start, unless that is configured otherwise", async () => {
    await using upstream = await legacyUpstream(pong);
    const state = { keys: [newSecret()], redis: { url: "redis://127.0.0.1:1" } };
    await expect(openGateway({ upstream: { url: upstream.url }, state })).rejects.toThrow(/store/u);
    await using alone = await openGateway({ upstream: { url: upstream.url }, state: { ...state, required: false } });
    const session = await openSession(alone.url);
    expect(await session.post(ping)).toMatchObject({ status: 200 });
  });

  it.each(["stop", "freeze"] as const)("may be away (%s): sessions go on, and ended ones end here", async (how) => {
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(pong);
    await using pair = await openPair(redis.state, { upstream: { url: upstream.url } });
    const [kept, ended] = [await openSession(pair.one.url), await openSession(pair.one.url)];
    await redis[how]();
    // Any gateway opens ids without the store; whether a session has ended elsewhere is not known, so it goes on.
    for (const { url } of [pair.one, pair.two]) expect((await post(url, ping, kept.headers)).status).toBe(200);
    expect((await ended.end()).status).toBe(200);
    expect((await ended.post(ping)).status).toBe(404);
    if (how === "freeze") redis.thaw();
    else await redis.start();
    expect((await kept.post(ping)).status).toBe(200);
  });
});

describe("a session with a process", () => {
  it("goes on at its owner while the store is away; if that has gone too, the client is told when to try again", async () => {
    await using redis = await startRedis();
    const [command, ...args] = stdioFixture({ era: "legacy" });
    const config = replicaConfig(redis.state, { upstream: { command, args } });
    await using owner = await openGateway(config);
    await using stranger = await openGateway(config);
    const session = await openSession(owner.url);
    const call = toolCall(1, "test_simple_text");
    await eventually(async () => expect((await post(stranger.url, call, session.headers)).status).toBe(200));
    await redis.stop();
    for (const { url } of [owner, stranger]) expect((await post(url, call, session.headers)).status).toBe(200);
    // Its process cannot be reached any more, and nobody can say who serves the session now.
    await owner.gateway.close();
    const refused = await post(stranger.url, call, session.headers);
    expect(refused).toMatchObject({ status: 503, headers: { "retry-after": expect.any(String) } });
    await redis.start();
    await eventually(async () => expect((await post(stranger.url, call, session.headers)).status).toBe(200));
  });
});

describe("a gateway of several that is killed", () => {
  it("loses no session: HTTP servers go on elsewhere at once, processes begin anew when its lease has ended", async () => {
    await using redis = await startRedis();
    const [command, ...args] = stdioFixture({ era: "legacy" });
    await using fixture = await startFixture({ era: "legacy" });
    const routes = { web: { upstream: { url: fixture.url } }, local: { upstream: { command, args } } };
    const config = replicaConfig(redis.state, { routes });
    await using one = await startRestartable(config);
    await using two = await startRestartable(config);
    const web = await openSession(`${one.origin}/web/mcp`);
    const local = await openSession(`${one.origin}/local/mcp`);
    await one.stop("SIGKILL");
    const call = toolCall(1, "test_simple_text");
    const at = async (route: string, headers: Readonly<Record<string, string>>) =>
      post(`${two.origin}/${route}/mcp`, call, headers);
    expect(await at("web", web.headers)).toMatchObject({ status: 200 });
    await eventually(async () => expect((await at("local", local.headers)).status).toBe(200));
    await one.start();
  });
});

describe("a rolling restart", () => {
  it("fails no call, with sessions that call all the time", async () => {
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(pong);
    const config: ConfigInput = {
      ...replicaConfig(redis.state, { upstream: { url: upstream.url } }),
      shutdown: { grace: "10s", readinessDelay: "2s" },
    };
    await using one = await startRestartable(config);
    await using two = await startRestartable(config);
    await using proxy = await startRoundRobin([one.origin, two.origin]);
    const sessions = await Promise.all(Array.from({ length: 20 }, async () => openSession(proxy.url)));
    let isOver = false;
    const outcomes = new Map<number, number>();
    const calling = sessions.map(async (session) => {
      while (!isOver) {
        const { status } = await session.post(ping);
        outcomes.set(status, (outcomes.get(status) ?? 0) + 1);
      }
    });
    for (const gateway of [one, two]) {
      // The proxy takes it out; requests on their way are served during the readiness delay.
      proxy.servers.splice(proxy.servers.indexOf(gateway.origin), 1);
      await gateway.restart("SIGTERM");
      proxy.servers.push(gateway.origin);
    }
    isOver = true;
    await Promise.all(calling);
    expect([...outcomes.keys()]).toEqual([200]);
    expect(upstream.sessions).toHaveLength(sessions.length);
  });
});
