import { readFileSync } from "node:fs";
import { join } from "node:path";

import { McpServer, Server } from "@modelcontextprotocol/server";
import { describe, expect, it } from "vitest";
import { z } from "zod";

import { initialize, openBridge, request, toolCall } from "../../../test/support/agent-kit/control-client.ts";
import { bridgeControlChannel } from "./control-bridge.ts";
import { createServer } from "../tools/server.ts";
import { tool } from "../tools/tool.ts";

const echo = tool("echo", "Echoes", z.object({ text: z.string() }), ({ text }) => text);

function echoServer(): McpServer {
  return createServer("Echo server", "1.0.0", { tools: [echo] });
}

function registered(instance: McpServer, key = "echo") {
  return { [key]: { type: "sdk", name: key, instance } } as const;
}

describe("invalid messages", () => {
  it.each([
    ["no method, no result, no error", { jsonrpc: "2.0", id: 5 }, 5, /"error" are all missing/u],
    ["another JSON-RPC version", { jsonrpc: "1.0", id: "a", method: "ping" }, "a", /"jsonrpc"/u],
    ["no version", { id: 6, method: "ping" }, 6, /"jsonrpc"/u],
    ["a method that is no text", { jsonrpc: "2.0", id: 7, method: 8 }, 7, /"method" is number/u],
    ["an id that is an object", { jsonrpc: "2.0", id: {}, method: "ping" }, undefined, /"id" is object/u],
    ["an id that is null", { jsonrpc: "2.0", id: null, method: "ping" }, undefined, /"id" is null/u],
    ["a response without id", { jsonrpc: "2.0", result: {} }, undefined, /no "id"/u],
  ])("[IP-055, IP-069] are answered -32600 by the bridge itself: %s", async (_what, message, id, problem) => {
    await using watched = await openBridge(registered(echoServer()));
    const answer = await watched.ask("echo", message);
    expect(answer).toEqual({
      jsonrpc: "2.0",
      ...(id !== undefined && { id }),
      error: { code: -32600, message: "Invalid Request", data: { problem: expect.stringMatching(problem) } },
    });
  });

  it("[IP-056, IP-069] are answered -32700 without an id where the text is not JSON", async () => {
    await using watched = await openBridge(registered(echoServer()));
    const answer: unknown = JSON.parse(await watched.bridge.answerText("echo", '{"jsonrpc": "2.0", '));
    expect(answer).toEqual({
      jsonrpc: "2.0",
      error: { code: -32700, message: "Parse error", data: { problem: expect.stringMatching(/JSON/u) } },
    });
    expect(JSON.parse(await watched.bridge.answerText("echo", "[]"))).toMatchObject({
      error: { code: -32600 },
    });
    const pong = await watched.bridge.answerText("echo", JSON.stringify(request(1, "ping")));
    expect(JSON.parse(pong)).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
  });

  it("[IP-083] are refused with the name of the field where the request around them is wrong", async () => {
    await using watched = await openBridge(registered(echoServer()));
    expect(await watched.bridge.answer({ message: request(1, "ping") })).toEqual({
      ok: false,
      error: expect.stringMatching(/a string in "server_name", but it is undefined/u),
    });
    expect(await watched.bridge.answer({ server_name: "echo", message: "ping" })).toEqual({
      ok: false,
      error: expect.stringMatching(/an object in "message", but it is string/u),
    });
    expect(await watched.ask("echo", request(1, "ping"))).toMatchObject({ result: {} });
  });
});

