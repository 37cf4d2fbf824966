import { describe, expect, it } from "vitest";
import { GatewayError } from "../../errors.ts";
import { createBridge } from "../../../test/support/modern-to-legacy.ts";
import type { Bridge, PlayedSession, Wire } from "../../../test/support/modern-to-legacy.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { messageFrom, exchangeWith } from "../../../test/support/exchange.ts";

const serverInfo = { "io.modelcontextprotocol/serverInfo": { name: "old", version: "2" } };

/** The session of that number, which must have been opened. */
function sessionOf({ sessions }: Bridge, number = 0): PlayedSession {
  const session = sessions[number];
  if (session === undefined) throw new Error(`session ${number} was not opened`);
  return session;
}

function receivedOf(session: PlayedSession, method: string): Wire | undefined {
  return session.received.find((message) => message["method"] === method);
}

describe("the legacy session behind modern requests", () => {
  it("opens with the newest legacy revision and the client's capabilities", async () => {
    const bridge = createBridge();
    bridge.ask(
      "tools/list",
      {},
      {
        capabilities: {
          roots: { listChanged: true },
          sampling: { tools: {} },
          elicitation: { form: {}, url: {} },
          extensions: { "io.modelcontextprotocol/tasks": {} },
        },
      },
    );
    await settled();
    const { received } = sessionOf(bridge);
    expect(received[0]).toEqual({
      jsonrpc: "2.0",
      id: 1,
      method: "initialize",
      params: {
        protocolVersion: "2025-11-25",
        capabilities: { roots: {}, sampling: { tools: {} }, elicitation: { form: {}, url: {} } },
        clientInfo: { name: "tester", version: "1" },
      },
    });
    expect(received[1]).toMatchObject({ method: "notifications/initialized" });
  });

  it("is one for many requests, whose ids and tokens it keeps apart", async () => {
    const bridge = createBridge();
    const first = bridge.ask(
      "tools/list",
      { cursor: "a" },
      { id: "same", meta: { progressToken: "t", traceparent: "00-1" } },
    );
    const second = bridge.ask("prompts/list", {}, { id: "same", meta: { progressToken: "t" } });
    await settled();
    const session = sessionOf(bridge);
    expect(bridge.sessions).toHaveLength(1);
    const listed = receivedOf(session, "tools/list");
    expect(listed).toEqual({
      jsonrpc: "2.0",
      id: 2,
      method: "tools/list",
      params: { cursor: "a", _meta: { progressToken: 2, traceparent: "00-1" } },
    });
    session.say({ method: "notifications/progress", params: { progressToken: 3, progress: 1 } }, "prompts/list");
    session.answer("prompts/list", { prompts: [] });
    session.answer("tools/list", { tools: [] });
    await expect(first.value).resolves.toMatchObject({ id: "same", result: { tools: [] } });
    await expect(second.value).resolves.toMatchObject({ id: "same", result: { prompts: [] } });
    expect(first.streamed).toEqual([]);
    expect(second.streamed).toEqual([
      { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: "t", progress: 1 } },
    ]);
  });

  it("opens again after it has ended", async () => {
    const bridge = createBridge();
    bridge.ask("tools/list");
    await settled();
    sessionOf(bridge).events.closed(new GatewayError("upstream_unreachable", "gone"));
    bridge.ask("prompts/list");
    await settled();
    expect(bridge.sessions).toHaveLength(2);
    expect(receivedOf(sessionOf(bridge, 1), "initialize")).toBeDefined();
    expect(bridge.troubles).toHaveLength(1);
  });

  it("times out when the server does not answer the handshake, and is tried again", async () => {
    const bridge = createBridge({ isSilent: true });
    const [first, second] = [bridge.ask("tools/list"), bridge.ask("prompts/list")];
    await bridge.time.advance(30_000);
    await expect(first.reply).rejects.toMatchObject({ code: "cancelled" });
    await expect(second.reply).rejects.toMatchObject({ code: "cancelled" });
    expect(bridge.sessions).toHaveLength(1);
    expect(sessionOf(bridge).isClosed).toBe(true);
    bridge.ask("tools/list");
    await settled();
    expect(bridge.sessions).toHaveLength(2);
  });

  it("sets log level and subscriptions again after the server lost it", async () => {
    const bridge = createBridge({ capabilities: { resources: { subscribe: true }, logging: {} } });
    const logging = { meta: { "io.modelcontextprotocol/logLevel": "info" } };
    bridge.ask("subscriptions/listen", { notifications: { resourceSubscriptions: ["file:///a"] } });
    bridge.ask("tools/list", {}, logging);
    await settled();
    const session = sessionOf(bridge);
    session.upstreamId = "second";
    session.answer("tools/list", { tools: [] });
    bridge.ask("prompts/list", {}, logging);
    await settled();
    const told = (method: string) => session.received.filter((message) => message["method"] === method);
    expect(told("resources/subscribe")).toHaveLength(2);
    expect(told("logging/setLevel")).toHaveLength(2);
  });

  it("is refused when the server answers with an unknown revision", async () => {
    const bridge = createBridge({ revision: "2031-01-01" });
    await expect(bridge.ask("tools/list").reply).rejects.toMatchObject({ code: "upstream_invalid" });
    expect(sessionOf(bridge).isClosed).toBe(true);
  });
});

