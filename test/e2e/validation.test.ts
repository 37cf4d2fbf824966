import { describe, expect, it } from "vitest";

import { startConfigured } from "../support/configured-gateway.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { nextMessage, openSession, textResult } from "../support/legacy-session.ts";
import { type Answering, legacyUpstream } from "../support/legacy-upstream.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { exchange, post } from "../support/raw-http.ts";
import { eventually } from "../support/eventually.ts";

const levels = ["envelope", "method", "schema", "semantic"] as const;
type Level = (typeof levels)[number];

/** Answers calls as the name of the tool asks for, and everything else with an empty result. */
const answering: Answering = (call, { id, method, params }) => {
  if (id === undefined) return call.replyRaw(202);
  if (method !== "tools/call") return call.reply({ jsonrpc: "2.0", id, result: {} });
  const wrong: Readonly<Record<string, unknown>> = {
    "content-text": { content: "wrong type" },
    "content-missing": { isError: false },
    "block-untyped": { content: [{ text: "no type" }] },
    "error-flag": { content: [], isError: "no" },
    extended: {
      content: [{ type: "text", text: "ok", "x-more": 1 }],
      "com.example/extra": { deep: [1] },
      _meta: { a: 1 },
    },
  };
  const result = wrong[String(params?.["name"])];
  return call.reply(result === undefined ? textResult(id, "fine") : { jsonrpc: "2.0", id, result });
};

/** A request of a client, at which level it begins to be refused, with which code, and where the fault is. */
const requests: readonly {
  readonly what: string;
  readonly method: string;
  readonly params?: unknown;
  readonly refusedAt?: Level;
  readonly code?: number;
  readonly path?: string;
}[] = [
  { what: "a call", method: "tools/call", params: { name: "t", arguments: {} } },
  { what: "members nobody knows", method: "tools/call", params: { name: "t", "com.example/x": 1, _meta: { y: {} } } },
  { what: "a method of an extension", method: "com.example/reindex", params: { deep: [1] } },
  {
    what: "a method that MCP does not have",
    method: "tools/nope",
    refusedAt: "method",
    code: -32_601,
    path: "/method",
  },
  { what: "a method in capitals", method: "Tools/Call", refusedAt: "method", code: -32_601, path: "/method" },
  { what: "a method of servers", method: "roots/list", refusedAt: "method", code: -32_601, path: "/method" },
  {
    what: "a number as name",
    method: "tools/call",
    params: { name: 5, arguments: {} },
    refusedAt: "schema",
    code: -32_602,
    path: "/params/name",
  },
  {
    what: "a list as arguments",
    method: "tools/call",
    params: { name: "t", arguments: [] },
    refusedAt: "schema",
    code: -32_602,
    path: "/params/arguments",
  },
  { what: "no name", method: "tools/call", params: {}, refusedAt: "schema", code: -32_602, path: "/params/name" },
  {
    what: "a bad cursor",
    method: "tools/list",
    params: { cursor: 3 },
    refusedAt: "schema",
    code: -32_602,
    path: "/params/cursor",
  },
  { what: "an undeclared capability", method: "prompts/list", refusedAt: "semantic", code: -32_601 },
];

/** A result of a server by the tool that gives it. */
const results = [
  { tool: "content-text", path: "/result/content" },
  { tool: "content-missing", path: "/result/content" },
  { tool: "block-untyped", path: "/result/content/0/type" },
  { tool: "error-flag", path: "/result/isError" },
  { tool: "extended", path: undefined },
] as const;

const isAtLeast = (level: Level, wanted: Level): boolean => levels.indexOf(level) >= levels.indexOf(wanted);

