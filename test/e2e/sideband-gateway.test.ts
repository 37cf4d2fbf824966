import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { aboutRequests, aboutResponses } from "../../examples/pingauthorize/policies.ts";
import { systemClock, systemTimer } from "../../src/core/exchange.ts";
import { sidebandConfig } from "../../src/policy/sideband/config.ts";
import { createSidebandProvider } from "../../src/policy/sideband/provider.ts";
import { openGateway } from "../support/local-gateway.ts";
import { startMockPingAuthorize } from "../support/mock-pingauthorize.ts";
import { connectV2 } from "../support/v2-client.ts";

const secret = { header: "CLIENT-TOKEN", value: "s3cret" };
const server = resolve(import.meta.dirname, "../../examples/pingauthorize/server.ts");

async function start(failOpen = false) {
  const mock = await startMockPingAuthorize({ secret, onRequest: aboutRequests, onResponse: aboutResponses });
  const config = sidebandConfig.parse({
    serviceUrl: mock.url,
    sharedSecret: secret.value,
    secretHeaderName: secret.header,
    publicUrl: "https://mcp.example.com",
  });
  const provider = createSidebandProvider(config, {
    clock: systemClock,
    setTimer: systemTimer,
    log: () => {},
    failOpen,
  });
  const gateway = await openGateway(
    { upstream: { command: process.execPath, args: [server] }, policy: { refusals: "ping" } },
    { policies: { default: provider } },
  );
  return {
    mock,
    gateway,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await mock.close();
    },
  };
}

describe.each(["2025-11-25", "2026-07-28"] as const)("a gateway that asks PingAuthorize, clients of %s", (revision) => {
  it("[PA-183] hides, changes and refuses what the policies say", async () => {
    await using started = await start();
    await using client = await connectV2({ via: "http", url: started.gateway.url }, revision);
    const { sdk } = client;
    const names = (await sdk.listTools()).tools.map(({ name }) => name);
    expect(names).toEqual(["read_account", "transfer"]);
    const moved = await sdk.callTool({ name: "transfer", arguments: { to: "Eve", amount: 5000 } });
    expect(moved.content).toEqual([{ type: "text", text: "moved 100 to Eve" }]);
    const read = await sdk.callTool({ name: "read_account", arguments: { owner: "Eve" } });
    expect(read.content).toEqual([{ type: "text", text: "Eve has 1200 and the PIN (hidden)" }]);
    await expect(sdk.callTool({ name: "close_account", arguments: { owner: "Eve" } })).rejects.toThrow(
      "closed at the counter",
    );
    const call = started.mock.requests.find(({ payload }) => Object(payload["mcp"]).mcp_tool_name === "transfer");
    expect(call?.payload).toMatchObject({ method: "POST", url: "https://mcp.example.com:443/mcp" });
  });

  it.each([false, true])(
    "[PA-123] [PA-095] does without PingAuthorize only when told so: fail-open %s",
    async (failOpen) => {
      await using started = await start(failOpen);
      await using client = await connectV2({ via: "http", url: started.gateway.url }, revision);
      await started.mock.close();
      const read = client.sdk.callTool({ name: "read_account", arguments: { owner: "Eve" } });
      if (failOpen) expect((await read).content).toEqual([{ type: "text", text: "Eve has 1200 and the PIN 4711" }]);
      else await expect(read).rejects.toThrow("unavailable");
    },
  );
});
