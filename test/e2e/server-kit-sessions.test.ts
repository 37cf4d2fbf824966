import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, it } from "vitest";
import { z } from "zod";

import { defineTool, listen } from "../../src/server-kit/index.ts";
import { createTestKit } from "../support/server-kit.ts";

const Wait = defineTool({
  name: "wait",
  description: "Answers when it is cancelled.",
  input: z.object({}),
  run: async (_, { signal }) =>
    new Promise<string>((resolve) => {
      signal.addEventListener("abort", () => resolve("cancelled"));
    }),
});
const Echo = defineTool({
  name: "echo",
  description: "Repeats a text.",
  input: z.object({ text: z.string() }),
  run: ({ text }) => text,
});

const connects = 1000;

// Official clients send no DELETE on `close()`, so every connect leaves a session behind.
it(`stays healthy through ${connects} connects and cancelled calls of 2025 clients`, { timeout: 240_000 }, async () => {
  await using kit = await createTestKit({ tools: [Wait, Echo] });
  await using server = await listen(kit, { port: 0 });
  for (let round = 0; round < connects; round += 1) {
    const client = new Client({ name: "t", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)));
    const cancel = new AbortController();
    const cancelled = client.callTool({ name: "wait", arguments: {} }, undefined, { signal: cancel.signal });
    cancel.abort("enough");
    await expect(cancelled).rejects.toThrow("enough");
    if (round % 50 === 0) {
      const { content } = await client.callTool({ name: "echo", arguments: { text: `round ${round}` } });
      expect(content).toEqual([{ type: "text", text: `round ${round}` }]);
    }
    await client.close();
  }
  expect(await kit.health()).toMatchObject({ status: "healthy" });
  expect(kit.core.streamableSessions().open).toBeLessThanOrEqual(100);
});

it("keeps no more of large answers for resuming than its bounds", async () => {
  const Big = defineTool({
    name: "big",
    description: "Answers with a text of 300 KB.",
    input: z.object({}),
    run: () => "x".repeat(300_000),
  });
  await using kit = await createTestKit({ tools: [Big], settings: { transport: { maxResumeBytesTotal: 2_000_000 } } });
  await using server = await listen(kit, { port: 0 });
  for (let count = 0; count < 5; count += 1) {
    const client = new Client({ name: "t", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)));
    for (let call = 0; call < 20; call += 1) await client.callTool({ name: "big", arguments: {} });
    const { resumeBytes } = kit.core.streamableSessions();
    expect(resumeBytes).toBeGreaterThan(300_000);
    expect(resumeBytes).toBeLessThanOrEqual(2_000_000);
    await client.close();
  }
});
