import { gzipSync } from "node:zlib";

import { describe, expect, it, vi } from "vitest";

import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { fakeUpstream } from "../../../test/support/fake-upstream.ts";
import type { FakeUpstream, UpstreamCall, UpstreamStream } from "../../../test/support/fake-upstream.ts";
import { sseUpstream } from "../../../test/support/legacy-sse.ts";
import { listen } from "../../../test/support/stdio.ts";
import type { Heard } from "../../../test/support/stdio.ts";
import type { Channel } from "../transport.ts";
import { openSseChannel } from "./client.ts";
import type { SseUpstream } from "./client.ts";

const request = (id: number): Buffer => Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":"tools/list"}`);
const notice = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
const answer = Buffer.from('{"jsonrpc":"2.0","id":"q1","result":{}}');

/** A fake server of the transport, with its one stream and the POSTs that came. */
interface FakeServer extends AsyncDisposable {
  readonly url: string;
  readonly fake: FakeUpstream;
  /** The stream that the client opened. */
  readonly stream: Promise<UpstreamStream>;
  /** Resolves with the GET. */
  readonly opened: Promise<UpstreamCall>;
  /** Resolves with the POST of that number, counted from one. */
  readonly posted: (count: number) => Promise<UpstreamCall>;
  readonly posts: readonly UpstreamCall[];
}

/** Answers a POST; leaves it hanging where nothing is done. */
type OnPost = (call: UpstreamCall, count: number) => void;

const accept: OnPost = (call) => {
  call.replyRaw(202, {}, "Accepted");
};

async function startServer(onPost: OnPost = accept): Promise<FakeServer> {
  const stream = Promise.withResolvers<UpstreamStream>();
  const opened = Promise.withResolvers<UpstreamCall>();
  const posts: UpstreamCall[] = [];
  const waiting = new Map<number, PromiseWithResolvers<UpstreamCall>>();
  const arrival = (count: number): PromiseWithResolvers<UpstreamCall> => {
    const one = waiting.get(count) ?? Promise.withResolvers<UpstreamCall>();
    waiting.set(count, one);
    return one;
  };
  const fake = await fakeUpstream((call) => {
    if (call.method === "GET") {
      stream.resolve(call.stream());
      opened.resolve(call);
      return;
    }
    posts.push(call);
    onPost(call, posts.length);
    arrival(posts.length).resolve(call);
  });
  return {
    url: new URL("/prefix/sse", fake.url).href,
    fake,
    stream: stream.promise,
    opened: opened.promise,
    posted: async (count) => arrival(count).promise,
    posts,
    [Symbol.asyncDispose]: async () => fake[Symbol.asyncDispose](),
  };
}

interface Opened extends AsyncDisposable {
  readonly channel: Channel;
  /** Sends a message and resolves with what became of it: `accepted`, or the error. */
  readonly outcome: (message: Buffer) => Promise<unknown>;
  readonly heard: Heard;
  /** How many POSTs have been begun. */
  readonly begun: () => number;
}

function open(url: string, changes: Partial<SseUpstream> = {}): Opened {
  const { upstream, [Symbol.asyncDispose]: dispose } = sseUpstream(url, changes);
  const heard = listen();
  const dispatch = vi.spyOn(upstream.dispatcher, "dispatch");
  const channel = openSseChannel(upstream, heard);
  const outcome = async (message: Buffer): Promise<unknown> => {
    try {
      await channel.send(message);
      return "accepted";
    } catch (error) {
      return error;
    }
  };
  const begun = (): number => dispatch.mock.calls.filter(([{ method }]) => method === "POST").length;
  return { channel, outcome, heard, begun, [Symbol.asyncDispose]: dispose };
}

async function sendEndpoint(server: FakeServer, data = "/messages?sessionId=s1"): Promise<UpstreamStream> {
  const stream = await server.stream;
  await stream.write(`event: endpoint\ndata: ${data}\n\n`);
  return stream;
}

const failure = (code: string, message: string | RegExp): unknown =>
  expect.objectContaining({ code, message: expect.stringMatching(message) as unknown });

