import { describe, expect, it } from "vitest";

import { fakeProvider } from "../support/policy.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { nextMessage, openSession } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern, streamModern } from "../support/modern-request.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { startFixture } from "../support/fixture.ts";

const everything = { server: () => createEverythingServer() };
const noImages = { tools: { deny: ["test_image_*"] } };

describe("a list", () => {
  it.each([
    { client: "SDK v1", connect: (url: string) => connectV1({ via: "http", url }) },
    { client: "SDK v2, modern", connect: (url: string) => connectV2({ via: "http", url }, "2026-07-28") },
  ])("has for real clients what they may know of, and nothing else ($client)", async ({ connect }) => {
    await using gateway = await openGateway({
      routes: { all: { upstream: everything }, some: { upstream: everything, policy: noImages } },
    });
    await using all = await connect(`${gateway.origin}/all/mcp`);
    await using some = await connect(`${gateway.origin}/some/mcp`);
    const names = await all.listTools();
    expect(names).toContain("test_image_content");
    expect(await some.listTools()).toEqual(names.filter((name) => !name.startsWith("test_image_")));
  });

  it("is read to its end by clients, though pages of it are empty", async () => {
    const pages = [["a", "hidden-1"], ["hidden-2", "hidden-3"], ["hidden-4"], ["b"]];
    await using upstream = await legacyUpstream((call, { id, params }) => {
      if (id === undefined) return call.replyRaw(202);
      const page = Number(params?.["cursor"] ?? 0);
      const tools = (pages[page] ?? []).map((name) => ({ name, inputSchema: { type: "object" } }));
      const nextCursor = page + 1 < pages.length ? { nextCursor: String(page + 1) } : {};
      return call.reply({ jsonrpc: "2.0", id, result: { tools, ...nextCursor } });
    });
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      policy: { tools: { deny: ["hidden-*"] } },
    });
    const session = await openSession(gateway.url);
    const seen: unknown[] = [];
    let cursor: unknown;
    do {
      const { json } = await session.post({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/list",
        params: cursor === undefined ? {} : { cursor },
      });
      const { result } = json as {
        readonly result: {
          readonly tools: readonly { readonly name: string }[];
          readonly nextCursor?: string;
        };
      };
      seen.push(result.tools.map(({ name }) => name));
      cursor = result.nextCursor;
    } while (cursor !== undefined);
    expect(seen).toEqual([["a"], [], [], ["b"]]);
  });

  it("is nobody else's to keep: its cache scope is private", async () => {
    await using fixture = await startFixture({ era: "modern" });
    await using gateway = await openGateway({ upstream: { url: fixture.url }, policy: noImages });
    for (const method of ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]) {
      const { json } = await postModern(gateway.url, modernRequest(1, method));
      expect(json).toMatchObject({ result: { cacheScope: "private" } });
    }
  });
});

describe("a policy that changes", () => {
  it("holds for sessions that are open, from their next message on, and they are told to list again", async () => {
    await using gateway = await openGateway({ upstream: everything });
    const session = await openSession(gateway.url);
    await using stream = await session.listen();
    const list = async () => (await session.post({ jsonrpc: "2.0", id: 1, method: "tools/list" })).text;
    expect(await list()).toContain("test_image_content");
    expect(await gateway.gateway.reload(localConfig({ upstream: everything, policy: noImages }))).toMatchObject({
      ok: true,
    });
    expect([await nextMessage(stream), await nextMessage(stream), await nextMessage(stream)]).toEqual(
      ["tools", "prompts", "resources"].map((kind) => ({
        jsonrpc: "2.0",
        method: `notifications/${kind}/list_changed`,
      })),
    );
    expect(await list()).not.toContain("test_image_content");
  });

  it("is told on streams that listen, for the lists that they asked for", async () => {
    await using gateway = await openGateway({ upstream: everything });
    const notifications = { toolsListChanged: true };
    await using stream = await streamModern(
      gateway.url,
      modernRequest("sub-1", "subscriptions/listen", { notifications }),
    );
    expect(await nextMessage(stream)).toMatchObject({ method: "notifications/subscriptions/acknowledged" });
    await gateway.gateway.reload(localConfig({ upstream: everything, policy: noImages }));
    expect(await nextMessage(stream)).toEqual({
      jsonrpc: "2.0",
      method: "notifications/tools/list_changed",
      params: { _meta: { "io.modelcontextprotocol/subscriptionId": "sub-1" } },
    });
  });

  it("is not told to clients whose server never promised to", async () => {
    await using upstream = await legacyUpstream((call) => call.replyRaw(202));
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    await using stream = await session.listen();
    const config = localConfig({ upstream: { url: upstream.url }, policy: noImages });
    await gateway.gateway.reload(config);
    await session.end();
    expect(await nextMessage(stream)).toBeUndefined();
  });

  it("that is the same goes on with what it remembers", async () => {
    const policy = {
      rules: [{ id: "slow", allow: 'mcp.method == "tools/call"', rate: { perSecond: 0.001, burst: 1 } }],
    };
    await using gateway = await openGateway({ upstream: everything, policy });
    const session = await openSession(gateway.url);
    const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "test_simple_text" } };
    const first = await session.post(call);
    await gateway.gateway.reload(localConfig({ upstream: everything, policy, limits: { depth: 64 } }));
    const second = await session.post(call);
    expect([first.status, second.status]).toEqual([200, 429]);
  });
});

describe("a provider that is handed in", () => {
  it("decides for its route", async () => {
    await using upstream = await fakeUpstream((call) =>
      call.reply({
        jsonrpc: "2.0",
        id: 1,
        result: {
          resultType: "complete",
          tools: [{ name: "a" }, { name: "b" }],
          ttlMs: 0,
          cacheScope: "public",
        },
      }),
    );
    await using gateway = await openGateway(
      { upstream: { url: upstream.url, era: "modern" } },
      { policies: { default: fakeProvider({ sees: (name) => name === "b" }) } },
    );
    const { json } = await postModern(gateway.url, modernRequest(1, "tools/list"));
    expect(json).toMatchObject({ result: { tools: [{ name: "b" }], cacheScope: "private" } });
  });
});
