import { describe, expect, it } from "vitest";
import { z } from "zod";

import {
  createServer,
  tool,
  type OfflineReply,
  type OfflineScript,
  type PermissionRequest,
  type Tool,
  type ToolPolicy,
} from "../../src/agent-kit/index.ts";
import { openSession } from "./session.ts";

const nothing = z.object({});
const add = tool("add", "Adds", z.object({ a: z.number(), b: z.number() }), ({ a, b }) => ({
  result: a + b,
}));

function server(...tools: readonly Tool[]) {
  return createServer("Calculator", "1.0.0", { tools, alwaysLoad: true });
}

function calc(...tools: readonly Tool[]) {
  return { calc: { type: "sdk", name: "calc", instance: server(...tools) } } as const;
}

const addition: OfflineReply = {
  toolUses: [{ id: "toolu_0", name: "mcp__calc__add", input: { a: 15, b: 27 } }],
};
const script: OfflineScript = ({ index }) => (index === 0 ? addition : { text: "done" });

describe("the real CLI and permissions", () => {
  it("[IP-063] denies a call that nobody allows, and says so", async () => {
    await using session = await openSession(script, { mcpServers: calc(add) });
    const { messages, result } = await session.run("Add.");
    expect(result.permissionDenials).toEqual([
      { toolName: "mcp__calc__add", toolUseId: "toolu_0", input: { a: 15, b: 27 } },
    ]);
    const news = messages.map((message) => (message.type === "system" ? message.subtype : ""));
    expect(news).toContain("permission_denied");
  });

  it("[IP-077] runs a call that is allowed beforehand without asking", async () => {
    const asked: PermissionRequest[] = [];
    await using session = await openSession(script, {
      mcpServers: calc(add),
      allowedTools: ["mcp__calc__add"],
      canUseTool: (request) => {
        asked.push(request);
        return { behavior: "deny", message: "never" };
      },
    });
    const { result } = await session.run("Add.");
    expect([result.permissionDenials, asked]).toEqual([[], []]);
    expect(JSON.stringify(session.api.requests.at(-1)?.toolResults.get("toolu_0"))).toContain("42");
  });

  it("[IP-061, IP-062] asks the callback, which may change the input or deny", async () => {
    const asked: PermissionRequest[] = [];
    const twice: OfflineScript = ({ index }) => {
      if (index === 0) return addition;
      if (index === 1) return { toolUses: [{ id: "toolu_1", name: "mcp__calc__add", input: { a: 1, b: 1 } }] };
      return { text: "done" };
    };
    await using session = await openSession(twice, {
      mcpServers: calc(add),
      canUseTool: (request) => {
        asked.push(request);
        return asked.length === 1
          ? { behavior: "allow", updatedInput: { a: 40, b: 60 } }
          : { behavior: "deny", message: "enough adding" };
      },
    });
    const { result } = await session.run("Add.");
    expect(asked[0]).toMatchObject({
      toolName: "mcp__calc__add",
      input: { a: 15, b: 27 },
      server: { name: "calc", source: "sdk" },
      toolUseId: "toolu_0",
    });
    const results = session.api.requests.at(-1)?.toolResults;
    expect(JSON.stringify(results?.get("toolu_0"))).toContain("100");
    expect(JSON.stringify(results?.get("toolu_1"))).toContain("enough adding");
    expect(result.permissionDenials).toMatchObject([{ toolUseId: "toolu_1" }]);
  });

  it("[IP-064] runs hooks before and after a call", async () => {
    const seen: unknown[] = [];
    const twice: OfflineScript = ({ index }) => {
      if (index === 0) return addition;
      if (index === 1) return { toolUses: [{ id: "toolu_1", name: "mcp__calc__add", input: { a: 0, b: 0 } }] };
      return { text: "done" };
    };
    await using session = await openSession(twice, {
      mcpServers: calc(add),
      hooks: {
        PreToolUse: [
          {
            matcher: "mcp__calc__.*",
            hooks: [
              ({ tool_input: input }) => ({
                hookSpecificOutput: {
                  hookEventName: "PreToolUse",
                  permissionDecision: JSON.stringify(input) === '{"a":15,"b":27}' ? "allow" : "deny",
                  permissionDecisionReason: "zeros are boring",
                },
              }),
            ],
          },
        ],
        PostToolUse: [
          {
            matcher: "mcp__calc__.*",
            hooks: [
              ({ tool_name: name, tool_response: response }) => {
                seen.push([name, JSON.stringify(response)]);
              },
            ],
          },
        ],
      },
    });
    await session.run("Add.");
    expect(seen).toEqual([["mcp__calc__add", expect.stringContaining("42")]]);
    const results = session.api.requests.at(-1)?.toolResults;
    expect(JSON.stringify(results?.get("toolu_1"))).toContain("zeros are boring");
  });
});

