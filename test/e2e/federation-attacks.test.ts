import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { modify } from "../../src/core/interceptors/action.ts";
import { defineInterceptor } from "../../src/core/interceptors/interceptor.ts";
import { newestLegacy, newestModern, type Revision } from "../../src/protocol/revisions.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";
import { fakeUpstream, type FakeUpstream } from "../support/fake-upstream.ts";
import { nextMessage, openSession } from "../support/legacy-session.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern, streamModern } from "../support/modern-request.ts";
import { postHeaders } from "../support/raw-http.ts";
import { createToolServer } from "../support/tool-server.ts";

type Json = Readonly<Record<string, unknown>>;
type Answering = (method: string, params: Json) => Json;

interface Member extends FakeUpstream {
  /** The requests of a method that came, by what they are about. */
  readonly asked: (method: string) => readonly unknown[];
}

const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true }, acme: {} };

/** A legacy server with resources and a vendor's extension; a result with a `code` is an error. */
async function openMember(answer: Answering): Promise<Member> {
  const asked: { readonly method: string; readonly subject: unknown }[] = [];
  const upstream = await fakeUpstream((call) => {
    if (call.method !== "POST") return call.replyRaw(405);
    const { id, method = "", params = {} } = sentMessage(call);
    if (id === undefined) return call.replyRaw(202);
    asked.push({ method, subject: params["name"] ?? params["uri"] });
    const serverInfo = { name: "fake", version: "1" };
    const result =
      method === "initialize"
        ? { protocolVersion: params["protocolVersion"], capabilities, serverInfo }
        : answer(method, params);
    return call.reply({ jsonrpc: "2.0", id, ...("code" in result ? { error: result } : { result }) });
  });
  return {
    ...upstream,
    asked: (method) => asked.filter((one) => one.method === method).map(({ subject }) => subject),
  };
}

const toolsNamed = (...names: readonly string[]) => ({
  tools: names.map((name) => ({ name, inputSchema: { type: "object" } })),
});
const said = (text: string) => ({ content: [{ type: "text", text }] });
const long = "a_tool_with_a_name_that_is_much_longer_than_any_model_would_ever_accept_it";
const cut = "hr__a_tool_with_a_name_that_is_much_longer_than_any_mod_m9xpvxik";
const other = { server: () => createToolServer({ name: "other", tools: ["x"], resources: ["other://1"] }) };

/** Everything but one server. */
const without = (member: string): NonNullable<ConfigInput["policy"]> => ({
  rules: [
    { id: "closed", deny: `mcp.upstream == "${member}"` },
    { id: "rest", allow: "true" },
  ],
});

/** Sends a request and returns the text of its answer. */
type Send = (method: string, params?: Json) => Promise<string>;

async function connect({ url }: LocalGateway, revision: Revision): Promise<Send> {
  let id = 0;
  if (revision === newestModern) {
    const send: Send = async (method, params) => (await postModern(url, modernRequest(++id, method, params))).text;
    await send("server/discover");
    return send;
  }
  const session = await openSession(url, revision);
  return async (method, params = {}) => (await session.post({ jsonrpc: "2.0", id: ++id, method, params })).text;
}

