import { resolve } from "node:path";

import { describe, expect, it } from "vitest";
import { z } from "zod";

import { readChecklists, rowsOf } from "../../scripts/requirements/checklist.ts";
import { testCitations } from "../../scripts/requirements/citations.ts";

import {
  addTools,
  createServer,
  query,
  tool,
  type AgentMessage,
  type AgentOptions,
} from "../../src/agent-kit/index.ts";
import {
  asked,
  call,
  handshake,
  mcp,
  mcpRequest,
  mcpResponse,
  opening,
  prompted,
  result,
  scripted,
} from "../support/agent-kit/dialogue.ts";

const add = tool({
  name: "add",
  description: "Adds two numbers",
  input: z.object({ a: z.number(), b: z.number() }),
  annotations: { readOnlyHint: true },
  run: ({ a, b }) => ({ result: a + b }),
});

function calc(...more: Parameters<typeof addTools>[1][]) {
  const instance = createServer("Calculator", "1.0.0", { tools: [add, ...more] });
  return { calc: { type: "sdk", name: "calc", instance } } as const;
}

async function collect(prompt: string, options: AgentOptions): Promise<AgentMessage[]> {
  const messages: AgentMessage[] = [];
  for await (const message of query({ prompt, options })) messages.push(message);
  return messages;
}

const sum = { id: 2, result: { structuredContent: { result: 42 } } };

/** What only another program can show: the official SDK takes our servers. */
const needsOthers = ["IP-074"];

describe("the requirements of in-process servers", () => {
  it("[IP-072] are all shown without the CLI, too", () => {
    const root = resolve(import.meta.dirname, "../..");
    const ids = rowsOf(readChecklists(resolve(root, "requirements"))).map(({ id }) => id);
    const own = ids.filter((id) => id.startsWith("IP-") && !needsOthers.includes(id));
    const { citations } = testCitations(root);
    const shown = new Set(citations.filter(({ file }) => !file.startsWith("test/claude/")).map(({ id }) => id));
    expect(own.length).toBeGreaterThan(80);
    expect(own.filter((id) => !shown.has(id))).toEqual([]);
  });
});

