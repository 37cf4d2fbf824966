import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createServer, startAgent, tool, type AgentMessage, type Tool } from "../../src/agent-kit/index.ts";
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
  type Step,
} from "../support/agent-kit/dialogue.ts";

const nothing = z.object({});

function calc(...tools: readonly Tool[]) {
  return {
    calc: { type: "sdk", name: "calc", instance: createServer("Calculator", "1", { tools }) },
  } as const;
}

async function messagesOf(
  steps: readonly (Step | readonly Step[])[],
  mcpServers: ReturnType<typeof calc>,
): Promise<AgentMessage[]> {
  using dialogue = scripted([opening(), handshake("calc"), prompted("x"), ...steps, result("ok")], {
    mcpServers,
  });
  await using agent = await startAgent(dialogue.options);
  const messages: AgentMessage[] = [];
  for await (const message of agent.send("x")) messages.push(message);
  return messages;
}

describe("calls of the CLI", () => {
  it("[IP-050, IP-051] get large results whole, and text beside structured content", async () => {
    const text = "x".repeat(3_000_000);
    const large = tool("large", "", nothing, () => text);
    const both = tool("both", "", nothing, () => ({
      content: [{ type: "text", text: "for people" }],
      structuredContent: { answer: 42 },
    }));
    const messages = await messagesOf(
      [
        call("R1", "calc", 2, "large"),
        mcpResponse("R1", { id: 2, result: { content: [{ type: "text", text }] } }),
        call("R2", "calc", 3, "both"),
        mcpResponse("R2", {
          id: 3,
          result: { content: [{ text: "for people" }], structuredContent: { answer: 42 } },
        }),
      ],
      calc(large, both),
    );
    expect(messages).toMatchObject([{ type: "result", ok: true }]);
  });

  it("[IP-049] that time out abort their handler", async () => {
    const aborted = Promise.withResolvers<void>();
    const slow = tool("slow", "", nothing, async (_args, { signal, progress }) => {
      await progress(0);
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      aborted.resolve();
    });
    const cancel = {
      method: "notifications/cancelled",
      params: { requestId: 2, reason: "SdkError: Request timed out" },
    };
    const messages = await messagesOf(
      [
        call("R1", "calc", 2, "slow"),
        asked({ subtype: "mcp_message", server_name: "calc", message: { method: "notifications/progress" } }),
        mcp("R2", "calc", cancel, { result: {} }),
        mcpResponse("R1", { result: {} }),
      ],
      calc(slow),
    );
    await aborted.promise;
    expect(messages).toHaveLength(1);
  });

  it("[IP-038] reach resources and prompts of the server, which the kit never heard of", async () => {
    const servers = calc();
    const { instance } = servers.calc;
    instance.registerResource("note", "note://1", {}, () => ({
      contents: [{ uri: "note://1", text: "milk" }],
    }));
    instance.registerPrompt("shop", {}, () => ({ messages: [] }));
    const messages = await messagesOf(
      [
        mcp("R1", "calc", { id: 2, method: "resources/list" }, { id: 2, result: { resources: [{ uri: "note://1" }] } }),
        mcp(
          "R2",
          "calc",
          { id: 3, method: "resources/read", params: { uri: "note://1" } },
          { id: 3, result: { contents: [{ text: "milk" }] } },
        ),
        mcp("R3", "calc", { id: 4, method: "prompts/list" }, { id: 4, result: { prompts: [{ name: "shop" }] } }),
      ],
      servers,
    );
    expect(messages).toMatchObject([{ ok: true }]);
  });

  it("[IP-042, IP-080] bring tool use and progress token along", async () => {
    const seen: unknown[] = [];
    const note = tool("note", "", nothing, (_args, { meta, toolUseId, requestId }) => {
      seen.push([toolUseId, meta["progressToken"], requestId]);
    });
    await messagesOf(
      [call("R1", "calc", 2, "note"), mcpResponse("R1", { id: 2, result: { content: [] } })],
      calc(note),
    );
    expect(seen).toEqual([["toolu_2", 2, 2]]);
  });

  it("[IP-053, IP-054, IP-055] get JSON-RPC errors in a successful reply where they are wrong", async () => {
    const messages = await messagesOf(
      [
        mcp("E1", "calc", { id: 2, method: "no/such" }, { id: 2, error: { code: -32601 } }),
        mcp("E2", "calc", { id: 3, method: "tools/call", params: {} }, { id: 3, error: { code: -32602 } }),
        mcp("E3", "calc", { id: 4 }, { id: 4, error: { code: -32600, data: { problem: "*" } } }),
        mcp(
          "E4",
          "ghost",
          { id: 5, method: "ping" },
          { id: 5, error: { code: -32601, message: "Server 'ghost' not found" } },
        ),
        mcp("E5", "calc", { id: 6, method: "ping" }, { id: 6, result: {} }),
      ],
      calc(),
    );
    expect(messages).toMatchObject([{ ok: true }]);
  });

  it("[IP-059] reach the other servers when one fails, and that one again", async () => {
    let tries = 0;
    const factory = () => {
      tries += 1;
      if (tries === 1) throw new Error("no database");
      return createServer("Flaky", "1", { tools: [] });
    };
    const initialize = {
      id: 0,
      method: "initialize",
      params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } },
    };
    using dialogue = scripted(
      [
        opening(),
        mcpRequest("F1", "flaky", initialize),
        handshake("calc"),
        mcpResponse("F1", { id: 0, error: { code: -32603 } }),
        prompted("x"),
        handshake("flaky"),
        result("ok"),
      ],
      { mcpServers: { ...calc(), flaky: { type: "sdk", name: "flaky", factory } } },
    );
    await using agent = await startAgent(dialogue.options);
    expect(await agent.ask("x")).toMatchObject({ ok: true });
    expect(dialogue.warnings.map(({ code }) => code)).toEqual(["server_failed"]);
  });

  it("[IP-063] that were denied are told of in the news and in the result", async () => {
    const denial = { tool_name: "mcp__calc__add", tool_use_id: "toolu_2", tool_input: { a: 1 } };
    using dialogue = scripted([
      opening(),
      prompted("x"),
      { cli: { type: "system", subtype: "permission_denied", tool_name: "mcp__calc__add" } },
      { cli: { type: "result", subtype: "success", result: "sorry", permission_denials: [denial] } },
    ]);
    await using agent = await startAgent(dialogue.options);
    const messages: AgentMessage[] = [];
    for await (const message of agent.send("x")) messages.push(message);
    expect(messages).toMatchObject([
      { type: "system", subtype: "permission_denied" },
      { type: "result", permissionDenials: [{ toolName: "mcp__calc__add", toolUseId: "toolu_2" }] },
    ]);
  });
});
