import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import {
  allowWith,
  type MockPingRequest,
  startMockPingAuthorize,
} from "../../src/policy/testing/mock-ping-authorize.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { openSession } from "../support/legacy-session.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const upstreams = {
  files: { server: () => createToolServer({ name: "files", tools: ["read", "write", "list", "drop"] }) },
};

const initializeResult = {
  protocolVersion: newestLegacy,
  capabilities: { tools: {} },
  serverInfo: { name: "s", version: "1" },
};

type Policy = NonNullable<ConfigInput["policy"]>;
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

/** What a tool says it was called with, in one order. */
function sorted(text: string): readonly string[] {
  return text.split(/[{},]/u).toSorted();
}

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
    // A value that clients may not send leaves the others as they are, so the rules decide, and the client hears why.
    await expect(client.callTool("open", { args: { path: "/etc/passwd" } })).rejects.toThrow(/path must be one of/u);
  });

  it.each([
    { to: "open", args: { path: "/a" }, texts: ['files.read {"path":"/a","mode":"text","as":"anonymous"}'] },
    { to: "open", args: { as: "root", secret: "x" }, texts: ['files.read {"as":"anonymous","mode":"text"}'] },
    { to: "open", args: { path: "/etc/passwd" }, error: /must be one of/u },
    { to: "files__write", args: { name: "n", path: "/etc" }, texts: ['files.write {"name":"n","path":"/out/n"}'] },
    { to: "files__write", args: {}, error: /no value for this call/u },
    { to: "files__drop", args: {}, error: /Unknown tool/u },
    { to: "nowhere", args: {}, error: /Unknown tool/u },
  ])("hold for a name that a decision point writes: $to with $args", async ({ to, args, texts, error }) => {
    const rewritten = ({ payload }: MockPingRequest) =>
      String(payload["body"]).replace('"name":"files__list"', `"name":"${to}"`);
    await using ping = await startMockPingAuthorize({ onRequest: allowWith((asked) => ({ body: rewritten(asked) })) });
    await using gateway = await openGateway({
      routes: { all: { upstreams, overrides: { tools: { ...overrides.tools, files__list: {} } } } },
      policy: { pingAuthorize: { serviceUrl: ping.url, sharedSecret: "s", secretHeaderName: "TOKEN" } },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    const call = client.callTool("files__list", { args });
    if (error === undefined) expect((await call).texts.map(sorted)).toEqual(texts.map(sorted));
    else await expect(call).rejects.toThrow(error);
  });

  it("send choices as they are configured, and take nothing for a choice that only looks like one", async () => {
    await using server = await fakeUpstream((call) => {
      if (call.method !== "POST") return call.replyRaw(405);
      const { id, method } = sentMessage(call);
      if (id === undefined) return call.replyRaw(202);
      if (method === "initialize") return call.reply({ jsonrpc: "2.0", id, result: initializeResult });
      return call.reply({ jsonrpc: "2.0", id, result: { content: [] } });
    });
    const choices = { tools: { s__pay: { arguments: { n: { enum: [1, 9_007_199_254_740_992, null, { a: [0] }] } } } } };
    await using gateway = await openGateway({
      routes: { all: { upstreams: { s: { url: server.url, era: "legacy" } }, overrides: choices } },
    });
    const session = await openSession(gateway.url);
    const sent = async (argument: string): Promise<string | undefined> => {
      const before = server.calls.length;
      const params = `{"name":"s__pay","arguments":{"n":${argument}}}`;
      await session.post(Buffer.from(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":${params}}`));
      const call = server.calls.slice(before).find(({ text }) => text.includes("tools/call"));
      return /"n":(?<value>.*?)\}\}+$/u.exec(call?.text ?? "")?.groups?.["value"];
    };
    for (const [argument, value] of [
      ["1", "1"],
      ["1e0", "1"],
      ["1.00000000000000000001", "1"],
      ["9007199254740993", "9007199254740992"],
      ["null", "null"],
      ["1e400", undefined],
      ["-1e400", undefined],
      ['"1"', undefined],
      ["[1]", undefined],
      ["2", undefined],
      ["true", undefined],
    ] as const)
      expect([argument, await sent(argument)]).toEqual([argument, value]);
  });
});

interface HiddenTool {
  readonly what: string;
  readonly path: string;
  readonly policy?: Policy;
  readonly name: string;
  /** A name that clients must not be able to tell from it. */
  readonly unknown?: string;
}

