import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";

import { describe, expect, it } from "vitest";

import { principalNamed } from "../../../test/support/principals.ts";
import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { type ServedSse, serveSse } from "../../../test/support/legacy-sse.ts";
import { exchange, openStream, type RawAnswer, type RawStream } from "../../../test/support/raw-http.ts";
import { type Heard, listen } from "../../../test/support/stdio.ts";
import { GatewayError } from "../../errors.ts";
import { systemTimer } from "../../core/exchange.ts";
import { createKeepAlive } from "../http/sse-response.ts";
import type { Channel } from "../transport.ts";
import type { SseServerOptions } from "./server.ts";

const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
const json = { "content-type": "application/json" };

/** A client that was taken in. */
interface Accepted {
  readonly channel: Channel;
  readonly heard: Heard;
  readonly request: IncomingMessage;
}

interface Served extends ServedSse {
  readonly accepted: readonly Accepted[];
  readonly refused: readonly GatewayError[];
}

async function serve(options: Partial<SseServerOptions> = {}): Promise<Served> {
  const accepted: Accepted[] = [];
  const refused: GatewayError[] = [];
  const served = await serveSse({
    accept: (channel, request) => {
      const heard = listen();
      accepted.push({ channel, heard, request });
      return heard;
    },
    onRefused: (error) => refused.push(error),
    ...options,
  });
  return { ...served, accepted, refused };
}

/** A client in a session: its stream, and where it posts. */
interface Client extends AsyncDisposable {
  readonly stream: RawStream;
  readonly endpoint: string;
  readonly post: (body: string, headers?: Record<string, string>) => Promise<RawAnswer>;
}

async function connect(
  served: Served,
  path = "/files/sse",
  headers: Record<string, string> = {},
): Promise<Client & Accepted> {
  const stream = await openStream(served.origin + path, { headers });
  const first = await stream.next();
  const newest = served.accepted.at(-1);
  if (first?.event !== "endpoint" || newest === undefined) throw new Error("no session was opened");
  const endpoint = first.data;
  return {
    ...newest,
    stream,
    endpoint,
    post: async (body, extra = {}) =>
      exchange(served.origin + endpoint, {
        method: "POST",
        headers: { ...json, ...headers, ...extra },
        body,
      }),
    [Symbol.asyncDispose]: async () => stream[Symbol.asyncDispose](),
  };
}