describe.each([newestLegacy, newestModern])("a rule about one of several servers, with a client of %s", (revision) => {
  it("decides about the methods of its extensions", async () => {
    await using hr = await openMember(() => ({ secret: true }));
    await using gateway = await openGateway({
      routes: { all: { upstreams: { hr: { url: hr.url }, other } } },
      policy: without("hr"),
    });
    const send = await connect(gateway, revision);
    expect(await send("acme/do")).toContain("policy_denied");
    expect(hr.asked("acme/do")).toEqual([]);
  });

  it("decides about a name that was not known yet when it was asked", async () => {
    let lists = 0;
    await using hr = await openMember((method) => {
      if (method !== "tools/list") return said("secret");
      return ++lists === 1 ? { code: -32_000, message: "not yet" } : toolsNamed(long);
    });
    await using gateway = await openGateway({
      routes: { all: { upstreams: { hr: { url: hr.url }, other } } },
      policy: without("hr"),
    });
    const send = await connect(gateway, revision);
    for (const _ of [1, 2, 3]) expect(await send("tools/call", { name: cut, arguments: {} })).not.toContain("secret");
    expect(hr.asked("tools/call")).toEqual([]);
  });

  it("decides about the name that an interceptor wrote, and that is the one that is called", async () => {
    await using hr = await openMember((method) => (method === "tools/list" ? toolsNamed("read", "write") : said("ok")));
    const rename = defineInterceptor({
      name: "rename",
      methods: ["tools/call"],
      phase: "request",
      onMessage: () => modify({ set: { "/params/name": "hr__read" } }),
    });
    await using gateway = await openGateway(
      {
        routes: { all: { upstreams: { hr: { url: hr.url }, other } } },
        policy: {
          rules: [{ id: "reads", allow: 'mcp.tool == "" || (mcp.upstream == "hr" && mcp.name == "read")' }],
        },
      },
      { interceptors: [rename] },
    );
    const send = await connect(gateway, revision);
    for (const name of ["hr__write", "other__x", "nobody__x", "hr__read"])
      expect(await send("tools/call", { name, arguments: {} })).toContain('"ok"');
    expect(hr.asked("tools/call")).toEqual(["read", "read", "read", "read"]);
  });

  it("hides its names from what a list says about cut and clashing names", async () => {
    await using hr = await openMember((method) => (method === "tools/list" ? toolsNamed(long, "both") : {}));
    const lines: string[] = [];
    const log = createLogger({ level: "warn", pretty: false, destination: { write: (line) => lines.push(line) } });
    await using gateway = await openGateway(
      {
        routes: {
          all: {
            upstreams: { hr: { url: hr.url }, b: { url: hr.url, prefix: "" }, c: { url: hr.url, prefix: "" }, other },
          },
        },
        policy: { lists: [{ id: "hide", deny: 'entry.upstream != "other"' }] },
      },
      { log },
    );
    const send = await connect(gateway, revision);
    for (let read = 0; read < 2; read++) {
      const list = await send("tools/list");
      expect(list).toContain("other__x");
      expect(list).not.toMatch(/a_tool|both/u);
    }
    // The owner of the gateway is told, once.
    const clashes = lines.filter((line) => line.includes("names of several servers clash"));
    expect(clashes.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { level: "warn", route: "all", method: "tools/list", names: "both", count: 1 },
    ]);
  });

  it("hides an entry whose URI an open server lists as well", async () => {
    const lists =
      (from: string): Answering =>
      (method) => {
        if (method === "resources/list") return { resources: [{ uri: "x://1", name: from }] };
        if (method === "resources/templates/list")
          return { resourceTemplates: [{ uriTemplate: "x://{n}", name: from }] };
        return { contents: [{ uri: "x://1", text: from }] };
      };
    await using a = await openMember(lists("from-a"));
    await using b = await openMember(lists("from-b"));
    await using gateway = await openGateway({
      routes: { all: { upstreams: { a: { url: a.url }, b: { url: b.url } } } },
      policy: without("b"),
    });
    const send = await connect(gateway, revision);
    for (const method of ["resources/list", "resources/templates/list"]) {
      const list = await send(method);
      expect(list).toContain("from-a");
      expect(list).not.toContain("from-b");
    }
    expect(await send("resources/read", { uri: "x://1" })).toContain("from-a");
  });

  it("keeps what a failing server said, and where it is, out of the lists of the others", async () => {
    await using ill = await openMember(() => ({ code: -32_000, message: "db-7.internal: wrong password" }));
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: {
            ill: { url: ill.url },
            gone: { url: "http://127.0.0.1:1/mcp" },
            absent: { command: "/opt/secret/server" },
            unnamed: { url: "http://name.invalid/mcp" },
            other,
          },
        },
      },
    });
    const list = await (await connect(gateway, revision))("tools/list");
    expect(list).toContain("the server answered error -32000");
    expect(list).not.toMatch(/db-7|password|127\.0\.0\.1|opt|invalid/u);
  });
});

