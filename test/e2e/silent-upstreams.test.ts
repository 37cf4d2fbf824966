import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { handshake, openSession, toolCall } from "../support/legacy-session.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { post, type RawAnswer } from "../support/raw-http.ts";
import { eventually } from "../support/eventually.ts";

const timeouts: ConfigInput["timeouts"] = { quick: "2s", tool: "2s", human: "1m", hard: "1m" };
const call = modernRequest(7, "tools/call", { name: "any", arguments: {} });
const initialized = { jsonrpc: "2.0", method: "notifications/initialized" };

interface Told {
  readonly id?: unknown;
  readonly method?: string;
}

/** A legacy server that does not answer some messages. */
async function silentServer(isSilent: (message: Told, call: UpstreamCall) => boolean) {
  let sessions = 0;
  return fakeUpstream((asked) => {
    const message = Object(asked.json) as Told;
    const { id, method } = message;
    if (isSilent(message, asked)) return;
    if (asked.method !== "POST") asked.replyRaw(asked.method === "GET" ? 405 : 200);
    else if (id === undefined) asked.replyRaw(202);
    else if (method === "initialize") {
      const serverInfo = { name: "silent", version: "1" };
      const result = { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo };
      asked.reply({ jsonrpc: "2.0", id, result }, 200, { "mcp-session-id": `s${++sessions}` });
    } else asked.reply({ jsonrpc: "2.0", id, result: method === "tools/list" ? { tools: [] } : { content: [] } });
  });
}

function expectTimeout(answer: RawAnswer, id: unknown): void {
  expect([answer.status, JSON.parse(answer.text)]).toMatchObject([
    504,
    { id, error: { data: { code: "upstream_timeout" } } },
  ]);
}

/** Opens a session, whatever comes of the last step of the handshake. */
async function beginSession(url: string) {
  const opened = await post(url, handshake("2025-11-25"));
  const headers = { "mcp-session-id": String(opened.headers["mcp-session-id"]), "mcp-protocol-version": "2025-11-25" };
  return { opened, send: async (message: unknown) => post(url, message, headers) };
}

