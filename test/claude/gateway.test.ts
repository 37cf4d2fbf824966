import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createServer, tool, type OfflineScript } from "../../src/agent-kit/index.ts";
import { serveDemo } from "../support/demo-http.ts";
import { openGateway } from "../support/local-gateway.ts";
import { openSession } from "./session.ts";

const script: OfflineScript = ({ index }) =>
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
  it("[IP-016] calls tools through the gateway, and through its policy, beside one of this process", async () => {
    await using demo = await serveDemo();
    await using gateway = await openGateway({
      upstream: { url: `${demo.origin}/legacy` },
      policy: {
        rules: [{ deny: 'mcp.tool == "add" && mcp.arguments.a > 100', reason: "no big sums here" }, { allow: "true" }],
      },
    });
    const where = tool("where", "", z.object({}), () => process.pid);
    await using session = await openSession(script, {
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
