import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { Agent, createServer, type IncomingMessage } from "node:http";
import { describe, expect, it, onTestFinished } from "vitest";

import { eventually } from "../../../test/support/eventually.ts";
import { createTestContext } from "../../../test/support/gateway-context.ts";
import { handshake } from "../../../test/support/legacy-session.ts";
import { modernRequest } from "../../../test/support/modern-request.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { exchange, post, postHeaders, type RawAnswer } from "../../../test/support/raw-http.ts";
import { anonymous, type Exchange } from "../../core/exchange.ts";
import { noReply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { createSeals } from "../../lib/keys/sealing.ts";
import type { ClusterMember, GatewayContext } from "../context.ts";
import { createMessageCounters } from "../route/guards/limits.ts";
import type { Route } from "../route/route.ts";
import type { ToolHeaders } from "../route/parameter-headers.ts";
import type { HttpCaller } from "./route-authentication.ts";
import { createStreamableHttpHandler } from "./streamable-http.ts";
import { createAuthenticationWaits, whileCounted } from "./waiting.ts";

describe("what is counted while it waits", () => {
  const limits = { total: 3, perPrincipal: 2 };
  const wait = () => Promise.withResolvers<string>();

  it("takes places of the running messages, and gives them back however the wait ends", async () => {
    const counters = createMessageCounters(limits);
    const [first, second] = [wait(), wait()];
    const begin = (find: () => Promise<string>) => whileCounted(counters, "ann", () => true, find);
    const waiting = [begin(() => first.promise), begin(() => second.promise)];
    let isAsked = false;
    const third = begin(async () => {
      isAsked = true;
      return "";
    });
    await expect(third).rejects.toMatchObject({ code: "rate_limited", details: { retryAfter: 1 } });
    expect(isAsked).toBe(false);
    // Another caller still has a place, and a fourth message has none.
    expect(counters.requests.enter("bob")).toBeUndefined();
    await expect(whileCounted(counters, "eve", () => true, third.catch.bind(third))).rejects.toMatchObject({
      code: "overloaded",
    });
    first.resolve("found");
    second.reject(new Error("gone"));
    expect(await Promise.allSettled(waiting)).toMatchObject([{ value: "found" }, { reason: { message: "gone" } }]);
    expect(counters.requests.size).toBe(1);
  });

  it("gives what is no request a place of its own, so that a caller can cancel what waits", async () => {
    const counters = createMessageCounters(limits);
    const requests = [wait(), wait()];
    const running = requests.map(({ promise }) =>
      whileCounted(
        counters,
        "ann",
        () => true,
        () => promise,
      ),
    );
    expect(
      await whileCounted(
        counters,
        "ann",
        () => false,
        async () => "told",
      ),
    ).toBe("told");
    for (const { resolve } of requests) resolve("");
    await Promise.all(running);
    expect([counters.requests.size, counters.notifications.size]).toEqual([0, 0]);
  });

  it("is the request of a caller that is not known yet, by its address", () => {
    let proxies: readonly string[] = [];
    const waits = createAuthenticationWaits(limits, () => proxies);
    const from = (remoteAddress: string | undefined, forwarded?: string) =>
      ({
        socket: { remoteAddress },
        headers: forwarded === undefined ? {} : { "x-forwarded-for": forwarded },
      }) as unknown as IncomingMessage;
    const ended = [waits.begin(from("192.0.2.1")), waits.begin(from("192.0.2.1", "198.51.100.7"))];
    expect(waits.begin(from("192.0.2.1", "198.51.100.8"))).toMatchObject({ code: "rate_limited" });
    for (const end of ended) if (typeof end === "function") end();
    // Behind a trusted proxy, each client has its own places.
    proxies = ["192.0.2.1"];
    for (const client of ["198.51.100.7", "198.51.100.7", "198.51.100.8"])
      expect(waits.begin(from("192.0.2.1", client))).toBeTypeOf("function");
    expect(waits.begin(from("192.0.2.1", "198.51.100.9"))).toMatchObject({ code: "overloaded" });
  });
});

const protocolVersion = "2025-11-25";
const initialize = handshake(protocolVersion, 1);
const tasks = "io.modelcontextprotocol/tasks";
const ping = { jsonrpc: "2.0", id: 2, method: "ping" };
const cancelled = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 2 } };
const answer = { jsonrpc: "2.0", id: "asked-elsewhere", result: {} };

