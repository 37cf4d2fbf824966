import { describe, expect, it } from "vitest";
import { z } from "zod";

import { initialize, openBridge, request, toolCall } from "../../../test/support/agent-kit/control-client.ts";
import { captureManifests } from "./agent-servers.ts";
import { createServer } from "../tools/server.ts";
import { tool } from "../tools/tool.ts";

const echo = tool("echo", "Echoes", z.object({ text: z.string() }), ({ text }) => text);

describe("captureManifests", () => {
  it("[IP-019] holds the results of the handshake, and the server still answers a full one", async () => {
    await using watched = await openBridge({
      echo: { type: "sdk", name: "echo", instance: createServer("Echo", "1", { tools: [echo] }) },
      bare: { type: "sdk", name: "bare", factory: () => createServer("Bare", "1") },
      broken: {
        type: "sdk",
        name: "broken",
        factory: () => {
          throw new Error("not today");
        },
      },
    });
    const manifests = await captureManifests(watched.bridge, ["echo", "bare", "broken"]);
    expect(manifests).toEqual({
      echo: {
        initializeResult: expect.objectContaining({
          protocolVersion: "2025-11-25",
          serverInfo: expect.objectContaining({ name: "Echo" }),
        }),
        toolsListResult: { tools: [expect.objectContaining({ name: "echo" })] },
      },
      bare: { initializeResult: expect.objectContaining({ protocolVersion: "2025-11-25" }) },
    });
    const live = await watched.ask("echo", toolCall(2, "echo", { text: "straight to the call" }));
    expect(live).toMatchObject({ result: { content: [{ text: "straight to the call" }] } });
    expect(await watched.ask("echo", initialize())).toMatchObject({
      id: 0,
      result: { protocolVersion: "2025-11-25" },
    });
    expect(await watched.ask("echo", request(1, "tools/list"))).toMatchObject({
      result: { tools: [{ name: "echo" }] },
    });
  });
});