describe("a session with an HTTP+SSE server", () => {
  it("gets each event of type message as it came, and posts each message where the endpoint says", async () => {
    await using server = await startServer();
    await using opened = open(server.url, { headers: { authorization: "Bearer k" } });
    const stream = await sendEndpoint(server);
    await opened.channel.send(request(1));
    await stream.write('event: message\ndata: {"jsonrpc":"2.0", "id":1,"result":{"big":12345678901234567890}}\n\n');
    await stream.write('data: {"jsonrpc":"2.0",\ndata: "method":"notifications/a"}\n\n');
    expect(await opened.heard.received(2)).toEqual([
      '{"jsonrpc":"2.0", "id":1,"result":{"big":12345678901234567890}}',
      '{"jsonrpc":"2.0",\n"method":"notifications/a"}',
    ]);
    expect(server.fake.calls).toMatchObject([
      {
        method: "GET",
        path: "/prefix/sse",
        headers: { accept: "text/event-stream", "accept-encoding": "identity", authorization: "Bearer k" },
      },
      {
        method: "POST",
        path: "/messages?sessionId=s1",
        text: request(1).toString(),
        headers: {
          "content-type": "application/json",
          "accept-encoding": "identity",
          authorization: "Bearer k",
        },
      },
    ]);
    expect(opened.channel.incarnation).toBe("channel-1");
    expect(opened.heard.order).toEqual(["message", "message"]);
  });

  it("holds messages back until the endpoint is known", async () => {
    await using server = await startServer();
    await using opened = open(server.url);
    const sent = [opened.outcome(request(1)), opened.outcome(request(2))];
    await server.opened;
    await settled();
    expect(opened.begun()).toBe(0);
    await sendEndpoint(server, "messages/s1");
    expect(await Promise.all(sent)).toEqual(["accepted", "accepted"]);
    expect(server.posts.map(({ path }) => path)).toEqual(["/prefix/messages/s1", "/prefix/messages/s1"]);
  });

  it("takes any 2xx for an accepted message and reads no answer from it", async () => {
    await using server = await startServer((call, count) => {
      if (count === 1) call.reply({ jsonrpc: "2.0", id: 1, result: {} });
      else call.replyRaw(204);
    });
    await using opened = open(server.url);
    await sendEndpoint(server);
    await opened.channel.send(request(1));
    await opened.channel.send(request(2));
    expect(opened.heard.order).toEqual([]);
  });

  it("reports events of other types and a second endpoint as malformed, and ignores events without data", async () => {
    await using server = await startServer();
    await using opened = open(server.url);
    const stream = await sendEndpoint(server);
    await stream.write(": ping\n\nevent: message\ndata:\n\nid: 7\n\nevent: heartbeat\ndata: 12:00\n\n");
    await stream.write('event: endpoint\ndata: /other\n\nevent: message\ndata: {"a":1}\n\n');
    expect(await opened.heard.received(1)).toEqual(['{"a":1}']);
    expect(opened.heard.rubbishLines).toEqual([
      { text: "12:00", reason: 'an event of the unknown type "heartbeat"' },
      { text: "/other", reason: "a second endpoint event" },
    ]);
    await opened.channel.send(request(1));
    expect(server.posts[0]?.path).toBe("/messages?sessionId=s1");
  });

  it.each([
    ["http://127.0.0.1:1/messages", "has another origin"],
    ["https://[", "is not a valid URI"],
  ])("is over when the endpoint is %s, and nothing is ever posted", async (data, reason) => {
    await using server = await startServer();
    await using opened = open(server.url);
    const sent = opened.outcome(request(1));
    await sendEndpoint(server, data);
    expect(await sent).toEqual(failure("upstream_invalid", reason));
    expect(await opened.heard.whenClosed).toEqual(failure("upstream_invalid", reason));
    await (
      await server.opened
    ).closed;
    expect(server.posts).toEqual([]);
  });

  it("may be silent for as long as it likes once the endpoint is known", async () => {
    await using server = await startServer();
    const time = createFakeTime();
    await using opened = open(server.url, { setTimer: time.setTimer });
    await sendEndpoint(server);
    expect(await opened.outcome(request(1))).toBe("accepted");
    await time.advance(24 * 60 * 60 * 1000);
    expect(await opened.outcome(request(2))).toBe("accepted");
    expect(opened.heard.order).toEqual([]);
  });

  it("is over when no endpoint comes in time", async () => {
    await using server = await startServer();
    const time = createFakeTime();
    await using opened = open(server.url, { setTimer: time.setTimer, endpointMs: 500 });
    const sent = opened.outcome(request(1));
    const call = await server.opened;
    await time.advance(500);
    expect(await sent).toEqual(failure("upstream_timeout", "sent no endpoint event"));
    expect(await opened.heard.whenClosed).toEqual(failure("upstream_timeout", "sent no endpoint event"));
    await call.closed;
    expect(time.pending()).toBe(0);
  });
});

