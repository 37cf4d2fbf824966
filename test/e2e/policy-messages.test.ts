import { describe, expect, it } from "vitest";

import { parseConfig } from "../../src/config/load.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import type { Decision } from "../../src/policy/provider/provider.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { valueOf } from "../support/exchange.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { startFixture } from "../support/fixture.ts";
import { messageOf, nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { allow, deny, fakeProvider } from "../support/policy.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

const everything = { server: () => createEverythingServer() };

describe("arguments that a policy changes", () => {
  const inputSchema = {
    type: "object",
    properties: { yard: { type: "string", "x-mcp-header": "Yard" }, kg: { type: "integer" } },
  };
  const upstream = () =>
    fakeUpstream((call) => {
      const { id, method } = call.json as { readonly id: number; readonly method: string };
      const result =
        method === "tools/list"
          ? {
              resultType: "complete",
              tools: [{ name: "weigh", inputSchema }],
              ttlMs: 0,
              cacheScope: "private",
            }
          : { resultType: "complete", content: [] };
      call.reply({ jsonrpc: "2.0", id, result });
    });
  const call = (headers: Record<string, string> = { "mcp-param-yard": "north" }) => {
    const request = modernRequest(1, "tools/call", { name: "weigh", arguments: { yard: "north", kg: 5 } });
    return { ...request, headers: { ...request.headers, ...headers } };
  };

  it("are in the body and in the headers that repeat it, and headers of nobody's stay", async () => {
    await using server = await upstream();
    const provider = fakeProvider({
      request: ({ method }) =>
        method === "tools/call" ? allow({ change: { set: { "/params/arguments/yard": "s\u00fcd" } } }) : allow(),
    });
    await using gateway = await openGateway(
      { upstream: { url: server.url, era: "modern" } },
      { policies: { default: provider } },
    );
    const answer = await postModern(gateway.url, call({ "mcp-param-yard": "north", "mcp-param-other": "1" }));
    expect(answer.status).toBe(200);
    const sent = server.calls.find(({ text }) => text.includes("tools/call"));
    expect(sent?.json).toMatchObject({ params: { arguments: { yard: "s\u00fcd", kg: 5 } } });
    expect(sent?.headers).toMatchObject({
      "mcp-name": "weigh",
      "mcp-param-yard": `=?base64?${Buffer.from("s\u00fcd").toString("base64")}?=`,
      "mcp-param-other": "1",
    });
  });

  it("are what headers are compared with before: those that differ from the body do not get past a policy", async () => {
    await using server = await upstream();
    await using gateway = await openGateway(
      { upstream: { url: server.url, era: "modern" } },
      { policies: { default: fakeProvider() } },
    );
    const answer = await postModern(gateway.url, call({ "mcp-param-yard": "south" }));
    expect(answer).toMatchObject({ status: 400, json: { error: { code: -32020 } } });
    expect(server.calls.filter(({ text }) => text.includes("tools/call"))).toEqual([]);
    expect((await postModern(gateway.url, call())).status).toBe(200);
  });

  it("tell nothing of tools that are hidden by a header that is missing", async () => {
    await using gateway = await openGateway({
      upstream: everything,
      policy: { tools: { deny: ["test_simple_text"] } },
    });
    const hidden = await postModern(gateway.url, modernRequest(1, "tools/call", { name: "test_simple_text" }));
    const unknown = await postModern(gateway.url, modernRequest(1, "tools/call", { name: "no_such_tool_12" }));
    expect(hidden.status).toBe(unknown.status);
    expect(hidden.json).toMatchObject({ error: { code: -32602 } });
  });
});

describe("a stream", () => {
  it("is decided about message by message: progress may be held back while the result passes", async () => {
    await using gateway = await openGateway({
      upstream: everything,
      policy: {
        rules: [
          { id: "quiet", deny: 'mcp.method == "notifications/progress"' },
          { id: "rest", allow: "true" },
        ],
      },
    });
    await using client = await connectV1({ via: "http", url: gateway.url });
    const progress: number[] = [];
    const outcome = await client.callTool("test_tool_with_progress", {
      onProgress: (step) => progress.push(step),
    });
    expect(outcome.isError).not.toBe(true);
    expect(progress).toEqual([]);
  });

  it("keeps its last message until it is decided about, and nothing behind it overtakes what is before", async () => {
    const verdict = Promise.withResolvers<Decision>();
    await using server = await legacyUpstream(async (call, { id }) => {
      if (id === undefined) return call.replyRaw(202);
      const stream = call.stream();
      await stream.send({
        jsonrpc: "2.0",
        method: "notifications/message",
        params: { level: "info", data: 1 },
      });
      await stream.write("data: what is no JSON\n\n");
      await stream.send(textResult(id, "gold"));
      return stream.end();
    });
    const provider = fakeProvider({
      response: ({ method }) => (method === "tools/call" ? verdict.promise : allow()),
    });
    await using gateway = await openGateway({ upstream: { url: server.url } }, { policies: { default: provider } });
    const session = await openSession(gateway.url);
    await using stream = await session.stream(toolCall(1, "any"));
    expect(await nextMessage(stream)).toMatchObject({ method: "notifications/message" });
    const next = nextMessage(stream);
    verdict.resolve(allow({ change: { set: { "/result/content/0/text": "lead" } } }));
    // What is no JSON could not be decided about, and is not there.
    expect(await next).toEqual(textResult(1, "lead"));
    expect(await nextMessage(stream)).toBeUndefined();
  });

  it("that breaks off is taken up again with what was decided, not with what came", async () => {
    await using server = await legacyUpstream(async (call, { id }) => {
      if (id === undefined) return call.replyRaw(202);
      const stream = call.stream();
      await stream.send(textResult(id, "gold"));
      return stream.end();
    });
    const provider = fakeProvider({ response: ({ method }) => (method === "tools/call" ? deny() : allow()) });
    await using gateway = await openGateway({ upstream: { url: server.url } }, { policies: { default: provider } });
    const session = await openSession(gateway.url);
    const first = await session.stream(toolCall(1, "any"));
    const primed = await first.next();
    first.close();
    await using again = await session.listen(primed?.id ?? "");
    for (let event = await again.next(); event !== undefined; event = await again.next()) {
      expect(event.data).not.toContain("gold");
      if (event.data !== "") expect(messageOf(event)).toMatchObject({ id: 1, error: { data: { executed: true } } });
    }
  });
});

describe("questions of a server", () => {
  const ways = [
    { client: "legacy", server: "legacy" },
    { client: "legacy", server: "modern" },
    { client: "modern", server: "legacy" },
    { client: "modern", server: "modern" },
  ] as const;
  const connect = (url: string, era: "legacy" | "modern") =>
    connectV2({ via: "http", url }, era === "modern" ? newestModern : newestLegacy);
  /** A tool of the fixture that asks the user for something, by the era of the server. */
  const asking = { legacy: "test_elicitation", modern: "test_input_required_result_elicitation" } as const;

  it.each(ways)("and their answers are decided about once each ($client client, $server server)", async (way) => {
    const seen: string[] = [];
    const note = (phase: string, direction: string, method: string | undefined): void => {
      if (method === "elicitation/create") seen.push(`${phase} ${direction}`);
    };
    await using fixture = await startFixture({ era: way.server });
    const provider = fakeProvider({
      request: ({ phase, direction, method }) => {
        note(phase, direction, method);
        return allow();
      },
      response: ({ phase, direction, method }) => {
        note(phase, direction, method);
        return allow();
      },
    });
    await using gateway = await openGateway({ upstream: { url: fixture.url } }, { policies: { default: provider } });
    await using client = await connect(gateway.url, way.client);
    await client.callTool(asking[way.server], { args: { message: "who?" } });
    expect(client.asked).toEqual(["elicitation/create"]);
    expect(seen).toEqual(["request server-to-client", "response client-to-server"]);
  });

  it.each(ways)("that are refused are put to nobody ($client client, $server server)", async (way) => {
    await using fixture = await startFixture({ era: way.server });
    await using gateway = await openGateway({
      upstream: { url: fixture.url },
      policy: {
        rules: [
          { id: "silence", deny: 'mcp.method == "elicitation/create"' },
          { id: "rest", allow: "true" },
        ],
      },
    });
    await using client = await connect(gateway.url, way.client);
    const outcome = await client
      .callTool(asking[way.server], { args: { message: "who?" } })
      .catch((error: unknown) => error);
    expect(outcome).toBeDefined();
    expect(client.asked).toEqual([]);
  });

  it("have answers that a policy may change before the server sees them", async () => {
    await using fixture = await startFixture({ era: "modern" });
    const provider = fakeProvider({
      response: ({ method, message }) =>
        method === "elicitation/create" && JSON.stringify(valueOf(message)).includes("accept")
          ? allow({ change: { set: { "/result/action": "decline" }, remove: ["/result/content"] } })
          : allow(),
    });
    await using gateway = await openGateway({ upstream: { url: fixture.url } }, { policies: { default: provider } });
    await using client = await connect(gateway.url, "modern");
    const changed = await client.callTool(asking.modern).catch((error: unknown) => error);
    await using free = await connect(fixture.url, "modern");
    expect(changed).not.toEqual(await free.callTool(asking.modern));
  });
});

describe("shadow mode", () => {
  it("refuses nothing and says what it would have", async () => {
    const told: string[] = [];
    await using gateway = await openGateway(
      { upstream: everything, policy: { shadow: true, rules: [{ id: "none", deny: "true" }] } },
      { onDecision: ({ effect, isEnforced, method }) => void told.push(`${method} ${effect} ${isEnforced}`) },
    );
    const session = await openSession(gateway.url);
    const { json } = await session.post(toolCall(1, "test_simple_text"));
    expect(json).toMatchObject({ result: {} });
    expect(told).toContain("tools/call deny false");
  });
});

describe("a configuration", () => {
  it("with a policy for a route that only watches is refused, with what to do", () => {
    const route = { upstream: { url: "http://127.0.0.1:1/mcp" }, mode: "observe" as const };
    const checked = parseConfig({
      routes: { one: { ...route, policy: { tools: { deny: ["a"] } } }, two: route },
    });
    expect(checked).toMatchObject({ ok: false });
    expect(checked.ok ? [] : checked.problems.map(({ path, message }) => `${path}: ${message}`)).toEqual([
      expect.stringMatching(/^routes\.one\.mode: `observe` forwards everything.*policy\.shadow: true/u),
    ]);
  });
});
