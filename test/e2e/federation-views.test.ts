import { readFile } from "node:fs/promises";

import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { block } from "../../src/core/interceptors/action.ts";
import { defineInterceptor } from "../../src/core/interceptors/interceptor.ts";
import type { GatewayOptions } from "../../src/gateway/gateway.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { testFolder } from "../support/headgate-command.ts";
import { openSession } from "../support/legacy-session.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { allow, deny, fakeProvider } from "../support/policy.ts";
import { startRawMember } from "../support/raw-member.ts";
import { exchange, postHeaders } from "../support/raw-http.ts";
import { bearer, startIssuer } from "../support/tokens.ts";
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
    await expect(call("call_tool")).rejects.toThrow(/Unknown tool/u);
  });

  it("pass arguments on as the client wrote them when it calls what it found", async () => {
    await using server = await fakeUpstream((call) => {
      if (call.method !== "POST") return call.replyRaw(405);
      const { id } = sentMessage(call);
      if (id === undefined) return call.replyRaw(202);
      return call.reply({ jsonrpc: "2.0", id, result: { protocolVersion: newestLegacy, capabilities: {} } });
    });
    await using gateway = await openGateway({
      routes: {
        desk: {
          upstreams: { s: { url: server.url, era: "legacy" } },
          views: { finder: { tools: ["*"], discovery: "search" } },
        },
      },
    });
    const session = await openSession(`${gateway.origin}/desk/finder/mcp`);
    const odd = String.raw`{ "n":12345678901234567890,"f":1.10,"inf":1e400,"e":"\u0041\/","__proto__":{"x":-0} }`;
    const call = `{"name":"call_tool","arguments":{"arguments":${odd},"name":"s__pay"}}`;
    await session.post(Buffer.from(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":${call}}`));
    const sent = server.calls.find(({ text }) => text.includes("tools/call"))?.text;
    expect(sent).toContain(`"arguments":${odd}`);
    expect(sent).toContain('"name":"pay"');
  });
});

describe("a view of a route that takes tokens", () => {
  it("has a metadata document and an audience of its own, and takes no token of the route or of another view", async () => {
    await using issuer = await startIssuer();
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: issuer.url } } } },
      routes: { desk: { upstreams, views: { triage: { tools: ["github__*"] }, writers: { tools: ["notes__*"] } } } },
    });
    const paths = ["/desk", "/desk/triage", "/desk/writers"];
    const urlOf = (path: string): string => `${gateway.origin}${path}/mcp`;
    const metadataOf = (path: string): string => `${gateway.origin}/.well-known/oauth-protected-resource${path}/mcp`;
    for (const path of paths) {
      const challenged = await exchange(urlOf(path), { method: "POST", headers: postHeaders, body: {} });
      expect(challenged.status).toBe(401);
      expect(challenged.headers["www-authenticate"]).toContain(`resource_metadata="${metadataOf(path)}"`);
      expect((await exchange(metadataOf(path))).json).toMatchObject({
        resource: urlOf(path),
        authorization_servers: [issuer.url],
      });
      const headers = bearer(await issuer.token({ audience: urlOf(path) }));
      for (const other of paths) {
        const request = modernRequest(1, "tools/list");
        const { status } = await postModern(urlOf(other), { ...request, headers: { ...request.headers, ...headers } });
        expect([path, other, status]).toEqual([path, other, path === other ? 200 : 401]);
      }
    }
  });
});