describe("a client of the HTTP+SSE transport", () => {
  it("gets an event stream whose first event names its endpoint, and messages as events", async () => {
    await using served = await serve();
    await using client = await connect(served);
    expect(client.stream.status).toBe(200);
    expect(client.stream.headers).toMatchObject({
      "content-type": "text/event-stream",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    });
    expect(client.endpoint).toBe("/files/messages?sessionId=id-1");
    await client.channel.send(Buffer.from('{"jsonrpc":"2.0","method":"notifications/a"}'));
    await client.channel.send(Buffer.from('{"jsonrpc":"2.0",\r\n"method":"notifications/b"}'));
    expect(await client.stream.next()).toMatchObject({
      event: "message",
      data: '{"jsonrpc":"2.0","method":"notifications/a"}',
    });
    expect(await client.stream.next()).toMatchObject({
      event: "message",
      data: '{"jsonrpc":"2.0",\n"method":"notifications/b"}',
    });
  });

  it("posts its messages, which are accepted at once and handed on as they came", async () => {
    await using served = await serve();
    await using client = await connect(served);
    const answer = await client.post(`${ping} `, { "content-type": "application/json; charset=utf-8" });
    expect(answer).toMatchObject({ status: 202, text: "Accepted" });
    expect(await client.heard.received(1)).toEqual([`${ping} `]);
    expect(served.refused).toEqual([]);
  });

  it("is told an endpoint below its own prefix, and below the path under which a proxy shows us", async () => {
    await using plain = await serve();
    await using unnamed = await connect(plain, "/sse?key=1");
    expect(unnamed.endpoint).toBe("/messages?sessionId=id-1");
    await using shown = await serve({ publicPath: () => "/tools/" });
    await using client = await connect(shown);
    expect(client.endpoint).toBe("/tools/files/messages?sessionId=id-1");
  });

  it("has a session of its own, and an incarnation that does not give the session's id away", async () => {
    await using served = await serve();
    await using one = await connect(served);
    await using other = await connect(served);
    await other.post(ping);
    expect(await other.heard.received(1)).toEqual([ping]);
    expect(one.heard.messages).toEqual([]);
    expect(served.server.size).toBe(2);
    expect(served.accepted.map(({ channel }) => channel.incarnation)).toEqual(["id-2", "id-4"]);
    expect([one.endpoint, other.endpoint]).toEqual([
      "/files/messages?sessionId=id-1",
      "/files/messages?sessionId=id-3",
    ]);
  });

  it("gets keep-alive comments while nothing else is sent", async () => {
    const time = createFakeTime();
    const keepAlive = createKeepAlive(15_000, time.setTimer);
    await using served = await serve({ stream: { queueBytes: 1_048_576, keepAlive } });
    const { promise, resolve } = Promise.withResolvers<string>();
    const outgoing = httpRequest(`${served.origin}/sse`, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
        if (text.includes("\n: ")) resolve(text);
      });
    });
    outgoing.end();
    await once(outgoing, "response");
    await time.advance(30_000);
    expect(await promise).toContain(": keep-alive\n\n");
    outgoing.destroy();
  });
});

describe("the end of a session", () => {
  it("comes when the client closes its stream; later messages find no session", async () => {
    await using served = await serve();
    await using client = await connect(served);
    client.stream.close();
    expect(await client.heard.whenClosed).toMatchObject({
      code: "cancelled",
      message: "the client closed its event stream",
    });
    expect(served.server.size).toBe(0);
    expect(await client.post(ping)).toMatchObject({ status: 404 });
    await expect(client.channel.send(Buffer.from(ping))).rejects.toMatchObject({ code: "cancelled" });
    await client.channel.close("again");
    expect(client.heard.order).toEqual(["closed"]);
  });

  it("comes with close, which ends the stream after what was sent", async () => {
    await using served = await serve();
    await using client = await connect(served);
    await client.channel.send(Buffer.from(ping));
    await Promise.all([client.channel.close("idle"), readAll(client.stream)]);
    expect(await client.heard.whenClosed).toMatchObject({
      code: "cancelled",
      message: "the connection was closed: idle",
    });
    await expect(client.channel.send(Buffer.from(ping))).rejects.toMatchObject({ code: "cancelled" });
    expect(await client.post(ping)).toMatchObject({ status: 404 });
    expect(client.heard.order).toEqual(["closed"]);
  });

  it("comes for all at once when the server is closed", async () => {
    await using served = await serve();
    await using one = await connect(served);
    await using other = await connect(served);
    await Promise.all([served.server.close("shutdown"), readAll(one.stream), readAll(other.stream)]);
    expect(await one.heard.whenClosed).toMatchObject({ message: "the connection was closed: shutdown" });
    expect(await other.heard.whenClosed).toMatchObject({ message: "the connection was closed: shutdown" });
    expect(served.server.size).toBe(0);
  });

  it("comes for a client that does not read once too much waits for it; others are not held up", async () => {
    let evictions = 0;
    const keepAlive = createKeepAlive(15_000, systemTimer);
    const stream = { queueBytes: 100_000, keepAlive, onEvicted: () => (evictions += 1) };
    await using served = await serve({ stream });
    await using client = await connect(served);
    await using other = await connect(served);
    await using slow = await openStream(`${served.origin}/sse`);
    const { channel, heard } = served.accepted.at(-1) ?? client;
    const big = Buffer.from(JSON.stringify("x".repeat(1_000_000)));
    const outcomes = Array.from({ length: 40 }, async () => channel.send(big));
    const results = await Promise.allSettled(outcomes);
    expect(results.at(-1)).toMatchObject({ status: "rejected", reason: { code: "overloaded" } });
    expect(await heard.whenClosed).toMatchObject({
      code: "overloaded",
      message: "the client does not read its messages and was disconnected",
    });
    expect(evictions).toBe(1);
    expect(slow.status).toBe(200);
    await other.channel.send(Buffer.from(ping));
    expect(await other.stream.next()).toMatchObject({ data: ping });
    expect(served.server.size).toBe(2);
  });

  it("cuts off a client that does not take what is left within the grace", async () => {
    const time = createFakeTime();
    const keepAlive = createKeepAlive(15_000, systemTimer);
    await using served = await serve({
      stream: { queueBytes: 100_000_000, keepAlive },
      setTimer: time.setTimer,
    });
    await using slow = await openStream(`${served.origin}/sse`);
    const [accepted] = served.accepted;
    const big = Buffer.from(JSON.stringify("x".repeat(20_000_000)));
    const sent = accepted?.channel.send(big);
    const closing = accepted?.channel.close("idle");
    await time.advance(2000);
    await Promise.all([sent, closing]);
    expect(await accepted?.heard.whenClosed).toMatchObject({ message: "the connection was closed: idle" });
    expect(slow.status).toBe(200);
    expect(time.pending()).toBe(0);
  });

  it("comes at once for a client that was taken in with a closed channel", async () => {
    const heard = listen();
    await using served = await serve({
      accept: (channel) => {
        void channel.close("changed our mind");
        return heard;
      },
    });
    await expect(openStream(`${served.origin}/sse`)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await heard.whenClosed).toMatchObject({ message: "the connection was closed: changed our mind" });
    expect(served.server.size).toBe(0);
  });
});

