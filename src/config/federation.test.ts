import { describe, expect, it } from "vitest";

import { parseConfig } from "./load.ts";
import type { ConfigInput } from "./schema.ts";

type RouteInput = NonNullable<ConfigInput["routes"]>[string];

const demo = { demo: true } as const;

function problemsOf(route: RouteInput): readonly string[] {
  const parsed = parseConfig({ routes: { all: route } });
  return parsed.ok ? [] : parsed.problems.map(({ path, message }) => `${path}: ${message}`);
}

describe("mcpServers with `federate`", () => {
  it("are one server at /mcp, in their order", () => {
    const parsed = parseConfig({
      federate: true,
      mcpServers: { "Git Hub": { url: "https://example.com/mcp" }, notes: { command: "notes" } },
    });
    expect(parsed.ok && parsed.config.routes["default"]).toMatchObject({
      prefixes: [""],
      upstream: {
        type: "federation",
        members: [
          { name: "Git-Hub", prefix: "Git-Hub", upstream: { type: "http", url: "https://example.com/mcp" } },
          { name: "notes", upstream: { type: "stdio", command: "notes" } },
        ],
      },
    });
    expect(parsed.ok && parsed.warnings.map(({ message }) => message)).toEqual(["its names begin with `Git-Hub`"]);
  });

  it("need servers, with names that differ", () => {
    const problems = (input: ConfigInput) => {
      const parsed = parseConfig(input);
      return parsed.ok ? [] : parsed.problems.map(({ path, message }) => `${path}: ${message}`);
    };
    expect(problems({ federate: true })).toEqual(["federate: needs `mcpServers`"]);
    expect(problems({ federate: true, mcpServers: { "a b": { command: "x" }, "a-b": { command: "y" } } })).toEqual([
      "mcpServers.a-b: duplicate server name `a-b`",
    ]);
  });
});