describe("the real CLI and its control requests", () => {
  it("[IP-047] cancels a running call on interrupt, and the agent goes on", async () => {
    const started = Promise.withResolvers<void>();
    const aborted = Promise.withResolvers<void>();
    const forever = tool("add", "", nothing, async (_args, { signal }) => {
      started.resolve();
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      aborted.resolve();
      return "too late";
    });
    await using session = await openSession(script, {
      mcpServers: calc(forever),
      allowedTools: ["mcp__calc"],
    });
    await using agent = await session.start();
    const turn = agent.ask("Add.");
    await started.promise;
    await agent.interrupt();
    await aborted.promise;
    expect((await turn).ok).toBe(false);
    expect(await agent.ask("And now?")).toMatchObject({ ok: true, text: "done" });
    expect(session.warnings).toEqual([]);
  });

  it("[IP-059] goes on beside a server that fails, and tries that one again", async () => {
    let tries = 0;
    const broken = () => {
      tries += 1;
      throw new Error("no database");
    };
    await using session = await openSession(script, {
      mcpServers: { ...calc(add), broken: { type: "sdk", name: "broken", factory: broken } },
      allowedTools: ["mcp__calc"],
    });
    await using agent = await session.start();
    expect(await agent.ask("Add.")).toMatchObject({ ok: true });
    const states = (await agent.servers.status()).map(({ name, status }) => [name, status]);
    expect(Object.fromEntries(states)).toEqual({ calc: "connected", broken: "failed" });
    const before = tries;
    expect(await agent.ask("Again.")).toMatchObject({ ok: true });
    expect(tries).toBeGreaterThan(before);
  });

  it("[IP-021, IP-028, IP-037] switches, adds, replaces and removes servers", async () => {
    await using session = await openSession(() => ({ text: "done" }), { mcpServers: calc(add) });
    await using agent = await session.start();
    expect(await agent.servers.ready("calc")).toMatchObject({ status: "connected" });
    await agent.servers.toggle("calc", false);
    const stateOf = async (key: string) => (await agent.servers.status()).find(({ name }) => name === key)?.status;
    expect(await stateOf("calc")).toBe("disabled");
    await agent.servers.toggle("calc", true);
    expect(await agent.servers.ready("calc")).toMatchObject({ status: "connected" });

    const other = { other: { type: "sdk", name: "other", instance: server(add) } } as const;
    expect(await agent.servers.add(other)).toMatchObject({ added: ["other"] });
    await agent.servers.ready("other");
    expect(await stateOf("calc")).toBe("connected");
    const renamed = tool("plus", "Adds", nothing, () => "");
    expect(await agent.servers.add(calc(renamed))).toMatchObject({ added: ["calc"], removed: ["calc"] });
    await agent.servers.ready("calc");
    expect(await agent.ask("Look.")).toMatchObject({ ok: true });
    const names = session.api.requests.at(-1)?.toolNames;
    expect(names?.toSorted()).toEqual(["mcp__calc__plus", "mcp__other__add"]);
    expect(await agent.servers.remove("calc")).toMatchObject({ removed: ["calc"] });
    expect(await stateOf("calc")).toBeUndefined();
    await agent.setPermissionMode("acceptEdits");
    expect(await agent.ask("Look again.")).toMatchObject({ ok: true });
    expect(session.api.requests.at(-1)?.toolNames).toEqual(["mcp__other__add"]);
  });

  it("[IP-019] takes the handshake beforehand and sends only the call", async () => {
    await using session = await openSession(script, {
      mcpServers: calc(add),
      sendManifests: true,
      allowedTools: ["mcp__calc"],
    });
    await using agent = await session.start();
    expect(agent.info["sdk_mcp_manifests_parked"]).toEqual({ calc: "parked" });
    expect(await agent.ask("Add.")).toMatchObject({ ok: true });
    expect(JSON.stringify(session.api.requests.at(-1)?.toolResults.get("toolu_0"))).toContain("42");
  });

  it("[IP-017] takes servers from its configuration too", async () => {
    await using session = await openSession(script, {
      mcpServers: calc(add),
      announce: "mcp-config",
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Add.")).result.ok).toBe(true);
    expect(JSON.stringify(session.api.requests.at(-1)?.toolResults.get("toolu_0"))).toContain("42");
  });

  it("[IP-018] does not offer a tool that is always denied, and asks where it must", async () => {
    const asked: string[] = [];
    const never = tool("never", "", nothing, () => "");
    const toolPolicies: readonly ToolPolicy[] = [
      { name: "never", permission: "always_deny" },
      { name: "add", permission: "always_ask" },
    ];
    await using session = await openSession(script, {
      mcpServers: { calc: { ...calc(add, never).calc, toolPolicies } },
      allowedTools: ["mcp__calc"],
      canUseTool: ({ toolName }) => {
        asked.push(toolName);
        return { behavior: "allow" };
      },
    });
    expect((await session.run("Add.")).result.ok).toBe(true);
    expect(session.api.requests[0]?.toolNames).toEqual(["mcp__calc__add"]);
    expect(asked).toEqual(["mcp__calc__add"]);
  });

  it("[IP-046] declares no capabilities; it answers pings and refuses the rest", async () => {
    const answers: unknown[] = [];
    const instance = server();
    const curious = createServer("Curious", "1", {
      alwaysLoad: true,
      tools: [
        tool("add", "", nothing, async () => {
          answers.push(curious.server.getClientCapabilities());
          answers.push(await curious.server.ping());
          answers.push(await curious.server.listRoots().catch((error: unknown) => error));
        }),
      ],
    });
    await using session = await openSession(script, {
      mcpServers: {
        calc: { type: "sdk", name: "calc", instance: curious },
        plain: { type: "sdk", name: "plain", instance },
      },
      allowedTools: ["mcp__calc"],
    });
    expect((await session.run("Ask.")).result.ok).toBe(true);
    expect(answers).toEqual([{}, {}, expect.objectContaining({ code: -32601 })]);
  });

  it("[IP-078] ends with its signal while a call runs", async () => {
    const started = Promise.withResolvers<void>();
    const controller = new AbortController();
    const forever = tool("add", "", nothing, async (_args, { signal }) => {
      started.resolve();
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
    });
    await using session = await openSession(script, {
      mcpServers: calc(forever),
      allowedTools: ["mcp__calc"],
      signal: controller.signal,
    });
    const outcome = session.run("Add.").catch((error: unknown) => error);
    await started.promise;
    controller.abort();
    expect(await outcome).toMatchObject({ code: "aborted" });
  });
});
