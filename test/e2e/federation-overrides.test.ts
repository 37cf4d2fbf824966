import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { openGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const upstreams = {
  files: { server: () => createToolServer({ name: "files", tools: ["read", "write", "list", "drop"] }) },
};

type Overrides = NonNullable<NonNullable<ConfigInput["routes"]>[string]["overrides"]>;

const overrides: Overrides = {
  tools: {
    files__read: {
      name: "open",
      title: "Open a file",
      description: "Opens a file.",
      annotations: { readOnlyHint: true },
      arguments: {
        path: { enum: ["/a", "/b"], description: "Which one." },
        mode: { default: "text" },
        as: { fixed: "principal.id" },
        secret: { hide: true },
      },
    },
    files__write: { arguments: { path: { fixed: '"/out/" + mcp.arguments.name' } } },
    files__list: { arguments: { path: { fixed: { deep: [1, 2] } } } },
    files__drop: { hide: true },
  },
};

describe.each([newestLegacy, newestModern])("tools with overrides, with a client of %s", (revision) => {
  it("are offered and called as the configuration says", async () => {
    await using gateway = await openGateway({ routes: { all: { upstreams, overrides } } });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    const { tools } = await client.sdk.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["open", "files__write", "files__list"]);
    expect(tools[0]).toMatchObject({
      title: "Open a file",
      description: "Opens a file.",
      annotations: { readOnlyHint: true },
    });
    expect(tools[0]?.inputSchema.properties).toEqual({
      path: expect.objectContaining({ enum: ["/a", "/b"], description: "Which one." }),
      mode: { default: "text" },
    });
    const call = async (name: string, args: Record<string, unknown> = {}) =>
      (await client.callTool(name, { args })).texts;
    expect(await call("open", { path: "/a", as: "root", secret: "x" })).toEqual([
      'files.read {"path":"/a","as":"anonymous","mode":"text"}',
    ]);
    expect(await call("open")).toEqual(['files.read {"mode":"text","as":"anonymous"}']);
    expect(await call("files__write", { name: "n", path: "/etc" })).toEqual([
      'files.write {"path":"/out/n","name":"n"}',
    ]);
    await expect(call("open", { path: "/etc/passwd" })).rejects.toThrow(/must be one of/u);
    await expect(call("files__write")).rejects.toThrow(/no value for this call/u);
    for (const gone of ["files__read", "files__drop"]) await expect(call(gone)).rejects.toThrow(/Unknown tool/u);
  });

  it("are judged with the arguments that their server gets", async () => {
    await using gateway = await openGateway({
      routes: { all: { upstreams, overrides } },
      policy: {
        rules: [
          { id: "own", deny: 'mcp.tool == "open" && mcp.name == "read" && mcp.arguments.as != principal.id' },
          { id: "out", deny: 'mcp.name == "write" && !mcp.arguments.path.startsWith("/out/")' },
          { id: "rest", allow: "true" },
        ],
      },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    expect((await client.callTool("open", { args: { as: "root" } })).isError).toBe(false);
    expect((await client.callTool("files__write", { args: { name: "n", path: "/etc" } })).texts).toEqual([
      'files.write {"path":"/out/n","name":"n"}',
    ]);
  });
});
