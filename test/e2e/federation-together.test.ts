import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture } from "../support/fixture.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const files = { server: () => createToolServer({ name: "files", tools: ["read", "write", "drop"] }) };
const notes = { server: () => createToolServer({ name: "notes", tools: ["read", "search_tools"] }) };
const save = { name: "save", description: "Saves a text.", arguments: { path: { fixed: '"/safe"' } } };
const policy: ConfigInput["policy"] = {
  rules: [
    { id: "outside", deny: 'mcp.upstream == "files" && mcp.name == "write" && mcp.arguments.path != "/safe"' },
    { id: "secret", deny: '"text" in mcp.arguments && mcp.arguments.text == "secret"' },
    { id: "rest", allow: "true" },
  ],
};

describe.each([newestLegacy, newestModern])("overrides, views, search and rules, with a client of %s", (revision) => {
  it("hold together: a tool that is found is called with its arguments, judged, and nothing else", async () => {
    await using gateway = await openGateway({
      routes: {
        desk: {
          upstreams: { files, notes: { ...notes, prefix: "" } },
          overrides: { tools: { files__write: save, files__drop: { hide: true } } },
          views: { finder: { tools: ["save", "read", "search_tools"], discovery: "search" } },
        },
      },
      policy,
    });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/desk/finder/mcp` }, revision);
    const { texts } = await client.callTool("search_tools", { args: { query: "save a text" } });
    const [found] = JSON.parse(texts[0] ?? "[]") as { name: string; inputSchema: { properties: object } }[];
    expect(found?.name).toBe("save");
    expect(Object.keys(found?.inputSchema.properties ?? {})).not.toContain("path");
    const call = async (name: string, args: Record<string, unknown> = {}) =>
      (await client.callTool("call_tool", { args: { name, arguments: args } })).texts;
    for (const path of ["/etc", "/safe", null])
      expect(await call("save", { path, text: "x" })).toEqual([
        `files.write ${JSON.stringify({ path: "/safe", text: "x" })}`,
      ]);
    expect((await client.callTool("save", { args: {} })).texts).toEqual(['files.write {"path":"/safe"}']);
    await expect(call("save", { text: "secret" })).rejects.toThrow(/policy/u);
    // The policy decides first, about what came.
    await expect(call("save", { Path: "/etc" })).rejects.toThrow(/policy could not evaluate/u);
    await expect(call("save", { Path: "/etc", path: "/safe" })).rejects.toThrow(/letter case/u);
    // Neither by its own name, nor hidden, nor outside of the view.
    for (const name of ["files__write", "files__drop", "files__read", "call_tool"])
      await expect(call(name)).rejects.toThrow(/Unknown tool/u);
    // A server's own tool of that name is found, and called like the others.
    expect(await call("search_tools")).toEqual(["notes.search_tools {}"]);
    expect(await call("read")).toEqual(["notes.read {}"]);
  });

  it("hold from the next message on after a reload, in sessions that are open", async () => {
    const shutdown = { grace: "30s" };
    const desk = { upstreams: { files, notes }, views: { part: { tools: ["files__*"] } } };
    await using gateway = await openGateway({ routes: { desk }, shutdown });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/desk/part/mcp` }, revision);
    if (revision === newestModern) await client.sdk.listen({ toolsListChanged: true });
    expect(await client.listTools()).toEqual(["files__read", "files__write", "files__drop"]);
    expect((await client.callTool("files__write", { args: { path: "/etc" } })).texts).toEqual([
      'files.write {"path":"/etc"}',
    ]);
    const next = {
      upstreams: { files, notes },
      overrides: { tools: { files__write: save, files__drop: { hide: true } } },
      views: { part: { tools: ["save", "notes__*"], discovery: "search" as const } },
    };
    const reloaded = await gateway.gateway.reload(localConfig({ routes: { desk: next }, shutdown, policy }));
    expect(reloaded).toMatchObject({ ok: true });
    await expect(client.callTool("files__write", { args: { path: "/etc" } })).rejects.toThrow(/Unknown tool/u);
    const saved = await client.callTool("call_tool", { args: { name: "save", arguments: { path: "/etc" } } });
    expect(saved.texts).toEqual(['files.write {"path":"/safe"}']);
    await eventually(() => {
      expect(client.notified.map(({ method }) => method)).toContain("notifications/tools/list_changed");
    });
    expect(await client.listTools()).toEqual(["search_tools", "call_tool"]);
  });

  it("leave out a bare name of two servers also where an override gives it another", async () => {
    const bare = (name: string) => ({ server: () => createToolServer({ name, tools: ["read", name] }), prefix: "" });
    await using gateway = await openGateway({
      routes: {
        desk: {
          upstreams: { one: bare("one"), two: bare("two"), files },
          overrides: { tools: { read: { name: "open" }, files__drop: { name: "read" } } },
        },
      },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    const { tools, _meta } = await client.sdk.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["one", "two", "files__read", "files__write", "read"]);
    expect(_meta?.["headgate/clashes"]).toEqual(["open"]);
    // An override is not a cut, and the server's own name is not said.
    expect(_meta?.["headgate/cut"]).toBeUndefined();
    await expect(client.callTool("open")).rejects.toThrow(/Unknown tool/u);
    expect((await client.callTool("read")).texts).toEqual(["files.drop {}"]);
  });

  it("send headers of the real call to a modern server", async () => {
    await using fixture = await startFixture({ era: "modern" });
    await using gateway = await openGateway({
      routes: {
        desk: {
          upstreams: { web: { url: fixture.url } },
          views: { finder: { tools: ["*"], discovery: "search" } },
        },
      },
      policy: { rules: [{ id: "all", allow: "true" }] },
    });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/desk/finder/mcp` }, revision);
    const { texts } = await client.callTool("call_tool", { args: { name: "web__test_simple_text" } });
    expect(texts).toEqual(["This is a simple text response for testing."]);
  });

  it("read a URI at the server that lists it now, after it has moved", async () => {
    const add = (server: ReturnType<typeof createToolServer>, name: string) =>
      server.registerResource("memo", "memo:1", {}, () => ({ contents: [{ uri: "memo:1", text: name }] }));
    const home = (name: string, hasIt: boolean) => () => {
      const server = createToolServer({ name, resources: [`${name}:x`] });
      let own = hasIt ? add(server, name) : undefined;
      server.registerTool("move", {}, () => {
        own?.remove();
        own = own === undefined ? add(server, name) : undefined;
        return { content: [] };
      });
      return server;
    };
    await using gateway = await openGateway({
      routes: { desk: { upstreams: { one: { server: home("one", true) }, two: { server: home("two", false) } } } },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    if (revision === newestModern) await client.sdk.listen({ resourcesListChanged: true });
    const where = async () => {
      const { resources } = await client.sdk.listResources();
      expect(resources.filter(({ uri }) => uri === "memo:1")).toHaveLength(1);
      const { contents } = await client.sdk.readResource({ uri: "memo:1" });
      return contents[0];
    };
    expect(await where()).toMatchObject({ text: "one" });
    await client.callTool("one__move");
    await client.callTool("two__move");
    await eventually(async () => {
      expect(await where()).toMatchObject({ text: "two" });
    });
  });
});
