import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";

import { AgentError } from "../errors.ts";
import { addTools, createServer } from "./server.ts";
import { tool, type ToolContext, withJsonSchema } from "./tool.ts";

const numbers = z.object({ a: z.number().describe("First"), b: z.number().describe("Second") });

async function connected(server: McpServer): Promise<Client> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: "test", version: "1.0.0" });
  await server.connect(theirs);
  await client.connect(ours);
  return client;
}

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof AgentError) return error.code;
  }
  return "no AgentError";
}

describe("createServer", () => {
  it("[IP-001] makes the SDK's own server, with name and version as serverInfo", async () => {
    const server = createServer("calculator", "1.0");
    expect(server.constructor).toBe(McpServer);
    const client = await connected(server);
    expect(client.getServerVersion()).toMatchObject({ name: "calculator", version: "1.0" });
  });

  it("[IP-009] passes its instructions on, and its title", async () => {
    const client = await connected(createServer("calc", "1", { instructions: "Add first.", title: "Calc" }));
    expect(client.getInstructions()).toBe("Add first.");
    expect(client.getServerVersion()?.title).toBe("Calc");
  });

  it("[IP-057] names method and server where there are no tools, and lists none where none were given", async () => {
    const bare = await connected(createServer("bare", "1"));
    await expect(bare.request({ method: "tools/list" })).rejects.toMatchObject({
      code: -32601,
      message: expect.stringMatching(/tools\/list.*bare/u),
    });
    const empty = await connected(createServer("empty", "1", { tools: [] }));
    expect(await empty.listTools()).toMatchObject({ tools: [] });
  });

  it("[IP-008] marks tools that are always loaded, by server and by tool", async () => {
    const empty = { description: "", input: z.object({}), run: () => "" };
    const plain = tool("plain", "", z.object({}), () => "");
    const shy = tool({ name: "shy", ...empty, alwaysLoad: false });
    const loud = tool({ name: "loud", ...empty, alwaysLoad: true, meta: { mine: 1 } });
    const metaOf = async (server: McpServer) =>
      (await (await connected(server)).listTools()).tools.map(({ name, _meta }) => [name, _meta]);
    expect(await metaOf(createServer("a", "1", { alwaysLoad: true, tools: [plain, shy] }))).toEqual([
      ["plain", { "anthropic/alwaysLoad": true }],
      ["shy", undefined],
    ]);
    expect(await metaOf(createServer("b", "1", { tools: [plain, loud] }))).toEqual([
      ["plain", undefined],
      ["loud", { "anthropic/alwaysLoad": true, mine: 1 }],
    ]);
  });
});