describe("a rule about one of several servers", () => {
  it.each(["listed", "unlisted"])("decides about a subscription to a resource that is %s", async (known) => {
    await using hr = await openMember((method) => {
      if (method === "resources/list") return { resources: [{ uri: "hr://1", name: "one" }] };
      return method === "resources/templates/list" ? { resourceTemplates: [] } : {};
    });
    await using gateway = await openGateway({
      routes: { all: { upstreams: { hr: { url: hr.url }, other } } },
      policy: without("hr"),
    });
    const send = await connect(gateway, newestModern);
    if (known === "listed") await send("resources/list");
    const notifications = { resourceSubscriptions: ["hr://1", "other://1"] };
    await using stream = await streamModern(gateway.url, modernRequest("l", "subscriptions/listen", { notifications }));
    expect(JSON.stringify(await nextMessage(stream))).not.toContain("hr://1");
    expect(hr.asked("resources/subscribe")).toEqual([]);
  });

  it("does not let it report the progress of another server's call", async () => {
    const release = Promise.withResolvers<void>();
    const progress = (text: string) => ({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken: "token", progress: 1, message: text },
    });
    await using liar = await fakeUpstream(async (call) => {
      if (call.method !== "POST") return call.replyRaw(405);
      const { id, method, params } = sentMessage(call);
      if (id === undefined) return call.replyRaw(202);
      const serverInfo = { name: "liar", version: "1" };
      if (method === "initialize") {
        const result = { protocolVersion: params?.["protocolVersion"], capabilities, serverInfo };
        return call.reply({ jsonrpc: "2.0", id, result });
      }
      const stream = call.stream();
      await stream.send(progress("lie"));
      await stream.send({ jsonrpc: "2.0", id, result: said("done") });
      return stream.end();
    });
    await using honest = await fakeUpstream(async (call) => {
      if (call.method !== "POST") return call.replyRaw(405);
      const { id, method, params } = sentMessage(call);
      if (id === undefined) return call.replyRaw(202);
      const serverInfo = { name: "honest", version: "1" };
      if (method === "initialize") {
        const result = { protocolVersion: params?.["protocolVersion"], capabilities, serverInfo };
        return call.reply({ jsonrpc: "2.0", id, result });
      }
      await release.promise;
      const stream = call.stream();
      await stream.send(progress("truth"));
      await stream.send({ jsonrpc: "2.0", id, result: said("done") });
      return stream.end();
    });
    await using gateway = await openGateway({
      routes: { all: { upstreams: { liar: { url: liar.url }, honest: { url: honest.url } } } },
    });
    const session = await openSession(gateway.url);
    const call = (id: number, name: string, meta: Json) =>
      session.post({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {}, _meta: meta } });
    const waiting = call(1, "honest__x", { progressToken: "token" });
    await eventually(() => {
      expect(honest.calls.map(({ text }) => text).join("")).toContain("tools/call");
    });
    expect((await call(2, "liar__x", {})).text).not.toContain('lie"');
    release.resolve();
    expect((await waiting).text).toContain("truth");
  });
});

describe.each([newestLegacy, newestModern])("a view, with a client of %s", (revision) => {
  it("leads neither to extensions, nor to clashing names or other spellings of URIs that it does not show", async () => {
    await using hr = await openMember((method, { uri }) => {
      if (method === "tools/list") return toolsNamed("both", "open");
      if (method === "resources/list") return { resources: [{ uri: "file:///pub/a", name: "a" }] };
      if (method === "resources/templates/list") return { resourceTemplates: [] };
      return method === "resources/read" ? { contents: [{ uri, text: "secret" }] } : { secret: true };
    });
    const views = { part: { tools: ["open", "hr__open"], resources: ["file:///pub/*"] } };
    const upstreams = { hr: { url: hr.url }, b: { url: hr.url, prefix: "" }, c: { url: hr.url, prefix: "" } };
    await using gateway = await openGateway({ routes: { all: { upstreams, views } } });
    const send = await connect({ ...gateway, url: `${gateway.origin}/all/part/mcp` }, revision);
    expect(await send("tools/list")).not.toContain("both");
    expect(await send("resources/read", { uri: "file:///pub/a" })).toContain("secret");
    const spellings = [
      "/../etc",
      "/%2e%2e/etc",
      "/x/../../etc",
      "/{x}/../../etc",
      "/./../etc",
      "/%2E./etc",
      "//../../etc",
    ];
    for (const spelling of spellings)
      expect(await send("resources/read", { uri: `file:///pub${spelling}` })).not.toContain("secret");
    expect(await send("acme/do")).not.toContain("secret");
    expect(hr.asked("acme/do")).toEqual([]);
  });
});

