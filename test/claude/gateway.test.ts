import { join } from "node:path";

import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createServer, tool, type OfflineScript } from "../../src/agent-kit/index.ts";
import { serveDemo } from "../support/demo-http.ts";
import { openGateway } from "../support/local-gateway.ts";
import { startRealServers } from "../support/real-servers.ts";
import { openSession } from "./session.ts";

const sums: OfflineScript = ({ index }) =>
  index === 0
    ? {
        toolUses: [
          { id: "toolu_0", name: "mcp__gate__add", input: { a: 15, b: 27 } },
          { id: "toolu_1", name: "mcp__gate__add", input: { a: 150, b: 27 } },
          { id: "toolu_2", name: "mcp__own__where", input: {} },
        ],
      }
    : { text: "done" };

describe("the real CLI behind the gateway", () => {
  it("calls tools of real servers behind one endpoint", { timeout: 300_000 }, async ({ skip }) => {
    await using real = await startRealServers().catch((error: unknown) => skip(String(error)));
    await using gateway = await openGateway({
      routes: { all: { upstreams: real.upstreams, federation: { listing: { wait: "60s" } } } },
    });
    const calls = [
      { name: "everything__echo", input: { message: "hello" }, says: "Echo: hello" },
      { name: "files__read_text_file", input: { path: join(real.folder, "note.txt") }, says: "remember the milk" },
      ...(real.hasPython ? [{ name: "python__shout", input: { text: "hello" }, says: "HELLO!" }] : []),
      { name: "kit__TrialSite_List", input: { pageSize: 2 }, says: "items" },
    ];
    const script: OfflineScript = ({ index }) =>
      index === 0
        ? { toolUses: calls.map(({ name, input }, at) => ({ id: `toolu_${at}`, name: `mcp__gate__${name}`, input })) }
        : { text: "done" };
    await using session = await openSession(script, {
      mcpServers: { gate: { type: "http", url: gateway.url } },
      allowedTools: ["mcp__gate"],
    });
    await using agent = await session.start();
    expect(await agent.servers.ready("gate")).toMatchObject({ status: "connected" });
    expect(await agent.ask("Go.")).toMatchObject({ ok: true, text: "done" });
    const results = session.api.requests.at(-1)?.toolResults;
    for (const [at, { says }] of calls.entries()) expect(JSON.stringify(results?.get(`toolu_${at}`))).toContain(says);
  });

  it("[IP-016] calls tools through the gateway, and through its policy, beside one of this process", async () => {
    await using demo = await serveDemo();
    await using gateway = await openGateway({
      upstream: { url: `${demo.origin}/legacy` },
      policy: {
        rules: [{ deny: 'mcp.tool == "add" && mcp.arguments.a > 100', reason: "no big sums here" }, { allow: "true" }],
      },
    });
    const where = tool("where", "", z.object({}), () => process.pid);
    await using session = await openSession(sums, {
      mcpServers: {
        gate: { type: "http", url: gateway.url },
        own: { type: "sdk", name: "own", factory: () => createServer("Own", "1", { tools: [where] }) },
      },
      allowedTools: ["mcp__gate", "mcp__own"],
    });
    await using agent = await session.start();
    expect(await agent.servers.ready("gate")).toMatchObject({ status: "connected" });
    expect(await agent.ask("Go.")).toMatchObject({ ok: true, text: "done" });
    const results = session.api.requests.at(-1)?.toolResults;
    expect(JSON.stringify(results?.get("toolu_0"))).toContain("42");
    expect(results?.get("toolu_1")).toMatchObject({ is_error: true });
    expect(JSON.stringify(results?.get("toolu_1"))).toContain("no big sums here");
    expect(JSON.stringify(results?.get("toolu_2"))).toContain(String(process.pid));
  });
});