describe("a query", () => {
  it("[IP-031, IP-033, IP-036, IP-072, IP-075] runs a whole recorded dialogue", async () => {
    const use = { type: "tool_use", id: "toolu_2", name: "mcp__calc__add", input: { a: 15, b: 27 } };
    using dialogue = scripted(
      [
        { argv: ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"] },
        // Nothing but `initialize` has come before the CLI answers it.
        {
          host: {
            type: "control_request",
            request_id: "$init",
            request: { subtype: "initialize", hooks: null, sdkMcpServers: ["calc"] },
          },
        },
        // What the host wrote before this answer has come, so a prompt of that time would be seen.
        mcp("R0", "calc", { id: 9, method: "ping" }, { id: 9, result: {} }),
        { never: { type: "user" } },
        {
          cli: {
            type: "control_response",
            response: { subtype: "success", request_id: "$init", response: { commands: [] } },
          },
        },
        prompted("What is 15 + 27?"),
        handshake("calc"),
        {
          cli: {
            type: "system",
            subtype: "init",
            tools: ["mcp__calc__add"],
            mcp_servers: [{ name: "calc", status: "connected", source: "sdk" }],
          },
        },
        { cli: { type: "assistant", message: { content: [use] } } },
        call("R4", "calc", 2, "add", { a: 15, b: 27 }),
        mcpResponse("R4", sum),
        {
          cli: {
            type: "user",
            message: { content: [{ type: "tool_result", tool_use_id: "toolu_2", content: '{"result":42}' }] },
          },
        },
        { cli: { type: "assistant", message: { content: [{ type: "text", text: "42." }] } } },
        { cli: { type: "brand_new", payload: 1 } },
        result("42."),
        { eof: true },
      ],
      { mcpServers: calc() },
    );
    const messages = await collect("What is 15 + 27?", dialogue.options);
    expect(messages).toMatchObject([
      { type: "system", subtype: "init" },
      { type: "assistant", content: [{ type: "tool_use", name: "mcp__calc__add" }] },
      { type: "user", content: [{ type: "tool_result", toolUseId: "toolu_2" }] },
      { type: "assistant", text: "42." },
      { type: "other", kind: "brand_new", raw: { payload: 1 } },
      { type: "result", ok: true, text: "42.", costUsd: 0.01, turns: 2 },
    ]);
    expect(dialogue.warnings).toEqual([]);
  });

  it("[IP-034] answers servers' messages that come before initialize is answered", async () => {
    using dialogue = scripted(
      [
        { host: { type: "control_request", request_id: "$init", request: { subtype: "initialize" } } },
        handshake("calc"),
        { cli: { type: "control_response", response: { subtype: "success", request_id: "$init" } } },
        prompted("hello"),
        result("hi"),
      ],
      { mcpServers: calc() },
    );
    expect(await collect("hello", dialogue.options)).toMatchObject([{ type: "result", text: "hi" }]);
  });

  it("[IP-036] serves several servers at once, in whatever order the CLI asks", async () => {
    const initialize = {
      id: 0,
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } },
    };
    using dialogue = scripted(
      [
        opening({ sdkMcpServers: ["calc", "other"] }),
        prompted("x"),
        mcpRequest("A0", "calc", initialize),
        mcpRequest("B0", "other", initialize),
        mcpResponse("B0", { id: 0, result: { serverInfo: { name: "Other" } } }),
        mcpResponse("A0", { id: 0, result: { serverInfo: { name: "Calculator" } } }),
        result("ok"),
      ],
      {
        mcpServers: {
          ...calc(),
          other: { type: "sdk", name: "other", factory: () => createServer("Other", "1", { tools: [] }) },
        },
      },
    );
    expect(await collect("x", dialogue.options)).toMatchObject([{ ok: true }]);
  });

  it("[IP-043] runs the calls of one turn side by side", async () => {
    const both = Promise.withResolvers<void>();
    let running = 0;
    const meet = tool("meet", "Waits for the other", z.object({}), async () => {
      running += 1;
      if (running === 2) both.resolve();
      await both.promise;
      return "met";
    });
    using dialogue = scripted(
      [
        opening(),
        handshake("calc"),
        prompted("x"),
        call("R1", "calc", 2, "meet"),
        call("R2", "calc", 3, "meet"),
        mcpResponse("R1", { id: 2, result: { content: [{ type: "text", text: "met" }] } }),
        mcpResponse("R2", { id: 3, result: { content: [{ type: "text", text: "met" }] } }),
        result("ok"),
      ],
      { mcpServers: calc(meet) },
    );
    expect(await collect("x", dialogue.options)).toMatchObject([{ ok: true }]);
    expect(running).toBe(2);
  });

  it("[IP-044, IP-045, IP-046] carries progress, new tools and a server's own requests", async () => {
    const servers = calc();
    const { instance } = servers.calc;
    const answers: unknown[] = [];
    const grow = tool("grow", "Adds a tool", z.object({}), async (_args, { progress }) => {
      await progress(1, { total: 2 });
      addTools(
        instance,
        tool("grown", "New", z.object({}), () => "grown up"),
      );
      answers.push(await instance.server.ping());
      answers.push(await instance.server.listRoots().catch((error: unknown) => error));
    });
    addTools(instance, grow);
    const note = (method: string) => ({ subtype: "mcp_message", server_name: "calc", message: { method } });
    const question = (method: string, id: string) => ({
      host: {
        type: "control_request",
        request_id: `$${method}`,
        request: { subtype: "mcp_message", server_name: "calc", message: { method, id } },
      },
    });
    const ack = (method: string) => ({
      cli: {
        type: "control_response",
        response: { subtype: "success", request_id: `$${method}`, response: {} },
      },
    });
    using dialogue = scripted(
      [
        opening(),
        handshake("calc"),
        prompted("x"),
        call("R1", "calc", 2, "grow"),
        asked(note("notifications/progress")),
        asked(note("notifications/tools/list_changed")),
        mcp(
          "R2",
          "calc",
          { id: 3, method: "tools/list" },
          { id: 3, result: { tools: [{ name: "add" }, { name: "grow" }, { name: "grown" }] } },
        ),
        question("ping", "$p"),
        ack("ping"),
        mcpRequest("R3", "calc", { id: "$p", result: {} }),
        mcpResponse("R3", { result: {} }),
        question("roots/list", "$r"),
        ack("roots/list"),
        mcpRequest("R4", "calc", { id: "$r", error: { code: -32601, message: "Method not found" } }),
        mcpResponse("R4", { result: {} }),
        mcpResponse("R1", { id: 2, result: { content: [] } }),
        call("R5", "calc", 4, "grown"),
        mcpResponse("R5", { id: 4, result: { content: [{ type: "text", text: "grown up" }] } }),
        result("ok"),
      ],
      { mcpServers: servers },
    );
    expect(await collect("x", dialogue.options)).toMatchObject([{ ok: true }]);
    expect(answers).toEqual([{}, expect.objectContaining({ code: -32601 })]);
  });

  it("[IP-017, IP-018, IP-019, IP-077] announces servers, settings, manifests and rules as asked", async () => {
    const servers = {
      calc: { ...calc().calc, timeout: 2000, toolPolicies: [{ name: "add", permission: "always_ask" }] },
    } as const;
    using inInitialize = scripted(
      [
        { argv: ["--allowedTools", "mcp__calc__add,mcp__calc"] },
        opening({
          sdkMcpServers: ["calc"],
          sdkMcpServerConfigs: {
            calc: { timeout: 2000, tools: [{ name: "add", permission_policy: "always_ask" }] },
          },
          sdkMcpServerManifests: {
            calc: {
              initializeResult: { protocolVersion: "2025-11-25" },
              toolsListResult: { tools: [{ name: "add" }] },
            },
          },
        }),
        prompted("x"),
        // The CLI goes straight to the call, and may make the whole handshake all the same.
        call("R1", "calc", 2, "add", { a: 15, b: 27 }),
        mcpResponse("R1", sum),
        handshake("calc"),
        result("ok"),
      ],
      { mcpServers: servers, sendManifests: true, allowedTools: ["mcp__calc__add", "mcp__calc"] },
    );
    expect(await collect("x", inInitialize.options)).toMatchObject([{ ok: true }]);
    using inConfig = scripted(
      [
        { argv: ["--mcp-config", '{"mcpServers":{"calc":{"type":"sdk","name":"calc"}}}'] },
        opening(),
        { never: { request: { sdkMcpServers: "*" } } },
        prompted("x"),
        handshake("calc"),
        result("ok"),
      ],
      { mcpServers: calc(), announce: "mcp-config" },
    );
    expect(await collect("x", inConfig.options)).toMatchObject([{ ok: true }]);
  });

  it("takes several prompts, one after the other", async () => {
    using dialogue = scripted([opening(), prompted("one"), result("1"), prompted("two"), result("2")]);
    async function* prompts() {
      yield "one";
      yield "two";
    }
    const texts: string[] = [];
    for await (const message of query({ prompt: prompts(), options: dialogue.options })) {
      if (message.type === "result" && message.ok) texts.push(message.text);
    }
    expect(texts).toEqual(["1", "2"]);
  });
});
