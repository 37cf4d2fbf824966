import { once } from "node:events";
import { connect } from "node:net";

import { describe, expect, it, onTestFinished } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import type { UpstreamCall } from "../support/fake-upstream.ts";
import { handshake, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type LegacyUpstream } from "../support/legacy-upstream.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { exchange, post, postHeaders, type RawAnswer } from "../support/raw-http.ts";

type Limits = NonNullable<ConfigInput["limits"]>;

interface Bench extends AsyncDisposable {
  readonly upstream: LegacyUpstream;
  readonly gateway: LocalGateway;
  readonly url: string;
  /** The calls that the upstream keeps waiting, once there are so many. */
  readonly waiting: (count: number) => Promise<readonly UpstreamCall[]>;
}

/** A gateway with these limits before a server that answers when it is told to, except to `quick`. */
async function bench(limits: Limits, more: ConfigInput = {}): Promise<Bench> {
  const held: UpstreamCall[] = [];
  let changed = Promise.withResolvers<void>();
  const upstream = await legacyUpstream((call, message) => {
    if (message.id === undefined) {
      call.replyRaw(202);
      return;
    }
    if (message.params?.["name"] === "quick") {
      call.reply(textResult(message.id, "quick"));
      return;
    }
    held.push(call);
    changed.resolve();
    changed = Promise.withResolvers();
  });
  const gateway = await openGateway({ upstream: { url: upstream.url }, limits, ...more });
  return {
    upstream,
    gateway,
    url: gateway.url,
    waiting: async (count) => {
      while (held.length < count) await changed.promise;
      return held;
    },
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

/** What a client sees of a refusal. */
function refusalOf({ status, headers, json }: RawAnswer) {
  return { status, retryAfter: headers["retry-after"], body: json };
}

function answer(call: UpstreamCall | undefined): void {
  if (call !== undefined) call.reply(textResult(sentMessage(call).id, "done"));
}

describe("a message that is too large", () => {
  it("is refused with 413, whether its length was announced or not", async () => {
    await using at = await bench({ bodyBytes: 1000 });
    const body = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "ping",
      params: { text: "x".repeat(1000) },
    });
    const refused = { error: { code: -32_000, data: { origin: "gateway", code: "too_large" } } };
    const announced = await post(at.url, body);
    expect(announced).toMatchObject({ status: 413, json: refused });
    expect(announced.json).toMatchObject({
      error: { data: { limit: { actual: body.length, allowed: 1000 } } },
    });
    const chunked = { ...postHeaders, "transfer-encoding": "chunked" };
    expect(await exchange(at.url, { method: "POST", headers: chunked, body })).toMatchObject({
      status: 413,
      json: refused,
    });
  });

  it("is refused with 431 for the sum of its headers", async () => {
    await using at = await bench({ headerBytes: 2000 });
    const { status } = await post(at.url, handshake("2025-11-25"), { "x-long": "x".repeat(3000) });
    expect(status).toBe(431);
  });

  it("is refused with 400 for its depth", async () => {
    await using at = await bench({ depth: 10 });
    const session = await openSession(at.url);
    const deep = `{"jsonrpc":"2.0","id":7,"method":"ping","params":${'{"a":'.repeat(20)}1${"}".repeat(20)}}`;
    expect(await session.post(deep)).toMatchObject({
      status: 400,
      json: { error: { data: { origin: "gateway" } } },
    });
    expect(at.upstream.received("ping")).toHaveLength(0);
  });

  it("is refused with 400 for the length of its batch", async () => {
    await using at = await bench({ batch: 2 });
    const session = await openSession(at.url, "2025-03-26");
    const calls = [1, 2, 3].map((id) => toolCall(id, "quick"));
    expect(await session.post(calls)).toMatchObject({
      status: 400,
      json: { error: { code: -32_600, data: { origin: "gateway" } } },
    });
    expect(await session.post(calls.slice(1))).toMatchObject({ status: 200 });
  });
});

