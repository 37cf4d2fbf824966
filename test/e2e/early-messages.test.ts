import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { describe, expect, it } from "vitest";

import { nextMessage, openSession, handshake, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage } from "../support/legacy-upstream.ts";
import { fakeUpstream, type UpstreamCall, type UpstreamStream } from "../support/fake-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { post } from "../support/raw-http.ts";
import { connectV1 } from "../support/v1-client.ts";
import { eventually } from "../support/eventually.ts";

/** A server of SDK v1 whose tool asks at once, on the stream outside requests, as `server.elicitInput` does. */
async function askingServer() {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  const connect = async (): Promise<StreamableHTTPServerTransport> => {
    const mcp = new McpServer({ name: "asking", version: "1.0.0" });
    mcp.registerTool("ask", {}, async () => {
      const { action } = await mcp.server.elicitInput({
        message: "Which one?",
        requestedSchema: { type: "object", properties: { name: { type: "string" } } },
      });
      return { content: [{ type: "text", text: action }] };
    });
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => {
        transports.set(id, transport);
      },
    });
    await mcp.connect(transport);
    return transport;
  };
  const server = createServer((request, response) => {
    const known = transports.get(String(request.headers["mcp-session-id"]));
    void (async () => (known ?? (await connect())).handleRequest(request, response))();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

const question = {
  jsonrpc: "2.0",
  id: "q1",
  method: "elicitation/create",
  params: { message: "Which one?", requestedSchema: { type: "object", properties: {} } },
};
const updated = { jsonrpc: "2.0", method: "notifications/resources/updated", params: { uri: "file:///a" } };
const changed = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

/** A server that sends on its own stream only, and drops what it cannot send there, as the official SDKs do. */
async function droppingUpstream(onRequest: (call: UpstreamCall, tell: (message: unknown) => void) => void) {
  const streams = new Map<unknown, UpstreamStream>();
  const tellIn = (session: unknown) => (message: unknown) => void streams.get(session)?.send(message);
  return legacyUpstream(
    (call) => {
      onRequest(call, tellIn(call.headers["mcp-session-id"]));
    },
    (call) => {
      streams.set(call.headers["mcp-session-id"], call.stream());
    },
  );
}

describe("a message of the server before the client listens", () => {
  it.each(["http", "sse"] as const)(
    "a question that a tool asks at once reaches an official client that has just connected (%s)",
    async (via) => {
      await using server = await askingServer();
      await using gateway = await openGateway({ upstream: { url: server.url } });
      const url = via === "http" ? gateway.url : `${gateway.origin}/sse`;
      for (let turn = 0; turn < 20; turn++) {
        await using client = await connectV1({ via, url });
        const outcome = await client.callTool("ask", { signal: AbortSignal.timeout(60_000) });
        expect(outcome).toMatchObject({ texts: ["accept"] });
      }
    },
  );

  it("reaches each of many clients that connect and call at the same time", async () => {
    await using server = await askingServer();
    await using gateway = await openGateway({ upstream: { url: server.url } });
    const calls = Array.from({ length: 24 }, async () => {
      await using client = await connectV1({ via: "http", url: gateway.url });
      const outcome = await client.callTool("ask", { signal: AbortSignal.timeout(60_000) });
      return outcome;
    });
    for (const outcome of await Promise.all(calls)) expect(outcome).toMatchObject({ texts: ["accept"] });
  });

  const early = [
    { what: "a question", request: toolCall("c1", "ask"), told: question },
    {
      what: "an update of a resource that was just subscribed to",
      request: { jsonrpc: "2.0", id: "c1", method: "resources/subscribe", params: { uri: "file:///a" } },
      told: updated,
    },
    { what: "a change of a list that nobody has asked for yet", request: toolCall("c1", "grow"), told: changed },
  ];

  it.each(early)("$what is kept until the client opens its stream, and sent once", async ({ request, told }) => {
    await using upstream = await droppingUpstream((call, tell) => {
      tell(told);
      call.reply(textResult(sentMessage(call).id, "done"));
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    expect((await session.post(request)).status).toBe(200);
    await using first = await session.listen();
    expect(await nextMessage(first)).toMatchObject({ method: told.method });
    await first[Symbol.asyncDispose]();
    expect(upstream.of("GET")).toHaveLength(1);
    const answer = await session.post({ jsonrpc: "2.0", id: "q1", result: { action: "accept", content: {} } });
    expect(answer.status).toBe(202);
    // What has been sent is not sent again: only a newer message comes.
    await expect
      .poll(async () => {
        const again = await session.listen().catch(() => undefined);
        if (again === undefined) return undefined;
        await session.post(toolCall("c2", "more"));
        const message = await nextMessage(again);
        await again[Symbol.asyncDispose]();
        return message;
      })
      .toMatchObject({ method: told.method });
  });

  it("requests wait until the server has accepted the stream, also those sent before the handshake was over", async () => {
    const gets: UpstreamCall[] = [];
    const order: string[] = [];
    await using upstream = await legacyUpstream(
      (call) => {
        order.push(String(sentMessage(call).id));
        call.reply(textResult(sentMessage(call).id, "done"));
      },
      (call) => {
        gets.push(call);
        setImmediate(() => {
          order.push("stream");
          call.stream();
        });
      },
    );
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const opened = await post(gateway.url, handshake("2025-11-25"));
    const headers = {
      "mcp-session-id": String(opened.headers["mcp-session-id"]),
      "mcp-protocol-version": "2025-11-25",
    };
    const ready = post(gateway.url, { jsonrpc: "2.0", method: "notifications/initialized" }, headers);
    await eventually(() => {
      expect(upstream.received("notifications/initialized")).toHaveLength(1);
    });
    const calls = ["a", "b"].map((id) => post(gateway.url, toolCall(id, "any"), headers));
    expect((await ready).status).toBe(202);
    for (const answer of await Promise.all(calls)) expect(answer.status).toBe(200);
    expect(order[0]).toBe("stream");
    expect(order.slice(1).toSorted()).toEqual(["a", "b"]);
  });

  it.each([
    ["refuses the stream", (call: UpstreamCall) => call.replyRaw(405, { allow: "POST" })],
    ["fails to open it", (call: UpstreamCall) => call.hangUp()],
    ["says nothing before its first event", () => {}],
    ["answers it with an error", (call: UpstreamCall) => call.replyRaw(500)],
  ])("a server that %s is called all the same", async (_name, answerGet) => {
    await using upstream = await legacyUpstream((call) => {
      call.reply(textResult(sentMessage(call).id, "done"));
    }, answerGet);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    expect((await session.post(toolCall("c1", "any"))).status).toBe(200);
  });

  it("a session that ends during a call answers the call", async () => {
    await using upstream = await legacyUpstream(() => {});
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const answer = session.post(toolCall("c1", "any"));
    await eventually(() => {
      expect(upstream.received("tools/call")).toHaveLength(1);
    });
    expect((await session.end()).status).toBe(200);
    expect(JSON.parse((await answer).text)).toMatchObject({ id: "c1", error: { data: { code: "session_unknown" } } });
  });
});

describe("an answer that comes early", () => {
  it("on an HTTP+SSE stream, before the server accepts the request itself", async () => {
    const accepted = Promise.withResolvers<void>();
    let events: UpstreamStream | undefined;
    await using upstream = await fakeUpstream(async (call) => {
      if (call.method === "GET") {
        events = call.stream();
        await events.write("event: endpoint\ndata: /messages\n\n");
        return;
      }
      const { id, method, params } = sentMessage(call);
      const handshaken = { protocolVersion: params?.["protocolVersion"], capabilities: { tools: {} }, serverInfo };
      const answer = method === "initialize" ? { jsonrpc: "2.0", id, result: handshaken } : textResult(id, "early");
      if (id !== undefined) await events?.send(answer);
      if (method === "tools/call") await accepted.promise;
      call.replyRaw(202);
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url, transport: "sse" } });
    const session = await openSession(gateway.url, "2024-11-05");
    expect((await session.post(toolCall("c1", "any"))).text).toContain("early");
    accepted.resolve();
  });

  it("over HTTP, before the server has read the whole request", async () => {
    const server = createServer((request, response) => {
      request.once("data", (chunk: Buffer) => {
        const id: unknown = /"id":("[^"]*"|\d+)/u.exec(chunk.toString())?.[1];
        response.writeHead(200, { "content-type": "application/json" });
        response.end(`{"jsonrpc":"2.0","id":${String(id)},"result":{"resultType":"complete","content":[]}}`);
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    try {
      await using gateway = await openGateway({ upstream: { url, era: "modern" } });
      const large = modernRequest("c1", "tools/call", { name: "any", arguments: { text: "x".repeat(3_000_000) } });
      for (let turn = 0; turn < 3; turn++)
        expect(await postModern(gateway.url, large)).toMatchObject({ status: 200, json: { id: "c1", result: {} } });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
});

const serverInfo = { name: "early", version: "1.0.0" };
