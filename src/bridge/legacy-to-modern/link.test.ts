import { describe, expect, it } from "vitest";
import { exchangeWith, messageFrom, textOf, valueOf } from "../../../test/support/exchange.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { fullServer, giveTools, openBridge, openSession } from "../../../test/support/bridged-session.ts";
import { GatewayError } from "../../errors.ts";

const envelopeKeys = {
  version: "io.modelcontextprotocol/protocolVersion",
  capabilities: "io.modelcontextprotocol/clientCapabilities",
  info: "io.modelcontextprotocol/clientInfo",
  level: "io.modelcontextprotocol/logLevel",
} as const;

function metaOf(params: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return params["_meta"] as Record<string, unknown>;
}

describe("the handshake with a legacy client", () => {
  it("is answered from what the server says in server/discover", async () => {
    const { begin, upstream } = openBridge();
    const handshake = begin("initialize", {
      protocolVersion: "2025-06-18",
      capabilities: { elicitation: {} },
      clientInfo: { name: "kite", version: "0.3.0" },
    });
    const discover = upstream.take("server/discover");
    expect(discover.exchange).toMatchObject({ era: "modern", revision: "2026-07-28", session: undefined });
    expect(discover.params).toEqual({
      _meta: {
        [envelopeKeys.version]: "2026-07-28",
        [envelopeKeys.capabilities]: { elicitation: {} },
        [envelopeKeys.info]: { name: "kite", version: "0.3.0" },
      },
    });
    discover.reply({
      resultType: "complete",
      supportedVersions: ["2026-07-28"],
      capabilities: { ...fullServer, extensions: { "io.modelcontextprotocol/tasks": {} } },
      instructions: "Ask the harbour master.",
      ttlMs: 60_000,
      cacheScope: "private",
      _meta: { "io.modelcontextprotocol/serverInfo": { name: "harbour", version: "3.0.0" } },
    });
    expect(await handshake.answer()).toEqual({
      jsonrpc: "2.0",
      id: "c1",
      result: {
        protocolVersion: "2025-06-18",
        capabilities: fullServer,
        serverInfo: { name: "harbour", version: "3.0.0" },
        instructions: "Ask the harbour master.",
      },
    });
    expect(await handshake.reply).not.toHaveProperty("status");
  });

  it.each([
    ["2026-07-28", "2025-11-25"],
    ["2031-01-01", "2025-11-25"],
    ["2024-11-05", "2024-11-05"],
  ])("asked for %s agrees on %s", async (asked, agreed) => {
    const { begin, upstream } = openBridge();
    const handshake = begin("initialize", { protocolVersion: asked, capabilities: {}, clientInfo: {} });
    upstream
      .take("server/discover")
      .reply({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: {} });
    expect(await handshake.answer()).toMatchObject({
      result: { protocolVersion: agreed, serverInfo: { name: "test", version: "unknown" } },
    });
  });

  it("declares upstream only what the client can be asked in its revision", async () => {
    const { begin, upstream } = openBridge();
    begin("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {
        roots: { listChanged: true },
        sampling: { tools: {} },
        elicitation: { url: {} },
        tasks: { list: {} },
        extensions: { "io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/ui": { mimeTypes: [] } },
        experimental: { drift: {} },
      },
    });
    expect(metaOf(upstream.take("server/discover").params)).toEqual({
      [envelopeKeys.version]: "2026-07-28",
      [envelopeKeys.capabilities]: {
        roots: {},
        sampling: { tools: {} },
        elicitation: { url: {} },
        extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [] } },
        experimental: { drift: {} },
      },
    });
    begin("initialize", {
      protocolVersion: "2025-03-26",
      capabilities: { elicitation: {}, sampling: { tools: {} }, roots: {} },
    });
    expect(metaOf(upstream.take("server/discover").params)).toMatchObject({
      [envelopeKeys.capabilities]: { roots: {}, sampling: {} },
    });
  });

  it.each([
    [
      "refuses",
      (answer: { refuse: (error: unknown) => void }) => answer.refuse({ code: -32022, message: "no" }),
      /-32022/,
    ],
    ["answers nonsense to", (answer: { reply: (result: unknown) => void }) => answer.reply({}), /is invalid/],
    [
      "offers only strange revisions in",
      (answer: { reply: (result: unknown) => void }) =>
        answer.reply({ supportedVersions: ["2099-01-01"], capabilities: {} }),
      /no known modern revision/,
    ],
  ])("fails with a clear error when the server %s server/discover", async (_what, respond, text) => {
    const { begin, upstream } = openBridge();
    const handshake = begin("initialize", { protocolVersion: "2025-11-25", capabilities: {} });
    respond(upstream.take("server/discover"));
    await expect(handshake.reply).rejects.toMatchObject({ code: "upstream_invalid" });
    await expect(handshake.reply).rejects.toThrow(text);
  });

  it("gives up when the handshake takes too long", async () => {
    const { begin, upstream } = openBridge();
    const handshake = begin("initialize", { protocolVersion: "2025-11-25", capabilities: {} });
    handshake.exchange.cancellation.cancel("timeout");
    await expect(handshake.reply).rejects.toMatchObject({ code: "upstream_timeout" });
    expect(upstream.take("server/discover").cancelled()).toBe("timeout");
  });

  it("comes first", async () => {
    const { begin, upstream } = openBridge();
    await expect(begin("tools/list").reply).rejects.toMatchObject({ code: "invalid_message" });
    expect(upstream.requests).toEqual([]);
  });
});

