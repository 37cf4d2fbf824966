import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { createCalculator } from "../../examples/calculator/calculator.ts";
import { runTool } from "../../scripts/run/tool.ts";
import { openBridge, initialize, request, toolCall } from "../support/agent-kit/control-client.ts";
import { call, handshake, mcpResponse, opening, prompted, result, scripted } from "../support/agent-kit/dialogue.ts";

const root = resolve(import.meta.dirname, "../..");

describe("the calculator example", () => {
  it("[IP-073] has four tools with two required, described numbers and a result", async () => {
    const instance = createCalculator();
    await using watched = await openBridge({ calc: { type: "sdk", name: "calc", instance } });
    await watched.ask("calc", initialize());
    const number = (description: string) => ({ type: "number", description });
    expect(await watched.ask("calc", request(1, "tools/list"))).toMatchObject({
      result: {
        tools: ["add", "subtract", "multiply", "divide"].map((name) => ({
          name,
          inputSchema: {
            type: "object",
            properties: { a: number("First number"), b: number("Second number") },
            required: ["a", "b"],
          },
          outputSchema: { type: "object", properties: { result: { type: "number" } }, required: ["result"] },
        })),
      },
    });
    const computed = async (name: string, a: number, b: number) =>
      (await watched.ask("calc", toolCall(2, name, { a, b })))["result"];
    expect(await computed("add", 15, 27)).toMatchObject({ structuredContent: { result: 42 } });
    expect(await computed("subtract", 15, 27)).toMatchObject({ structuredContent: { result: -12 } });
    expect(await computed("multiply", 6, 7)).toMatchObject({ structuredContent: { result: 42 } });
    expect(await computed("divide", 84, 2)).toMatchObject({ structuredContent: { result: 42 } });
    expect(await computed("divide", 10, 0)).toEqual({
      isError: true,
      content: [{ type: "text", text: "Error: Division by zero" }],
    });
  });

  it("[IP-073] prints the conversation, the result, the cost and the turns", async () => {
    const uses = [
      { type: "tool_use", id: "toolu_2", name: "mcp__calc__add", input: { a: 15, b: 27 } },
      { type: "tool_use", id: "toolu_3", name: "mcp__calc__divide", input: { a: 10, b: 0 } },
    ];
    const results = [
      { type: "tool_result", tool_use_id: "toolu_2", content: '{"result":42}' },
      { type: "tool_result", tool_use_id: "toolu_3", content: "Error: Division by zero", is_error: true },
    ];
    const prompt = "What is 15 + 27? And what is 10 / 0?";
    using dialogue = scripted([
      { argv: ["--allowedTools", "mcp__calc"] },
      opening({ sdkMcpServers: ["calc"] }),
      prompted(prompt),
      handshake("calc"),
      {
        cli: {
          type: "assistant",
          message: { content: [{ type: "text", text: "I will calculate." }, ...uses] },
        },
      },
      call("R1", "calc", 2, "add", { a: 15, b: 27 }),
      mcpResponse("R1", { id: 2, result: { structuredContent: { result: 42 } } }),
      call("R2", "calc", 3, "divide", { a: 10, b: 0 }),
      mcpResponse("R2", { id: 3, result: { isError: true, content: [{ text: "Error: Division by zero" }] } }),
      { cli: { type: "user", message: { content: results } } },
      { cli: { type: "assistant", message: { content: [{ type: "text", text: "It is 42." }] } } },
      result("It is 42."),
    ]);
    const { exitCode, output } = await runTool(["node", "examples/calculator/run.ts"], {
      cwd: root,
      env: {
        ANTHROPIC_API_KEY: "",
        SCRIPTED_DIALOGUE: dialogue.options.env?.["SCRIPTED_DIALOGUE"] ?? "",
        HEADGATE_CLAUDE_CLI: dialogue.options.cliPath ?? "",
      },
    });
    expect(output.split("\n")).toEqual([
      "No ANTHROPIC_API_KEY: the model answers by script.",
      `You:    ${prompt}`,
      "Claude: I will calculate.",
      'Tool:   mcp__calc__add {"a":15,"b":27}',
      'Tool:   mcp__calc__divide {"a":10,"b":0}',
      String.raw`Answer: "{\"result\":42}"`,
      'Answer: "Error: Division by zero" (error)',
      "Claude: It is 42.",
      "",
      "Result: It is 42.",
      "Cost: $0.010000",
      "Turns: 2",
    ]);
    expect(exitCode).toBe(0);
  });

  it("[IP-060] says where it looked when there is no CLI", async () => {
    const { exitCode, output } = await runTool(["node", "examples/calculator/run.ts"], {
      cwd: root,
      env: { ANTHROPIC_API_KEY: "", HEADGATE_CLAUDE_CLI: "/nowhere/claude" },
    });
    expect([exitCode, output]).toEqual([1, expect.stringMatching(/cli_not_found.*looked at: \/nowhere\/claude/su)]);
  });
});