describe("an answer that is not an event stream", () => {
  it.each([
    [404, {}, "answered with status 404$"],
    [401, {}, "rejected the gateway's credentials"],
    [307, { location: "/other" }, "answered with status 307; redirects are not followed"],
    [204, {}, "answered with status 204$"],
    [200, { "content-type": "application/json" }, "answered without an event stream"],
    [200, {}, "answered without an event stream"],
  ])("answered with %i %j closes the channel", async (status, headers, message) => {
    await using fake = await fakeUpstream((call) => {
      call.replyRaw(status, headers, status === 204 ? undefined : "secret words");
    });
    await using opened = open(fake.url);
    expect(await opened.outcome(request(1))).toEqual(
      failure(status === 401 ? "upstream_unreachable" : "upstream_invalid", message),
    );
    const error = await opened.heard.whenClosed;
    expect(error).toEqual(failure(status === 401 ? "upstream_unreachable" : "upstream_invalid", message));
    expect(error.details).toEqual(status === 200 ? undefined : { upstreamStatus: status });
    expect(fake.calls).toHaveLength(1);
  });

  it("closes the channel when it comes compressed, which was not asked for", async () => {
    await using fake = await fakeUpstream((call) => {
      const headers = { "content-type": "text/event-stream", "content-encoding": "gzip" };
      call.replyRaw(200, headers, gzipSync("event: endpoint\ndata: /messages\n\n"));
    });
    await using opened = open(fake.url);
    expect(await opened.heard.whenClosed).toEqual(failure("upstream_invalid", "compressed response"));
  });

  it("closes the channel when nobody listens at the other end", async () => {
    const fake = await fakeUpstream(() => {});
    const { url } = fake;
    await fake[Symbol.asyncDispose]();
    await using opened = open(url);
    expect(await opened.outcome(request(1))).toEqual(failure("upstream_unreachable", "ECONNREFUSED"));
    expect(await opened.heard.whenClosed).toEqual(failure("upstream_unreachable", "ECONNREFUSED"));
    await expect(opened.channel.send(request(2))).rejects.toEqual(failure("upstream_unreachable", "ECONNREFUSED"));
  });

  it("closes the channel only after it was handed out, also when it cannot even be tried", async () => {
    const { upstream, [Symbol.asyncDispose]: dispose } = sseUpstream("http://127.0.0.1:1/sse");
    await dispose();
    const heard = listen();
    const channel = openSseChannel(upstream, heard);
    expect(heard.order).toEqual([]);
    expect(await heard.whenClosed).toEqual(failure("upstream_unreachable", "UND_ERR_DESTROYED"));
    await expect(channel.send(request(1))).rejects.toEqual(failure("upstream_unreachable", "UND_ERR_DESTROYED"));
  });
});