describe("errors on the wire", () => {
  it("[IP-053, IP-069] says which server was not found, to requests only", async () => {
    await using watched = await openBridge(registered(echoServer()));
    expect(await watched.ask("ghost", initialize(3))).toMatchObject({
      jsonrpc: "2.0",
      id: 3,
      error: { code: -32601, message: "Server 'ghost' not found", data: { code: "server_not_found" } },
    });
    expect(await watched.ask("ghost", { jsonrpc: "2.0", method: "notifications/initialized" })).toEqual({
      jsonrpc: "2.0",
      result: {},
    });
  });

  it("[IP-054, IP-069] has the codes of JSON-RPC and the caller's id", async () => {
    const server = echoServer();
    server.server.registerCapabilities({ prompts: {} });
    server.server.setRequestHandler("prompts/list", () => {
      throw new Error("no prompts today");
    });
    await using watched = await openBridge(registered(server));
    await watched.ask("echo", initialize());
    expect(await watched.ask("echo", request(1, "no/such/method"))).toMatchObject({
      id: 1,
      error: { code: -32601 },
    });
    expect(await watched.ask("echo", request("two", "tools/call", {}))).toMatchObject({
      id: "two",
      error: { code: -32602 },
    });
    expect(await watched.ask("echo", toolCall(3, "ghost"))).toMatchObject({ id: 3, error: { code: -32602 } });
    expect(await watched.ask("echo", request(4, "prompts/list"))).toEqual({
      jsonrpc: "2.0",
      id: 4,
      error: { code: -32603, message: "no prompts today" },
    });
  });

  it("[IP-057, IP-069] answers -32601 for a server that has no handler for tools", async () => {
    await using watched = await openBridge(registered(createServer("bare", "1"), "bare"));
    await watched.ask("bare", initialize());
    expect(await watched.ask("bare", request(1, "tools/list"))).toMatchObject({
      id: 1,
      error: { code: -32601, message: expect.stringMatching(/tools\/list.*bare/u) },
    });
    await using foreign = await openBridge(registered(new McpServer({ name: "x", version: "1" }), "x"));
    await foreign.ask("x", initialize());
    expect(await foreign.ask("x", request(1, "tools/list"))).toMatchObject({ error: { code: -32601 } });
  });

  it("[IP-052, IP-069] makes a tool error of what a handler throws", async () => {
    const fails = tool("fails", "", z.object({}), () => {
      throw new Error("out of paper");
    });
    const server = createServer("printer", "1", { tools: [fails], onToolError: () => {} });
    await using watched = await openBridge(registered(server, "printer"));
    await watched.ask("printer", initialize());
    expect(await watched.ask("printer", toolCall(1, "fails"))).toEqual({
      jsonrpc: "2.0",
      id: 1,
      result: { isError: true, content: [{ type: "text", text: "out of paper" }] },
    });
  });

  it("[IP-084, IP-069] replaces a result that cannot be sent, and says what it was", async () => {
    const low = new Server({ name: "low", version: "1" }, { capabilities: { tools: {}, prompts: {} } });
    // What untyped code may return.
    low.setRequestHandler("tools/list", () => "tools" as never);
    low.setRequestHandler("prompts/list", () => ({ prompts: [], size: 1n }));
    const instance = Object.assign(new McpServer({ name: "unused", version: "1" }), {
      connect: low.connect.bind(low),
    });
    await using watched = await openBridge(registered(instance, "low"));
    await watched.ask("low", initialize());
    expect(await watched.ask("low", request(1, "tools/list"))).toMatchObject({
      id: 1,
      error: { code: -32603, data: { expected: "object", received: "string" } },
    });
    expect(await watched.ask("low", request(2, "prompts/list"))).toMatchObject({
      id: 2,
      error: { code: -32603, data: { received: "a value that JSON cannot hold" } },
    });
  });
});

describe("messages that pass", () => {
  it("[IP-030] stays as the server made it: all kinds of content, meta and unknown members", async () => {
    const result = {
      content: [
        { type: "text", text: "a", annotations: { audience: ["user"] }, _meta: { k: 1 } },
        { type: "image", data: "AA==", mimeType: "image/png" },
        { type: "audio", data: "AA==", mimeType: "audio/wav" },
        { type: "resource", resource: { uri: "x://1", text: "body", _meta: { deep: true } } },
        { type: "resource_link", uri: "x://2", name: "two" },
      ],
      structuredContent: { rows: [{ n: 1 }], nothing: null },
      isError: true,
      _meta: { "example.com/cost": 0.5 },
      later: { member: "kept" },
    };
    const all = tool({
      name: "all",
      description: "All",
      input: z.object({ n: z.number().int().describe("N") }),
      run: () => result,
      title: "Everything",
      annotations: { readOnlyHint: true },
      meta: { mine: 1 },
    });
    await using watched = await openBridge(registered(createServer("all", "1", { tools: [all] }), "all"));
    await watched.ask("all", initialize());
    expect(await watched.ask("all", toolCall(1, "all", { n: 1 }))).toEqual({ jsonrpc: "2.0", id: 1, result });
    const list = await watched.ask("all", request(2, "tools/list"));
    expect(list["result"]).toMatchObject({
      tools: [
        {
          name: "all",
          title: "Everything",
          annotations: { readOnlyHint: true },
          _meta: { mine: 1 },
          inputSchema: { properties: { n: { type: "integer", description: "N" } } },
        },
      ],
    });
  });

  it("[IP-026] lets the SDK negotiate version and capabilities", async () => {
    await using watched = await openBridge({
      echo: { type: "sdk", name: "echo", factory: echoServer },
      old: { type: "sdk", name: "old", factory: echoServer },
    });
    const asked = async (key: string, protocolVersion: string) => {
      const params = { protocolVersion, capabilities: {}, clientInfo: { name: "x", version: "1" } };
      return (await watched.ask(key, request(0, "initialize", params)))["result"];
    };
    expect(await asked("echo", "2025-11-25")).toMatchObject({
      protocolVersion: "2025-11-25",
      capabilities: { tools: { listChanged: true }, logging: {} },
    });
    expect(await asked("old", "2024-11-05")).toMatchObject({ protocolVersion: "2024-11-05" });
  });

  it("[IP-025] opens in the revision of the first message where there is a factory", async () => {
    await using watched = await openBridge({ echo: { type: "sdk", name: "echo", factory: echoServer } });
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "claude-code", version: "9" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const found = await watched.ask("echo", request(1, "server/discover", { _meta: meta }));
    expect(found["result"]).toMatchObject({ supportedVersions: expect.arrayContaining(["2026-07-28"]) });
    const called = await watched.ask(
      "echo",
      request(2, "tools/call", { name: "echo", arguments: { text: "new" }, _meta: meta }),
    );
    expect(called["result"]).toMatchObject({ content: [{ type: "text", text: "new" }] });
  });

  it("[IP-022, IP-023, IP-029] goes through a small transport that knows no method but one", () => {
    const text = readFileSync(join(import.meta.dirname, "control-transport.ts"), "utf8");
    expect(text.split("\n").length).toBeLessThan(175);
    const others = ["control-bridge.ts", "../json-rpc.ts"].map((file) =>
      readFileSync(join(import.meta.dirname, file), "utf8"),
    );
    const methods = [text, ...others].flatMap((code) =>
      [
        ...code.matchAll(
          /"(?<method>(?:notifications|tools|resources|prompts|server|logging)\/[\w/]+|initialize|ping)"/gu,
        ),
      ].map((match) => match.groups?.["method"]),
    );
    expect(methods).toEqual(["notifications/cancelled"]);
  });
});

