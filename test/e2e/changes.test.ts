import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import type { Peer } from "../support/peer-client.ts";
import { connectV2, type V2Client } from "../support/v2-client.ts";

let fixture: RunningFixture;
let gateway: LocalGateway;

beforeAll(async () => {
  fixture = await startFixture({ era: "dual" });
  const [command, ...args] = stdioFixture({ era: "dual" });
  gateway = await openGateway({
    routes: {
      streamable: { upstream: { url: fixture.url, transport: "streamable-http" } },
      "http-sse": { upstream: { url: fixture.sseUrl ?? "", transport: "sse" } },
      stdio: { upstream: { command, args } },
      "in-process": { upstream: { server: () => createEverythingServer() } },
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await fixture[Symbol.asyncDispose]();
});

const overHttp = (route: string): Peer => ({ via: "http", url: `${gateway.origin}/${route}/mcp` });
const overSse = (route: string): Peer => ({ via: "sse", url: `${gateway.origin}/${route}/sse` });
const uri = "test://watched-resource";
const updated = { method: "notifications/resources/updated", params: { uri } };
const methodsOf = ({ notified }: V2Client): string[] => notified.map(({ method }) => method);

describe.each(["streamable", "http-sse", "stdio", "in-process"])(
  "what a legacy %s server tells on its own",
  (route) => {
    it.each([
      { client: "Streamable HTTP", peer: overHttp, revision: newestLegacy },
      { client: "HTTP+SSE", peer: overSse, revision: "2024-11-05" as const },
    ])("reaches the session that subscribed, over $client, and no other", async ({ peer, revision }) => {
      await using subscriber = await connectV2(peer(route), revision);
      await using other = await connectV2(peer(route), revision);
      await subscriber.sdk.subscribeResource({ uri });
      // Every session has a server of its own, so each gets its own changes only.
      await other.callTool("test_trigger_resource_update");
      await subscriber.callTool("test_trigger_resource_update");
      await expect.poll(() => subscriber.notified).toEqual([updated]);
      expect(other.notified).toEqual([]);
      await subscriber.sdk.unsubscribeResource({ uri });
      await subscriber.callTool("test_trigger_resource_update");
      await subscriber.callTool("test_trigger_tool_change");
      await expect.poll(() => methodsOf(subscriber)).toContain("notifications/tools/list_changed");
      expect(methodsOf(subscriber).filter((method) => method === updated.method)).toHaveLength(1);
    });
  },
);

describe.each(["streamable", "stdio", "in-process"])("what a modern %s server tells on its own", (route) => {
  it("[SC-057] reaches those who listen, and only what they listen for, until they stop", async () => {
    await using client = await connectV2(overHttp(route), newestModern);
    await using other = await connectV2(overHttp(route), newestModern);
    const tools = await client.sdk.listen({ toolsListChanged: true });
    const prompts = await other.sdk.listen({ promptsListChanged: true });
    await client.callTool("test_trigger_tool_change");
    await client.callTool("test_trigger_prompt_change");
    await expect.poll(() => methodsOf(client)).toEqual(["notifications/tools/list_changed"]);
    await expect.poll(() => methodsOf(other)).toEqual(["notifications/prompts/list_changed"]);
    await tools.close();
    await other.callTool("test_trigger_tool_change");
    await other.callTool("test_trigger_prompt_change");
    await expect.poll(() => other.notified.length).toBe(2);
    expect(client.notified).toHaveLength(1);
    await prompts.close();
  });
});

describe("a call that ends its own stream", () => {
  it("is waited for by asking again, through the gateway too (2025-11-25, polling)", async () => {
    await using client = await connectV2(overHttp("streamable"), newestLegacy);
    expect((await client.callTool("test_reconnection")).texts).toEqual(["Reconnection test completed successfully."]);
  });
});

describe("many clients at once", () => {
  it.each(["streamable", "stdio", "in-process"])(
    "[SC-059, SC-082] get their own answers and progress from one %s server, though their ids are the same",
    async (route) => {
      const clients = await Promise.all(
        Array.from({ length: 8 }, async () => connectV2(overHttp(route), newestModern)),
      );
      const outcomes = await Promise.all(
        clients.map(async (client, number) => {
          const steps: number[] = [];
          const [progressed, read] = await Promise.all([
            client.callTool("test_tool_with_progress", { onProgress: (step) => steps.push(step) }),
            client.readResource(`test://template/${number}/data`),
          ]);
          return { isError: progressed.isError, steps, read };
        }),
      );
      expect(outcomes).toEqual(
        clients.map((_client, number) => ({
          isError: false,
          steps: [0, 50, 100],
          read: [`{"id":"${number}","templateTest":true,"data":"Data for ID: ${number}"}`],
        })),
      );
      await Promise.all(clients.map(async (client) => client[Symbol.asyncDispose]()));
    },
  );
});