describe("the end of a session", () => {
  it("comes with the end of the stream, once and after the last message", async () => {
    await using server = await startServer(() => {});
    await using opened = open(server.url);
    const stream = await sendEndpoint(server);
    const message = "the upstream ended its event stream, which ends the session";
    const sent = opened.outcome(request(1));
    const post = await server.posted(1);
    await stream.write('data: {"last":1}\n\ndata: {"cut off":');
    stream.end();
    expect(await opened.heard.whenClosed).toEqual(failure("upstream_unreachable", message));
    expect(await sent).toEqual(failure("upstream_unreachable", message));
    await expect(opened.channel.send(request(2))).rejects.toEqual(failure("upstream_unreachable", message));
    await post.closed;
    await opened.channel.close("not needed");
    expect(opened.heard.order).toEqual(["message", "closed"]);
    expect(opened.heard.messages).toEqual(['{"last":1}']);
  });

  it("comes when the connection breaks", async () => {
    await using server = await startServer();
    await using opened = open(server.url);
    const stream = await sendEndpoint(server);
    await opened.channel.send(request(1));
    stream.hangUp();
    expect(await opened.heard.whenClosed).toEqual(
      failure("upstream_unreachable", "the connection to the upstream broke, which ends the session"),
    );
  });

  it("comes with an event over the limit, whose rest is not read", async () => {
    await using server = await startServer();
    await using opened = open(server.url, { limits: { maxBytes: 1000, maxDepth: 10, maxBatch: 1 } });
    const stream = await sendEndpoint(server);
    await stream.write(`data: "${"x".repeat(2000)}`);
    expect(await opened.heard.whenClosed).toEqual(failure("upstream_invalid", "an event of more than 1000 bytes"));
    await (
      await server.opened
    ).closed;
    expect(opened.heard.messages).toEqual([]);
  });

  it("comes with close, which ends the stream and what is being posted", async () => {
    await using server = await startServer(() => {});
    await using opened = open(server.url);
    await sendEndpoint(server);
    const sent = opened.channel.send(request(1));
    const post = await server.posted(1);
    const closing = opened.channel.close("the client disconnected");
    await expect(sent).rejects.toEqual(failure("upstream_unreachable", "closed: the client disconnected"));
    await closing;
    await opened.channel.close("again");
    await Promise.all([post.closed, (await server.opened).closed]);
    expect(await opened.heard.whenClosed).toEqual(failure("upstream_unreachable", "closed: the client disconnected"));
    expect(opened.heard.order).toEqual(["closed"]);
  });

  it("comes with close also before there is a connection", async () => {
    await using server = await startServer();
    await using opened = open(server.url);
    const sent = opened.channel.send(request(1));
    const closing = opened.channel.close("never mind");
    await expect(sent).rejects.toEqual(failure("upstream_unreachable", "closed: never mind"));
    await closing;
    expect(opened.heard.order).toEqual(["closed"]);
    expect(server.fake.calls).toEqual([]);
  });
});

