import { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import { z } from "zod";

import type { ConfigInput } from "../../src/config/schema.ts";
import { openSession } from "../support/legacy-session.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest } from "../support/modern-request.ts";
import { post, type RawAnswer } from "../support/raw-http.ts";

type Json = Readonly<Record<string, unknown>>;
type Policy = NonNullable<ConfigInput["policy"]>;
type Rules = NonNullable<Policy["rules"]>;

function createServer(): McpServer {
  const server = new McpServer({ name: "server", version: "1.0.0" });
  const inputSchema = z.object({
    region: z.string().optional().meta({ "x-mcp-header": "Region" }),
    amount: z.number().optional(),
  });
  for (const name of ["shown", "hidden_tool"])
    server.registerTool(name, { inputSchema }, () => ({ content: [{ type: "text", text: "secret" }] }));
  for (const name of ["shown", "hidden_prompt"])
    server.registerPrompt(name, { argsSchema: z.object({ who: z.string() }) }, () => ({ messages: [] }));
  for (const uri of ["file:///shown", "file:///hidden"])
    server.registerResource(uri, uri, {}, () => ({ contents: [{ uri, text: "secret" }] }));
  return server;
}

const shapes = {
  "one server": { prefix: "", route: { upstream: { server: createServer } } },
  "one of several servers": {
    prefix: "m__",
    route: { upstreams: { m: { server: createServer }, other: { server: createServer } } },
  },
} satisfies Readonly<
  Record<string, { readonly prefix: string; readonly route: NonNullable<ConfigInput["routes"]>[string] }>
>;

const hideRule = (prefix: string): Rules[number] => ({
  id: "hide",
  deny: `mcp.tool == "${prefix}hidden_tool" || mcp.prompt == "${prefix}hidden_prompt" || mcp.resource == "file:///hidden"`,
  hide: true,
});

/** Ways to hide names, each with rules that refuse other things. */
const policies: Readonly<Record<string, (prefix: string) => Policy>> = {
  "lists that deny": (prefix) => ({
    tools: { deny: [`${prefix}hidden_tool`] },
    prompts: { deny: [`${prefix}hidden_prompt`] },
    resources: { deny: ["file:///hidden"] },
    rules: [{ deny: "mcp.arguments.?amount.orValue(0) > 10" }, { allow: "true" }],
  }),
  "lists that allow": (prefix) => ({
    tools: { allow: [`${prefix}shown`] },
    prompts: { allow: [`${prefix}shown`] },
    resources: { allow: ["file:///shown"] },
  }),
  // The prefix is no secret, but which names with it exist is.
  "lists that deny a prefix": (prefix) => ({
    tools: { deny: [`${prefix}hidden*`] },
    prompts: { deny: [`${prefix}hidden*`] },
    resources: { deny: ["file:///hidden*"] },
    rules: [{ allow: `mcp.tool == "${prefix}shown"` }],
  }),
  "a rule before one that allows everything": (prefix) => ({ rules: [hideRule(prefix), { allow: "true" }] }),
  "a rule before one that allows some": (prefix) => ({
    rules: [hideRule(prefix), { allow: `mcp.tool == "${prefix}shown" && mcp.arguments.?amount.orValue(0) < 10` }],
  }),
  "a rule before one about arguments": (prefix) => ({
    rules: [hideRule(prefix), { deny: "mcp.arguments.?amount.orValue(0) > 10", reason: "too much" }, { allow: "true" }],
  }),
};

interface Attempt {
  readonly method: string;
  readonly name: string;
  readonly paramsFor: (name: string) => Json;
  readonly headers?: Readonly<Record<string, string>>;
}

const callWith = (more: Json, headers: Readonly<Record<string, string>> = {}): Attempt => ({
  method: "tools/call",
  name: "hidden_tool",
  paramsFor: (name) => ({ name, ...more }),
  headers,
});

const completion = (argument: string): Attempt => ({
  method: "completion/complete",
  name: "hidden_prompt",
  paramsFor: (name) => ({ ref: { type: "ref/prompt", name }, argument: { name: argument, value: "" } }),
});

const attempts: readonly Attempt[] = [
  callWith({ arguments: {} }),
  callWith({}),
  callWith({ arguments: [] }),
  callWith({ arguments: { amount: "text" } }),
  callWith({ arguments: { amount: 11 } }),
  callWith({ arguments: { amount: 1, Amount: 2 } }),
  callWith({ arguments: { Amount: 2 } }),
  callWith({ arguments: { deep: [{ a: 1, A: 1 }] } }),
  callWith({ arguments: { region: "us" } }, { "mcp-param-region": "eu" }),
  callWith({ arguments: {} }, { "mcp-param-region": "eu" }),
  callWith({ arguments: {}, task: { ttl: 1000 } }),
  { method: "prompts/get", name: "hidden_prompt", paramsFor: (name) => ({ name, arguments: { who: "x" } }) },
  { method: "prompts/get", name: "hidden_prompt", paramsFor: (name) => ({ name }) },
  { method: "prompts/get", name: "hidden_prompt", paramsFor: (name) => ({ name, arguments: { who: 1 } }) },
  { method: "resources/read", name: "file:///hidden", paramsFor: (uri) => ({ uri }) },
  { method: "resources/read", name: "file:///hidden", paramsFor: (uri) => ({ uri: `file:/${uri.slice(8)}` }) },
  // A server without subscriptions.
  { method: "resources/subscribe", name: "file:///hidden", paramsFor: (uri) => ({ uri }) },
  completion("who"),
  completion("nothing"),
];

/** What a caller can see of an answer, without the name and the ids of this one message. */
function seen({ status, text }: RawAnswer, name: string): string {
  const ids = /"(?:decision|exchange)":"[^"]*"/gu;
  return `${status} ${text.replaceAll(ids, "").replaceAll(name, "NAME")}`;
}

const cases = Object.entries(shapes).flatMap(([shape, facts]) =>
  Object.entries(policies).map(([how, policy]) => ({ shape, how, policy: policy(facts.prefix), ...facts })),
);

describe("a hidden name", () => {
  it.each(cases)("of $shape looks like one that does not exist: $how", async ({ how, policy, prefix, route }) => {
    await using gateway = await openGateway({ routes: { all: { ...route, validation: "schema" } }, policy });
    const session = await openSession(gateway.url);
    const clients: readonly ((attempt: Attempt, params: Json) => Promise<RawAnswer>)[] = [
      async ({ method, headers }, params) => {
        const request = modernRequest(1, method, params);
        return post(gateway.url, request.body, { ...request.headers, ...headers });
      },
      async ({ method, headers }, params) =>
        post(gateway.url, { jsonrpc: "2.0", id: 1, method, params }, { ...session.headers, ...headers }),
    ];
    for (const send of clients) {
      // Members of a federation and declared headers are known from lists.
      await send({ method: "tools/list", name: "", paramsFor: () => ({}) }, {});
      for (const attempt of attempts) {
        const hidden = attempt.name.startsWith("file:") ? attempt.name : prefix + attempt.name;
        const unknown = how.includes("prefix") ? `${hidden}_absent` : hidden.replace("hidden", "absent");
        const answers = [hidden, unknown].map(async (name) => seen(await send(attempt, attempt.paramsFor(name)), name));
        const [answer = "", other] = await Promise.all(answers);
        expect(answer).toBe(other);
        expect(answer).not.toContain("secret");
      }
    }
  });
});