describe("a server that never answers", () => {
  it.each(["initialize", "notifications/initialized", "tools/call"])(
    "%s costs the caller of a modern request no more than the timeouts",
    async (silent) => {
      await using server = await silentServer(({ method }) => method === silent);
      await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
      expectTimeout(await postModern(gateway.url, call), 7);
    },
  );

  it("tools/list, which the gateway reads to compare headers, does not keep a modern call from its server", async () => {
    await using server = await silentServer(({ method }) => method === "tools/list");
    await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
    expect(JSON.parse((await postModern(gateway.url, call)).text)).toMatchObject({ id: 7, result: { content: [] } });
  });

  it("initialize costs the client of a session no more than the timeout", async () => {
    await using server = await silentServer(({ method }) => method === "initialize");
    await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
    const { opened } = await beginSession(gateway.url);
    expectTimeout(opened, "hello");
  });

  it("notifications/initialized does not keep the calls of the session waiting", async () => {
    await using server = await silentServer(({ method }) => method === "notifications/initialized");
    await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
    const session = await beginSession(gateway.url);
    const [told, called] = await Promise.all([session.send(initialized), session.send(toolCall(1, "any"))]);
    expect(told.status).toBe(504);
    // It waited for what came before it, within its own timeout.
    expect(JSON.parse(called.text)).toMatchObject({ id: 1 });
    expect(JSON.parse((await session.send(toolCall(2, "any"))).text)).toMatchObject({ id: 2, result: { content: [] } });
  });

  it("a notification is told to its client, and the connection is given up", async () => {
    const silent: UpstreamCall[] = [];
    await using server = await silentServer(({ method }, asked) => {
      if (method !== "notifications/roots/list_changed") return false;
      silent.push(asked);
      return true;
    });
    await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
    const session = await openSession(gateway.url);
    const told = await session.post({ jsonrpc: "2.0", method: "notifications/roots/list_changed" });
    expect(told.status).toBe(504);
    await Promise.all(silent.map(({ closed }) => closed));
    expect(silent).toHaveLength(1);
  });

  it("the handshake that replaces a lost session costs a call no more than its timeout, and is tried again", async () => {
    let handshakes = 0;
    let isLost = false;
    let isSilent = true;
    await using server = await silentServer(({ method }, asked) => {
      if (method === "initialize") return handshakes++ > 0 && isSilent;
      if (method !== "tools/call" || !isLost || asked.headers["mcp-session-id"] !== "s1") return false;
      asked.replyRaw(404);
      return true;
    });
    await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
    const session = await openSession(gateway.url);
    isLost = true;
    expectTimeout(await session.post(toolCall(1, "any")), 1);
    isSilent = false;
    await eventually(async () => {
      expect(JSON.parse((await session.post(toolCall(2, "any"))).text)).toMatchObject({ id: 2, result: {} });
    });
  });

  it("as one of several costs its callers no more than the timeouts, and the callers of others nothing", async () => {
    await using silent = await silentServer(({ method }) => method === "initialize");
    await using good = await silentServer(() => false);
    const upstreams = { good: { url: good.url, era: "legacy" }, silent: { url: silent.url, era: "legacy" } } as const;
    await using gateway = await openGateway({ routes: { all: { upstreams } }, timeouts });
    const session = await openSession(`${gateway.origin}/all/mcp`);
    const [fine, late] = await Promise.all(
      ["good__any", "silent__any"].map(async (tool) => session.post(toolCall(tool, tool))),
    );
    expect(JSON.parse(fine?.text ?? "")).toMatchObject({ id: "good__any", result: {} });
    expect(JSON.parse(late?.text ?? "")).toMatchObject({ id: "silent__any", error: { data: { origin: "gateway" } } });
  });

  it("as the authorization server of an upstream costs a call no more than its timeout", async () => {
    await using tokens = await fakeUpstream(() => {});
    await using server = await silentServer(() => false);
    const clientCredentials = { tokenEndpoint: tokens.url, clientId: "gateway", clientSecret: "secret" };
    const upstream = { url: server.url, era: "modern", credentials: { clientCredentials } } as const;
    await using gateway = await openGateway({ upstream, timeouts });
    expectTimeout(await postModern(gateway.url, call), 7);
  });
});

describe("a server that does not end what it began", () => {
  it("has the stream of an answer closed a while after the answer", async () => {
    const calls: UpstreamCall[] = [];
    await using server = await silentServer(({ id, method }, asked) => {
      if (method !== "tools/call") return false;
      calls.push(asked);
      void asked.stream().send({ jsonrpc: "2.0", id, result: { content: [] } });
      return true;
    });
    await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
    const session = await openSession(gateway.url);
    expect((await session.post(toolCall(1, "any"))).text).toContain('"result"');
    await Promise.all(calls.map(({ closed }) => closed));
    expect(calls).toHaveLength(1);
  });
});

describe("an error that comes before a request is on its way", () => {
  it("answers a handshake whose stream ends without an answer", async () => {
    await using server = await silentServer(({ method }, asked) => {
      if (method !== "initialize") return false;
      asked.stream().end();
      return true;
    });
    await using gateway = await openGateway({ upstream: { url: server.url, era: "legacy" }, timeouts });
    const { opened } = await beginSession(gateway.url);
    const messages = opened.events.flatMap(({ data }): unknown[] => (data === "" ? [] : [JSON.parse(data)]));
    expect(messages).toMatchObject([{ id: "hello", error: { data: { code: "upstream_invalid" } } }]);
  });

  it("has the id of the request where a process cannot be started", async () => {
    await using gateway = await openGateway({ upstream: { command: "no-such-command-anywhere" }, timeouts });
    const answer = await postModern(gateway.url, call);
    expect(JSON.parse(answer.text)).toMatchObject({ id: 7, error: { data: { code: "upstream_unreachable" } } });
  });
});
