import { describe, expect, it } from "vitest";

import {
  createServer,
  query,
  type AgentMessage,
  type AgentOptions,
  type PermissionRequest,
} from "../../src/agent-kit/index.ts";
import { answered, mcp, opening, prompted, result, scripted } from "../support/agent-kit/dialogue.ts";

function calc() {
  return {
    calc: { type: "sdk", name: "calc", instance: createServer("Calculator", "1", { tools: [] }) },
  } as const;
}

async function collect(prompt: string, options: AgentOptions): Promise<AgentMessage[]> {
  const messages: AgentMessage[] = [];
  for await (const message of query({ prompt, options })) messages.push(message);
  return messages;
}

describe("questions of the CLI", () => {
  it("[IP-061, IP-062] asks the permission callback", async () => {
    const seen: PermissionRequest[] = [];
    const request = {
      subtype: "can_use_tool",
      tool_name: "mcp__calc__add",
      input: { a: 1, b: 2 },
      mcp_server: { name: "calc", source: "sdk" },
      tool_use_id: "toolu_1",
    };
    using dialogue = scripted(
      [
        { argv: ["--permission-prompt-tool", "stdio"] },
        opening(),
        prompted("x"),
        { cli: { type: "control_request", request_id: "P1", request } },
        answered("P1", { behavior: "allow", updatedInput: { a: 1, b: 2 } }),
        { cli: { type: "control_request", request_id: "P2", request: { ...request, tool_name: "Bash" } } },
        answered("P2", { behavior: "deny", message: "only the calculator" }),
        result("ok"),
      ],
      {
        mcpServers: calc(),
        canUseTool: (question) => {
          seen.push(question);
          return question.toolName === "mcp__calc__add"
            ? { behavior: "allow" }
            : { behavior: "deny", message: "only the calculator" };
        },
      },
    );
    await collect("x", dialogue.options);
    expect(seen[0]?.server).toEqual({ name: "calc", source: "sdk" });
  });

  it("[IP-048] aborts a permission question that the CLI takes back, and writes no answer", async () => {
    const aborted = Promise.withResolvers<void>();
    using dialogue = scripted(
      [
        opening(),
        prompted("x"),
        {
          cli: {
            type: "control_request",
            request_id: "P1",
            request: { subtype: "can_use_tool", tool_name: "t", input: {} },
          },
        },
        { cli: { type: "control_cancel_request", request_id: "P1" } },
        result("ok"),
        { eof: true },
        { never: { type: "control_response", response: { request_id: "P1" } } },
      ],
      {
        canUseTool: async (_request, { signal }) => {
          await new Promise((resolve) => {
            signal.addEventListener("abort", resolve);
          });
          aborted.resolve();
          return { behavior: "allow" };
        },
      },
    );
    expect(await collect("x", dialogue.options)).toMatchObject([{ ok: true }]);
    await aborted.promise;
    expect(dialogue.warnings).toEqual([]);
  });

  it("[IP-064] runs hooks before and after a tool", async () => {
    const seen: unknown[] = [];
    const output = { hookSpecificOutput: { hookEventName: "PreToolUse", permissionDecision: "allow" } };
    const hooks = {
      PreToolUse: [{ matcher: "mcp__calc__.*", hookCallbackIds: ["hook_0"], timeout: 10 }],
      PostToolUse: [{ hookCallbackIds: ["hook_1"] }],
    };
    const callback = (id: string, control: string, input: Readonly<Record<string, unknown>>) => ({
      cli: {
        type: "control_request",
        request_id: control,
        request: { subtype: "hook_callback", callback_id: id, input, tool_use_id: "t" },
      },
    });
    using dialogue = scripted(
      [
        opening({ hooks }),
        prompted("x"),
        callback("hook_0", "H1", { hook_event_name: "PreToolUse" }),
        answered("H1", output),
        callback("hook_1", "H2", { hook_event_name: "PostToolUse", tool_response: "42" }),
        answered("H2", {}),
        result("ok"),
      ],
      {
        hooks: {
          PreToolUse: [{ matcher: "mcp__calc__.*", timeoutSeconds: 10, hooks: [() => output] }],
          PostToolUse: [{ hooks: [(input) => void seen.push(input["tool_response"])] }],
        },
      },
    );
    expect(await collect("x", dialogue.options)).toMatchObject([{ ok: true }]);
    expect(seen).toEqual(["42"]);
  });

  it("[IP-039, IP-040, IP-083] goes on after garbage, unknown requests and wrong fields", async () => {
    const refused = (id: string, error: string) => ({
      host: { type: "control_response", response: { subtype: "error", request_id: id, error } },
    });
    const ask = (id: string, request: Readonly<Record<string, unknown>>) => ({
      cli: { type: "control_request", request_id: id, request },
    });
    using dialogue = scripted(
      [
        { line: "Debugger attached." },
        opening(),
        prompted("x"),
        { line: '{"type":' },
        { cli: { type: "from_the_future", subtype: "x", unknown: [1] } },
        ask("U1", { subtype: "teleport" }),
        refused("U1", "Unsupported control request subtype: teleport"),
        ask("U2", { subtype: "can_use_tool", tool_name: "x", input: {} }),
        refused("U2", "*"),
        ask("U3", { subtype: "mcp_message", message: {} }),
        refused("U3", 'mcp_message needs a string in "server_name", but it is undefined'),
        mcp(
          "U4",
          "ghost",
          { id: 7, method: "ping" },
          { id: 7, error: { code: -32601, message: "Server 'ghost' not found" } },
        ),
        result("ok"),
      ],
      { mcpServers: calc() },
    );
    expect(await collect("x", dialogue.options)).toMatchObject([
      { type: "other", kind: "from_the_future" },
      { ok: true },
    ]);
    expect(dialogue.warnings.map(({ code }) => code)).toEqual(["malformed_line", "malformed_line"]);
  });
});
