import { describe, expect, it } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { openGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const upstreams = {
  github: {
    server: () =>
      createToolServer({
        name: "github",
        tools: ["create_issue", "search_code"],
        prompts: ["ask"],
        resources: ["gh://x"],
      }),
  },
  notes: { server: () => createToolServer({ name: "notes", tools: ["read", "write"], resources: ["notes://y"] }) },
};

describe.each([newestLegacy, newestModern])("views of several servers, with a client of %s", (revision) => {
  it("have paths of their own, where nothing else exists", async () => {
    await using gateway = await openGateway({
      routes: {
        desk: {
          upstreams,
          overrides: { tools: { github__create_issue: { name: "file_issue" } } },
          views: {
            triage: { tools: ["file_issue", "github__search_*"], resources: ["gh:*"] },
            writers: { tools: ["notes__*"], prompts: ["*"] },
          },
        },
      },
    });
    const connect = (path: string) => connectV2({ via: "http", url: `${gateway.origin}${path}/mcp` }, revision);
    await using all = await connect("/desk");
    expect(await all.listTools()).toEqual(["file_issue", "github__search_code", "notes__read", "notes__write"]);
    await using triage = await connect("/desk/triage");
    expect(await triage.listTools()).toEqual(["file_issue", "github__search_code"]);
    expect((await triage.callTool("file_issue")).texts).toEqual(["github.create_issue {}"]);
    await expect(triage.callTool("notes__write")).rejects.toThrow(/Unknown tool/u);
    expect(await triage.readResource("gh://x")).toEqual(["github gh://x"]);
    await expect(triage.readResource("notes://y")).rejects.toThrow(/not found/iu);
    await expect(triage.getPrompt("github__ask")).rejects.toThrow(/Unknown prompt/u);
    await using writers = await connect("/desk/writers");
    expect(await writers.listTools()).toEqual(["notes__read", "notes__write"]);
    expect(await writers.getPrompt("github__ask")).toEqual(["github.ask"]);
    expect((await fetch(`${gateway.origin}/desk/nobody/mcp`, { method: "POST" })).status).toBe(404);
  });

  it("are chosen by a condition at the path of the route, and by one that fails as well", async () => {
    await using gateway = await openGateway({
      routes: {
        desk: {
          upstreams,
          views: {
            staff: { tools: ["*"], when: '"staff" in principal.scopes' },
            guests: { tools: ["notes__read"], when: 'principal.kind == "anonymous"' },
          },
        },
        broken: {
          upstreams,
          views: { odd: { tools: ["notes__read"], when: 'principal.claims.team == "x"' } },
        },
      },
    });
    for (const route of ["desk", "broken"]) {
      await using client = await connectV2({ via: "http", url: `${gateway.origin}/${route}/mcp` }, revision);
      expect(await client.listTools()).toEqual(["notes__read"]);
      await expect(client.callTool("notes__write")).rejects.toThrow(/Unknown tool/u);
    }
  });

  it("let clients search for tools and call what they find, within what the policy allows", async () => {
    await using gateway = await openGateway({
      routes: { desk: { upstreams, views: { finder: { tools: ["*"], discovery: "search" } } } },
      policy: {
        rules: [
          { id: "no-writes", deny: 'mcp.upstream == "notes" && mcp.name == "write"' },
          { id: "rest", allow: "true" },
        ],
      },
    });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/desk/finder/mcp` }, revision);
    expect(await client.listTools()).toEqual(["search_tools", "call_tool"]);
    const found = async (query: string) => {
      const { texts } = await client.callTool("search_tools", { args: { query } });
      return (JSON.parse(texts[0] ?? "[]") as readonly { readonly name: string }[]).map(({ name }) => name);
    };
    expect(await found("create an issue")).toEqual(["github__create_issue"]);
    // What the caller may not use is not found.
    expect(await found("notes")).toEqual(["notes__read"]);
    const call = (name: string) => client.callTool("call_tool", { args: { name, arguments: { path: "/x" } } });
    expect((await call("notes__read")).texts).toEqual(['notes.read {"path":"/x"}']);
    await expect(call("notes__write")).rejects.toThrow(/policy/u);
    await expect(call("call_tool")).rejects.toThrow(/needs the `name`/u);
  });
});
