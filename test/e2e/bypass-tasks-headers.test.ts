import { describe, expect, it } from "vitest";

import { fakeUpstream } from "../support/fake-upstream.ts";
import { openSession } from "../support/legacy-session.ts";
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
