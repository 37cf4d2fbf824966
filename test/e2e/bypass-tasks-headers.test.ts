import { createHash } from "node:crypto";

import { describe, expect, it } from "vitest";

import { fakeUpstream } from "../support/fake-upstream.ts";
import { nextMessage, openSession, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { post } from "../support/raw-http.ts";

describe("the result of a call as a task, where rules about results read its arguments", () => {
  const server = () =>
    legacyUpstream((call, { id, method }) => {
      const result = method === "tools/call" ? { task: { taskId: "t-1", status: "working" } } : secret;
      return id === undefined ? call.replyRaw(202) : call.reply({ jsonrpc: "2.0", id, result });
    });
  const secret = { content: [], structuredContent: { all: "SECRET" } };
  const rule = (deny: string) => ({ rules: [{ allow: "true" }], results: [{ deny }] });
  const pad = "x".repeat(17_000);

  const attempts: readonly [rule: string, values: unknown][] = [
    ["mcp.arguments.?all.orValue(false) && has(result.structuredContent)", { all: true }],
    ["mcp.arguments.?all.orValue(false) && has(result.structuredContent)", { pad, all: true }],
    ["mcp.arguments.?all.orValue(false) && has(result.structuredContent)", { all: true, pad }],
    ["mcp.arguments.?filter.?all.orValue(false) && has(result.structuredContent)", { pad, filter: { all: true, pad } }],
    ["size(mcp.arguments) > 0 && has(result.structuredContent)", { pad, all: true }],
    ["mcp.params.arguments.?all.orValue(false) && has(result.structuredContent)", { pad, all: true }],
    ["mcp.params.?task.?ttl.orValue(0) > 0 && has(result.structuredContent)", { pad, all: true }],
    ["has(result.structuredContent) && mcp.arguments.exists(k, k == 'all')", { pad, all: true }],
  ];

  it.each(attempts)("is refused by %s", async (deny, values) => {
    await using upstream = await server();
    await using gateway = await openGateway({ upstream: { url: upstream.url }, policy: rule(deny) });
    const { headers } = await openSession(gateway.url, "2025-11-25");
    const params = { name: "rows", arguments: values, task: { ttl: 1000 } };
    await post(gateway.url, { jsonrpc: "2.0", id: 1, method: "tools/call", params }, headers);
    const fetch = { jsonrpc: "2.0", id: 2, method: "tasks/result", params: { taskId: "t-1" } };
    const { text } = await post(gateway.url, fetch, headers);
    expect(upstream.received("tasks/result")).toHaveLength(1);
    expect(text).not.toContain("SECRET");
    expect(text).toContain("error");
  });

  it("comes out where they allow it, however long other arguments are", async () => {
    await using upstream = await server();
    const policy = rule("mcp.arguments.?all.orValue(false) && has(result.structuredContent)");
    await using gateway = await openGateway({ upstream: { url: upstream.url }, policy });
    const { headers } = await openSession(gateway.url, "2025-11-25");
    const params = { name: "rows", arguments: { pad, all: false }, task: { ttl: 1000 } };
    await post(gateway.url, { jsonrpc: "2.0", id: 1, method: "tools/call", params }, headers);
    const fetch = { jsonrpc: "2.0", id: 2, method: "tasks/result", params: { taskId: "t-1" } };
    expect((await post(gateway.url, fetch, headers)).text).toContain("SECRET");
  });
});

describe("the result of a task", () => {
  const asking = () =>
    legacyUpstream(async (call, { id, method, params }) => {
      if (id === undefined || method === undefined) return call.replyRaw(202);
      if (method === "tasks/result")
        return call.reply({ jsonrpc: "2.0", id, result: { content: [], secret: "SECRET" } });
      if (params?.["name"] === "rows") {
        const task = { taskId: "t-1", status: "working" };
        return call.reply({ jsonrpc: "2.0", id, result: { task } });
      }
      // Anything else is answered as the caller says.
      if (params?.["name"] === "status")
        return call.reply({ jsonrpc: "2.0", id, result: { content: [], taskId: "t-1" } });
      const stream = call.stream();
      const question = params?.["name"];
      await stream.send({ jsonrpc: "2.0", id: "question", method: question, params: { messages: [] } });
      await asked.promise;
      await stream.send({ jsonrpc: "2.0", id, result: { content: [] } });
      stream.end();
    });
  let asked = Promise.withResolvers<void>();

  it.each([
    ["tools/call", { name: "status", arguments: { taskId: "t-1" } }],
    ["roots/list", { roots: [], task: { taskId: "t-1" } }],
    ["roots/list", { roots: [], resultType: "task", taskId: "t-1" }],
    ["sampling/createMessage", { task: { taskId: "t-1", status: "working" } }],
    ["elicitation/create", { action: "accept", taskId: "t-1", task: { taskId: "t-1" } }],
    ["ping", { task: { taskId: "t-1" } }],
  ])("is that of its call, whatever else names the task: %s %j", async (method, value) => {
    asked = Promise.withResolvers();
    await using upstream = await asking();
    const policy = { rules: [{ allow: "true" }], results: [{ deny: 'mcp.tool == "rows" && has(result.secret)' }] };
    await using gateway = await openGateway({ upstream: { url: upstream.url }, policy });
    const session = await openSession(gateway.url);
    await session.post(toolCall(1, "rows", { task: { ttl: 1000 } }));
    if (method === "tools/call") await session.post({ jsonrpc: "2.0", id: 2, method, params: value });
    else {
      await using stream = await session.stream(toolCall(2, method));
      const question = (await nextMessage(stream)) as { readonly id: unknown };
      await session.post({ jsonrpc: "2.0", id: question.id, result: value });
      asked.resolve();
      await nextMessage(stream);
    }
    const { text } = await session.post({ jsonrpc: "2.0", id: 3, method: "tasks/result", params: { taskId: "t-1" } });
    expect(upstream.received("tasks/result")).toHaveLength(1);
    expect(text).not.toContain("SECRET");
  });
});

describe("a task of another caller", () => {
  const hash = (key: string) => `sha256:${createHash("sha256").update(key).digest("base64url")}`;
  const keys = { ann: "hgk_ann", bob: "hgk_bob" };
  const auth = {
    authenticators: {
      keys: { apiKeys: { keys: { ann: { hash: hash(keys.ann) }, bob: { hash: hash(keys.bob) } } } },
    },
    use: ["keys", "anonymous"],
  };
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  const related = "io.modelcontextprotocol/related-task";
  const server = () =>
    legacyUpstream((call, { id, method }) => {
      const tasks = [{ taskId: "t-1", status: "working" }];
      const result = method === "tasks/list" ? { tasks } : { task: tasks[0] };
      return id === undefined ? call.replyRaw(202) : call.reply({ jsonrpc: "2.0", id, result });
    });
  const callers: readonly (readonly [string, Readonly<Record<string, string>>])[] = [
    ["another caller", bearer(keys.bob)],
    ["a caller without credentials", {}],
  ];
  const call = (meta: string) =>
    `"method":"tools/call","params":{"name":"rows","arguments":{},"_meta":{"${related}":${meta}}}`;
  const messages: readonly string[] = [
    '"method":"tasks/get","params":{"taskId":"t-1"}',
    '"method":"tasks/get","params":{"taskId":["t-1"]}',
    '"method":"tasks/get","params":{"taskId":{"taskId":"t-1"}}',
    '"method":"tasks/get","params":{"task_id":"t-1"}',
    '"method":"tasks/get","params":{"TaskId":"t-1"}',
    '"method":"tasks/cancel","params":{}',
    '"method":"tasks/result"',
    call('{"taskId":"t-1"}'),
    call('{"TaskId":"t-1"}'),
    call('{"taskId":"none","TASKID":"t-1"}'),
    call('{"taskId":"none","ta\u017fkId":"t-1"}'),
    call('{"taskId":["t-1"]}'),
    call('"t-1"'),
    call('["t-1"]'),
  ];

  it.each(callers)("is not shown or reached by %s, however it is named", async (_who, headers) => {
    await using upstream = await server();
    await using gateway = await openGateway({ auth, upstream: { url: upstream.url } });
    const ann = await openSession(gateway.url, "2025-11-25", bearer(keys.ann));
    const other = await openSession(gateway.url, "2025-11-25", headers);
    await ann.post(toolCall(1, "rows", { task: {} }));
    expect((await ann.post({ jsonrpc: "2.0", id: 2, method: "tasks/list" })).text).toContain("t-1");
    expect((await other.post({ jsonrpc: "2.0", id: 2, method: "tasks/list" })).text).not.toContain("t-1");
    const before = upstream.calls.length;
    for (const message of messages) {
      const { json } = await other.post(`{"jsonrpc":"2.0","id":3,${message}}`);
      const code: unknown = Reflect.get(Object(Reflect.get(Object(json), "error")), "code");
      expect({ message, isRefused: code === -32_602 || code === -32_600 }).toEqual({ message, isRefused: true });
    }
    expect(upstream.calls).toHaveLength(before);
    expect((await ann.post(`{"jsonrpc":"2.0","id":3,${messages[0]}}`)).json).toHaveProperty("result");
  });

  it("is not subscribed to by a filter that is no list, or is written in other letter case", async () => {
    await using upstream = await fakeUpstream((one) => one.replyRaw(500));
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
    for (const notifications of [
      { taskIds: "t-1" },
      { taskIds: { "0": "t-1" } },
      { taskIds: [["t-1"]] },
      { TaskIds: ["t-1"] },
    ]) {
      const { json } = await postModern(gateway.url, modernRequest(1, "subscriptions/listen", { notifications }));
      expect(json).toMatchObject({ error: { code: -32602 } });
    }
    expect(upstream.calls).toEqual([]);
  });
});

describe("a header that repeats an argument", () => {
  const inputSchema = {
    type: "object",
    properties: {
      region: { type: "string", "x-mcp-header": "Region" },
      place: { type: "object", properties: { zone: { type: "integer", "x-mcp-header": "Zone" } } },
    },
  };
  const server = () =>
    fakeUpstream((call) => {
      const { id, method } = Object(call.json) as { readonly id?: number; readonly method?: string };
      const list = { tools: [{ name: "rows", inputSchema }], ttlMs: 0, cacheScope: "private" };
      const result = { resultType: "complete", ...(method === "tools/list" ? list : { content: [] }) };
      call.reply({ jsonrpc: "2.0", id, result });
    });
  const send = (url: string, values: unknown, headers: Readonly<Record<string, string>>) => {
    const request = modernRequest(1, "tools/call", { name: "rows", arguments: values });
    return postModern(url, { ...request, headers: { ...request.headers, ...headers } });
  };
  const region = { "mcp-param-region": "us" };
  const zone = { "mcp-param-zone": "7" };
  const policy = { rules: [{ deny: 'mcp.arguments.?region.orValue("eu") == "us"' }, { allow: "true" }] };

  it.each<[values: unknown, headers: Readonly<Record<string, string>>]>([
    [{}, region],
    [undefined, region],
    [{ region: null }, region],
    [{ region: ["us"] }, region],
    [{ region: { us: true } }, region],
    [{ region: {} }, { "mcp-param-region": "" }],
    [{}, { "mcp-param-region": "=?base64?dXM=?=" }],
    [{}, zone],
    [{ place: null }, zone],
    [{ place: {} }, zone],
    [{ place: [{ zone: 7 }] }, zone],
    [{ place: { zone: null } }, zone],
    [{ place: { zone: [7] } }, zone],
    [{ place: { zone: 2 ** 60 } }, { "mcp-param-zone": "1152921504606846976" }],
  ])("is a mismatch where a policy decides and the body has no such value: %j %j", async (values, headers) => {
    await using upstream = await server();
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" }, policy });
    expect(await send(gateway.url, values, headers)).toMatchObject({ status: 400, json: { error: { code: -32020 } } });
    expect(upstream.calls.filter(({ text }) => text.includes("tools/call"))).toEqual([]);
    expect((await send(gateway.url, { region: "eu" }, { "mcp-param-region": "eu" })).status).toBe(200);
    expect((await send(gateway.url, {}, {})).status).toBe(200);
  });
});
