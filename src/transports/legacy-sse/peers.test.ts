import { once } from "node:events";
import { createServer } from "node:http";
import type { RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

import { McpServer as V1Server } from "@modelcontextprotocol/sdk/server/mcp.js";
import { SSEServerTransport as V1Transport } from "@modelcontextprotocol/sdk/server/sse.js";
import { describe, expect, it } from "vitest";

import { createLegacySse } from "../../../test/fixtures/everything/legacy-sse.ts";
import { createEverythingServer } from "../../../test/fixtures/everything/server.ts";
import { serveSse, sseUpstream } from "../../../test/support/legacy-sse.ts";
import type { ServedSse } from "../../../test/support/legacy-sse.ts";
import type { PeerClient } from "../../../test/support/peer-client.ts";
import { listen } from "../../../test/support/stdio.ts";
import { connectV1 } from "../../../test/support/v1-client.ts";
import { connectV2 } from "../../../test/support/v2-client.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import type { Channel } from "../transport.ts";
import { openSseChannel } from "./client.ts";

const initialize = Buffer.from(
  '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"tests","version":"1"}}}',
);
const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
const listTools = Buffer.from('{"jsonrpc":"2.0","id":"list","method":"tools/list"}');

interface PeerServer extends AsyncDisposable {
  readonly url: string;
}

async function start(listener: RequestListener): Promise<PeerServer> {
  const http = createServer(listener);
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  return {
    // Only a server on a pipe has another kind of address.
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/sse`,
    [Symbol.asyncDispose]: async () => {
      const closed = once(http, "close");
      http.close();
      http.closeAllConnections();
      await closed;
    },
  };
}

/** The transport of SDK v2's legacy package. */
async function startV2(): Promise<PeerServer> {
  const serve = createLegacySse(() => createEverythingServer());
  return start((request, response) => void serve(request, response));
}

/** The transport of SDK v1, with one tool and one session. */
async function startV1(): Promise<PeerServer> {
  let transport: V1Transport | undefined;
  return start((request, response) => {
    if (request.method === "GET") {
      const server = new V1Server({ name: "v1", version: "1.0.0" });
      server.registerTool("greet", {}, () => ({ content: [{ type: "text", text: "hello" }] }));
      transport = new V1Transport("/v1/messages", response);
      void server.connect(transport);
    } else {
      void transport?.handlePostMessage(request, response);
    }
  });
}

describe("the client side with the official server transports", () => {
  it.each([
    ["SDK v2", startV2, "test_simple_text"],
    ["SDK v1", startV1, "greet"],
  ] as const)("shakes hands and calls with %s, all messages sent at once", async (_name, startPeer, tool) => {
    await using peer = await startPeer();
    await using made = sseUpstream(peer.url);
    const heard = listen();
    const channel = openSseChannel(made.upstream, heard);
    await channel.send(initialize);
    await heard.received(1);
    const call = Buffer.from(
      `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"${tool}","arguments":{}}}`,
    );
    await Promise.all([initialized, listTools, call].map(async (message) => channel.send(message)));
    const answers = await heard.received(3);
    expect(JSON.parse(answers[0] ?? "")).toMatchObject({ id: 0, result: { protocolVersion: "2024-11-05" } });
    const rest = answers.slice(1).join("\n");
    expect(rest).toContain('"id":"list"');
    expect(rest).toContain('"id":7');
    expect(rest).toContain(tool);
    expect(heard.rubbishLines).toEqual([]);
    await channel.close("done");
    expect(heard.order.at(-1)).toBe("closed");
  });
});

/** Serves clients by passing everything on to an upstream, each client in an upstream session of its own. */
async function relay(upstreamUrl: string, troubles: unknown[]): Promise<ServedSse> {
  const made = sseUpstream(upstreamUrl);
  const send = (channel: Channel, bytes: Buffer): void => {
    Promise.resolve(channel.send(bytes)).catch((error: unknown) => troubles.push(error));
  };
  const served = await serveSse({
    accept: (client) => {
      const upstream = openSseChannel(made.upstream, {
        message: (bytes) => send(client, bytes),
        malformed: (_bytes, reason) => troubles.push(reason),
        closed: (error) => void client.close(error.message),
      });
      return {
        message: (bytes) => send(upstream, bytes),
        malformed: (_bytes, reason) => troubles.push(reason),
        closed: (error) => void upstream.close(error.message),
      };
    },
  });
  return {
    ...served,
    [Symbol.asyncDispose]: async () => {
      await served.server.close("test over");
      await served[Symbol.asyncDispose]();
      await made[Symbol.asyncDispose]();
    },
  };
}

const clients: readonly (readonly [string, (url: string) => Promise<PeerClient>])[] = [
  ["SDK v2 at 2024-11-05", async (url) => connectV2({ via: "sse", url }, "2024-11-05")],
  [`SDK v2 at ${newestLegacy}`, async (url) => connectV2({ via: "sse", url }, newestLegacy)],
  ["SDK v1", async (url) => connectV1({ via: "sse", url })],
];

describe("the server side with the official client transports", () => {
  it.each(clients)("%s calls tools, gets progress and is asked, through both sides", async (_name, connect) => {
    const troubles: unknown[] = [];
    await using peer = await startV2();
    await using served = await relay(peer.url, troubles);
    {
      await using client = await connect(`${served.origin}/files/sse`);
      expect(await client.listTools()).toContain("test_simple_text");
      const progress: number[] = [];
      const onProgress = (value: number): number => progress.push(value);
      const [simple, reported, asked] = await Promise.all([
        client.callTool("test_simple_text"),
        client.callTool("test_tool_with_progress", { onProgress }),
        client.callTool("test_sampling", { args: { prompt: "capital of France?" } }),
      ]);
      expect(simple.texts).toEqual(["This is a simple text response for testing."]);
      expect(reported.isError).toBe(false);
      expect(progress).toEqual([0, 50, 100]);
      expect(asked.texts.join(" ")).toContain("Paris");
      expect(client.asked).toEqual(["sampling/createMessage"]);
      expect(served.server.size).toBe(1);
    }
    expect(troubles).toEqual([]);
  });

  it("answers an SDK client from a receiver of its own", async () => {
    await using served = await serveSse({
      accept: (channel) => ({
        ...listen(),
        message: (bytes) => {
          const answer = answerTo(JSON.parse(bytes.toString()) as Question);
          if (answer !== undefined) void channel.send(Buffer.from(JSON.stringify(answer)));
        },
      }),
    });
    await using client = await connectV2({ via: "sse", url: `${served.origin}/sse` }, "2024-11-05");
    expect(client.revision).toBe("2024-11-05");
    expect(await client.listTools()).toEqual(["greet"]);
  });
});

interface Question {
  readonly id?: unknown;
  readonly method: string;
}

const results: Readonly<Record<string, unknown>> = {
  initialize: {
    protocolVersion: "2024-11-05",
    capabilities: { tools: {} },
    serverInfo: { name: "tiny", version: "1.0.0" },
  },
  "tools/list": { tools: [{ name: "greet", inputSchema: { type: "object" } }] },
};

function answerTo({ id, method }: Question): unknown {
  return id === undefined ? undefined : { jsonrpc: "2.0", id, result: results[method] };
}
