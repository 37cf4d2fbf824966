import { describe, expect, it } from "vitest";

import { cleanMcpServers, routeNameOf } from "./mcp-servers.ts";
import { parseConfig, type ConfigResult } from "./load.ts";
import type { ConfigInput } from "./schema.ts";

type Servers = NonNullable<ConfigInput["mcpServers"]>;

function parse(mcpServers: Servers): ConfigResult {
  return parseConfig({ mcpServers });
}

function upstreamOf(entry: Servers[string]) {
  const result = parse({ it: entry });
  return result.ok ? result.config.routes["it"]?.upstream : result.problems;
}

describe("an entry of mcpServers", () => {
  it("with a command becomes a route with a child process", () => {
    expect(upstreamOf({ command: "npx", args: ["-y", "server"], env: { KEY: "x" }, type: "stdio" })).toMatchObject({
      type: "stdio",
      command: "npx",
      args: ["-y", "server"],
      env: { KEY: "x" },
      sharing: "session",
    });
  });

  it.each([
    ["http", "streamable-http"],
    ["streamable-http", "streamable-http"],
    ["streamable_http", "streamable-http"],
    ["streamableHttp", "streamable-http"],
    ["sse", "sse"],
    [undefined, "auto"],
  ] as const)("with a URL and type %s uses the transport %s", (type, transport) => {
    const entry = { url: "https://example.com/mcp", ...(type === undefined ? {} : { type }) };
    expect(upstreamOf(entry)).toMatchObject({ type: "http", url: "https://example.com/mcp", transport });
  });

  it("that mixes the forms is refused", () => {
    expect(upstreamOf({})).toEqual([{ path: "mcpServers.it", message: "needs `command` or `url`" }]);
    expect(upstreamOf({ command: "x", url: "https://x" })).toEqual([
      { path: "mcpServers.it", message: "has both `command` and `url`" },
    ]);
    expect(upstreamOf({ command: "x", type: "sse" })).toEqual([
      { path: "mcpServers.it.type", message: "`sse` needs `url`" },
    ]);
    expect(upstreamOf({ url: "https://x", type: "stdio" })).toEqual([
      { path: "mcpServers.it.type", message: "`stdio` needs `command`" },
    ]);
  });

  it("is checked like the upstream of a route", () => {
    expect(upstreamOf({ url: "ftp://x" })).toEqual([
      { path: "mcpServers.it.url", message: "is not an http or https URL; begin it with `http://` or `https://`" },
    ]);
    expect(upstreamOf({ url: "https://x", headers: { Host: "y" } })).toEqual([
      { path: "mcpServers.it.headers", message: "`Host` is a header that the gateway sets itself" },
    ]);
  });

  it("that is disabled is no route", () => {
    const result = parse({ on: { command: "x" }, off: { disabled: true } });
    expect(result.ok && Object.keys(result.config.routes)).toEqual(["on"]);
  });

  it("may have keys of other tools, which are mentioned", () => {
    const result = parse({
      it: { command: "x", autoApprove: ["a"], alwaysAllow: [], timeout: 60, description: "d" },
    });
    expect(result.ok && result.warnings.map(({ message }) => message)).toEqual([
      "`autoApprove` is ignored",
      "`alwaysAllow` is ignored",
      "`timeout` is ignored",
      "`description` is ignored",
    ]);
  });

  it("may not have keys that look like a slip", () => {
    const result = parse({ it: { command: "x", arg: ["a"] } });
    expect(result).toEqual({
      ok: false,
      problems: [{ path: "mcpServers.it", message: "unknown key `arg`; did you mean `args`?" }],
    });
  });
});

describe("the route of a server", () => {
  it.each([
    ["files", "files"],
    ["GitHub MCP", "github-mcp"],
    ["@scope/server", "scope-server"],
    ["a.b_c-d", "a.b_c-d"],
    ["metrics", "metrics-server"],
    [".well-known", "well-known"],
    ["Ünïcode!", "n-code"],
    ["***", undefined],
  ])("named %s is %s", (server, name) => {
    expect(routeNameOf(server)).toBe(name);
  });

  it("is said where its name had to change, and refused where two fall together", () => {
    const changed = parse({ "Git Hub": { command: "x" } });
    expect(changed.ok && changed.warnings).toEqual([
      { path: 'mcpServers["Git Hub"]', message: "is served as route `git-hub`" },
    ]);
    expect(parse({ "Git Hub": { command: "x" }, "git-hub": { command: "y" } })).toEqual({
      ok: false,
      problems: [{ path: "mcpServers.git-hub", message: "duplicate route name `git-hub`" }],
    });
    expect(parse({ "***": { command: "x" } }).ok).toBe(false);
  });
});

describe("cleaning", () => {
  it("leaves what is not as expected to the schema", () => {
    for (const tree of [undefined, null, [], "x", { mcpServers: 5 }, { mcpServers: [] }]) {
      expect(cleanMcpServers(tree)).toEqual({ tree, problems: [], warnings: [] });
    }
    expect(cleanMcpServers({ mcpServers: { a: 5 } }).tree).toEqual({ mcpServers: { a: 5 } });
  });
});