describe("posting", () => {
  it.each([
    [400, {}, "answered with status 400$"],
    [404, {}, "answered with status 404$"],
    [403, {}, "rejected the gateway's credentials"],
    [302, { location: "/elsewhere" }, "answered with status 302; redirects are not followed"],
    [500, {}, "answered with status 500$"],
  ])("fails for one message only when it is answered %i", async (status, headers, message) => {
    await using server = await startServer((call, count) => {
      if (count === 1) call.replyRaw(status, headers, "secret words");
      else call.replyRaw(202);
    });
    await using opened = open(server.url);
    await sendEndpoint(server);
    await expect(opened.channel.send(request(1))).rejects.toMatchObject({
      code: status === 403 ? "upstream_unreachable" : "upstream_invalid",
      message: expect.stringMatching(message) as unknown,
      details: { upstreamStatus: status },
    });
    await opened.channel.send(request(2));
    expect(server.posts.map(({ path }) => path)).toEqual(["/messages?sessionId=s1", "/messages?sessionId=s1"]);
    expect(opened.heard.order).toEqual([]);
  });

  it("says when a connection broke before any answer, so that the caller can judge whether to send again", async () => {
    await using server = await startServer((call) => {
      call.hangUp();
    });
    await using opened = open(server.url);
    await sendEndpoint(server);
    await expect(opened.channel.send(request(1))).rejects.toMatchObject({
      code: "upstream_unreachable",
      details: { answered: false },
    });
    expect(opened.heard.order).toEqual([]);
  });

  it("does not read long answers to the end", async () => {
    await using server = await startServer((call) => {
      void call.stream({ "content-type": "text/plain" }).write("x".repeat(200_000));
    });
    await using opened = open(server.url);
    await sendEndpoint(server);
    await opened.channel.send(request(1));
    await (
      await server.posted(1)
    ).closed;
    expect(opened.heard.order).toEqual([]);
  });

  it("is bounded in messages", async () => {
    await using server = await startServer(() => {});
    await using opened = open(server.url, { maxPending: 2 });
    await sendEndpoint(server);
    const waiting = [opened.outcome(request(1)), opened.outcome(request(2))];
    await expect(opened.channel.send(request(3))).rejects.toMatchObject({
      code: "overloaded",
      details: { current: 2, limit: 2, retryAfter: 1 },
    });
    (await server.posted(1)).replyRaw(202);
    (await server.posted(2)).replyRaw(202);
    expect(await Promise.all(waiting)).toEqual(["accepted", "accepted"]);
    const later = opened.channel.send(request(4));
    (await server.posted(3)).replyRaw(202);
    await later;
  });

  it("is bounded in bytes, but takes one large message when nothing else waits", async () => {
    await using server = await startServer(() => {});
    await using opened = open(server.url, { maxPendingBytes: 50 });
    const large = Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"${"x".repeat(100)}"}`);
    const sent = opened.channel.send(large);
    await expect(opened.channel.send(request(2))).rejects.toMatchObject({ code: "overloaded" });
    await sendEndpoint(server);
    (await server.posted(1)).replyRaw(202);
    await sent;
    expect(server.posts[0]?.text).toBe(large.toString());
  });
});

describe("the order of messages", () => {
  it("puts a request behind earlier notifications and answers, until the upstream has accepted them", async () => {
    await using server = await startServer(() => {});
    await using opened = open(server.url);
    await sendEndpoint(server);
    const sent = [notice, answer, request(1)].map(opened.outcome);
    const first = await server.posted(1);
    expect(opened.begun()).toBe(1);
    first.replyRaw(202);
    const second = await server.posted(2);
    expect(opened.begun()).toBe(2);
    second.replyRaw(202);
    (await server.posted(3)).replyRaw(202);
    expect(await Promise.all(sent)).toEqual(["accepted", "accepted", "accepted"]);
    expect(server.posts.map(({ text }) => text)).toEqual([notice, answer, request(1)].map(String));
  });

  it("lets requests run side by side", async () => {
    await using server = await startServer(() => {});
    await using opened = open(server.url, { setTimer: createFakeTime().setTimer });
    await sendEndpoint(server);
    const sent = [request(1), request(2), request(3)].map(opened.outcome);
    await server.posted(3);
    for (const post of server.posts.toReversed()) post.replyRaw(202);
    expect(await Promise.all(sent)).toEqual(["accepted", "accepted", "accepted"]);
    expect(server.posts.map(({ text }) => text).toSorted()).toEqual([1, 2, 3].map((id) => String(request(id))));
  });

  it("does not wait long for a server that answers a POST only when the work is done", async () => {
    await using server = await startServer(() => {});
    const time = createFakeTime();
    await using opened = open(server.url, { setTimer: time.setTimer });
    await sendEndpoint(server);
    const called = opened.channel.send(request(1));
    const call = await server.posted(1);
    const answered = opened.channel.send(answer);
    await time.advance(999);
    expect(opened.begun()).toBe(1);
    await time.advance(1);
    (await server.posted(2)).replyRaw(202);
    await answered;
    call.replyRaw(202);
    await called;
    expect(server.posts.map(({ text }) => text)).toEqual([String(request(1)), String(answer)]);
  });

  it.each([
    ["was refused", 500, "upstream_invalid"],
    ["met a broken connection", undefined, "upstream_unreachable"],
  ])("goes on at once behind a message that %s", async (_case, status, code) => {
    await using server = await startServer((call, count) => {
      if (count > 1) call.replyRaw(202);
      else if (status === undefined) call.hangUp();
      else call.replyRaw(status);
    });
    const time = createFakeTime();
    await using opened = open(server.url, { setTimer: time.setTimer });
    await sendEndpoint(server);
    const sent = [notice, request(1)].map(opened.outcome);
    expect(await Promise.all(sent)).toEqual([failure(code, "the upstream"), "accepted"]);
    expect(time.pending()).toBe(0);
  });
});