describe("answers to modern requests", () => {
  it("discovers from the handshake, without tasks", async () => {
    const bridge = createBridge({ capabilities: { tools: { listChanged: true }, tasks: { list: {} } } });
    await expect(bridge.ask("server/discover").value).resolves.toEqual({
      jsonrpc: "2.0",
      id: 1,
      result: {
        resultType: "complete",
        supportedVersions: ["2026-07-28"],
        capabilities: { tools: { listChanged: true } },
        ttlMs: 0,
        cacheScope: "private",
        _meta: serverInfo,
      },
    });
  });

  it("have the members of the revision, and hide tools that only run as tasks", async () => {
    const bridge = createBridge();
    const { value } = bridge.ask("tools/list");
    await settled();
    sessionOf(bridge).answer("tools/list", {
      tools: [
        { name: "plain", big: 1, inputSchema: { type: "object" } },
        { name: "either", execution: { taskSupport: "optional" }, "x-kept": true },
        { name: "task", execution: { taskSupport: "required" } },
      ],
      resultType: "input_required",
      ttlMs: 5,
      nextCursor: "more",
      _meta: { mine: 1 },
    });
    await expect(value).resolves.toEqual({
      jsonrpc: "2.0",
      id: 1,
      result: {
        resultType: "complete",
        ttlMs: 0,
        cacheScope: "private",
        _meta: { ...serverInfo, mine: 1 },
        tools: [
          { name: "plain", big: 1, inputSchema: { type: "object" } },
          { name: "either", "x-kept": true },
        ],
        nextCursor: "more",
      },
    });
  });

  it("leave cache hints off results that have none", async () => {
    const bridge = createBridge();
    const { value } = bridge.ask("tools/call", { name: "add", task: { ttl: 1 } });
    await settled();
    const session = sessionOf(bridge);
    expect(receivedOf(session, "tools/call")).toMatchObject({ params: { name: "add" } });
    expect(receivedOf(session, "tools/call")?.["params"]).not.toHaveProperty("task");
    session.answer("tools/call", { content: [] });
    await expect(value).resolves.toEqual({
      jsonrpc: "2.0",
      id: 1,
      result: { resultType: "complete", _meta: serverInfo, content: [] },
    });
  });

  it("name a missing resource in the error data", async () => {
    const bridge = createBridge();
    const { value } = bridge.ask("resources/read", { uri: "file:///x" });
    await settled();
    sessionOf(bridge).fail("resources/read", { code: -32002, message: "no such thing", data: { a: 1 } });
    await expect(value).resolves.toEqual({
      jsonrpc: "2.0",
      id: 1,
      error: { code: -32602, message: "no such thing", data: { uri: "file:///x", a: 1 } },
    });
  });

  it.each(["ping", "initialize", "logging/setLevel", "resources/subscribe", "tasks/get", "roots/list"])(
    "refuse %s, which the revision does not have",
    async (method) => {
      const bridge = createBridge();
      await expect(bridge.ask(method).reply).rejects.toMatchObject({ code: "method_not_found" });
      expect(bridge.sessions).toHaveLength(0);
    },
  );

  it("also come for methods of the server's own", async () => {
    const bridge = createBridge();
    const { value } = bridge.ask("acme/count");
    await settled();
    sessionOf(bridge).answer("acme/count", { n: 3 });
    await expect(value).resolves.toMatchObject({ result: { resultType: "complete", n: 3 } });
  });
});