describe("a route with several servers", () => {
  it("keeps their order and names them after their keys", () => {
    const parsed = parseConfig({
      routes: { all: { upstreams: { b: demo, a: { ...demo, prefix: "x", title: "The A", required: true } } } },
    });
    expect(parsed.ok && parsed.config.routes["all"]?.upstream).toMatchObject({
      type: "federation",
      separator: "__",
      nameLength: 64,
      listing: { wait: 3000, stale: 600_000, page: 1000, partial: "allow" },
      members: [
        { name: "b", prefix: "b", title: "b", required: false, upstream: { type: "demo" } },
        { name: "a", prefix: "x", title: "The A", required: true, upstream: { type: "demo" } },
      ],
    });
  });

  it.each<[string, RouteInput, string]>([
    ["no server", { upstreams: {} }, "routes.all.upstreams: has no servers: expected one or more, each with a name"],
    [
      "both forms",
      { upstream: demo, upstreams: { a: demo } },
      "routes.all: `upstream` and `upstreams` cannot be combined",
    ],
    [
      "a name with the separator",
      { upstreams: { a__b: demo } },
      "routes.all.upstreams.a__b: the prefix `a__b` contains the separator `__`; set another `prefix`",
    ],
    [
      "a prefix that runs into the separator",
      { upstreams: { ax: demo }, federation: { separator: "xx" } },
      "routes.all.upstreams.ax: the prefix `ax` contains the separator `xx`; set another `prefix`",
    ],
    [
      "a prefix twice",
      { upstreams: { a: demo, b: { ...demo, prefix: "a" } } },
      "routes.all.upstreams.b: has the same prefix `a` as `a`; set another `prefix`",
    ],
    [
      "a prefix that leaves no room for names",
      { upstreams: { "a-server-with-a-long-name": demo }, federation: { nameLength: 32 } },
      "routes.all.upstreams.a-server-with-a-long-name: the prefix `a-server-with-a-long-name` leaves no room for names of 32 characters; set a shorter `prefix`, or `federation.nameLength` to 37 or more",
    ],
    [
      "URIs with a prefix that no URI begins with",
      { upstreams: { My_Server: { ...demo, uris: "prefix" } } },
      "routes.all.upstreams.My_Server: `uris: prefix` needs a `prefix` that a URI can begin with: lower-case letters, digits and `-`, not `My_Server`",
    ],
    [
      "a name that is longer than names may be",
      {
        upstreams: { a: demo },
        federation: { nameLength: 32 },
        overrides: { tools: { a__x: { name: "x".repeat(33) } } },
      },
      "routes.all.overrides.tools.a__x.name: is longer than `federation.nameLength` (32 characters)",
    ],
    [
      "instructions of nobody",
      { upstreams: { a: demo }, federation: { instructions: { from: "b" } } },
      "routes.all.federation.instructions.from: no server `b` in `upstreams`",
    ],
    [
      "two tools of one name",
      { upstreams: { a: demo }, overrides: { tools: { a__x: { name: "z" }, a__y: { name: "z" } } } },
      "routes.all.overrides.tools.a__y.name: `a__x` is called `z` too",
    ],
    [
      "a new name that looks like one of another server",
      {
        upstreams: { a: demo, b: demo, c: { ...demo, prefix: "" } },
        overrides: { tools: { a__x: { name: "b__x" }, a__y: { name: "a__z" }, a__w: { name: "w" } } },
      },
      "routes.all.overrides.tools.a__x.name: `b__x` looks like a tool of `b`; choose another name",
    ],
    [
      "a new name of a tool without prefix that looks like one of another server",
      { upstreams: { a: demo, c: { ...demo, prefix: "" } }, overrides: { tools: { x: { name: "a__x" } } } },
      "routes.all.overrides.tools.x.name: `a__x` looks like a tool of `a`; choose another name",
    ],
    [
      "overrides of one server that is written as `upstream`",
      { upstream: demo, overrides: { tools: { x: { hide: true } } } },
      "routes.all.overrides: needs `upstreams`, also for one server",
    ],
    [
      "a fixed value that is no CEL",
      { upstreams: { a: demo }, overrides: { tools: { a__x: { arguments: { y: { fixed: "acme" } } } } } },
      "routes.all.overrides.tools.a__x.arguments.y.fixed: unknown variable: acme; expected `principal`, `mcp`, `request`, `session`; a string is CEL, so write '\"eu\"' for the text eu",
    ],
    [
      "an override of a tool that no server can have",
      { upstreams: { a: demo, b: demo }, overrides: { tools: { x: { hide: true } } } },
      "routes.all.overrides.tools: no server has a tool `x`: names begin with `a__` or `b__`",
    ],
    [
      "a pattern where an override needs a name",
      { upstreams: { a: demo }, overrides: { tools: { "a__*": { hide: true } } } },
      "routes.all.overrides.tools: `a__*` is not a name: name each tool, `*` matches nothing here",
    ],
    [
      "a fixed argument with a default",
      { upstreams: { a: demo }, overrides: { tools: { a__x: { arguments: { y: { fixed: 1, default: 2 } } } } } },
      "routes.all.overrides.tools.a__x.arguments.y.default: has no effect with `fixed`; remove one of them",
    ],
    [
      "a default that clients may not send",
      { upstreams: { a: demo }, overrides: { tools: { a__x: { arguments: { y: { enum: [[1]], default: [2] } } } } } },
      "routes.all.overrides.tools.a__x.arguments.y.default: is not one of the values in `enum`",
    ],
    [
      "a view of nothing",
      { upstreams: { a: demo }, views: { v: {} } },
      'routes.all.views.v: offers nothing: name its `tools`, `prompts` or `resources` (`tools: ["*"]` for all tools)',
    ],
    [
      "a view of names that no server can have",
      { upstreams: { a: demo }, views: { v: { tools: ["a__x", "*_x", "a*"], prompts: ["c__*"] } } },
      "routes.all.views.v.prompts[0]: no server has `c__*`: names begin with `a__`",
    ],
    [
      "a view with the former name of a tool",
      { upstreams: { a: demo }, overrides: { tools: { a__x: { name: "z" } } }, views: { v: { tools: ["z", "a__x"] } } },
      "routes.all.views.v.tools[1]: `a__x` is called `z` by `overrides`; write `z`",
    ],
    [
      "a server in two forms",
      { upstreams: { a: { url: "https://example.com/mcp", command: "x" } as never } },
      "routes.all.upstreams.a: needs exactly one of `url`, `command`, `demo` and `recordings`; found `url` and `command`: keep one",
    ],
    [
      "credentials without a token to exchange",
      {
        upstreams: {
          a: {
            url: "https://example.com/mcp",
            credentials: {
              tokenExchange: { tokenEndpoint: "https://example.com/token", clientId: "x", clientSecret: "y" },
            },
          },
        },
      },
      "routes.all.upstreams.a.credentials.tokenExchange: callers of this route have no token: it has no `jwt` or `introspection` authenticator",
    ],
  ])("refuses %s", (_name, route, problem) => {
    expect(problemsOf(route)).toEqual([problem]);
  });
});