describe.each([newestLegacy, newestModern])("what is hidden from a client of %s", (revision) => {
  const calls: readonly Readonly<Record<string, unknown>>[] = [
    {},
    { path: "/etc" },
    { PATH: "/a" },
    { path: "/a", mode: "text" },
    { secret: 1 },
  ];
  const allowed: Policy = { tools: { allow: ["files__list"] } };
  const rules: Policy = { rules: [{ id: "write-only", allow: 'mcp.tool == "" || mcp.tool == "files__list"' }] };
  it.each<HiddenTool>([
    { what: "the policy hides", path: "/all/mcp", policy: allowed, name: "open" },
    { what: "the policy refuses", path: "/all/mcp", policy: rules, name: "open" },
    { what: "the policy refuses to fill", path: "/all/mcp", policy: rules, name: "files__write" },
    { what: "has another name now", path: "/all/mcp", name: "files__read", unknown: "files__drop" },
    { what: "a view does not show", path: "/all/part/mcp", name: "open" },
    { what: "a view with a search does not show", path: "/all/search/mcp", name: "open" },
  ])(
    "does not show in what overrides say of a call: a tool that $what",
    async ({ path, policy, name, unknown = "files__nothing" }) => {
      const views = {
        part: { tools: ["files__list"] },
        search: { tools: ["files__list"], discovery: "search" as const },
      };
      await using gateway = await openGateway({
        routes: { all: { upstreams, overrides, views } },
        ...(policy === undefined ? {} : { policy }),
      });
      await using client = await connectV2({ via: "http", url: `${gateway.origin}${path}` }, revision);
      const told = async (tool: string, args: Readonly<Record<string, unknown>>): Promise<string> => {
        try {
          const isSearch = path.includes("search");
          const called = isSearch
            ? await client.callTool("call_tool", { args: { name: tool, arguments: args } })
            : await client.callTool(tool, { args });
          return called.texts.join("");
        } catch (error) {
          return String(error).replaceAll(tool, "it");
        }
      };
      for (const args of calls) expect(await told(name, args)).toBe(await told(unknown, args));
    },
  );
});

describe("headers that repeat arguments", () => {
  const parameter = (header: string, type: string) => ({ type, "x-mcp-header": header });
  const inputSchema = {
    type: "object",
    properties: {
      region: parameter("Region", "string"),
      amount: parameter("Amount", "integer"),
      note: parameter("Note", "string"),
    },
  };
  const fixed = { fixed: '"eu"' };
  const own: Overrides = {
    tools: { s__pay: { name: "pay", arguments: { region: fixed, amount: { enum: [1, 2] }, note: { hide: true } } } },
  };

  it.each([
    { path: "/all/mcp", policy: undefined },
    { path: "/all/mcp", policy: { rules: [{ id: "all", allow: "true" }] } },
    { path: "/all/search/mcp", policy: undefined },
    { path: "/all/search/mcp", policy: { rules: [{ id: "all", allow: "true" }] } },
  ])("say of an argument what its server gets, at $path with the policy $policy", async ({ path, policy }) => {
    const result = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
    await using server = await fakeUpstream((call) => {
      const { id, method } = sentMessage(call);
      if (id === undefined) return call.replyRaw(202);
      const discovered = { supportedVersions: [newestModern], capabilities: { tools: {} } };
      const tools = [{ name: "pay", inputSchema }];
      const answer = { "server/discover": discovered, "tools/list": { tools } }[method ?? ""] ?? { content: [] };
      return call.reply({ jsonrpc: "2.0", id, result: { ...result, ...answer } });
    });
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: { s: { url: server.url, era: "modern" } },
          overrides: own,
          views: { search: { tools: ["pay"], discovery: "search" } },
        },
      },
      ...(policy === undefined ? {} : { policy }),
    });
    const isSearch = path.includes("search");
    for (const [args, sent] of [
      [{}, {}],
      [{}, { region: "us" }],
      [{}, { note: "x" }],
      [{ amount: 1 }, { amount: "1" }],
      [{ amount: 1 }, { amount: "1", region: "us" }],
      [{ amount: 1 }, { amount: "2" }],
      [{ region: "us" }, { region: "us" }],
      [{ note: "x" }, { note: "x" }],
    ] as const) {
      const params = isSearch
        ? { name: "call_tool", arguments: { name: "pay", arguments: args } }
        : { name: "pay", arguments: args };
      const { headers, body } = modernRequest(1, "tools/call", params);
      const extra = Object.entries(sent).map(([name, value]) => [`mcp-param-${name}`, value]);
      const before = server.calls.length;
      await postModern(`${gateway.origin}${path}`, { headers: { ...headers, ...Object.fromEntries(extra) }, body });
      const call = server.calls.slice(before).find(({ headers: got }) => got["mcp-method"] === "tools/call");
      // What contradicts the body is refused, or replaced where the client has called another tool.
      const isContrary = Object.entries(sent).some(([name, value]) => String(Reflect.get(args, name)) !== value);
      expect([args, sent, call !== undefined]).toEqual([args, sent, isSearch || !isContrary]);
      if (call === undefined) continue;
      const got = Object.entries(call.headers).filter(([name]) => name.startsWith("mcp-param-"));
      const amount = "amount" in args ? { "mcp-param-amount": "1" } : {};
      expect(Object.fromEntries(got)).toEqual({ "mcp-param-region": "eu", ...amount });
    }
  });
});