describe("tool", () => {
  it("[IP-002, IP-003] types the handler by the schema and shows the model its JSON Schema", async () => {
    const add = tool("add", "Adds two numbers", numbers, (args) => {
      expectTypeOf(args).toEqualTypeOf<{ a: number; b: number }>();
      return { sum: args.a + args.b };
    });
    const client = await connected(createServer("calc", "1", { tools: [add] }));
    const { tools } = await client.listTools();
    expect(tools).toMatchObject([
      {
        name: "add",
        description: "Adds two numbers",
        inputSchema: {
          type: "object",
          properties: {
            a: { type: "number", description: "First" },
            b: { type: "number", description: "Second" },
          },
          required: ["a", "b"],
        },
      },
    ]);
    const result = await client.callTool({ name: "add", arguments: { a: 15, b: 27 } });
    expect(result.structuredContent).toEqual({ sum: 42 });
  });

  it("[IP-002] takes schemas of other libraries, given their JSON Schema", async () => {
    const schema = v.object({ word: v.pipe(v.string(), v.minLength(2)) });
    const json = { type: "object", properties: { word: { type: "string" } }, required: ["word"] };
    const shout = tool("shout", "Shouts", withJsonSchema(schema, json), ({ word }) => {
      expectTypeOf(word).toEqualTypeOf<string>();
      return word.toUpperCase();
    });
    const client = await connected(createServer("words", "1", { tools: [shout] }));
    expect((await client.listTools()).tools[0]?.inputSchema).toEqual(json);
    const call = async (word: string) => client.callTool({ name: "shout", arguments: { word } });
    expect(await call("hey")).toMatchObject({ content: [{ type: "text", text: "HEY" }] });
    expect(await call("h")).toMatchObject({ isError: true });
    expect(codeOf(() => tool("shout", "", schema, () => ""))).toBe("schema_unsupported");
  });

  it.each([
    ["no schema at all", {}],
    ["a schema for something else than an object", z.string()],
    ["a schema that JSON Schema cannot describe", z.object({ at: z.date() })],
  ])("refuses %s when it is defined", (_what, schema) => {
    expect(codeOf(() => tool("x", "", schema as typeof numbers, () => ""))).toBe("schema_unsupported");
  });

  it("[IP-085] greets: a required name, an optional formality", async () => {
    const schema = z.object({
      name: z.string().describe("Person to greet"),
      formal: z.boolean().optional().describe("Use formal greeting"),
    });
    const greet = tool(
      "greet",
      "Greet a person by name",
      schema,
      ({ name, formal }) => `${formal === true ? "Hello" : "Hi"} ${name}`,
    );
    const client = await connected(createServer("greeter", "1.0", { tools: [greet] }));
    const [listed] = (await client.listTools()).tools;
    expect(listed?.inputSchema).toMatchObject({
      type: "object",
      properties: {
        name: { type: "string", description: "Person to greet" },
        formal: { type: "boolean", description: "Use formal greeting" },
      },
      required: ["name"],
    });
    const said = async (args: Record<string, unknown>) =>
      (await client.callTool({ name: "greet", arguments: args })).content;
    expect(await said({ name: "Ada" })).toEqual([{ type: "text", text: "Hi Ada" }]);
    expect(await said({ name: "Ada", formal: true })).toEqual([{ type: "text", text: "Hello Ada" }]);
  });

  it("[IP-006] checks the arguments before the handler runs, and names the field", async () => {
    let calls = 0;
    const add = tool("add", "", numbers, () => {
      calls += 1;
      return calls;
    });
    const client = await connected(createServer("calc", "1", { tools: [add] }));
    const result = await client.callTool({ name: "add", arguments: { a: 1, b: "two" } });
    expect(result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/\bb: .*number/u) }],
    });
    expect(calls).toBe(0);
  });

  it("[IP-005, IP-058] lists an output schema and holds results against it", async () => {
    const output = z.object({ sum: z.number() });
    const make = (name: string, value: unknown) =>
      tool({ name, description: "", input: z.object({}), output, run: () => value });
    const tools = [make("good", { sum: 42 }), make("bad", { sum: "42" }), make("text", "42")];
    const client = await connected(createServer("calc", "1", { tools }));
    expect((await client.listTools()).tools[0]?.outputSchema).toMatchObject({
      type: "object",
      properties: { sum: { type: "number" } },
    });
    // Asked without the client's own check of results.
    const call = async (name: string) => client.request({ method: "tools/call", params: { name } });
    expect(await call("good")).toMatchObject({ structuredContent: { sum: 42 } });
    expect(await call("bad")).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/sum: .*expected number, received string/u) }],
    });
    expect(await call("text")).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/expected object, received string/u) }],
    });
  });

  it("[IP-007] carries annotations, title and meta", async () => {
    const annotations = {
      title: "Wipe",
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: true,
      openWorldHint: false,
    };
    const wipe = tool({
      name: "wipe",
      description: "",
      input: z.object({}),
      run: () => "",
      annotations,
      title: "Wipe it",
      meta: { "example.com/cost": 3 },
    });
    const client = await connected(createServer("disk", "1", { tools: [wipe] }));
    expect((await client.listTools()).tools[0]).toMatchObject({
      title: "Wipe it",
      annotations,
      _meta: { "example.com/cost": 3 },
    });
  });

  it("[IP-011] refuses names that the CLI would rewrite", () => {
    for (const name of ["", "Trial.Site/List", "a b", "ä", "x".repeat(65)]) {
      expect([name, codeOf(() => tool(name, "", z.object({}), () => ""))]).toEqual([name, "name_invalid"]);
    }
    expect(tool(`${"x".repeat(62)}-_`, "", z.object({}), () => "").name).toHaveLength(64);
  });

  it("[IP-010] runs handlers in this process, on its own state", async () => {
    const orders: string[] = [];
    const order = tool("order", "", z.object({ what: z.string() }), ({ what }) => {
      orders.push(what);
      return process.pid;
    });
    const client = await connected(createServer("shop", "1", { tools: [order] }));
    const result = await client.callTool({ name: "order", arguments: { what: "tea" } });
    expect(result.structuredContent).toEqual({ result: process.pid });
    expect(orders).toEqual(["tea"]);
  });

  it("[IP-052] tells the model the message of what a handler throws, and this process the rest", async () => {
    const seen: unknown[] = [];
    const fault = Object.assign(new Error("ENOENT: no such file, open '/srv/secret/key.pem'"), {
      path: "/srv/secret/key.pem",
    });
    const read = tool("read", "", z.object({}), () => {
      throw fault;
    });
    const server = createServer("files", "1", {
      tools: [read],
      onToolError: (error, name) => seen.push([name, error]),
    });
    const result = await (await connected(server)).callTool({ name: "read" });
    expect(result).toEqual({
      isError: true,
      content: [{ type: "text", text: "ENOENT: no such file, open '<path>'" }],
    });
    expect(seen).toEqual([["read", fault]]);
  });

  it("[IP-080] never rejects a report that nobody can receive any more", async () => {
    const { promise: given, resolve } = Promise.withResolvers<ToolContext>();
    const report = tool({
      name: "report",
      description: "Reports",
      input: z.object({}),
      run: (_, context) => resolve(context),
    });
    const server = createServer("reports", "1.0.0", { tools: [report] });
    const client = await connected(server);
    await client.request({ method: "tools/call", params: { name: "report", arguments: {} } }, { onprogress: () => {} });
    const context = await given;
    await client.close();
    await server.close();
    expect(await Promise.all([context.progress(1), context.log("info", "late")])).toEqual([undefined, undefined]);
  });

  it("[IP-080] gives handlers a signal, the request's id and meta, progress and log", async () => {
    const contexts: ToolContext[] = [];
    const work = tool("work", "", z.object({}), async (_args, context) => {
      contexts.push(context);
      await context.progress(1, { total: 2, message: "half" });
      await context.log("info", { step: 1 });
    });
    const client = await connected(createServer("worker", "1", { tools: [work] }));
    const logs: unknown[] = [];
    client.setNotificationHandler("notifications/message", ({ params }) => {
      logs.push(params);
    });
    const progress: unknown[] = [];
    const params = { name: "work", _meta: { "claudecode/toolUseId": "toolu_7", mine: true } };
    await client.request({ method: "tools/call", params }, { onprogress: (news) => progress.push(news) });
    await client.callTool({ name: "work" });
    const [first, second] = contexts;
    expect(first).toMatchObject({ toolUseId: "toolu_7", meta: { mine: true }, requestId: expect.anything() });
    expect(first?.signal).toBeInstanceOf(AbortSignal);
    expect(first?.requestId).not.toBe(second?.requestId);
    expect(progress).toEqual([{ progress: 1, total: 2, message: "half" }]);
    expect(logs).toEqual([
      { level: "info", data: { step: 1 } },
      { level: "info", data: { step: 1 } },
    ]);
    expect(second?.toolUseId).toBeUndefined();
  });
});

