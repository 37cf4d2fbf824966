import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { aboutRequests, aboutResponses } from "../../examples/pingauthorize/policies.ts";
import { openGateway } from "../support/local-gateway.ts";
import { startMockPingAuthorize } from "../support/mock-pingauthorize.ts";
import { startProcess } from "../support/process.ts";
import { connectV2 } from "../support/v2-client.ts";

const root = resolve(import.meta.dirname, "../..");
const upstream = { command: process.execPath, args: [resolve(root, "examples/pingauthorize/server.ts")] };

describe("PingAuthorize in the configuration of a gateway", () => {
  it("runs the example end to end", async () => {
    await using example = await startProcess([process.execPath, resolve(root, "examples/pingauthorize/run.ts")]);
    const { code } = await example.exited;
    expect([code, example.output()]).toEqual([0, expect.stringContaining("every policy did what it says")]);
  });

  it("[PA-142] [PA-143] [PA-144] [PA-187] counts for each route what its own decision point was asked", async () => {
    const secret = { header: "CLIENT-TOKEN", value: "s" };
    const mock = await startMockPingAuthorize({
      secret,
      onRequest: aboutRequests,
      onResponse: aboutResponses,
    });
    const pingAuthorize = (serviceUrl: string) => ({
      serviceUrl,
      sharedSecret: secret.value,
      secretHeaderName: secret.header,
      retries: 1,
      retryBackoff: 1,
    });
    await using gateway = await openGateway({
      routes: {
        up: { upstream, policy: { pingAuthorize: pingAuthorize(mock.url), refusals: "ping" } },
        // Nobody listens on that port of this machine.
        down: { upstream, policy: { pingAuthorize: pingAuthorize("http://127.0.0.1:1"), refusals: "ping" } },
      },
    });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/up/mcp` }, "2025-11-25");
    await expect(client.sdk.callTool({ name: "close_account", arguments: { owner: "Eve" } })).rejects.toThrow(
      "closed at the counter",
    );
    await expect(connectV2({ via: "http", url: `${gateway.origin}/down/mcp` }, "2025-11-25")).rejects.toThrow(
      /unavailable/u,
    );
    const figures = gateway.gateway.metrics();
    expect(figures).toMatch(/ping_authorize_sideband_total\{route="up",phase="access",result="deny"\} 1\n/u);
    expect(figures).toMatch(/ping_authorize_policy_decisions_total\{route="up",decision="allow"\} [1-9]/u);
    expect(figures).toMatch(/ping_authorize_sideband_duration_ms_count\{route="up",phase="response"\} [1-9]/u);
    expect(figures).toContain('ping_authorize_circuit_breaker_state{route="up"} 0\n');
    expect(figures).toContain('ping_authorize_circuit_breaker_state{route="down"} 1\n');
    expect(figures).toContain('mcp_tool_calls_total{route="up",tool="close_account"} 1\n');
    expect(figures).toMatch(/headgate_policy_retries_total\{route="down"\} [1-9]/u);
    await mock.close();
  });
});