describe("methods that the modern revision has dropped", () => {
  it("answers ping and drops the notifications of the handshake and of roots", async () => {
    const { begin, notify, upstream } = await openSession();
    expect(await begin("ping").answer()).toEqual({ jsonrpc: "2.0", id: "c2", result: {} });
    await notify("notifications/roots/list_changed");
    await notify("notifications/progress", { progressToken: 1, progress: 1 });
    expect(upstream.sent).toEqual([]);
    expect(upstream.requests.map(({ method }) => method)).toEqual(["server/discover"]);
  });

  it("passes on notifications that may belong to an extension", async () => {
    const { notify, upstream } = await openSession();
    await notify("notifications/vendor/drift", { by: 2 });
    expect(upstream.sent).toEqual([{ jsonrpc: "2.0", method: "notifications/vendor/drift", params: { by: 2 } }]);
  });

  it("adds the log level that was set to every later request", async () => {
    const { begin, upstream } = await openSession();
    begin("prompts/list");
    expect(metaOf(upstream.take("prompts/list").params)).not.toHaveProperty([envelopeKeys.level]);
    expect(await begin("logging/setLevel", { level: "warning" }).answer()).toMatchObject({ result: {} });
    begin("prompts/list");
    expect(metaOf(upstream.take("prompts/list").params)).toHaveProperty([envelopeKeys.level], "warning");
    await expect(begin("logging/setLevel", { level: "loud" }).reply).rejects.toMatchObject({
      code: "invalid_params",
    });
  });

  it("does not offer log levels and subscriptions of a server that has none", async () => {
    const { begin } = await openSession({ server: { tools: {}, resources: {} } });
    for (const [method, params] of [
      ["logging/setLevel", { level: "info" }],
      ["resources/subscribe", { uri: "dock://1" }],
      ["resources/unsubscribe", { uri: "dock://1" }],
    ] as const) {
      await expect(begin(method, params).reply).rejects.toMatchObject({ code: "method_not_found" });
    }
  });

  it.each(["server/discover", "subscriptions/listen", "tasks/get", "tasks/update", "roots/list"])(
    "refuses %s, which a legacy client cannot reach around the rules of its era",
    async (method) => {
      const { begin, upstream } = await openSession();
      await expect(begin(method, {}).reply).rejects.toMatchObject({ code: "method_not_found" });
      expect(upstream.requests).toHaveLength(1);
    },
  );
});

