import { PassThrough } from "node:stream";

import { Client, InMemoryTransport, type Transport } from "@modelcontextprotocol/client";
import { ReadBuffer, serializeMessage, type McpServer } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { describe, expect, it } from "vitest";
import { z } from "zod";

import { openBridge } from "../../../test/support/agent-kit/control-client.ts";
import { addTools, createServer } from "../tools/server.ts";
import { tool } from "../tools/tool.ts";

/** Connects a client to a server that is made by the factory. */
type Connect = (factory: () => McpServer) => Promise<{ readonly client: Client; readonly close: () => Promise<void> }>;

const ways: Readonly<Record<string, Connect>> = {
  "the control channel": async (factory) => {
    const watched = await openBridge({ shop: { type: "sdk", name: "shop", factory } });
    return { client: await watched.client("shop"), close: watched.bridge.close };
  },
  memory: async (factory) => {
    const [ours, theirs] = InMemoryTransport.createLinkedPair();
    const client = new Client({ name: "contract", version: "1" });
    const server = factory();
    await server.connect(theirs);
    await client.connect(ours);
    return { client, close: async () => server.close() };
  },
  stdio: async (factory) => {
    const [stdin, stdout] = [new PassThrough(), new PassThrough()];
    const handle = serveStdio(factory, { transport: new StdioServerTransport(stdin, stdout) });
    const client = new Client({ name: "contract", version: "1" });
    await client.connect(pipeTransport(stdout, stdin));
    return { client, close: async () => handle.close() };
  },
};

function pipeTransport(input: PassThrough, output: PassThrough): Transport {
  const buffer = new ReadBuffer();
  const transport: Transport = {
    async start() {
      input.on("data", (chunk: Buffer) => {
        buffer.append(chunk);
        for (let message = buffer.readMessage(); message !== null; message = buffer.readMessage()) {
          transport.onmessage?.(message);
        }
      });
    },
    async send(message) {
      output.write(serializeMessage(message));
    },
    async close() {
      transport.onclose?.();
    },
  };
  return transport;
}

describe.each(Object.entries(ways))("a server over %s", (_way, connect) => {
  it("[IP-024] lists, calls, reports progress, cancels and tells of new tools", async () => {
    const aborted = Promise.withResolvers<void>();
    const started = Promise.withResolvers<void>();
    let server: McpServer | undefined;
    const add = tool("add", "Adds", z.object({ a: z.number(), b: z.number() }), ({ a, b }) => ({
      sum: a + b,
    }));
    const slow = tool("slow", "Waits", z.object({}), async (_args, { signal, progress }) => {
      await progress(1, { total: 2 });
      started.resolve();
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      aborted.resolve();
    });
    const { client, close } = await connect(() => {
      server = createServer("Shop", "2.0.0", { tools: [add, slow], instructions: "Buy." });
      return server;
    });
    expect(client.getServerVersion()).toMatchObject({ name: "Shop", version: "2.0.0" });
    expect(client.getInstructions()).toBe("Buy.");
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(["add", "slow"]);
    const sum = await client.callTool({ name: "add", arguments: { a: 15, b: 27 } });
    expect(sum).toMatchObject({ structuredContent: { sum: 42 } });
    await expect(client.callTool({ name: "ghost" })).rejects.toMatchObject({ code: -32602 });

    const controller = new AbortController();
    const progress: number[] = [];
    const call = client.callTool(
      { name: "slow" },
      { signal: controller.signal, onprogress: (news) => progress.push(news.progress) },
    );
    const failed = call.catch((error: unknown) => String(error));
    await started.promise;
    controller.abort();
    expect(await failed).toMatch(/abort/iu);
    await aborted.promise;
    expect(progress).toEqual([1]);

    const changed = new Promise<void>((resolve) => {
      client.setNotificationHandler("notifications/tools/list_changed", () => {
        resolve();
      });
    });
    if (server !== undefined)
      addTools(
        server,
        tool("late", "", z.object({}), () => "here"),
      );
    await changed;
    expect(await client.callTool({ name: "late" })).toMatchObject({ content: [{ text: "here" }] });
    await close();
  });
});