describe("addTools", () => {
  const late = tool("late", "", z.object({}), () => "here");

  it("[IP-081] adds tools before and, where tools were declared, after connecting", async () => {
    const before = createServer("before", "1");
    addTools(before, late);
    expect((await (await connected(before)).listTools()).tools.map(({ name }) => name)).toEqual(["late"]);

    const after = createServer("after", "1", { tools: [] });
    const client = await connected(after);
    const changed = new Promise<void>((resolve) => {
      client.setNotificationHandler("notifications/tools/list_changed", () => {
        resolve();
      });
    });
    addTools(after, late);
    await changed;
    expect(await client.callTool({ name: "late" })).toMatchObject({ content: [{ text: "here" }] });
  });

  it("[IP-081] says what to do where a connected server did not declare tools, and leaves it alone", async () => {
    const server = createServer("closed", "1");
    const client = await connected(server);
    expect(() => addTools(server, late)).toThrow(/createServer\(name, version, \{ tools: \[\] \}\)/u);
    expect(codeOf(() => addTools(server, late))).toBe("tools_not_declared");
    await expect(client.request({ method: "tools/list" })).rejects.toMatchObject({ code: -32601 });
  });

  it("refuses a second tool of the same name", () => {
    expect(codeOf(() => createServer("twice", "1", { tools: [late, late] }))).toBe("tool_exists");
  });

  it("adds to servers that were not made by createServer", async () => {
    const server = new McpServer({ name: "own", version: "1" });
    addTools(server, late);
    expect(await (await connected(server)).callTool({ name: "late" })).toMatchObject({
      content: [{ text: "here" }],
    });
  });
});