describe("registration", () => {
  it("[IP-017, IP-018] announces keys and settings, and nothing of the servers themselves", async () => {
    await using watched = await openBridge({
      calc: {
        type: "sdk",
        name: "calc",
        instance: echoServer(),
        timeout: 5000,
        toolPolicies: [{ name: "echo", permission: "always_ask" }],
      },
      plain: { type: "sdk", name: "plain", factory: echoServer },
      away: { type: "http", url: "http://127.0.0.1:1/mcp" },
    });
    expect(watched.bridge.announcement()).toEqual({
      sdkMcpServers: ["calc", "plain"],
      sdkMcpServerConfigs: {
        calc: { timeout: 5000, tools: [{ name: "echo", permission_policy: "always_ask" }] },
      },
    });
  });

  it("[IP-066] says to use a factory where an instance is in use, and frees what was connected", async () => {
    const instance = echoServer();
    const other = echoServer();
    await using watched = await openBridge(registered(instance));
    const again = bridgeControlChannel({
      servers: { other: { type: "sdk", name: "other", instance: other }, ...registered(instance) },
      send: async () => {},
    });
    await expect(again).rejects.toMatchObject({
      code: "instance_in_use",
      message: expect.stringMatching(/factory/u),
    });
    expect([instance.isConnected(), other.isConnected()]).toEqual([true, false]);
    expect(watched.bridge.has("echo")).toBe(true);
    await expect(watched.bridge.add("echo", { type: "sdk", name: "echo", instance: other })).rejects.toMatchObject({
      code: "server_exists",
    });
  });

  it("[IP-066] makes one server per agent with a factory", async () => {
    const made: McpServer[] = [];
    const factory = () => {
      made.push(echoServer());
      return made.at(-1) ?? echoServer();
    };
    const config = { echo: { type: "sdk", name: "echo", factory } } as const;
    await using one = await openBridge(config);
    await using two = await openBridge(config);
    await Promise.all([one.ask("echo", initialize()), two.ask("echo", initialize())]);
    expect(made.map((server) => server.isConnected())).toEqual([true, true]);
  });

  it("[IP-082] warns of tools whose full name is long, also of those that come later", async () => {
    const long = tool("a".repeat(60), "", z.object({}), () => "");
    const instance = createServer("x", "1", { tools: [long] });
    await using watched = await openBridge({
      calc: { type: "sdk", name: "calc", instance },
      made: { type: "sdk", name: "made", factory: () => createServer("y", "1", { tools: [long] }) },
    });
    expect(watched.warnings).toMatchObject([{ code: "name_too_long", details: { length: 71 } }]);
    await watched.ask("made", initialize());
    expect(watched.warnings.map(({ code }) => code)).toEqual(["name_too_long", "name_too_long"]);
  });

  it("[IP-059] lets a server that failed try again, beside one that works", async () => {
    let tries = 0;
    const factory = () => {
      tries += 1;
      if (tries === 1) throw new Error("no database yet");
      return echoServer();
    };
    await using watched = await openBridge({
      flaky: { type: "sdk", name: "flaky", factory },
      ...registered(echoServer()),
    });
    const [failed, fine] = await Promise.all([watched.ask("flaky", initialize()), watched.ask("echo", initialize())]);
    expect(failed).toMatchObject({ id: 0, error: { code: -32603 } });
    expect(fine).toMatchObject({ id: 0, result: {} });
    expect(watched.warnings).toMatchObject([
      { code: "server_failed", message: expect.stringMatching(/flaky.*no database yet/u) },
    ]);
    expect(await watched.ask("flaky", initialize())).toMatchObject({ id: 0, result: {} });
  });
});
