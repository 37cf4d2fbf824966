// Several gateways behind a proxy that sends each request to the next one. Real Redis, real processes where they die.
import { EventEmitter } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, type IncomingMessage } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";

import { createClient } from "@redis/client";
import { describe, expect, it, onTestFinished } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { NotThePeerError, sendToPeer } from "../../src/gateway/edge/peer-requests.ts";
import { createSeals } from "../../src/lib/keys/sealing.ts";
import { createCertificate } from "../support/certificate.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { startGateway } from "../support/gateway.ts";
import { fakeUpstream, type UpstreamStream } from "../support/fake-upstream.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import type { Principal } from "../../src/core/exchange.ts";
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

describe("a cursor of one gateway", () => {
  it("goes on at another with the same keys, and is refused by one with others", async () => {
    const names = ["a", "b", "c", "d"];
    const tools = names.map((name) => ({ name, inputSchema: { type: "object" } }));
    await using upstream = await legacyUpstream((call, { id, method }) =>
      call.reply({ jsonrpc: "2.0", id, result: method === "tools/list" ? { tools } : {} }),
    );
    const upstreams = { one: { url: upstream.url, prefix: "" } };
    const config: ConfigInput = {
      state: { keys: [newSecret()] },
      routes: { all: { upstreams, federation: { listing: { page: 1 } } } },
    };
    await using first = await openGateway(config);
    await using second = await openGateway(config);
    await using stranger = await openGateway({ ...config, state: { keys: [newSecret()] } });
    const { headers } = await openSession(first.url);
    const listed: unknown[] = [];
    const list = async (url: string, own: Readonly<Record<string, string>>, cursor: unknown) => {
      const params = cursor === undefined ? {} : { cursor };
      const { json } = await post(url, { jsonrpc: "2.0", id: 1, method: "tools/list", params }, own);
      return Object(json) as { readonly result?: { tools: { name: string }[]; nextCursor?: string }; error?: unknown };
    };
    let cursor: string | undefined;
    do {
      const { url } = listed.length % 2 === 0 ? first : second;
      const { result } = await list(url, headers, cursor);
      listed.push(...(result?.tools.map(({ name }) => name) ?? []));
      cursor = result?.nextCursor;
      if (cursor !== undefined && listed.length === 1)
        expect(await list(stranger.url, (await openSession(stranger.url)).headers, cursor)).toMatchObject({
          error: { code: -32_602 },
        });
    } while (cursor !== undefined);
    expect(listed).toEqual(names);
  });
});