describe("a message that is refused", () => {
  it("names no session: 400", async () => {
    await using served = await serve();
    const url = `${served.origin}/files/messages`;
    const answer = await exchange(url, { method: "POST", headers: json, body: ping });
    expect(answer).toMatchObject({
      status: 400,
      json: {
        jsonrpc: "2.0",
        error: { code: -32_000, data: { origin: "gateway", code: "session_missing" } },
      },
    });
    expect(served.refused).toMatchObject([{ code: "session_missing" }]);
  });

  it("names a session that does not exist: 404", async () => {
    await using served = await serve();
    const url = `${served.origin}/files/messages?sessionId=id-1`;
    const answer = await exchange(url, { method: "POST", headers: json, body: ping });
    expect(answer).toMatchObject({
      status: 404,
      json: {
        jsonrpc: "2.0",
        error: { code: -32_001, data: { origin: "gateway", code: "session_unknown" } },
      },
    });
    expect(served.refused).toMatchObject([{ code: "session_unknown" }]);
  });

  it("comes from another principal than the one who opened the session: 404, as if there were none", async () => {
    await using served = await serve({
      principalOf: ({ headers }) => principalNamed(String(headers["x-user"])),
    });
    await using client = await connect(served, "/files/sse", { "x-user": "ada" });
    const stranger = await client.post(ping, { "x-user": "bob" });
    expect(stranger).toMatchObject({ status: 404, json: { error: { code: -32_001 } } });
    expect(await client.post(ping)).toMatchObject({ status: 202 });
    expect(client.heard.messages).toEqual([ping]);
  });

  it("is not JSON by its content type: 415", async () => {
    await using served = await serve();
    await using client = await connect(served);
    expect(await client.post(ping, { "content-type": "text/plain" })).toMatchObject({ status: 415 });
    expect(client.heard.messages).toEqual([]);
  });

  it("is larger than allowed: 413, with size and limit", async () => {
    await using served = await serve({ maxBytes: () => 20 });
    await using client = await connect(served);
    expect(await client.post(ping)).toMatchObject({
      status: 413,
      json: { error: { data: { code: "too_large", limit: { actual: ping.length, allowed: 20 } } } },
    });
    expect(await client.post("{}")).toMatchObject({ status: 202 });
    expect(client.heard.messages).toEqual(["{}"]);
  });

  it("is refused by its receiver, with the status of the error", async () => {
    await using served = await serve({
      accept: () => ({
        ...listen(),
        message: () => {
          throw new GatewayError("parse_error", "the message is not valid JSON");
        },
      }),
    });
    await using stream = await openStream(`${served.origin}/sse`);
    const endpoint = (await stream.next())?.data ?? "";
    const answer = await exchange(served.origin + endpoint, { method: "POST", headers: json, body: "{" });
    expect(answer).toMatchObject({ status: 400, json: { error: { code: -32_700 } } });
  });

  it("comes with the wrong verb: 405", async () => {
    await using served = await serve();
    const posted = await exchange(`${served.origin}/sse`, { method: "POST", headers: json, body: ping });
    expect(posted).toMatchObject({ status: 405, headers: { allow: "GET" } });
    const got = await exchange(`${served.origin}/messages?sessionId=id-1`);
    expect(got).toMatchObject({ status: 405, headers: { allow: "POST" } });
  });

  it("is still being sent when its session ends: 404", async () => {
    await using served = await serve();
    await using client = await connect(served);
    const { outgoing, status } = await beginPost(served.origin + client.endpoint, ping.length);
    await Promise.all([client.channel.close("idle"), readAll(client.stream)]);
    outgoing.end(ping);
    expect(await status).toBe(404);
    expect(client.heard.messages).toEqual([]);
  });

  it("may end before all of it was sent, without harm to others", async () => {
    await using served = await serve();
    await using client = await connect(served);
    const { outgoing, status } = await beginPost(served.origin + client.endpoint, 1000);
    outgoing.destroy();
    await expect(status).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(await client.post(ping)).toMatchObject({ status: 202 });
    expect(client.heard.messages).toEqual([ping]);
  });
});