describe("a client that goes away", () => {
  it("cancels its call upstream", async () => {
    const bridge = createBridge();
    const { exchange, reply } = bridge.ask("tools/call", { name: "slow" });
    await settled();
    exchange.cancellation.cancel("client-gone");
    await expect(reply).rejects.toMatchObject({ code: "cancelled" });
    expect(sessionOf(bridge).received).toContainEqual({ cancelled: "tools/call", reason: "client-gone" });
  });

  it("never sends a call upstream that was cancelled before the session opened", async () => {
    const bridge = createBridge();
    const { exchange, reply } = bridge.ask("tools/call", { name: "slow" });
    exchange.cancellation.cancel("client-gone");
    await expect(reply).rejects.toMatchObject({ code: "cancelled" });
    await settled();
    expect(receivedOf(sessionOf(bridge), "tools/call")).toBeUndefined();
  });
});

describe("log messages", () => {
  const capabilities = { logging: {}, tools: {} };

  it("are requested at the most verbose level, and reach the request that wants them", async () => {
    const bridge = createBridge({ capabilities });
    const level = (logLevel: string) => ({ meta: { "io.modelcontextprotocol/logLevel": logLevel } });
    const warned = bridge.ask("tools/call", { name: "a" }, level("warning"));
    await settled();
    const session = sessionOf(bridge);
    const log = (text: string) => ({ method: "notifications/message", params: { level: text, data: text } });
    session.say(log("info"), "tools/call");
    session.say(log("error"), "tools/call");
    session.say(log("error"));
    expect(warned.streamed).toEqual([{ jsonrpc: "2.0", ...log("error") }]);

    const silent = bridge.ask("prompts/get", { name: "b" });
    bridge.ask("resources/read", { uri: "c:" }, level("debug"));
    await settled();
    bridge.ask("tools/list", {}, level("info"));
    await settled();
    session.say(log("error"), "prompts/get");
    expect(silent.streamed).toEqual([]);
    const levels = session.received.filter(({ method }) => method === "logging/setLevel");
    expect(levels.map(({ params }) => params)).toEqual([{ level: "warning" }, { level: "debug" }]);
  });
});

describe("requests of the server outside any call", () => {
  it("are answered if they are pings, and refused if a client would have to answer", async () => {
    const bridge = createBridge();
    bridge.ask("server/discover");
    await settled();
    const session = sessionOf(bridge);
    session.say({ id: "p", method: "ping" });
    session.say({ id: "e", method: "elicitation/create", params: { message: "?" } });
    await settled();
    expect(session.received).toContainEqual({ jsonrpc: "2.0", id: "p", result: {} });
    expect(session.received).toContainEqual(
      expect.objectContaining({ id: "e", error: expect.objectContaining({ code: -32601 }) }),
    );
    expect(bridge.inputRequests).toEqual([]);
  });
});

