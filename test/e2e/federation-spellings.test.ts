import { describe, expect, it } from "vitest";

import { nextMessage, openSession } from "../support/legacy-session.ts";
import { fakeUpstream, type FakeUpstream } from "../support/fake-upstream.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { type LocalGateway, openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern, streamModern } from "../support/modern-request.ts";
import { post } from "../support/raw-http.ts";
import { createToolServer } from "../support/tool-server.ts";

type Json = Readonly<Record<string, unknown>>;

interface Reached {
  readonly method: string;
  readonly params: Json;
  readonly region: unknown;
}

interface Spied extends FakeUpstream {
  /** The requests of a client that came, without those that the gateway makes itself. */
  readonly reached: () => readonly Reached[];
}

const answers: Readonly<Record<string, unknown>> = {
  "tools/list": {
    tools: [
      {
        name: "pay",
        inputSchema: {
          type: "object",
          properties: { region: { type: "string", "x-mcp-header": "Region" }, owner: { type: "string" } },
        },
      },
      { name: "secret", inputSchema: { type: "object" } },
    ],
  },
  "prompts/list": { prompts: [] },
  "resources/list": {
    resources: [
      { uri: "file:///etc/passwd", name: "closed" },
      { uri: "file:///pub/a", name: "open" },
    ],
  },
  "resources/templates/list": { resourceTemplates: [{ uriTemplate: "file:///{+path}", name: "all" }] },
  "resources/read": { contents: [{ uri: "file:///pub/a", text: "read" }] },
  "completion/complete": { completion: { values: [] } },
  "tools/call": { content: [{ type: "text", text: "called" }] },
};