describe("a route that enforces", () => {
  it.each(levels)(
    "[SC-025, SC-026, SC-027, SC-028] with `validation: %s` keeps what fails a check from the other side",
    async (level) => {
      await using upstream = await legacyUpstream(answering);
      await using gateway = await startConfigured({
        routes: { only: { upstream: { url: upstream.url }, validation: level } },
      });
      const session = await openSession(gateway.url);
      for (const [index, { what, method, params, refusedAt, code, path }] of requests.entries()) {
        const before = upstream.of("POST").length;
        const answer = await session.post({
          jsonrpc: "2.0",
          id: index,
          method,
          ...(params === undefined ? {} : { params }),
        });
        const isRefused = refusedAt !== undefined && isAtLeast(level, refusedAt);
        expect([what, upstream.of("POST").length - before]).toEqual([what, isRefused ? 0 : 1]);
        if (!isRefused) continue;
        expect(answer.json).toMatchObject({
          id: index,
          error: { code, data: { origin: "gateway", findings: [path === undefined ? {} : { path }] } },
        });
      }
      for (const { tool, path } of results) {
        const answer = await session.post({ jsonrpc: "2.0", id: tool, method: "tools/call", params: { name: tool } });
        const isRefused = path !== undefined && isAtLeast(level, "schema");
        if (isRefused)
          expect(answer.json).toMatchObject({
            id: tool,
            error: { code: -32_603, data: { code: "upstream_invalid", findings: [{ path }] } },
          });
        else expect(answer.json).toHaveProperty("result");
        if (isRefused) expect(answer.text).not.toContain("wrong type");
      }
    },
  );

  it("[SC-026] checks methods unless told otherwise, and single levels can only warn", async () => {
    await using upstream = await legacyUpstream(answering);
    await using gateway = await startConfigured({
      routes: {
        plain: { upstream: { url: upstream.url } },
        mild: { upstream: { url: upstream.url }, validation: { method: "warn", schema: "warn" } },
      },
    });
    const refused = await (
      await openSession(`${gateway.origin}/plain/mcp`)
    ).post({ jsonrpc: "2.0", id: 1, method: "tools/nope" });
    expect(refused.json).toMatchObject({ error: { code: -32_601 } });
    const mild = await openSession(`${gateway.origin}/mild/mcp`);
    const passed = await mild.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: 5 } });
    expect(passed.json).toHaveProperty("result");
    await gateway.process.waitForLine(/"diagnostic":"schema\.type","path":"\/params\/name"/u);
  });

  it("[SC-027] judges messages of servers too: notifications and requests that fail do not reach the client", async () => {
    await using upstream = await legacyUpstream(async (call, { id, method }) => {
      if (method !== "tools/call") return call.replyRaw(202);
      const stream = call.stream();
      const progressToken = "t";
      await stream.send({
        jsonrpc: "2.0",
        method: "notifications/progress",
        params: { progressToken, progress: "half" },
      });
      await stream.send({ jsonrpc: "2.0", method: "notifications/initialized" });
      await stream.send({ jsonrpc: "2.0", id: 77, method: "sampling/createMessage", params: { messages: "none" } });
      await stream.send({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken, progress: 1 } });
      await stream.send(textResult(id, "done"));
      stream.end();
    });
    await using gateway = await startConfigured({
      routes: { only: { upstream: { url: upstream.url }, validation: "schema" } },
    });
    const session = await openSession(gateway.url);
    const params = { name: "t", _meta: { progressToken: "t" } };
    await using stream = await session.stream({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    expect(await nextMessage(stream)).toMatchObject({ method: "notifications/progress", params: { progress: 1 } });
    expect(await nextMessage(stream)).toMatchObject({ id: 1, result: {} });
    await eventually(() => {
      const told = upstream.calls.map(({ json }) => json);
      expect(told).toContainEqual(
        expect.objectContaining({ id: 77, error: expect.objectContaining({ code: -32_602 }) }),
      );
    });
  });

  it("[SC-026, SC-027] checks modern messages by the modern schema", async () => {
    await using upstream = await fakeUpstream((call) => {
      const { id, method } = call.json as { id: number; method: string };
      const result =
        method === "server/discover"
          ? {
              resultType: "complete",
              supportedVersions: ["2026-07-28"],
              capabilities: {},
              ttlMs: 0,
              cacheScope: "public",
            }
          : { content: [] };
      call.reply({ jsonrpc: "2.0", id, result });
    });
    await using gateway = await startConfigured({
      routes: { only: { upstream: { url: upstream.url, era: "modern" }, validation: "schema" } },
    });
    const { json } = await postModern(gateway.url, modernRequest(1, "tools/call", { name: "t" }));
    expect(json).toMatchObject({
      error: { data: { code: "upstream_invalid", findings: [{ path: "/result/resultType" }] } },
    });
    const bad = await postModern(gateway.url, modernRequest(2, "tools/call", { name: "t", arguments: 1 }));
    expect(bad.json).toMatchObject({ error: { code: -32_602, data: { findings: [{ path: "/params/arguments" }] } } });
    const unknown = await postModern(gateway.url, modernRequest(3, "ping"));
    expect([unknown.status, unknown.json]).toMatchObject([404, { error: { code: -32_601 } }]);
  });
});

describe("a route that observes", () => {
  it("[SC-025, SC-062] passes everything on and says what is wrong, in both directions", async () => {
    await using upstream = await fakeUpstream((call) => {
      call.replyRaw(
        200,
        { "content-type": "application/json" },
        '{"jsonrpc":"2.0","id":1,"result":{"content":"wrong type"}}',
      );
    });
    await using gateway = await startConfigured({
      routes: { only: { upstream: { url: upstream.url }, mode: "observe", validation: "semantic" } },
    });
    const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}';
    // The schemas may still be loading while the first message passes.
    await eventually(async () => {
      const answer = await post(gateway.url, body, { "mcp-protocol-version": "2025-11-25" });
      expect(answer.text).toContain("wrong type");
      expect(gateway.process.output()).toMatch(/"diagnostic":"schema\.type","path":"\/params\/name"/u);
      expect(gateway.process.output()).toMatch(/"diagnostic":"schema\.type","path":"\/result\/content"/u);
    });
    expect(upstream.calls.at(-1)?.text).toBe(body);
    const { body: modern } = modernRequest(2, "tools/call", { name: "t" });
    await post(gateway.url, JSON.stringify(modern), {
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/list",
    });
    await gateway.process.waitForLine(/"diagnostic":"header\.mismatch"/u);
    expect((await exchange(`${gateway.origin}/healthz`)).status).toBe(200);
  });
});
