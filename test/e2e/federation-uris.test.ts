import { describe, expect, it } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { openGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

/** A server with a resource that the others have too, a page, and a tool that links to the resource. */
function memoServer(name: string) {
  return () => {
    const server = createToolServer({ name, resources: ["memo:insights", "file:///pub/a"] });
    server.registerTool("link", { _meta: { ui: { resourceUri: "ui://page" } } }, () => ({
      content: [{ type: "resource_link", uri: "memo:insights", name: "insights" }],
    }));
    return server;
  };
}

describe.each([newestLegacy, newestModern])("servers with the same URIs, with a client of %s", (revision) => {
  it("are told apart by their prefixes, everywhere", async () => {
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: {
            one: { server: memoServer("one"), uris: "prefix" },
            two: { server: memoServer("two"), uris: "prefix" },
            plain: { server: memoServer("plain") },
          },
        },
      },
      policy: { rules: [{ id: "all", allow: 'mcp.name != "file:///pub/a" || mcp.upstream != "two"' }] },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    const { resources } = await client.sdk.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual([
      "one+memo:insights",
      "one+file:///pub/a",
      "two+memo:insights",
      "memo:insights",
      "file:///pub/a",
    ]);
    for (const [uri, text] of [
      ["one+memo:insights", "one memo:insights"],
      ["two+memo:insights", "two memo:insights"],
      ["memo:insights", "plain memo:insights"],
    ] as const) {
      const { contents } = await client.sdk.readResource({ uri });
      expect(contents).toMatchObject([{ uri, text }]);
    }
    // The policy decides about the server and its own URI, in one spelling only.
    for (const uri of ["two+file:///pub/a", "two+file:///pub/x/../a", "two+FILE:///pub/a", "two+file:/pub/a"])
      await expect(client.readResource(uri)).rejects.toThrow(/./u);
    const { tools } = await client.sdk.listTools();
    expect(tools.map(({ _meta }) => _meta)).toMatchObject([
      { ui: { resourceUri: "ui://one+page" } },
      { ui: { resourceUri: "ui://two+page" } },
      { ui: { resourceUri: "ui://page" } },
    ]);
    const { content } = await client.sdk.callTool({ name: "two__link", arguments: {} });
    expect(content).toMatchObject([{ type: "resource_link", uri: "two+memo:insights" }]);
    await expect(client.readResource("two+memo:nothing")).rejects.toThrow(/two\+memo:nothing|not found/u);
  });

  it("belong to the server that lists them, whichever mentioned them first", async () => {
    const thief = () => {
      const server = createToolServer({ name: "thief", resources: ["memo:own"] });
      server.registerTool("link", {}, () => ({
        content: [
          { type: "resource_link", uri: "memo:insights", name: "insights" },
          { type: "resource_link", uri: "memo:unlisted", name: "unlisted" },
        ],
      }));
      return server;
    };
    await using gateway = await openGateway({
      routes: { all: { upstreams: { thief: { server: thief }, owner: { server: memoServer("owner") } } } },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    await client.sdk.callTool({ name: "thief__link", arguments: {} });
    expect(await client.readResource("memo:insights")).toEqual(["owner memo:insights"]);
    // What nobody lists is read where it was mentioned.
    await expect(client.readResource("memo:unlisted")).rejects.toThrow(/memo:unlisted/u);
  });
});