/** A server that takes every URI and every call, and tells what came. */
async function openSpied(): Promise<Spied> {
  const reached: Reached[] = [];
  const capabilities = { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} };
  const upstream = await fakeUpstream((call) => {
    if (call.method !== "POST") return call.replyRaw(405);
    const { id, method = "", params = {} } = sentMessage(call);
    if (id === undefined) return call.replyRaw(202);
    reached.push({ method, params, region: call.headers["mcp-param-region"] });
    const serverInfo = { name: "spied", version: "1" };
    const hello = { protocolVersion: params["protocolVersion"], capabilities, serverInfo };
    return call.reply({ jsonrpc: "2.0", id, result: method === "initialize" ? hello : (answers[method] ?? {}) });
  });
  return { ...upstream, reached: () => reached.filter(({ method }) => !/list$|^initialize$|^server\//u.test(method)) };
}

async function openPrefixed({ url }: FakeUpstream): Promise<LocalGateway> {
  return openGateway({
    routes: {
      all: {
        upstreams: {
          hr: { url, uris: "prefix" },
          other: { server: () => createToolServer({ name: "other", tools: ["x"], resources: ["other://1"] }) },
        },
        overrides: { tools: { hr__pay: { arguments: { owner: { fixed: '"acme"' } } }, hr__secret: { hide: true } } },
        views: { part: { tools: ["hr__*"], resources: ["hr+file:///pub/*"], discovery: "search" } },
      },
    },
    policy: {
      resources: { deny: ["hr+file:///etc/*"] },
      rules: [
        { id: "file", deny: 'mcp.upstream == "hr" && mcp.name.startsWith("file:///etc/")' },
        { id: "region", deny: 'mcp.name == "pay" && mcp.arguments.?region.orValue("") == "eu"' },
        { allow: "true" },
      ],
    },
  });
}

/** `file:///etc/passwd` of the member, as a client may write it behind the prefix, and around it. */
const spellings = [
  "hr+file:///etc/passwd",
  "hr+file:/etc/passwd",
  "hr+file:etc/passwd",
  "hr+file://localhost/etc/passwd",
  "hr+file:////etc/passwd",
  "hr+FILE:///etc/passwd",
  "HR+file:///etc/passwd",
  "hr+file:///etc/%70asswd",
  "hr+file:///pub/../etc/passwd",
  "hr+file:///pub/%2e%2e/etc/passwd",
  "hr+file:///etc/passwd#",
  "hr+file:///etc/passwd?",
  "hr+file:///etc\\passwd",
  "hr+file:///etc/./passwd",
  "hr+file:///etc//passwd",
  " hr+file:///etc/passwd",
  "hr%2Bfile:///etc/passwd",
  "other+file:///etc/passwd",
  "file:///etc/passwd",
];

/** What names a resource, in the era that has it. */
const uses: Readonly<Record<string, (url: string, uri: string) => Promise<unknown>>> = {
  "resources/read": (url, uri) => postModern(url, modernRequest(1, "resources/read", { uri })),
  "resources/subscribe": async (url, uri) => {
    const session = await openSession(url);
    await session.post({ jsonrpc: "2.0", id: 1, method: "resources/subscribe", params: { uri } });
  },
  "completion/complete": (url, uri) => {
    const argument = { name: "path", value: "" };
    return postModern(url, modernRequest(1, "completion/complete", { ref: { type: "ref/resource", uri }, argument }));
  },
  "subscriptions/listen": async (url, uri) => {
    const notifications = { toolsListChanged: true, resourceSubscriptions: [uri, "hr+file:///pub/a"] };
    await using stream = await streamModern(url, modernRequest("l", "subscriptions/listen", { notifications }));
    // Its first message says what is honoured, after the servers have been asked.
    await nextMessage(stream);
  },
};

describe.each(Object.entries(uses))("a URI with the prefix of its server in %s", (method, use) => {
  it.each(["", "/all/part"])("leads to nothing that rules deny, however it is written, at %j", async (path) => {
    await using hr = await openSpied();
    await using gateway = await openPrefixed(hr);
    const url = path === "" ? gateway.url : `${gateway.origin}${path}/mcp`;
    await postModern(url, modernRequest(0, "resources/list"));
    for (const uri of spellings) await use(url, uri);
    expect(hr.reached().filter(({ params }) => JSON.stringify(params).includes("passwd"))).toEqual([]);
    // The attempts were not all in vain for another reason.
    await use(url, "hr+file:///pub/a");
    expect(hr.reached().map((one) => one.method)).toContain(
      method === "subscriptions/listen" ? "resources/subscribe" : method,
    );
  });
});

interface ViewCall {
  readonly what: string;
  readonly name: string;
  readonly args: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The arguments and the header that the server gets; undefined if it gets nothing. */
  readonly reaches?: Json;
}

const throughCall = (name: unknown, args: unknown, more: Json = {}) => ({ name, arguments: args, ...more });

const calls: readonly ViewCall[] = [
  { what: "an argument that is fixed", name: "hr__pay", args: { owner: "mallory" }, reaches: { owner: "acme" } },
  { what: "a denied argument", name: "call_tool", args: throughCall("hr__pay", { region: "eu" }) },
  {
    what: "a header that allows what the argument does not",
    name: "call_tool",
    args: throughCall("hr__pay", { region: "eu" }),
    headers: { "mcp-param-region": "us" },
  },
  {
    what: "a header that the server would route by",
    name: "call_tool",
    args: throughCall("hr__pay", { region: "us" }),
    headers: { "mcp-param-region": "eu" },
    reaches: { region: "us", owner: "acme" },
  },
  { what: "a hidden tool", name: "call_tool", args: throughCall("hr__secret", {}) },
  { what: "a tool outside of the view", name: "call_tool", args: throughCall("other__x", {}) },
  { what: "itself", name: "call_tool", args: throughCall("call_tool", throughCall("hr__secret", {})) },
  { what: "a second name", name: "call_tool", args: throughCall("hr__none", {}, { Name: "hr__secret" }), reaches: {} },
  { what: "a list of names", name: "call_tool", args: throughCall(["hr__secret"], {}) },
  { what: "arguments as a text", name: "call_tool", args: throughCall("hr__secret", "{}") },
  { what: "the server's own name", name: "call_tool", args: throughCall("secret", {}) },
];

describe("a call in a view that is searched", () => {
  it.each(calls)("reaches a server as rules and overrides say: $what", async ({ name, args, headers, reaches }) => {
    await using hr = await openSpied();
    await using gateway = await openPrefixed(hr);
    const url = `${gateway.origin}/all/part/mcp`;
    await postModern(url, modernRequest(0, "tools/list"));
    const call = modernRequest(1, "tools/call", { name, arguments: args });
    await post(url, call.body, { ...call.headers, ...headers });
    const reached = hr.reached();
    expect(reached.map(({ params }) => params["name"])).not.toContain("secret");
    expect(reached.map(({ params }) => params["arguments"])).toEqual(reaches === undefined ? [] : [reaches]);
    for (const { region } of reached) expect([undefined, reaches?.["region"]]).toContain(region);
  });
});