describe("a line of a child process that is too long", () => {
  /** Shakes hands, says a long line on its way, and answers the tool `long` with one. */
  const script = `
    const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (id === undefined) return;
      const text = params.name === "long" ? "x".repeat(5000) : "short";
      process.stdout.write("y".repeat(5000) + "\\n");
      const agreed = { protocolVersion: params.protocolVersion, capabilities: {}, serverInfo: { name: "x", version: "1" } };
      say({ id, result: method === "initialize" ? agreed : { content: [{ type: "text", text }] } });
    });`;

  it("is no message, whatever it holds, and everything else goes on", async () => {
    await using gateway = await openGateway({
      limits: { stdioLineBytes: 1000 },
      routes: {
        child: {
          upstream: { command: process.execPath, args: ["-e", script], era: "legacy" },
        },
      },
    });
    const session = await openSession(gateway.url);
    expect(await session.post(toolCall(1, "long"))).toMatchObject({
      status: 502,
      json: { id: 1, error: { data: { code: "upstream_invalid" } } },
    });
    expect(await session.post(toolCall(2, "short"))).toMatchObject({ status: 200, json: { id: 2 } });
  });
});

describe("too many requests at once", () => {
  const full: readonly (readonly [string, Limits, number, string])[] = [
    ["of one principal", { requestsPerPrincipal: 2, requests: 10 }, 429, "rate_limited"],
    ["in all", { requestsPerPrincipal: 10, requests: 2 }, 503, "overloaded"],
    ["that wait in one session", { pendingPerScope: 2 }, 429, "rate_limited"],
    ["of one principal that wait on one route", { pendingPerPrincipal: 2 }, 429, "rate_limited"],
    ["that wait on one route", { pending: 2, pendingPerPrincipal: 2 }, 429, "rate_limited"],
  ];

  it.each(full)(
    "%s are refused with the id of the request and when to come back",
    async (_which, limits, status, code) => {
      await using at = await bench(limits);
      const session = await openSession(at.url);
      const running = [1, 2].map((id) => session.post(toolCall(id, "slow")));
      const held = await at.waiting(2);
      expect(refusalOf(await session.post(toolCall("third", "slow")))).toMatchObject({
        status,
        retryAfter: "1",
        body: {
          id: "third",
          error: { data: { origin: "gateway", code, current: 2, limit: 2, retryAfter: 1 } },
        },
      });
      answer(held[0]);
      answer(held[1]);
      await Promise.all(running);
      expect(await session.post(toolCall(4, "quick"))).toMatchObject({ status: 200 });
    },
  );

  it("are refused while their bodies are still on the way, before anything is read", async () => {
    await using at = await bench({ requestsPerPrincipal: 1 });
    const slow = new AbortController();
    const unfinished = exchange(at.url, {
      method: "POST",
      headers: { ...postHeaders, "content-length": 1000 },
      body: "{",
      signal: slow.signal,
    });
    unfinished.catch(() => {});
    await expect.poll(async () => (await post(at.url, handshake("2025-11-25"))).status).toBe(429);
    slow.abort();
    await expect.poll(async () => (await post(at.url, handshake("2025-11-25"))).status).toBe(200);
  });

  it.each(["never begins", "never ends", "comes a byte at a time"])(
    "a body that %s is answered 408 after `timeouts.body`, and no longer counted",
    async (how) => {
      await using at = await bench({ requestsPerPrincipal: 1 }, { timeouts: { body: "1s" } });
      const { hostname, port } = new URL(at.url);
      const socket = connect(Number(port), hostname);
      onTestFinished(() => {
        socket.destroy();
      });
      socket.write(
        `POST /mcp HTTP/1.1\r\nHost: ${hostname}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
      );
      if (how === "never ends") socket.write("{");
      const dripping = how === "comes a byte at a time" ? setInterval(() => socket.write(" "), 50) : undefined;
      onTestFinished(() => {
        clearInterval(dripping);
      });
      const [received] = (await once(socket, "data")) as [Buffer];
      clearInterval(dripping);
      expect(received.toString()).toContain("HTTP/1.1 408");
      await expect.poll(async () => (await post(at.url, handshake("2025-11-25"))).status).toBe(200);
    },
  );

  it("let cancels pass, which end what runs", async () => {
    await using at = await bench({ requestsPerPrincipal: 1 });
    const session = await openSession(at.url);
    const running = session.post(toolCall(1, "slow"));
    await at.waiting(1);
    const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } };
    expect((await session.post(cancel)).status).toBe(202);
    await running;
    expect(await session.post(toolCall(2, "quick"))).toMatchObject({ status: 200 });
  });
});

describe("too many requests in a time", () => {
  const rate = { perSecond: 0.01, burst: 2 };
  const refused = { status: 429, retryAfter: "100" };

  it("[SC-071] of one session are refused with 429, Retry-After and the id", async () => {
    await using at = await bench({}, { rates: { session: { perSecond: 0.01, burst: 3 } } });
    const one = await openSession(at.url);
    expect((await one.post(toolCall(1, "quick"))).status).toBe(200);
    expect(refusalOf(await one.post(toolCall("second", "quick")))).toMatchObject({
      ...refused,
      body: { id: "second", error: { code: 4290, data: { code: "rate_limited", scope: "session" } } },
    });
    const other = await openSession(at.url);
    expect((await other.post(toolCall(1, "quick"))).status).toBe(200);
  });

  it("[SC-071] of one client are refused in both eras, whatever session they are in", async () => {
    await using at = await bench({}, { rates: { principal: { perSecond: 0.01, burst: 2 } } });
    const session = await openSession(at.url);
    expect(refusalOf(await session.post(toolCall(1, "quick")))).toMatchObject(refused);
    expect(refusalOf(await postModern(at.url, modernRequest("m", "tools/list")))).toMatchObject({
      ...refused,
      body: { id: "m", error: { data: { code: "rate_limited", scope: "principal" } } },
    });
  });

  it("[SC-071] of one method are refused, others pass", async () => {
    await using at = await bench({}, { rates: { methods: { "tools/call": rate } } });
    const session = await openSession(at.url);
    const call = async (id: number) => (await session.post(toolCall(id, "quick"))).status;
    expect([await call(1), await call(2), await call(3)]).toEqual([200, 200, 429]);
    expect((await openSession(at.url)).id).not.toBe(session.id);
  });

  it("are counted on each route by its own rates", async () => {
    await using upstream = await legacyUpstream((call, { id }) => call.reply(textResult(id, "done")));
    const target = { upstream: { url: upstream.url } };
    await using gateway = await openGateway({
      rates: { methods: { "tools/call": { ...rate, burst: 1 } } },
      routes: { a: target, b: target, c: { ...target, rates: {} } },
    });
    const statuses = async (route: string): Promise<number[]> => {
      const session = await openSession(`${gateway.origin}/${route}/mcp`);
      return [(await session.post(toolCall(1, "x"))).status, (await session.post(toolCall(2, "x"))).status];
    };
    expect([await statuses("a"), await statuses("b"), await statuses("c")]).toEqual([
      [200, 429],
      [200, 429],
      [200, 200],
    ]);
  });
});

describe("a tool with a time limit of its own", () => {
  it("[SC-050] is given up then, and others of the route are not", async () => {
    await using at = await bench({});
    await using gateway = await openGateway({
      routes: { a: { upstream: { url: at.upstream.url }, timeouts: { tools: { hasty: "50ms" } } } },
    });
    const session = await openSession(gateway.url);
    const patient = session.post(toolCall(1, "patient"));
    expect(await session.post(toolCall(2, "hasty"))).toMatchObject({
      status: 504,
      json: { id: 2, error: { data: { code: "upstream_timeout" } } },
    });
    const held = await at.waiting(2);
    answer(held.find((call) => sentMessage(call).id === 1));
    expect(await patient).toMatchObject({ status: 200 });
  });
});

describe("the address of a client", () => {
  it("is what a trusted proxy says, and what the connection says of everybody else", async () => {
    await using upstream = await legacyUpstream(() => {});
    const peersWith = async (trustedProxies: string[]): Promise<unknown[]> => {
      const lines: string[] = [];
      const log = createLogger({
        level: "info",
        pretty: false,
        destination: { write: (line) => lines.push(line) },
      });
      await using gateway = await openGateway({ upstream: { url: upstream.url }, listen: { trustedProxies } }, { log });
      await post(gateway.url, handshake("2025-11-25"), { "x-forwarded-for": "198.51.100.1, 203.0.113.7" });
      return lines.map((line) => JSON.parse(line).peer).filter((peer) => peer !== undefined);
    };
    expect(await peersWith([])).toEqual(["127.0.0.1"]);
    expect(await peersWith(["127.0.0.0/8"])).toEqual(["203.0.113.7"]);
  });
});

describe("figures and readiness", () => {
  it("tell of messages on both legs, sessions, streams and how the upstream does", async () => {
    await using at = await bench({}, { admin: { port: 0 } });
    const ready = async () => (await exchange(`${at.gateway.adminUrl}/readyz`)).json;
    expect(await ready()).toEqual({ ready: true, routes: { default: "not tried yet" } });
    const session = await openSession(at.url);
    await session.post(toolCall(1, "quick"));
    expect(await ready()).toEqual({ ready: true, routes: { default: "ok" } });
    await using stream = await session.listen();
    expect(stream.status).toBe(200);
    const text = (): string => at.gateway.gateway.metrics();
    for (const line of [
      'headgate_messages_total{route="default",leg="client",direction="in",kind="request"} 2',
      'headgate_messages_total{route="default",leg="client",direction="in",kind="notification"} 1',
      'headgate_messages_total{route="default",leg="client",direction="out",kind="result"} 2',
      'headgate_messages_total{route="default",leg="upstream",direction="out",kind="request"} 2',
      'headgate_messages_total{route="default",leg="upstream",direction="in",kind="result"} 2',
      'headgate_upstream_requests_total{route="default",outcome="ok"} 2',
      'headgate_sessions{route="default"} 1',
      'headgate_sessions_opened_total{route="default"} 1',
      'headgate_streams{route="default",leg="client"} 1',
      'headgate_correlation_total{outcome="matched"} 2',
    ]) {
      expect(text()).toContain(`${line}\n`);
    }
    await session.end();
    expect(text()).toContain('headgate_sessions{route="default"} 0\n');
    expect(text()).toContain('headgate_sessions_closed_total{route="default",reason="client"} 1\n');
    await expect.poll(text).toContain('headgate_streams{route="default",leg="client"} 0\n');
  });

  it("show a failing upstream without taking the gateway out of service for it", async () => {
    const gone = await legacyUpstream(() => {});
    await gone[Symbol.asyncDispose]();
    await using well = await legacyUpstream(() => {});
    await using gateway = await openGateway({
      admin: { port: 0 },
      routes: { gone: { upstream: { url: gone.url } }, well: { upstream: { url: well.url } } },
    });
    await openSession(`${gateway.origin}/well/mcp`);
    expect((await post(`${gateway.origin}/gone/mcp`, handshake("2025-11-25"))).status).toBe(502);
    const { status, json } = await exchange(`${gateway.adminUrl}/readyz`);
    expect(status).toBe(200);
    expect(json).toEqual({
      ready: true,
      routes: { gone: expect.stringMatching(/^failing: .*ECONNREFUSED.*, since 20\d\d-/u), well: "ok" },
    });
    expect(gateway.gateway.metrics()).toContain(
      'headgate_upstream_requests_total{route="gone",outcome="unreachable"} 1\n',
    );
  });
});

describe("requests with an id that is in use", () => {
  it("have their timeouts and their places all the same", async () => {
    await using upstream = await legacyUpstream((call, { id }) => {
      if (call.json !== undefined && id === "free") call.reply(textResult(id, "free"));
    });
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      timeouts: { quick: 1000, tool: 1000, human: 1000, hard: 1000 },
      limits: { pendingPerPrincipal: 5 },
    });
    const session = await openSession(gateway.url, "2025-11-25");
    const answers = await Promise.all(Array.from({ length: 20 }, () => session.post(toolCall(1, "any"))));
    for (const { json } of answers) expect(json).toMatchObject({ id: 1, error: { data: { origin: "gateway" } } });
    expect(gateway.gateway.metrics()).toContain('headgate_pending{route="default"} 0\n');
    expect((await session.post(toolCall("free", "any"))).json).toEqual(textResult("free", "free"));
  });
});