describe("a request of a legacy client", () => {
  it("goes upstream with the envelope beside everything else it says", async () => {
    const { link, upstream } = await openSession();
    const text =
      '{"jsonrpc":"2.0","id":90071992547409931234,"method":"prompts/get","x":1.0,"params":{"name":"a","n":1.50,' +
      '"_meta":{"progressToken":"p-1","traceparent":"00-a","io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}';
    const reply = link.request(exchangeWith(messageFrom(text)));
    const { exchange, params, reply: answer } = upstream.take("prompts/get");
    expect(textOf(exchange.message)).toContain('"n":1.50');
    expect(textOf(exchange.message)).toContain('"x":1.0');
    expect(params["_meta"]).toEqual({
      progressToken: "p-1",
      traceparent: "00-a",
      [envelopeKeys.version]: "2026-07-28",
      [envelopeKeys.capabilities]: { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} },
      [envelopeKeys.info]: { name: "kite", version: "0.3.0" },
    });
    answer({ resultType: "complete", messages: [] });
    expect(textOf((await reply).message)).toBe('{"jsonrpc":"2.0","id":90071992547409931234,"result":{"messages":[]}}');
  });

  it("gets an envelope when it has no parameters at all", async () => {
    const { begin, upstream } = await openSession();
    begin("resources/list");
    expect(metaOf(upstream.take("resources/list").params)).toHaveProperty([envelopeKeys.version], "2026-07-28");
  });

  it("is refused when its _meta is not an object", async () => {
    const { begin } = await openSession();
    await expect(begin("prompts/list", { _meta: 1 }).reply).rejects.toMatchObject({ code: "invalid_params" });
  });

  it("cannot bring input responses or a task of its own", async () => {
    const session = await openSession();
    session.begin("tools/call", {
      name: "moor",
      arguments: {},
      task: { ttl: 1 },
      inputResponses: { ok: { action: "accept" } },
      requestState: "forged",
    });
    await giveTools(session);
    expect(Object.keys(session.upstream.take("tools/call").params)).toEqual(["name", "arguments", "_meta"]);
  });

  it("may have a method that no revision knows", async () => {
    const { begin, upstream } = await openSession();
    const call = begin("vendor/drift", { by: 1, ttlMs: 3 });
    upstream.take("vendor/drift").reply({ resultType: "complete", ttlMs: 5 });
    expect(await call.answer()).toMatchObject({ result: { ttlMs: 5 } });
  });

  it("is answered without modern members", async () => {
    const { begin, upstream } = await openSession();
    const call = begin("resources/read", { uri: "dock://1" });
    upstream.take("resources/read").reply({
      resultType: "complete",
      contents: [{ uri: "dock://1", text: "x" }],
      ttlMs: 100,
      cacheScope: "public",
      vendor: [1],
      _meta: { "io.modelcontextprotocol/serverInfo": { name: "h", version: "1" }, keep: true },
    });
    expect(await call.answer()).toEqual({
      jsonrpc: "2.0",
      id: "c2",
      result: { contents: [{ uri: "dock://1", text: "x" }], vendor: [1], _meta: { keep: true } },
    });
    const bare = begin("resources/list");
    upstream.take("resources/list").reply({
      resources: [],
      _meta: { "io.modelcontextprotocol/serverInfo": { name: "h", version: "1" } },
    });
    expect(await bare.answer()).toEqual({ jsonrpc: "2.0", id: "c3", result: { resources: [] } });
  });

  it("is not answered with a result type that its revision lacks", async () => {
    const session = await openSession();
    const call = session.begin("tools/call", { name: "slow" });
    await giveTools(session);
    session.upstream.take("tools/call").reply({ resultType: "task", taskId: "t" });
    await expect(call.reply).rejects.toThrow(/type task/);
    const list = session.begin("prompts/list");
    session.upstream.take("prompts/list").reply({ resultType: "input_required", requestState: "s" });
    await expect(list.reply).rejects.toMatchObject({ code: "upstream_invalid" });
  });

  it("gets its own progress and log messages only", async () => {
    const { begin, upstream, events } = await openSession();
    const call = begin("prompts/get", { name: "a", _meta: { progressToken: 7 } });
    const other = begin("prompts/get", { name: "b" });
    await upstream.take("prompts/get").say("notifications/progress", { progressToken: 7, progress: 1 });
    await upstream.take("prompts/get").say("notifications/message", { level: "info", data: 1 });
    expect(events.map(({ value, related }) => [value["method"], related])).toEqual([
      ["notifications/progress", call.exchange],
      ["notifications/message", other.exchange],
    ]);
    expect(events[0]?.value["params"]).toEqual({ progressToken: 7, progress: 1 });
  });

  it("gets messages without a stream when no other request runs", async () => {
    const { begin, upstream, events } = await openSession();
    const log = messageFrom('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}');
    const call = begin("prompts/get", { name: "a" });
    await upstream.events().message(log, undefined, { type: "in-process" });
    begin("prompts/get", { name: "b" });
    await upstream.events().message(log, undefined, { type: "in-process" });
    expect(events.map(({ related }) => related)).toEqual([call.exchange, undefined]);
  });

  it("gets no requests of a modern server, which must not send any", async () => {
    const { upstream, events, troubles } = await openSession();
    const request = messageFrom('{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}');
    await upstream.events().message(request, undefined, { type: "in-process" });
    expect(events).toEqual([]);
    expect(troubles.map(({ code }) => code)).toEqual(["upstream_invalid"]);
  });
});

