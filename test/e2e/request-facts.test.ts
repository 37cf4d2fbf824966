import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { describe, expect, it } from "vitest";

import { createEverythingServer } from "../fixtures/everything/server.ts";
import { openGateway } from "../support/local-gateway.ts";

const everything = { server: () => createEverythingServer() };
const requestInit = { headers: { "x-team": "red" } };

/** The outcome of a call over one of the endpoints of a gateway with this rule. */
async function outcomeOf(endpoint: "mcp" | "sse", rule: string): Promise<"passed" | "refused"> {
  await using gateway = await openGateway({
    routes: { facts: { upstream: everything, forwardHeaders: ["x-team"] } },
    policy: {
      rules: [
        { id: "facts", deny: `mcp.method == "tools/call" && (${rule})` },
        { id: "rest", allow: "true" },
      ],
    },
  });
  const url = new URL(`${gateway.origin}/facts/${endpoint}`);
  const transport =
    endpoint === "mcp"
      ? new StreamableHTTPClientTransport(url, { requestInit })
      : new SSEClientTransport(url, { requestInit });
  const client = new Client({ name: "facts", version: "1.0.0" });
  await client.connect(transport);
  try {
    const { isError } = await client.callTool({ name: "test_simple_text", arguments: {} });
    return isError === true ? "refused" : "passed";
  } catch {
    return "refused";
  } finally {
    await client.close();
  }
}

describe("rules on how a request arrived", () => {
  const rules = [
    { rule: 'request.peer.startsWith("127.")', outcome: "refused" },
    { rule: 'request.peer == ""', outcome: "passed" },
    { rule: 'request.peer.startsWith("10.")', outcome: "passed" },
    { rule: 'request.method == "POST"', outcome: "refused" },
    { rule: 'request.method != "POST"', outcome: "passed" },
    { rule: 'request.path in ["/facts/mcp", "/facts/messages"]', outcome: "refused" },
    { rule: 'request.path.contains("sessionId")', outcome: "passed" },
    { rule: '"x-team" in request.headers && request.headers["x-team"] == "red"', outcome: "refused" },
    { rule: '!("x-team" in request.headers)', outcome: "passed" },
    // A header that is not there is unknown, so the rule fails.
    { rule: 'request.headers["x-other"] == "blue"', outcome: "refused" },
  ];
  const ways = (["mcp", "sse"] as const).flatMap((endpoint) => rules.map((each) => ({ endpoint, ...each })));

  it.each(ways)("hold at /$endpoint: $rule", async ({ endpoint, rule, outcome }) => {
    expect(await outcomeOf(endpoint, rule)).toBe(outcome);
  });
});
