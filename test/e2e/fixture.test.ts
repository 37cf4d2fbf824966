import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { newestLegacy, newestModern, type Revision } from "../../src/protocol/revisions.ts";
import { startFixture, stdioFixture, type RunningFixture } from "../support/fixture.ts";
import type { Peer, PeerClient } from "../support/peer-client.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

let fixture: RunningFixture;
beforeAll(async () => {
  fixture = await startFixture({ era: "dual" });
});
afterAll(async () => {
  await fixture[Symbol.asyncDispose]();
});

const overHttp = (): Peer => ({ via: "http", url: fixture.url });
const overSse = (): Peer => ({ via: "sse", url: fixture.sseUrl ?? "" });
const overStdio = (): Peer => ({ via: "stdio", command: stdioFixture({ era: "dual" }) });

interface Meeting {
  readonly who: string;
  readonly revision: Revision;
  readonly connect: () => Promise<PeerClient>;
}

const meetings: readonly Meeting[] = [
  {
    who: "SDK v2 over HTTP",
    revision: newestModern,
    connect: async () => connectV2(overHttp(), newestModern),
  },
  {
    who: "SDK v2 over HTTP",
    revision: newestLegacy,
    connect: async () => connectV2(overHttp(), newestLegacy),
  },
  {
    who: "SDK v2 over HTTP",
    revision: "2025-06-18",
    connect: async () => connectV2(overHttp(), "2025-06-18"),
  },
  {
    who: "SDK v2 over HTTP+SSE",
    revision: "2024-11-05",
    connect: async () => connectV2(overSse(), "2024-11-05"),
  },
  {
    who: "SDK v2 over stdio",
    revision: newestModern,
    connect: async () => connectV2(overStdio(), newestModern),
  },
  {
    who: "SDK v2 over stdio",
    revision: newestLegacy,
    connect: async () => connectV2(overStdio(), newestLegacy),
  },
  { who: "SDK v1 over HTTP", revision: newestLegacy, connect: async () => connectV1(overHttp()) },
  { who: "SDK v1 over HTTP+SSE", revision: newestLegacy, connect: async () => connectV1(overSse()) },
  { who: "SDK v1 over stdio", revision: newestLegacy, connect: async () => connectV1(overStdio()) },
];

describe.each(meetings)("the everything server and $who at $revision", ({ revision, connect }) => {
  it("do everything that a gateway has to carry", async () => {
    await using client = await connect();
    expect(client.revision).toBe(revision);
    expect(await client.listTools()).toContain("test_tool_with_progress");

    const steps: number[] = [];
    const called = await client.callTool("test_tool_with_progress", {
      onProgress: (progress) => steps.push(progress),
    });
    expect(called.isError).toBe(false);
    expect(steps).toEqual([0, 50, 100]);

    expect(await client.callTool("test_elicitation", { args: { message: "Who are you?" } })).toEqual({
      isError: false,
      texts: ['User response: action=accept, content={"response":"Ada"}'],
    });
    expect((await client.callTool("test_sampling", { args: { prompt: "Capital?" } })).texts).toEqual([
      "LLM response: Paris",
    ]);
    expect((await client.callTool("test_input_required_result_list_roots")).texts).toEqual([
      "Client roots: file:///tests",
    ]);
    expect(client.asked).toEqual(["elicitation/create", "sampling/createMessage", "roots/list"]);
    expect((await client.callTool("test_input_required_result_multi_round")).texts).toEqual([
      "Multi-round complete: Ada likes Ada",
    ]);

    expect((await client.callTool("test_error_handling")).isError).toBe(true);
    expect(await client.readResource("test://template/7/data")).toEqual([
      '{"id":"7","templateTest":true,"data":"Data for ID: 7"}',
    ]);
    expect(await client.getPrompt("test_prompt_with_arguments", { arg1: "a", arg2: "b" })).toEqual([
      "Prompt with arguments: arg1='a', arg2='b'",
    ]);
  });
});

describe("the everything server", () => {
  it("tells those who subscribed of a change, in both eras", async () => {
    const uri = "test://watched-resource";
    await using legacy = await connectV2(overStdio(), newestLegacy);
    await legacy.sdk.subscribeResource({ uri });
    await legacy.callTool("test_trigger_resource_update");
    await expect.poll(() => legacy.notified).toEqual([{ method: "notifications/resources/updated", params: { uri } }]);

    await using modern = await connectV2(overHttp(), newestModern);
    const subscription = await modern.sdk.listen({ toolsListChanged: true });
    await modern.callTool("test_trigger_prompt_change");
    await modern.callTool("test_trigger_tool_change");
    await expect.poll(() => modern.notified.map(({ method }) => method)).toEqual(["notifications/tools/list_changed"]);
    await subscription.close();
  });

  it("speaks one era only when told so", async () => {
    await using legacyOnly = await startFixture({ era: "legacy", newestLegacy: "2025-06-18" });
    await using modernOnly = await startFixture({ era: "modern" });
    expect(modernOnly.sseUrl).toBeUndefined();

    await using older = await connectV1({ via: "http", url: legacyOnly.url });
    expect(older.revision).toBe("2025-06-18");
    await using fallenBack = await connectV2({ via: "http", url: legacyOnly.url }, "auto");
    expect(fallenBack.revision).toBe("2025-06-18");
    await using found = await connectV2({ via: "http", url: modernOnly.url }, "auto");
    expect(found.revision).toBe(newestModern);
    await expect(connectV1({ via: "http", url: modernOnly.url })).rejects.toThrow(/protocol version/iu);
  });

  it.each([
    { era: "legacy", agreed: newestLegacy },
    { era: "modern", agreed: newestModern },
  ] as const)("speaks only the $era era on stdio when told so", async ({ era, agreed }) => {
    await using client = await connectV2({ via: "stdio", command: stdioFixture({ era }) }, "auto");
    expect(client.revision).toBe(agreed);
    expect((await client.callTool("test_simple_text")).texts).toHaveLength(1);
  });
});