describe("what is said of a route", () => {
  const refuse = (what: string) => block({ reason: what });
  const burst = { perSecond: 0.001, burst: 1 };
  const lock = { format: 1, routes: { "desk/notes": {} } };
  const cases: readonly (readonly [string, Partial<ConfigInput>, GatewayOptions])[] = [
    [
      "a rule that names it",
      { policy: { rules: [{ deny: 'mcp.server == "desk" && mcp.tool != ""' }, { allow: "true" }] } },
      {},
    ],
    [
      "a rule that hides",
      {
        policy: {
          rules: [{ deny: 'mcp.server == "desk" && mcp.tool == "notes__write"', hide: true }, { allow: "true" }],
        },
      },
      {},
    ],
    [
      "an interceptor",
      {},
      {
        interceptors: [
          defineInterceptor({ name: "no", routes: ["desk"], methods: ["tools/call"], onMessage: () => refuse("no") }),
        ],
      },
    ],
    [
      "a provider",
      {},
      {
        policies: {
          desk: fakeProvider({ request: ({ method }) => (method === "tools/call" ? deny() : allow()) }),
        },
      },
    ],
  ];

  it.each(cases)("holds at the paths of its views: %s", async (_what, config, options) => {
    const views = { writers: { tools: ["notes__*"] }, finder: { tools: ["*"], discovery: "search" as const } };
    await using gateway = await openGateway({ routes: { desk: { upstreams, views } }, ...config }, options);
    for (const path of ["/desk/mcp", "/desk/writers/mcp", "/desk/finder/mcp"]) {
      const { text } = await postModern(
        gateway.origin + path,
        path.includes("finder")
          ? modernRequest(1, "tools/call", { name: "call_tool", arguments: { name: "notes__write", arguments: {} } })
          : modernRequest(1, "tools/call", { name: "notes__write", arguments: {} }),
      );
      expect(text).toContain('"error"');
      expect(text).not.toContain("notes.write");
    }
  });

  it.each<Partial<ConfigInput>>([
    { rates: { methods: { "tools/call": burst } } },
    {
      policy: {
        rules: [{ id: "pace", apply: 'mcp.tool != ""', rate: { ...burst, by: "principal.id" } }, { allow: "true" }],
      },
    },
  ])("counts a caller once for all views: %j", async (config) => {
    const views = { writers: { tools: ["notes__*"] }, readers: { tools: ["notes__*"] } };
    await using gateway = await openGateway({ routes: { desk: { upstreams, views } }, ...config });
    const statuses: number[] = [];
    for (const path of ["/desk/writers/mcp", "/desk/readers/mcp", "/desk/mcp", "/mcp"]) {
      const call = modernRequest(1, "tools/call", { name: "notes__write", arguments: {} });
      statuses.push((await postModern(gateway.origin + path, call)).status);
    }
    expect(statuses).toEqual([200, 429, 429, 429]);
  });

  it("blocks what differs from its approved definitions in its views too", async () => {
    using folder = testFolder();
    const drift = { lock: folder.write("lock.json", JSON.stringify(lock)), mode: "block" as const };
    await using gateway = await openGateway({
      routes: { desk: { upstreams, views: { writers: { tools: ["notes__*"] } } } },
      drift,
    });
    for (const path of ["/desk/mcp", "/desk/writers/mcp"]) {
      const list = await postModern(gateway.origin + path, modernRequest(1, "tools/list"));
      expect(list.text).not.toContain("notes__write");
      const call = modernRequest(2, "tools/call", { name: "notes__write", arguments: {} });
      expect((await postModern(gateway.origin + path, call)).text).toContain("approved definition");
    }
  });
});

describe("definitions that were recorded in a view", () => {
  it("are approved as those of the servers of the route, and hold there and in other views", async () => {
    using folder = temporaryFolder();
    const record = { file: folder.at("traffic.sqlite") };
    const views = { writers: { tools: ["notes__*"] }, readers: { tools: ["notes__read"] } };
    const routes = { desk: { upstreams, views } };
    {
      await using gateway = await openGateway({ routes, record });
      for (const path of ["/desk/writers/mcp", "/desk/readers/mcp"])
        await postModern(gateway.origin + path, modernRequest(1, "tools/list"));
    }
    const lock = folder.at("lock.json");
    const approved = await headgate("drift", "approve", "--store", record.file, "--lock", lock);
    expect(approved.exitCode).toBe(0);
    const written = JSON.parse(await readFile(lock, "utf8")) as { readonly routes: object };
    expect(Object.keys(written.routes)).toEqual(["desk/github", "desk/notes"]);
    await using gateway = await openGateway({ routes, drift: { lock, mode: "block" } });
    for (const path of ["/desk/mcp", "/desk/readers/mcp"]) {
      const call = modernRequest(2, "tools/call", { name: "notes__read", arguments: {} });
      expect((await postModern(gateway.origin + path, call)).text).toContain("notes.read");
    }
  });
});

describe("lists that servers call public", () => {
  it.each([
    ["are so for everybody at the path", {}, "public"],
    ["are so in a view with a path of its own", { at: "/desk/part" }, "public"],
    ["are private where a condition chooses a view", { when: 'principal.kind == "user"' }, "private"],
    ["are private where a server gets credentials of the caller", { hasCallerToken: true }, "private"],
  ] as const)("%s", async (_title, { at = "/desk", when, hasCallerToken }: PublicCase, cacheScope) => {
    await using member = await startRawMember("modern", {
      capabilities: { tools: {} },
      answer: () => ({
        tools: [{ name: "read", inputSchema: { type: "object" } }],
        ttlMs: 60_000,
        cacheScope: "public",
      }),
    });
    await using issuer = await startIssuer();
    const client = { clientId: "gate", clientSecret: "s3cret-of-gate" };
    const tokenExchange = { tokenEndpoint: `${issuer.url}/token`, ...client };
    await using gateway = await openGateway({
      ...(hasCallerToken === true ? { auth: { authenticators: { staff: { jwt: { issuer: issuer.url } } } } } : {}),
      routes: {
        desk: {
          upstreams: {
            notes: { url: member.url, era: "modern" },
            // Not reached: a list that lacks a server is what matters here.
            ...(hasCallerToken === true ? { own: { url: member.url, credentials: { tokenExchange } } } : {}),
          },
          views: { part: { tools: ["*"], ...(when === undefined ? {} : { when }) } },
        },
      },
    });
    const url = `${gateway.origin}${at}/mcp`;
    const request = modernRequest(1, "tools/list");
    const authorization = bearer(await issuer.token({ audience: url }));
    const { json } = await postModern(url, { ...request, headers: { ...request.headers, ...authorization } });
    expect(json).toMatchObject({ result: { cacheScope } });
  });
});

interface PublicCase {
  readonly at?: string;
  readonly when?: string;
  readonly hasCallerToken?: boolean;
}
