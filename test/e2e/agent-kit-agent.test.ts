import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createServer, startAgent, tool, type Tool } from "../../src/agent-kit/index.ts";
import {
  asked,
  call,
  handshake,
  mcp,
  mcpResponse,
  opening,
  prompted,
  result,
  scripted,
} from "../support/agent-kit/dialogue.ts";

function calc(...tools: readonly Tool[]) {
  const instance = createServer("Calculator", "1.0.0", { tools });
  return { calc: { type: "sdk", name: "calc", instance } } as const;
}

describe("an agent", () => {
  it("[IP-047] interrupts a turn: the running call is aborted and its late result dropped", async () => {
    const started = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    const slow = tool("slow", "", z.object({}), async (_args, { signal }) => {
      started.resolve();
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      aborted.resolve();
      return "too late";
    });
    using dialogue = scripted(
      [
        opening(),
        handshake("calc"),
        prompted("x"),
        call("R1", "calc", 2, "slow"),
        asked({ subtype: "interrupt" }, { still_queued: [] }),
        mcp(
          "R2",
          "calc",
          {
            method: "notifications/cancelled",
            params: { requestId: 2, reason: "AbortError: remote-cancel" },
          },
          { result: {} },
        ),
        mcpResponse("R1", { result: {} }),
        {
          cli: {
            type: "result",
            subtype: "error_during_execution",
            is_error: true,
            errors: ["interrupted"],
            num_turns: 1,
          },
        },
        prompted("again"),
        result("fine"),
        { never: { type: "control_response", response: { response: { mcp_response: { id: 2 } } } } },
      ],
      { mcpServers: calc(slow) },
    );
    await using agent = await startAgent(dialogue.options);
    const turn = agent.ask("x");
    await started.promise;
    await agent.interrupt();
    await aborted.promise;
    expect(await turn).toMatchObject({
      ok: false,
      reason: "error_during_execution",
      errors: ["interrupted"],
    });
    expect(await agent.ask("again")).toMatchObject({ ok: true, text: "fine" });
  });

  it("[IP-021, IP-028, IP-037] adds, replaces, removes, toggles and lists servers", async () => {
    const status = (state: string) => ({ mcpServers: [{ name: "calc", status: state, source: "sdk" }] });
    const set = (keys: readonly string[], response: Readonly<Record<string, unknown>>) =>
      asked(
        { subtype: "mcp_set_servers", servers: Object.fromEntries(keys.map((key) => [key, { type: "*" }])) },
        response,
      );
    const other = createServer("Other", "1", { tools: [] });
    using dialogue = scripted(
      [
        opening({ sdkMcpServers: ["calc"] }),
        handshake("calc"),
        asked({ subtype: "mcp_status" }, { mcpServers: [] }),
        { host: { type: "control_request", request_id: "$s2", request: { subtype: "mcp_status" } } },
        {
          cli: {
            type: "control_response",
            response: { subtype: "success", request_id: "$s2", response: status("pending") },
          },
        },
        { host: { type: "control_request", request_id: "$s3", request: { subtype: "mcp_status" } } },
        {
          cli: {
            type: "control_response",
            response: { subtype: "success", request_id: "$s3", response: status("connected") },
          },
        },
        asked({ subtype: "mcp_toggle", serverName: "calc", enabled: false }),
        asked({ subtype: "mcp_toggle", serverName: "calc", enabled: true }),
        // Switched on again, the CLI starts over on the same bridge.
        handshake("calc"),
        // The server is there before the CLI hears of it.
        {
          host: {
            type: "control_request",
            request_id: "$add",
            request: {
              subtype: "mcp_set_servers",
              servers: {
                calc: { type: "sdk", name: "calc" },
                other: { type: "sdk", name: "other" },
                web: { type: "http", url: "http://127.0.0.1:1/mcp" },
              },
            },
          },
        },
        handshake("other"),
        {
          cli: {
            type: "control_response",
            response: {
              subtype: "success",
              request_id: "$add",
              response: { added: ["other", "web"], removed: [], errors: { web: "refused" } },
            },
          },
        },
        set(["other", "web"], { added: [], removed: ["calc"] }),
        set(["calc", "other", "web"], { added: ["calc"], removed: [] }),
        handshake("calc"),
        {
          host: {
            type: "control_request",
            request_id: "$gone",
            request: { subtype: "mcp_set_servers", servers: { other: "*", web: "*" } },
          },
        },
        {
          cli: {
            type: "control_response",
            response: {
              subtype: "success",
              request_id: "$gone",
              response: { added: [], removed: ["calc"], errors: {} },
            },
          },
        },
        asked({ subtype: "set_permission_mode", mode: "acceptEdits" }, { mode: "acceptEdits" }),
        mcp("late", "calc", { id: 9, method: "ping" }, { id: 9, error: { code: -32601 } }),
        asked({ subtype: "set_model", model: "m" }),
      ],
      { mcpServers: calc() },
    );
    await using agent = await startAgent(dialogue.options);
    expect(await agent.servers.ready("calc")).toMatchObject({ name: "calc", status: "connected" });
    await agent.servers.toggle("calc", false);
    await agent.servers.toggle("calc", true);
    expect(
      await agent.servers.add({
        other: { type: "sdk", name: "other", instance: other },
        web: { type: "http", url: "http://127.0.0.1:1/mcp" },
      }),
    ).toEqual({ added: ["other", "web"], removed: [], errors: { web: "refused" } });
    expect(await agent.servers.add(calc())).toMatchObject({ added: ["calc"], removed: ["calc"] });
    await expect(agent.servers.remove("ghost")).rejects.toMatchObject({
      code: "server_not_found",
      message: expect.stringMatching(/removable: other, web, calc/u),
    });
    expect(await agent.servers.remove("calc")).toMatchObject({ removed: ["calc"] });
    await agent.setPermissionMode("acceptEdits");
    await agent.setModel("m");
  });

  it("[IP-037] says why a server does not get ready", async () => {
    const state = { name: "calc", status: "failed", error: "boom" };
    using dialogue = scripted([opening(), asked({ subtype: "mcp_status" }, { mcpServers: [state] })]);
    await using agent = await startAgent(dialogue.options);
    await expect(agent.servers.ready("calc")).rejects.toMatchObject({
      code: "server_not_found",
      message: expect.stringMatching(/it is failed: boom/u),
    });
  });
});