describe("a server that does not say which call asks", () => {
  const server = { tellsApart: false };
  const capabilities = { elicitation: {} };

  it("gets one call that may be asked at a time on each session", async () => {
    const bridge = createBridge(server, { link: { sessions: 2 } });
    const asks = [1, 2, 3].map((n) => bridge.ask("tools/call", { name: `t${n}` }, { capabilities }));
    bridge.ask("tools/list");
    await settled();
    expect(bridge.sessions).toHaveLength(2);
    const [first, second] = [sessionOf(bridge, 0), sessionOf(bridge, 1)];
    expect([...first.open.keys()].toSorted()).toEqual(["tools/call", "tools/list"]);
    expect([...second.open.keys()]).toEqual(["tools/call"]);
    second.say({ id: 9, method: "elicitation/create", params: { message: "?" } });
    await bridge.time.advance(5);
    await expect(asks[1]?.value).resolves.toMatchObject({ result: { resultType: "input_required" } });
    first.answer("tools/call", { content: [] });
    await settled();
    expect(first.open.get("tools/call")).toBeDefined();
    expect(receivedOf(first, "tools/call")).toMatchObject({ params: { name: "t1" } });
  });

  it("gets the calls of clients that cannot be asked on a shared session", async () => {
    const bridge = createBridge(server);
    bridge.ask("tools/call", { name: "a" });
    bridge.ask("prompts/get", { name: "b" });
    await settled();
    expect(bridge.sessions).toHaveLength(1);
    sessionOf(bridge).say({ id: 9, method: "elicitation/create", params: { message: "?" } }, "tools/call");
    await settled();
    expect(sessionOf(bridge).received.at(-1)).toMatchObject({ id: 9, error: { code: -32601 } });
  });

  it("has its extra sessions closed when they are idle", async () => {
    const bridge = createBridge(server);
    bridge.ask("tools/call", { name: "a" }, { capabilities });
    bridge.ask("tools/call", { name: "b" }, { capabilities });
    await settled();
    sessionOf(bridge, 0).answer("tools/call", { content: [] });
    sessionOf(bridge, 1).answer("tools/call", { content: [] });
    await settled();
    await bridge.time.advance(60_000);
    expect(bridge.sessions.map(({ isClosed }) => isClosed)).toEqual([false, true]);
    expect(bridge.time.pending()).toBe(0);
  });

  it("rejects calls when too many wait, and drops those whose client is gone", async () => {
    const bridge = createBridge(server, { link: { sessions: 1, waiting: 1 } });
    bridge.ask("tools/call", { name: "a" }, { capabilities });
    const waiting = bridge.ask("tools/call", { name: "b" }, { capabilities });
    await settled();
    await expect(bridge.ask("tools/call", { name: "c" }, { capabilities }).reply).rejects.toMatchObject({
      code: "overloaded",
    });
    waiting.exchange.cancellation.cancel("client-gone");
    await expect(waiting.reply).rejects.toMatchObject({ code: "cancelled" });
    const next = bridge.ask("tools/call", { name: "d" }, { capabilities });
    await settled();
    sessionOf(bridge).answer("tools/call", { content: [] });
    await settled();
    sessionOf(bridge).answer("tools/call", { content: [{ d: 1 }] });
    await expect(next.value).resolves.toMatchObject({ result: { content: [{ d: 1 }] } });
  });
});

describe("the end of the scope", () => {
  it("ends calls, subscriptions and sessions", async () => {
    const bridge = createBridge({ capabilities: { tools: { listChanged: true } } });
    const call = bridge.ask("tools/call", { name: "a" });
    const listen = bridge.ask("subscriptions/listen", { notifications: { toolsListChanged: true } });
    await settled();
    await bridge.link.close("over");
    await expect(call.reply).rejects.toMatchObject({ code: "shutting_down" });
    await expect(listen.value).resolves.toMatchObject({ result: { resultType: "complete" } });
    expect(sessionOf(bridge).isClosed).toBe(true);
    expect(bridge.time.pending()).toBe(0);
    await expect(bridge.ask("tools/list").reply).rejects.toMatchObject({ code: "upstream_unreachable" });
  });
});

describe("notifications of the client", () => {
  it("are forwarded only if no revision knows them", async () => {
    const bridge = createBridge();
    const send = (method: string) =>
      bridge.link.send(
        exchangeWith(
          messageFrom(
            `{"jsonrpc":"2.0","method":"${method}","params":{"requestId":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
          ),
        ),
      );
    await send("notifications/cancelled");
    expect(bridge.sessions).toHaveLength(0);
    await send("acme/noted");
    expect(receivedOf(sessionOf(bridge), "acme/noted")).toEqual({
      jsonrpc: "2.0",
      method: "acme/noted",
      params: { requestId: 1 },
    });
  });
});
