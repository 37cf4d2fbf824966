import { describe, expect, it } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { openSession } from "../support/legacy-session.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import { startRawMember } from "../support/raw-member.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

/** A server that counts how often it was started, with a tool that answers when it is told to. */
function countedServer(name: string) {
  let starts = 0;
  const asked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const server = () => {
    starts++;
    const created = createToolServer({ name, tools: ["x"] });
    created.registerTool("wait", {}, async () => {
      asked.resolve();
      await release.promise;
      return { content: [{ type: "text", text: `${name} waited` }] };
    });
    return created;
  };
  return { server, starts: () => starts, asked: asked.promise, release: release.resolve };
}

describe("a subscription of a session", () => {
  it("goes on where its server is replaced, until it is ended", async () => {
    await using raw = await startRawMember("legacy", {
      capabilities: { resources: { subscribe: true } },
      answer: (method) => (method === "resources/list" ? { resources: [{ uri: "memo:1", name: "one" }] } : {}),
    });
    const other = { server: () => createToolServer({ name: "other", tools: ["x"] }) };
    const config = (version: string) => ({
      routes: { all: { upstreams: { raw: { url: raw.url, era: "legacy" as const, headers: { version } }, other } } },
    });
    await using gateway = await openGateway(config("1"));
    const session = await openSession(gateway.url, newestLegacy);
    let id = 0;
    const send = (method: string) => session.post({ jsonrpc: "2.0", id: ++id, method, params: { uri: "memo:1" } });
    await send("resources/subscribe");
    const subscribed = () => raw.received("resources/subscribe");
    expect(subscribed()).toEqual([{ uri: "memo:1" }]);
    expect(await gateway.gateway.reload(localConfig(config("2")))).toMatchObject({ ok: true });
    await eventually(() => {
      expect(subscribed()).toEqual([{ uri: "memo:1" }, { uri: "memo:1" }]);
    });
    await send("resources/unsubscribe");
    expect(await gateway.gateway.reload(localConfig(config("3")))).toMatchObject({ ok: true });
    // Opened by then, and told what there is to tell.
    await eventually(async () => {
      expect((await send("resources/read")).status).toBe(200);
      expect(raw.received("initialize")).toHaveLength(3);
    });
    await send("resources/read");
    expect(subscribed()).toHaveLength(2);
  });
});

describe.each([newestLegacy, newestModern])("a reload of several servers, with a client of %s", (revision) => {
  it("replaces the changed ones alone: sessions, running calls and the other servers go on", async () => {
    const kept = countedServer("kept");
    const old = countedServer("old");
    const gone = countedServer("gone");
    const next = countedServer("next");
    const added = countedServer("added");
    const shutdown = { grace: "30s" };
    const before = { kept: { server: kept.server }, changing: { server: old.server }, gone: { server: gone.server } };
    await using gateway = await openGateway({ routes: { all: { upstreams: before } }, shutdown });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    if (revision === newestModern) await client.sdk.listen({ toolsListChanged: true });
    expect(await client.listTools()).toEqual(
      ["kept", "changing", "gone"].flatMap((name) => [`${name}__x`, `${name}__wait`]),
    );
    const startsBefore = kept.starts();
    const waiting = [client.callTool("kept__wait"), client.callTool("changing__wait")];
    await Promise.all([kept.asked, old.asked]);
    const upstreams = {
      kept: { server: kept.server, title: "Kept" },
      added: { server: added.server, prefix: "new" },
      changing: { server: next.server },
    };
    expect(await gateway.gateway.reload(localConfig({ routes: { all: { upstreams } }, shutdown }))).toMatchObject({
      ok: true,
    });
    expect((await client.callTool("changing__x")).texts).toEqual(["next.x {}"]);
    expect((await client.callTool("kept__x")).texts).toEqual(["kept.x {}"]);
    await expect(client.callTool("gone__x")).rejects.toThrow(/Unknown tool/u);
    await eventually(() => {
      expect(client.notified.map(({ method }) => method)).toContain("notifications/tools/list_changed");
    });
    expect(await client.listTools()).toEqual(
      ["kept", "new", "changing"].flatMap((name) => [`${name}__x`, `${name}__wait`]),
    );
    old.release();
    kept.release();
    expect((await Promise.all(waiting)).map(({ texts }) => texts)).toEqual([["kept waited"], ["old waited"]]);
    expect(kept.starts()).toBe(startsBefore);
    expect((await client.callTool("new__x")).texts).toEqual(["added.x {}"]);
  });
});