/** A gateway of which everything that comes before the guards hangs, until it is told to go on. */
async function hangingGateway() {
  const gate = Promise.withResolvers<undefined>();
  let isHanging = false;
  const hang = <Found>(found: Found): Found | Promise<Found> => (isHanging ? gate.promise.then(() => found) : found);
  // Takes connections and never answers, as a peer whose process is stopped.
  const dead = createTcpServer();
  await new Promise<void>((resolve) => {
    dead.listen(0, "127.0.0.1", resolve);
  });
  const gone = new AbortController();
  const context = createTestContext();
  const cluster = {
    node: context.node,
    seal: createSeals([Buffer.alloc(32, 1)]).peer,
    agent: new Agent(),
    subjectTokens: new WeakMap(),
    peers: new Map([
      ["peer0001", { url: `http://127.0.0.1:${(dead.address() as AddressInfo).port}`, gone: gone.signal }],
    ]),
    ownerOf: () => hang(context.node),
    successorOf: async () => hang(context.node),
    tasks: { find: async () => hang([]) },
  } as unknown as ClusterMember;
  const counters = createMessageCounters({ total: 8, perPrincipal: 2 });
  const upstream = { holdsSessions: () => true, sharedServer: () => undefined, federation: undefined };
  const tools: ToolHeaders = {
    known: () => undefined,
    isFresh: () => false,
    refresh: async () => hang(undefined),
  };
  // Only these members are used.
  const route = {
    name: "test",
    serving: { eras: "both", supported: ["2026-07-28"] },
    forwardHeaders: new Set(),
    toolHeaders: tools,
    streamOptions: {},
    upstream: () => upstream,
    registerSession: () => {},
    restoreSession: () => {},
    strayResponse: () => {},
    answer: async ({ message }: Exchange) => {
      if (message.kind !== "request") return noReply;
      const result = message.method === "initialize" ? { protocolVersion, capabilities: {} } : {};
      return { message: resultMessage(message.id, JSON.stringify(result)) };
    },
  } as unknown as Route;
  const gateway: GatewayContext = { ...context, cluster };
  const serve = createStreamableHttpHandler(gateway, counters);
  const authentication = { credentialHeaders: new Set() };
  const server = createServer((request, response) => {
    const principal = request.headers["x-caller"] === "bob" ? principalNamed("bob") : anonymous;
    void serve(request, response, route, { principal, isLate: false, authentication } as unknown as HttpCaller);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    gone.abort();
    cluster.agent.destroy();
    dead.close();
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const opened = await post(url, initialize);
  const session = {
    "mcp-session-id": String(opened.headers["mcp-session-id"]),
    "mcp-protocol-version": protocolVersion,
  };
  return {
    url,
    counters,
    session,
    begin: () => {
      isHanging = true;
    },
    /** As if the session had begun at another gateway. */
    forget: () => {
      for (const known of context.registry.sessionsOf("test")) known.end("moved", "moved");
    },
    release: () => {
      gate.resolve(undefined);
      gone.abort();
    },
  };
}

type HangingGateway = Awaited<ReturnType<typeof hangingGateway>>;
type Send = (at: HangingGateway, more?: Readonly<Record<string, string>>) => Promise<RawAnswer>;

describe("a request that waits before the guards count it", () => {
  const modern = (method: string, params: Readonly<Record<string, unknown>>, own: object = {}): Send => {
    const { headers, body } = modernRequest(3, method, params);
    // Who can do nothing may not ask for tasks.
    const text = JSON.stringify(body).replace('Capabilities":{}', `Capabilities":{"extensions":{"${tasks}":{}}}`);
    return async ({ url }, more) => post(url, text, { ...headers, ...own, ...more });
  };
  const inSession = (method: string, body?: unknown): Send => {
    return async ({ url, session }) => exchange(url, { method, headers: { ...postHeaders, ...session }, body });
  };
  const call = modern("tools/call", { name: "t", arguments: {} });

  it.each<[what: string, isForgotten: boolean, send: Send]>([
    ["for the list of the upstream's tools", false, call],
    ["for who has a task", false, modern("tasks/get", { taskId: "t-1" }, { "mcp-name": "t-1" })],
    ["for who has its session", true, inSession("POST", ping)],
    ["to end a session that another gateway may have", true, inSession("DELETE")],
    ["for a peer that may have asked", false, inSession("POST", answer)],
  ])("%s is refused where its caller has too many", async (_what, isForgotten, send) => {
    const at = await hangingGateway();
    if (isForgotten) at.forget();
    at.begin();
    const waiting = [send(at), send(at)];
    await eventually(() => {
      expect(at.counters.requests.size).toBe(2);
    });
    expect(await call(at)).toMatchObject({ status: 429, headers: { "retry-after": "1" }, json: { id: 3 } });
    // Others have their own places.
    const other = call(at, { "x-caller": "bob" });
    await eventually(() => {
      expect(at.counters.requests.size).toBe(3);
    });
    at.release();
    for (const { status } of await Promise.all([...waiting, other])) expect(status).not.toBe(429);
    expect([at.counters.requests.size, at.counters.notifications.size]).toEqual([0, 0]);
  });

  it("can be cancelled by a caller that has too many", async () => {
    const at = await hangingGateway();
    at.forget();
    at.begin();
    const [request, notification] = [inSession("POST", ping), inSession("POST", cancelled)];
    const waiting = [request(at), request(at)];
    await eventually(() => {
      expect(at.counters.requests.size).toBe(2);
    });
    expect(await request(at)).toMatchObject({ status: 429 });
    const cancelling = notification(at);
    await eventually(() => {
      expect(at.counters.notifications.size).toBe(1);
    });
    at.release();
    expect((await Promise.all([...waiting, cancelling])).map(({ status }) => status)).toEqual([200, 200, 202]);
  });
});