describe("a server whose list changes", () => {
  it("is listed anew by a gateway that did not hear of it", async () => {
    let tool = "before";
    await using upstream = await fakeUpstream((call) => {
      const { id, method } = Object(call.json) as { id?: unknown; method?: string };
      if (call.method !== "POST") return call.replyRaw(405, { allow: "POST" });
      if (id === undefined) return call.replyRaw(202);
      const result =
        method === "initialize"
          ? {
              protocolVersion: "2025-11-25",
              capabilities: { tools: { listChanged: true } },
              serverInfo: { name: "changing", version: "1" },
            }
          : { tools: [{ name: tool, inputSchema: { type: "object" } }] };
      return call.reply({ jsonrpc: "2.0", id, result }, 200, { "mcp-session-id": "upstream" });
    });
    const upstreams = { one: { url: upstream.url, prefix: "" } };
    const config: ConfigInput = { state: { keys: [newSecret()] }, routes: { all: { upstreams } } };
    await using first = await openGateway(config);
    await using second = await openGateway(config);
    const session = await openSession(first.url);
    const listed = async () => post(second.url, { jsonrpc: "2.0", id: 1, method: "tools/list" }, session.headers);
    expect((await listed()).json).toMatchObject({ result: { tools: [{ name: "before" }] } });
    // Only the first would hear of it.
    tool = "after";
    expect((await listed()).json).toMatchObject({ result: { tools: [{ name: "after" }] } });
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
    for (const url of await readPeers(redis, pair.config)) expect(url).toMatch(how === "TLS" ? /^https:/u : /^http:/u);
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

  it("take up new certificates at both ends, without a restart", async () => {
    await using redis = await startRedis();
    using certificate = createCertificate("first");
    const { certFile, keyFile } = certificate;
    const [command, ...args] = stdioFixture({ era: "legacy" });
    const tls = { certFile, keyFile, caFile: certFile };
    const cluster = { listen: { host: "127.0.0.1", port: 0 }, tls };
    await using pair = await openPair(redis.state, { upstream: { command, args }, cluster });
    const [url = ""] = await readPeers(redis, pair.config);
    const session = await openSession(pair.one.url);
    const call = toolCall(1, "test_simple_text");
    expect((await post(pair.two.url, call, session.headers)).status).toBe(200);
    const first = { cert: readFileSync(certFile), key: readFileSync(keyFile), ca: readFileSync(certFile) };
    expect(await shownBy(url, first)).toBe("first");
    certificate.replace("second");
    const second = { cert: readFileSync(certFile), key: readFileSync(keyFile), ca: readFileSync(certFile) };
    await eventually(async () => expect(await shownBy(url, second)).toBe("second"));
    // Each hands requests over with the new one, and trusts no other any more.
    await eventually(async () => expect((await post(pair.two.url, call, session.headers)).status).toBe(200));
    await expect(shownBy(url, { ...first, ca: second.ca })).rejects.toMatchObject({ code: expect.any(String) });
  });

  it.each(["with their store", "while it is away"])(
    "bring a resumed stream to the gateway that sent its events, %s",
    async (when) => {
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
      if (when === "while it is away") await redis.stop();
      const headers = { ...session.headers, accept: "text/event-stream", "last-event-id": seen?.id ?? "" };
      await using resumed = await openStream(pair.two.url, { headers });
      expect(await nextMessage(resumed)).toMatchObject({ params: { data: "second" } });
      await (await running.promise).send(textResult(7, "done"));
      expect(await nextMessage(resumed)).toMatchObject({ id: 7, result: {} });
      expect(pair.two.gateway.metrics()).toMatch(/^headgate_forwarded_requests_total\{.*\} 1$/mu);
    },
  );

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
    const peers = await readPeers(redis, config);
    for (const url of peers) {
      expect((await post(`${url}/mcp`, ping, {})).status).toBe(401);
      expect((await post(`${url}/mcp`, ping, { "headgate-peer": "hp1.x.y" })).status).toBe(401);
    }
    expect(peers).toHaveLength(1);
  });

  it("with clocks that differ tell the client to try again, and not that its credentials are wrong", async () => {
    await using redis = await startRedis();
    const [command, ...args] = stdioFixture({ era: "legacy" });
    const config = { ...replicaConfig(redis.state, { upstream: { command, args } }), admin: false as const };
    await using owner = await openGateway(config);
    const folder = mkdtempSync(join(tmpdir(), "headgate-clocks-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "headgate.json");
    writeFileSync(file, JSON.stringify(config));
    const early = "data:text/javascript,const now = Date.now; Date.now = () => now() - 120_000;";
    const env = { NODE_OPTIONS: `--import "${early}"` };
    await using other = await startGateway(["run", "--config", file, "--port", "0"], { env });
    const session = await openSession(owner.url);
    await eventually(async () => {
      const answered = await post(other.url, toolCall(1, "test_simple_text"), session.headers);
      expect(answered).toMatchObject({ status: 503, headers: { "retry-after": expect.any(String) } });
      expect(other.process.output()).toContain("a peer rejects the requests that this gateway forwards");
    });
    expect((await session.post(toolCall(2, "test_simple_text"))).status).toBe(200);
  });

  it("take what was heard on the wire neither with another message nor twice", async () => {
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(pong);
    const config = replicaConfig(redis.state, { upstream: { url: upstream.url } });
    await using _gateway = await openGateway(config);
    const [url = ""] = await readPeers(redis, config);
    await using wire = await fakeUpstream((call) => call.replyRaw(204));
    const body = Buffer.from(JSON.stringify(ping));
    const heard = async (): Promise<Readonly<Record<string, string>>> => {
      // The process that answers there cannot open the sealed request.
      await expect(sendAsPeer(config, wire.url, body)).rejects.toBeInstanceOf(NotThePeerError);
      const { "content-length": _, ...sent } = wire.calls.at(-1)?.headers ?? {};
      return sent as Readonly<Record<string, string>>;
    };
    const first = await heard();
    expect((await exchange(`${url}/mcp`, { method: "POST", headers: first, body: ping })).status).not.toBe(401);
    expect((await exchange(`${url}/mcp`, { method: "POST", headers: first, body: ping })).status).toBe(401);
    const other = { jsonrpc: "2.0", id: 1, method: "roots/ls" };
    expect((await exchange(`${url}/mcp`, { method: "POST", headers: await heard(), body: other })).status).toBe(401);
  });

  it("do not take the answer of another process at the address of one of them for its answer", async () => {
    await using redis = await startRedis();
    await using foreign = await fakeUpstream((call) => call.reply(textResult(1, "not yours")));
    const [command, ...args] = stdioFixture({ era: "legacy" });
    const config = replicaConfig(redis.state, { upstream: { command, args } });
    const { cluster = { listen: { host: "127.0.0.1", port: 0 } } } = config;
    // As if another process had taken its port since it died.
    await using owner = await openGateway({
      ...config,
      cluster: { ...cluster, advertise: new URL(foreign.url).origin },
    });
    await using other = await openGateway(config);
    await eventually(() => expect(other.gateway.metrics()).toMatch(/^headgate_peers 1$/mu));
    const session = await openSession(owner.url);
    const call = toolCall(1, "test_simple_text");
    const refused = await post(other.url, call, { ...session.headers, authorization: "Bearer secret" });
    expect(refused).toMatchObject({ status: 503, headers: { "retry-after": expect.any(String) } });
    expect(refused.text).not.toContain("not yours");
    expect(foreign.calls.length).toBeGreaterThan(0);
    for (const { headers } of foreign.calls) expect(JSON.stringify(headers)).not.toContain("secret");
    expect((await session.post(call)).status).toBe(200);
  });

  it("with different secrets hand each other nothing, and say so", async () => {
    await using redis = await startRedis();
    const [command, ...args] = stdioFixture({ era: "legacy" });
    const config = replicaConfig(redis.state, { upstream: { command, args } });
    const { cluster = { listen: { host: "127.0.0.1", port: 0 } } } = config;
    await using owner = await openGateway(config);
    const lines: string[] = [];
    const log = createLogger({ level: "info", pretty: false, destination: { write: (line) => lines.push(line) } });
    await using other = await openGateway({ ...config, cluster: { ...cluster, secret: newSecret() } }, { log });
    await eventually(() => expect(lines.join("")).toContain("cannot read what other gateways announce"));
    const session = await openSession(owner.url);
    const call = toolCall(1, "test_simple_text");
    const refused = await post(other.url, call, session.headers);
    expect(refused).toMatchObject({ status: 503, headers: { "retry-after": expect.any(String) } });
    expect((await session.post(call)).status).toBe(200);
  });

  it("say that a route is missing at the owner so that the client tries again, and keeps its session", async () => {
    await using redis = await startRedis();
    await using upstream = await legacyUpstream(pong);
    const config = replicaConfig(redis.state, { upstream: { url: upstream.url } });
    await using _gateway = await openGateway(config);
    const [url = ""] = await readPeers(redis, config);
    const answer = await sendAsPeer(config, url, Buffer.from(JSON.stringify(ping)), "/another/mcp");
    expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([503, "2"]);
    answer.destroy();
  });
});

/** Forwards a request as a gateway with this configuration would. */
async function sendAsPeer(config: ConfigInput, url: string, body: Buffer, path = "/mcp"): Promise<IncomingMessage> {
  const headers = { ...postHeaders, host: "gateway.example" };
  const request = { method: "POST", url: path, headers, socket: new EventEmitter() };
  const seal = createSeals([Buffer.from(config.cluster?.secret ?? "")]).peer;
  const caller = {
    body,
    principal: principalNamed("alice"),
    address: "10.0.0.9",
    credentialHeaders: new Set<string>(),
  };
  // Only these members are read.
  const forwarded = { ...caller, request: request as unknown as IncomingMessage };
  const peer = { node: "0000000b", url, gone: new AbortController().signal };
  const own = { node: "0000000a", seal, agent: new Agent(), subjectTokens: new WeakMap<Principal, string>() };
  return sendToPeer(own, peer, forwarded, Date.now);
}

/** The name in the certificate of a peer's listener; rejects unless it answers a request of ours. */
async function shownBy(url: string, tls: Pick<RequestOptions, "cert" | "key" | "ca">): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
  const request = httpsRequest(url, { ...tls, agent: false, checkServerIdentity: () => undefined }, (answer) => {
    const { subject } = (answer.socket as TLSSocket).getPeerCertificate();
    resolve(subject.CN as string | undefined);
    answer.destroy();
  });
  request.on("error", reject).end();
  return promise;
}

/** The URLs that gateways have announced. Only gateways with the same secret can read and write them. */
async function readPeers(redis: RedisServer, { cluster, state }: ConfigInput): Promise<readonly string[]> {
  const client = createClient({ url: redis.url });
  await client.connect();
  const nodes = await client.sMembers("hg:nodes");
  const leases = await client.mGet(nodes.map((node) => `hg:lease:${node}`));
  client.destroy();
  const secret = cluster?.secret ?? state?.keys?.[0] ?? "";
  const seal = createSeals([Buffer.from(secret)]).peer;
  return nodes.flatMap((node, index) => {
    const lease = leases[index] ?? undefined;
    if (lease === undefined) return [];
    expect(lease).not.toContain("127.0.0.1");
    const content = seal.open(lease, `lease ${node}`)?.toString() ?? "[]";
    return [String((JSON.parse(content) as readonly unknown[])[0])];
  });
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

describe("calls in flight at a gateway that is gone", () => {
  it("end in an error when its lease has ended: those handed to it, and those whose stream the client resumes", async () => {
    await using redis = await startRedis();
    const [command, ...args] = stdioFixture({ era: "legacy" });
    await using upstream = await legacyUpstream((call, { id }) => {
      void call.stream().send({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: id } });
    });
    const routes = { web: { upstream: { url: upstream.url } }, local: { upstream: { command, args } } };
    const config = replicaConfig(redis.state, { routes });
    await using one = await startRestartable(config);
    const client = await createClient({ url: redis.url }).connect();
    using _closing = { [Symbol.dispose]: () => client.destroy() };
    const [lease = ""] = await client.keys("hg:lease:*");
    await using two = await openGateway(config);
    await eventually(() => expect(two.gateway.metrics()).toMatch(/^headgate_peers 1$/mu));
    const [web, local] = [await openSession(`${one.origin}/web/mcp`), await openSession(`${one.origin}/local/mcp`)];
    const streamed = await web.stream(toolCall("a call", "slow"));
    let lastEventId = "";
    for (let event = await streamed.next(); event !== undefined; event = await streamed.next()) {
      lastEventId = event.id ?? "";
      if (event.data !== "") break;
    }
    // The machine is gone, and no connection is closed.
    one.freeze();
    const handedOver = post(`${two.origin}/local/mcp`, toolCall(1, "test_simple_text"), local.headers);
    const resume = async () => {
      const headers = { ...web.headers, accept: "text/event-stream", "last-event-id": lastEventId };
      return openStream(`${two.origin}/web/mcp`, { headers });
    };
    const resuming = resume();
    // This takes 15 seconds without us: it cannot renew its lease.
    await client.del(lease);
    expect(await handedOver).toMatchObject({ status: 503, headers: { "retry-after": expect.any(String) } });
    await using first = await resuming;
    await using resumed = first.status === 200 ? first : await resume();
    expect(await nextMessage(resumed)).toMatchObject({ id: "a call", error: { data: { origin: "gateway" } } });
    expect(await resumed.next()).toBeUndefined();
    // The sessions go on.
    const again = await post(`${two.origin}/local/mcp`, toolCall(2, "test_simple_text"), local.headers);
    expect(again.status).toBe(200);
    await one.stop("SIGKILL");
  });
});
