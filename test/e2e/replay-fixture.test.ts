import { describe, expect, it } from "vitest";

import { mockFrom } from "../../src/recorder/replay/fixture-server.ts";
import { startFixture } from "../support/fixture.ts";
import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { captureOf } from "../support/capture.ts";
import { openGateway } from "../support/local-gateway.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

const weigh = (crate: number) => ({
  method: "tools/call",
  params: { name: "weigh", arguments: { crate } },
  result: { content: [{ type: "text", text: `${crate} kg` }] },
});

describe("a capture as a fixture", () => {
  it("is a server for a test, which can say what came and what did not", async () => {
    using folder = temporaryFolder();
    await using harbor = await mockFrom(folder.capture("a.ndjson", captureOf([weigh(1), weigh(2)])));
    await using client = await connectV1({ via: "http", url: harbor.url });
    expect((await client.callTool("weigh", { args: { crate: 1 } })).texts).toEqual(["1 kg"]);
    expect(harbor.calls("tools/call", "weigh")).toMatchObject([
      { params: { arguments: { crate: 1 } }, isRecorded: true },
    ]);
    expect(() => harbor.assertAllUsed()).toThrow("tools/call weigh (capture-1-x2)");
    await client.callTool("weigh", { args: { crate: 2 } });
    harbor.assertAllUsed();
    await expect(client.callTool("weigh", { args: { crate: 3 } })).rejects.toThrow("was not recorded");
    expect(() => harbor.assertNoMisses()).toThrow("/arguments/crate");
  });

  it.each([
    { client: "SDK v1", connect: (url: string) => connectV1({ via: "http", url }) },
    { client: "SDK v2, modern", connect: (url: string) => connectV2({ via: "http", url }, "2026-07-28") },
  ])("[SC-070] of a real gateway answers a real client as the server did ($client)", async ({ connect }) => {
    using folder = temporaryFolder();
    const file = folder.at("store.sqlite");
    await using server = await startFixture({ era: "dual" });
    const talk = async (url: string): Promise<unknown> => {
      await using client = await connect(url);
      const progress: number[] = [];
      return {
        tools: await client.listTools(),
        text: await client.callTool("test_simple_text"),
        progress: await client.callTool("test_tool_with_progress", {
          onProgress: (value) => progress.push(value),
        }),
        reports: progress,
        resource: await client.readResource("test://static-text"),
        prompt: await client.getPrompt("test_simple_prompt"),
      };
    };
    let seen: unknown;
    {
      await using gateway = await openGateway({ upstream: { url: server.url }, record: { file } });
      seen = await talk(gateway.url);
    }
    const capture = folder.at("capture.ndjson");
    expect(await headgate("traffic", "export", capture, "-s", file)).toMatchObject({ exitCode: 0 });
    await using replayed = await mockFrom(capture);
    expect(await talk(replayed.url)).toEqual(seen);
    replayed.assertNoMisses();
  });
});