describe("a client that is refused", () => {
  it("is told when to come back", async () => {
    await using served = await serve({
      accept: () => {
        throw new GatewayError("overloaded", "too many sessions", { details: { retryAfter: 5 } });
      },
    });
    const answer = await exchange(`${served.origin}/files/sse`);
    expect(answer).toMatchObject({
      status: 503,
      headers: { "retry-after": "5", "content-type": "application/json" },
      json: { error: { message: "too many sessions", data: { code: "overloaded", retryAfter: 5 } } },
    });
    expect(served.server.size).toBe(0);
    expect(served.refused).toMatchObject([{ code: "overloaded" }]);
  });

  it("learns nothing of a fault of ours", async () => {
    await using served = await serve({
      accept: () => {
        throw new TypeError("secret");
      },
    });
    const answer = await exchange(`${served.origin}/files/sse`);
    expect(answer).toMatchObject({ status: 500, json: { error: { code: -32_603 } } });
    expect(answer.text).not.toContain("secret");
  });
});

/** Begins a POST and resolves when the server has seen it. */
async function beginPost(url: string, length: number) {
  const outgoing = httpRequest(url, {
    method: "POST",
    agent: false,
    headers: { ...json, "content-length": length, expect: "100-continue" },
  });
  const { promise: status, resolve, reject } = Promise.withResolvers<number>();
  outgoing.on("response", (response) => {
    response.resume();
    resolve(response.statusCode ?? 0);
  });
  outgoing.on("error", reject);
  outgoing.flushHeaders();
  await once(outgoing, "continue");
  await settled();
  return { outgoing, status };
}

/** Reads a stream to its end. */
async function readAll(stream: RawStream): Promise<void> {
  while ((await stream.next()) !== undefined);
}
