import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createAgentServers } from "./agent-servers.ts";
import { bridgeControlChannel } from "../control/control-bridge.ts";
import type { AgentError } from "../errors.ts";
import type { UnknownRecord } from "../json-rpc.ts";
import { checkServers, type ServerConfig } from "../tools/server-config.ts";
import { createServer } from "../tools/server.ts";
import { tool } from "../tools/tool.ts";

const server = (name: string, toolName = "t"): ServerConfig => ({
  type: "sdk",
  name,
  instance: createServer(name, "1.0.0", { tools: [tool(toolName, "T", z.object({}), () => "ok")] }),
});

/** Servers on a CLI that takes each set, or refuses it. */
async function open(start: Readonly<Record<string, ServerConfig>> = {}) {
  const sets: (readonly string[])[] = [];
  const warnings: AgentError[] = [];
  let refusal: Error | undefined;
  const initial = checkServers(start);
  const bridge = await bridgeControlChannel({ servers: start, send: async () => {} });
  const channel = {
    request: async ({ servers }: UnknownRecord): Promise<UnknownRecord> => {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      if (refusal !== undefined) throw refusal;
      const before = sets.at(-1) ?? Object.keys(start);
      const now = Object.keys(Object(servers));
      sets.push(now);
      return {
        added: now.filter((key) => !before.includes(key)),
        removed: before.filter((key) => !now.includes(key)),
        errors: {},
      };
    },
  };
  const servers = createAgentServers({
    channel: channel as unknown as Parameters<typeof createAgentServers>[0]["channel"],
    bridge,
    initial,
    onWarning: (warning) => warnings.push(warning),
  });
  return {
    servers,
    bridge,
    sets,
    warnings,
    refuse: (error: Error | undefined) => {
      refusal = error;
    },
  };
}

describe("the servers of an agent", () => {
  it("change one after the other, so that none is lost", async () => {
    const { servers, sets } = await open();
    const changes = await Promise.all([servers.add({ a: server("a") }), servers.add({ b: server("b") })]);
    expect(changes.map(({ removed }) => removed)).toEqual([[], []]);
    expect(sets.at(-1)).toEqual(["a", "b"]);
    await Promise.all([servers.remove("a"), servers.add({ c: server("c") })]);
    expect(sets.at(-1)).toEqual(["b", "c"]);
  });

  it("are added all or none, and a failed add can be repeated", async () => {
    const { servers, bridge, sets } = await open();
    const busy = server("busy");
    await (await open()).servers.add({ busy });
    const good = server("good");
    await expect(servers.add({ good, busy })).rejects.toMatchObject({ code: "instance_in_use" });
    expect([bridge.has("good"), sets]).toEqual([false, []]);
    await servers.add({ good });
    expect([bridge.has("good"), sets.at(-1)]).toEqual([true, ["good"]]);
  });

  it("are as before when the CLI refuses a change, also those that would have been replaced", async () => {
    const old = server("a", "old");
    const { servers, bridge, sets, refuse, warnings } = await open({ a: old });
    refuse(new Error("no"));
    await expect(servers.add({ a: server("a"), b: server("b") })).rejects.toThrow("no");
    refuse(undefined);
    expect([bridge.has("a"), bridge.has("b")]).toEqual([true, false]);
    const busy = server("busy");
    await (await open()).servers.add({ busy });
    await expect(servers.add({ a: server("a"), busy })).rejects.toMatchObject({ code: "instance_in_use" });
    expect([bridge.has("a"), bridge.has("busy"), sets.at(-1), warnings]).toEqual([true, false, ["a"], []]);
    const listed = await bridge.answerText("a", JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }));
    expect(listed).toContain('"old"');
  });

  it("refuse always_allow on a running agent, where the CLI would ignore it", async () => {
    const { servers } = await open();
    const config: ServerConfig = {
      type: "sdk",
      name: "a",
      instance: createServer("a", "1"),
      toolPolicies: [{ name: "t", permission: "always_allow" }],
    };
    await expect(servers.add({ a: config })).rejects.toThrow("put the tool into allowedTools");
  });
});