describe("cancelling", () => {
  it("by the client ends the request upstream in the way of its transport", async () => {
    const { begin, notify, upstream } = await openSession();
    const call = begin("prompts/get", { name: "a" });
    const request = upstream.take("prompts/get");
    await notify("notifications/cancelled", { requestId: "c2", reason: "user closed" });
    expect(request.cancelled()).toBe("client-gone");
    await expect(call.reply).rejects.toMatchObject({ code: "cancelled" });
    expect(upstream.sent).toEqual([]);
  });

  it("hits nothing else", async () => {
    const { begin, notify, upstream } = await openSession();
    begin("prompts/get", { name: "a" });
    await notify("notifications/cancelled", { requestId: "unknown" });
    expect(upstream.take("prompts/get").cancelled()).toBeUndefined();
  });

  it.each([
    ["timeout", "timeout"],
    ["cancelled", "client-gone"],
    ["shutdown", "shutdown"],
  ] as const)("by the gateway for %s goes upstream as %s", async (reason, told) => {
    const { begin, upstream } = await openSession();
    const call = begin("prompts/get", { name: "a" });
    call.exchange.cancellation.cancel(reason);
    expect(upstream.take("prompts/get").cancelled()).toBe(told);
    await expect(call.reply).rejects.toBeInstanceOf(GatewayError);
  });

  it("happens to everything on close", async () => {
    const { begin, link, upstream, time } = await openSession();
    void link.listen();
    const call = begin("prompts/get", { name: "a" });
    await link.close("over");
    await link.close("again");
    expect(upstream.closed()).toBe("over");
    expect(upstream.take("subscriptions/listen").cancelled()).toBe("client-gone");
    expect(upstream.take("prompts/get").cancelled()).toBe("session-ended");
    await expect(call.reply).rejects.toMatchObject({ code: "cancelled" });
    await expect(begin("prompts/list").reply).rejects.toMatchObject({ code: "upstream_unreachable" });
    await settled();
    expect(time.pending()).toBe(0);
  });
});

describe("errors of a modern server", () => {
  it("pass with the client's id and without an HTTP status, which could mean a lost session", async () => {
    const { begin, upstream } = await openSession();
    const call = begin("vendor/drift");
    upstream.take("vendor/drift").refuse({ code: -32601, message: "method not found" }, 404);
    const reply = await call.reply;
    expect(reply).not.toHaveProperty("status");
    expect(valueOf(reply.message)).toEqual({
      jsonrpc: "2.0",
      id: "c2",
      error: { code: -32601, message: "method not found" },
    });
  });

  it("about a missing resource pass unchanged", async () => {
    const { begin, upstream } = await openSession();
    const call = begin("resources/read", { uri: "dock://x" });
    upstream.take("resources/read").refuse({ code: -32602, message: "resource not found", data: { uri: "dock://x" } });
    expect(await call.answer()).toMatchObject({ error: { code: -32602, data: { uri: "dock://x" } } });
  });

  it("about a missing capability become a tool error, or a JSON-RPC error", async () => {
    const session = await openSession();
    const error = {
      code: -32021,
      message: "no",
      data: { requiredCapabilities: { sampling: { tools: {} } } },
    };
    const call = session.begin("tools/call", { name: "think" });
    await giveTools(session);
    session.upstream.take("tools/call").refuse(error, 400);
    expect(await call.answer()).toMatchObject({
      result: { isError: true, content: [{ type: "text", text: expect.stringContaining("sampling") }] },
    });
    const prompt = session.begin("prompts/get", { name: "think" });
    session.upstream.take("prompts/get").refuse(error, 400);
    expect(await prompt.answer()).toMatchObject({
      error: {
        code: -32603,
        message: expect.stringContaining("sampling"),
        data: { origin: "gateway", code: "missing_capability" },
      },
    });
  });

  it.each([-32020, -32022])("about modern headers and revisions (%s) are upstream failures", async (code) => {
    const { begin, upstream } = await openSession();
    const call = begin("prompts/get", { name: "a" });
    upstream.take("prompts/get").refuse({ code, message: "no" }, 400);
    await expect(call.reply).rejects.toMatchObject({ code: "upstream_invalid" });
  });
});