describe.each([newestLegacy, newestModern])("names that a client makes up, with a client of %s", (revision) => {
  it("cost the servers no list each", async () => {
    const answer: Answering = (method) => {
      if (method === "tools/list") return toolsNamed("x");
      if (method === "prompts/list") return { prompts: [] };
      if (method === "resources/list") return { resources: [] };
      if (method === "resources/templates/list") return { resourceTemplates: [] };
      return { code: -32_002, message: "not found" };
    };
    await using hr = await openMember(answer);
    const member = { url: hr.url };
    await using gateway = await openGateway({
      routes: { all: { upstreams: { a: { ...member, prefix: "" }, b: { ...member, prefix: "" }, c: member } } },
    });
    const send = await connect(gateway, revision);
    for (let index = 0; index < 20; index++) {
      const tail = `_${String(index).padStart(8, "0")}`;
      for (const name of [`made_up${index}`, `c__${"x".repeat(64 - 3 - tail.length)}${tail}`]) {
        expect(await send("tools/call", { name, arguments: {} })).toContain("Unknown tool");
        expect(await send("prompts/get", { name })).toContain("Unknown prompt");
      }
      expect(await send("resources/read", { uri: `made-up://${index}` })).toContain("error");
      expect(await send("resources/subscribe", { uri: `made-up://${index}` })).toContain("error");
    }
    // Not one for each of the 20 rounds, also where the test takes long and the lists are read again.
    for (const method of ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
      expect(hr.asked(method).length).toBeLessThan(20);
    expect(hr.asked("resources/subscribe")).toEqual([]);
  });
});

describe.each(["one server", "several servers"])("a client that listens for too much, in front of %s", (shape) => {
  it.each(["resourceSubscriptions", "taskIds"])("is refused before anything is looked up: %s", async (list) => {
    await using hr = await openMember(() => ({ resources: [], resourceTemplates: [], tools: [], prompts: [] }));
    const upstream = { url: hr.url };
    await using gateway = await openGateway({
      routes: { all: shape === "one server" ? { upstream } : { upstreams: { hr: upstream, other } } },
    });
    const names = Array.from({ length: 1001 }, (_, index) => `made-up://${index}`);
    const { status, text } = await postModern(
      gateway.url,
      modernRequest(1, "subscriptions/listen", { notifications: { [list]: names } }),
    );
    expect(status).toBe(200);
    expect(text).toContain("1001 entries, at most 1000");
    for (const method of ["resources/list", "resources/templates/list", "resources/subscribe"])
      expect(hr.asked(method)).toEqual([]);
  });
});

describe("arguments that the configuration sets", () => {
  const attempts = [
    '"arguments":null',
    '"arguments":[]',
    '"arguments":["/etc"]',
    '"arguments":"/etc"',
    '"arguments":true',
    '"_meta":{}',
    '"arguments":{}',
    '"arguments":{"path":"/etc","secret":1}',
    '"arguments":{"path":"/etc","path":"/etc"}',
    '"arguments":{"\\u0070ath":"/etc"}',
    '"arguments":{"Path":"/etc"}',
    '"arguments":{"path":"/etc","PATH":"/etc"}',
    '"arguments":{"SECRET":1}',
    '"arguments":{"\u017fecret":1}',
    '"arguments":{},"Arguments":{"path":"/etc"}',
    '"arguments":{},"arguments":{"path":"/etc"}',
    '"ARGUMENTS":{"path":"/etc"}',
  ];

  it.each(attempts)("reach the server as they are set, or nothing does: %s", async (members) => {
    await using hr = await openMember((method) => (method === "tools/list" ? toolsNamed("write") : said("ok")));
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: { hr: { url: hr.url } },
          overrides: { tools: { hr__write: { arguments: { path: { fixed: '"/out"' }, secret: { hide: true } } } } },
        },
      },
    });
    const { headers } = await openSession(gateway.url);
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hr__write",${members}}}`;
    await fetch(gateway.url, { method: "POST", headers: { ...postHeaders, ...headers }, body });
    for (const { text } of hr.calls.filter((call) => call.text.includes("tools/call"))) {
      expect(text.match(/arguments/giu)).toHaveLength(1);
      expect(JSON.parse(text)).toMatchObject({ params: { arguments: { path: "/out" } } });
      expect(text).not.toMatch(/etc|[s\u017f]ecret/iu);
    }
  });
});
