import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { Revision } from "../../src/protocol/revisions.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import { nextMessage, openSession, toolCall } from "../support/legacy-session.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import type { Peer, PeerClient } from "../support/peer-client.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

let fixture: RunningFixture;
let gateway: LocalGateway;

beforeAll(async () => {
  fixture = await startFixture({ era: "modern" });
  const [command, ...args] = stdioFixture({ era: "modern" });
  gateway = await openGateway({
    routes: {
      streamable: { upstream: { url: fixture.url, transport: "streamable-http" } },
      stdio: { upstream: { command, args } },
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
const methodsOf = ({ notified }: PeerClient): string[] => notified.map(({ method }) => method);

const clients: readonly {
  readonly who: string;
  readonly revision: Revision;
  readonly connect: (route: string) => Promise<PeerClient>;
}[] = [
  { who: "SDK v1 over HTTP", revision: "2025-11-25", connect: async (route) => connectV1(overHttp(route)) },
  {
    who: "SDK v1 over HTTP+SSE",
    revision: "2025-11-25",
    connect: async (route) => connectV1(overSse(route)),
  },
  {
    who: "SDK v2 over HTTP",
    revision: "2025-11-25",
    connect: async (route) => connectV2(overHttp(route), "2025-11-25"),
  },
  {
    who: "SDK v2 over HTTP",
    revision: "2025-06-18",
    connect: async (route) => connectV2(overHttp(route), "2025-06-18"),
  },
];

describe.each(["streamable", "stdio"])("a modern-only %s server", (route) => {
  describe.each(clients)("used by $who at $revision", ({ revision, connect }) => {
    it("shakes hands, lists, calls, reads and prompts", async () => {
      await using client = await connect(route);
      expect(client.revision).toBe(revision);
      expect(await client.listTools()).toContain("test_simple_text");
      expect((await client.callTool("test_simple_text")).texts).toEqual([
        "This is a simple text response for testing.",
      ]);
      expect((await client.callTool("test_error_handling")).isError).toBe(true);
      expect(await client.readResource("test://static-text")).toHaveLength(1);
      expect(await client.getPrompt("test_simple_prompt")).toHaveLength(1);
    });

    it("asks the client, its user and its model, in as many rounds as it needs", async () => {
      await using client = await connect(route);
      const call = async (name: string, args = {}) => (await client.callTool(name, { args })).texts;
      expect(await call("test_elicitation", { message: "Who?" })).toEqual([
        'User response: action=accept, content={"response":"Ada"}',
      ]);
      expect(await call("test_sampling", { prompt: "Capital?" })).toEqual(["LLM response: Paris"]);
      expect(await call("test_input_required_result_list_roots")).toEqual(["Client roots: file:///tests"]);
      expect(await call("test_input_required_result_request_state")).toEqual([expect.stringContaining("state-ok")]);
      expect(await call("test_input_required_result_multi_round")).toEqual(["Multi-round complete: Ada likes Ada"]);
      expect(client.asked).toEqual([
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
        "elicitation/create",
        "elicitation/create",
        "elicitation/create",
      ]);
    });

    it("reports progress", async () => {
      await using client = await connect(route);
      const steps: number[] = [];
      await client.callTool("test_tool_with_progress", { onProgress: (step) => steps.push(step) });
      expect(steps).toEqual([0, 50, 100]);
    });
  });

  it("tells logs at the level that the session set", async () => {
    await using client = await connectV2(overHttp(route), "2025-11-25");
    await client.callTool("test_tool_with_logging");
    expect(methodsOf(client)).toEqual([]);
    await client.sdk.setLoggingLevel("debug");
    await client.callTool("test_tool_with_logging");
    await expect.poll(() => methodsOf(client)).toEqual(Array(3).fill("notifications/message"));
  });

  it("tells changes of lists", async () => {
    await using client = await connectV2(overHttp(route), "2025-11-25");
    // The stream for such messages is opened beside the handshake; a change before that is told to nobody.
    await expect
      .poll(async () => {
        await client.callTool("test_trigger_tool_change");
        return methodsOf(client);
      })
      .toContain("notifications/tools/list_changed");
    expect(new Set(methodsOf(client))).toEqual(new Set(["notifications/tools/list_changed"]));
  });

  it("gets the arguments that it wants in headers", async () => {
    await using client = await connectV1(overHttp(route));
    const { texts } = await client.callTool("test_x_mcp_header", { args: { region: "nörd" } });
    expect(texts).toEqual(["region=nörd"]);
  });

  it("stops when the client cancels", async () => {
    await using client = await connectV1(overHttp(route));
    const key = `bridged-${route}`;
    const controller = new AbortController();
    const held = client.callTool("test_hold", {
      args: { key },
      onProgress: () => {
        controller.abort("enough");
      },
      signal: controller.signal,
    });
    await expect(held).rejects.toThrow("enough");
    expect((await client.callTool("test_hold_outcome", { args: { key } })).texts).toEqual(["cancelled"]);
  });
});

describe("subscriptions of a legacy client", () => {
  it("are told of until they end, and to no other session", async () => {
    await using client = await connectV2(overHttp("streamable"), "2025-11-25");
    await using other = await connectV1(overHttp("streamable"));
    await client.sdk.subscribeResource({ uri });
    await other.callTool("test_trigger_resource_update");
    await expect.poll(() => client.notified).toEqual([{ method: "notifications/resources/updated", params: { uri } }]);
    await client.sdk.unsubscribeResource({ uri });
    await other.callTool("test_trigger_resource_update");
    await other.callTool("test_trigger_tool_change");
    await expect
      .poll(() => methodsOf(client))
      .toEqual(["notifications/resources/updated", "notifications/tools/list_changed"]);
    expect(methodsOf(other)).toEqual(["notifications/tools/list_changed"]);
  });
});

describe("a legacy client by hand", () => {
  it("is asked on the stream of its call, and answers with a post of its own", async () => {
    const session = await openSession(`${gateway.origin}/streamable/mcp`);
    const stream = await session.stream(toolCall(7, "test_elicitation", { arguments: { message: "Who?" } }));
    const question = (await nextMessage(stream)) as { id: string; method: string };
    expect(question).toMatchObject({ method: "elicitation/create", params: { message: "Who?" } });
    const answer = { jsonrpc: "2.0", id: question.id, result: { action: "decline" } };
    expect((await session.post(answer)).status).toBe(202);
    expect(await nextMessage(stream)).toEqual({
      jsonrpc: "2.0",
      id: 7,
      result: { content: [{ type: "text", text: "User response: action=decline, content={}" }] },
    });
    await session.end();
  });

  it("gets an error that names what it lacks, never a status that means a lost session", async () => {
    const session = await openSession(`${gateway.origin}/streamable/mcp`);
    const unknown = await session.post({ jsonrpc: "2.0", id: 1, method: "vendor/unknown" });
    expect([unknown.status, unknown.json]).toEqual([
      200,
      { jsonrpc: "2.0", id: 1, error: expect.objectContaining({ code: -32601 }) },
    ]);
    const missing = await session.post({
      jsonrpc: "2.0",
      id: 2,
      method: "resources/read",
      params: { uri: "test://none" },
    });
    expect([missing.status, missing.json]).toEqual([
      200,
      { jsonrpc: "2.0", id: 2, error: expect.objectContaining({ code: -32602 }) },
    ]);
    await session.end();
  });
});
