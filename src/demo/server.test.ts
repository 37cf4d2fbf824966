import {
  Client,
  InMemoryTransport,
  LOG_LEVEL_META_KEY,
  type ElicitResult,
  type Progress,
} from "@modelcontextprotocol/client";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { describe, expect, it, onTestFinished } from "vitest";

import { createDemoServer } from "./server.ts";

/** How each era is asked for; the server is the same. */
const eras = [
  ["legacy", { mode: "legacy" }],
  ["modern", { mode: { pin: "2026-07-28" } }],
] as const;

describe.each(eras)("the demo server for a %s client", (era, versionNegotiation) => {
  async function connect(answer: ElicitResult = { action: "decline" }) {
    const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
    serveStdio(createDemoServer, { transport: serverSide });
    const client = new Client(
      { name: "test", version: "1" },
      { versionNegotiation, capabilities: { elicitation: { form: {} } } },
    );
    const asked: unknown[] = [];
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params);
      return answer;
    });
    const logged: unknown[] = [];
    client.setNotificationHandler("notifications/message", ({ params }) => {
      logged.push(params.data);
    });
    await client.connect(clientSide);
    onTestFinished(() => client.close());
    return { client, asked, logged };
  }

  it("speaks the era that it was asked in", async () => {
    const { client } = await connect();
    expect(client.getProtocolEra()).toBe(era);
    expect(client.getServerVersion()?.name).toBe("headgate-demo");
  });

  it("describes every tool and every argument", async () => {
    const { client } = await connect();
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(["add", "count_slowly", "tell_story", "book_berth", "fail"]);
    for (const { description, inputSchema } of tools) {
      expect(description?.length).toBeGreaterThan(20);
      for (const argument of Object.values(inputSchema.properties ?? {})) {
        expect(argument).toHaveProperty("description");
      }
    }
  });

  it("adds as text and as structured content", async () => {
    const { client } = await connect();
    expect(await client.callTool({ name: "add", arguments: { a: 2, b: 0.5 } })).toMatchObject({
      content: [{ type: "text", text: "2 + 0.5 = 2.5" }],
      structuredContent: { sum: 2.5 },
    });
  });

  it("reports progress at every count", async () => {
    const { client } = await connect();
    const seen: Progress[] = [];
    await client.callTool(
      { name: "count_slowly", arguments: { to: 3, delay_ms: 1 } },
      { onprogress: (progress) => seen.push(progress) },
    );
    expect(seen).toEqual([1, 2, 3].map((progress) => ({ progress, total: 3, message: `counted to ${progress}` })));
  });

  it("lets a call be cancelled in the middle of its count", async () => {
    const { client } = await connect();
    const cancel = new AbortController();
    const call = client.callTool(
      { name: "count_slowly", arguments: { to: 1000, delay_ms: 10_000 } },
      { signal: cancel.signal, onprogress: () => cancel.abort(new Error("enough")) },
    );
    await expect(call).rejects.toThrow("enough");
  });

  it("tells the story sentence by sentence", async () => {
    const { client, logged } = await connect();
    const told: (string | undefined)[] = [];
    const { content } = await client.callTool(
      {
        name: "tell_story",
        arguments: { ship: "Vega", delay_ms: 1 },
        _meta: { [LOG_LEVEL_META_KEY]: "info" },
      },
      { onprogress: ({ message }) => told.push(message) },
    );
    expect(content).toEqual([{ type: "text", text: told.join(" ") }]);
    expect(logged).toEqual([1, 2, 3, 4].map((count) => `sentence ${count} of 4 is ready`));
  });

  it.each<[ElicitResult, string]>([
    [{ action: "accept", content: { berth: "B2", nights: 3 } }, "Berth B2 (Fish market) is booked for Vega, 3 nights."],
    [{ action: "accept", content: { berth: "A1" } }, "Berth A1 (North quay) is booked for Vega, one night."],
    [{ action: "decline" }, "No berth was booked for Vega."],
    [{ action: "cancel" }, "No berth was booked for Vega."],
  ])("asks which berth, and takes %j for an answer", async (answer, text) => {
    const { client, asked } = await connect(answer);
    const result = await client.callTool({ name: "book_berth", arguments: { ship: "Vega" } });
    expect(result.content).toEqual([{ type: "text", text }]);
    expect(result.isError).not.toBe(true);
    expect(asked).toMatchObject([{ message: "Which berth shall Vega have?" }]);
  });

  it("asks nothing if it was told the berth", async () => {
    const { client, asked } = await connect();
    const result = await client.callTool({ name: "book_berth", arguments: { ship: "Vega", berth: "C1" } });
    expect(result.content).toMatchObject([{ text: "Berth C1 (Old pier) is booked for Vega, one night." }]);
    expect(asked).toEqual([]);
  });

  it("fails as a tool fails, not as the protocol does", async () => {
    const { client } = await connect();
    expect(await client.callTool({ name: "fail", arguments: { reason: "fog" } })).toMatchObject({
      isError: true,
      content: [{ type: "text", text: "It failed: fog." }],
    });
  });

  it("has its berths as resources", async () => {
    const { client } = await connect();
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual([
      "harbor://berths",
      ...["A1", "A2", "B1", "B2", "C1"].map((id) => `harbor://berths/${id}`),
    ]);
    const { contents } = await client.readResource({ uri: "harbor://berths/B1" });
    expect(JSON.parse((contents[0] as { text: string }).text)).toMatchObject({ id: "B1", lengthMeters: 35 });
    await expect(client.readResource({ uri: "harbor://berths/Z9" })).rejects.toMatchObject({ code: -32_602 });
  });

  it("has a prompt that knows its berths", async () => {
    const { client } = await connect();
    const { messages } = await client.getPrompt({
      name: "plan_arrival",
      arguments: { ship: "Vega", berth: "A1" },
    });
    expect(messages).toMatchObject([{ role: "user", content: { text: expect.stringContaining("Vega") } }]);
    const { completion } = await client.complete({
      ref: { type: "ref/prompt", name: "plan_arrival" },
      argument: { name: "berth", value: "b" },
    });
    expect(completion.values).toEqual(["B1", "B2"]);
  });
});
