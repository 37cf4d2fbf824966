import { request, type IncomingMessage } from "node:http";
import { once } from "node:events";

import type { McpServer } from "@modelcontextprotocol/server";
import { afterEach, describe, expect, it } from "vitest";

import { createEverythingServer } from "../fixtures/everything/server.ts";
import { fakeUpstream, type UpstreamCall, type UpstreamStream } from "../support/fake-upstream.ts";
import {
  messageOf,
  nextMessage,
  openSession,
  textResult,
  toolCall,
  type LegacySession,
} from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type UpstreamMessage } from "../support/legacy-upstream.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern, streamModern } from "../support/modern-request.ts";
import { exchange, post, type RawStream } from "../support/raw-http.ts";

const ping = { jsonrpc: "2.0", id: "ping", method: "ping" };
const progress = (value: number) => ({
  jsonrpc: "2.0",
  method: "notifications/progress",
  params: { progressToken: "t", progress: value },
});
const withToken = { _meta: { progressToken: "t" } };
const complete = (id: unknown) => ({ jsonrpc: "2.0", id, result: { resultType: "complete", content: [] } });

/** The calls of tools as they come, each to be answered by the test; pings are answered at once. */
function callQueue() {
  const waiting: UpstreamCall[] = [];
  const takers: ((call: UpstreamCall) => void)[] = [];
  return {
    take: async (): Promise<UpstreamCall> => {
      const ready = waiting.shift();
      if (ready !== undefined) return ready;
      const { promise, resolve } = Promise.withResolvers<UpstreamCall>();
      takers.push(resolve);
      return promise;
    },
    put: (call: UpstreamCall): void => {
      const taker = takers.shift();
      if (taker === undefined) waiting.push(call);
      else taker(call);
    },
  };
}

describe("an answer that streams", () => {
  const eras = [
    {
      era: "legacy",
      start: async (): Promise<Meeting> => {
        const queue = callQueue();
        const upstream = await legacyUpstream((call) => queue.put(call));
        const gateway = await openGateway({ upstream: { url: upstream.url } });
        const session = await openSession(gateway.url, "2025-06-18");
        return meeting(gateway, upstream, queue.take, async () => session.stream(toolCall(1, "streams", withToken)));
      },
    },
    {
      era: "modern",
      start: async (): Promise<Meeting> => {
        const queue = callQueue();
        const upstream = await fakeUpstream((call) => queue.put(call));
        const gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
        const call = modernRequest(1, "tools/call", { name: "streams", arguments: {} });
        return meeting(gateway, upstream, queue.take, async () => streamModern(gateway.url, call));
      },
    },
  ];

  it.each(eras)(
    "[SC-040] opens at once and passes each event on before the next one is sent ($era)",
    async ({ start }) => {
      await using met = await start();
      const opening = met.open();
      const sending = (await met.taken()).stream({ "content-type": "text/event-stream; charset=utf-8" });
      // Nothing but the headers has been sent yet.
      await using stream = await opening;
      expect(stream).toMatchObject({ status: 200, headers: { "content-type": "text/event-stream" } });
      for (const value of [1, 2, 3]) {
        await sending.send(progress(value));
        expect(await nextMessage(stream)).toEqual(progress(value));
      }
      await sending.send(complete(1));
      sending.end();
      expect(await nextMessage(stream)).toEqual(complete(1));
      expect(await nextMessage(stream)).toBeUndefined();
    },
  );

  it.each(eras)("[SC-040] leaves within 5 ms, event for event ($era)", async ({ start }) => {
    await using met = await start();
    const opening = met.open();
    const sending = (await met.taken()).stream();
    await using stream = await opening;
    const times: number[] = [];
    for (let value = 0; value < 40; value++) {
      const sentAt = performance.now();
      await sending.send(progress(value));
      await nextMessage(stream);
      times.push(performance.now() - sentAt);
    }
    // The fastest: a wait of the gateway's own would hold up every event, a busy machine only some of them.
    expect(Math.min(...times)).toBeLessThan(5);
  });

  it.each(eras)(
    "[SC-040] is fetched once, and asked for again only where the answer is missing ($era)",
    async ({ start }) => {
      await using met = await start();
      const opening = met.open();
      const sending = (await met.taken()).stream();
      await using stream = await opening;
      await sending.write("retry: 1\n\n");
      await sending.send(complete(1), { id: "last" });
      sending.end();
      expect(await nextMessage(stream)).toEqual(complete(1));
      expect(await nextMessage(stream)).toBeUndefined();
      for (let round = 0; round < 5; round++) {
        const again = met.open();
        (await met.taken()).reply(complete(1));
        (await again).close();
      }
      // The session's own stream is asked for once, with the handshake; no answer is.
      const gets = met.calls.filter(({ method }) => method === "GET");
      expect(gets.filter(({ headers }) => headers["last-event-id"] !== undefined)).toHaveLength(0);
      expect(gets.length).toBeLessThanOrEqual(1);
    },
  );

  it.each([
    { asked: "0", told: 100 },
    { asked: "250", told: 250 },
    // A timer of that length would be over at once.
    { asked: "9007199254740991", told: 3_600_000 },
    { asked: "9".repeat(400), told: 3_600_000 },
  ])("asks clients to come back neither at once nor never: retry $asked", async ({ asked, told }) => {
    await using upstream = await legacyUpstream(async (call) => {
      const stream = call.stream();
      await stream.write(`id: e-1\nretry: ${asked}\ndata:\n\n`);
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-11-25");
    const { text } = await session.post(toolCall(1, "any"));
    expect(text).toContain(`retry: ${told}\n`);
  });

  it("[SC-040] is told by its content type, whatever the request was", async () => {
    await using upstream = await legacyUpstream(async (call, { id }) => {
      if (id === "json") return call.reply(textResult(id, "plain"));
      const stream = call.stream({
        "content-type": id === "sse" ? "text/event-stream" : "Text/Event-Stream ; charset=UTF-8",
      });
      await stream.send(textResult(id, "streamed"));
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-06-18");
    const plain = await session.post(toolCall("json", "any"));
    expect(plain).toMatchObject({
      headers: { "content-type": "application/json" },
      json: textResult("json", "plain"),
    });
    const streamed = await session.post(toolCall("sse", "any"));
    expect(streamed.headers["content-type"]).toBe("text/event-stream");
    expect(streamed.events.map(messageOf)).toEqual([textResult("sse", "streamed")]);
    const spelled = await session.post(toolCall("spelled", "any"));
    expect(spelled.events.map(messageOf)).toEqual([textResult("spelled", "streamed")]);
  });

  interface Meeting extends AsyncDisposable {
    readonly open: () => Promise<RawStream>;
    readonly taken: () => Promise<UpstreamCall>;
    readonly calls: readonly UpstreamCall[];
  }

  function meeting(
    gateway: LocalGateway,
    upstream: AsyncDisposable & { readonly calls: readonly UpstreamCall[] },
    taken: () => Promise<UpstreamCall>,
    open: () => Promise<RawStream>,
  ): Meeting {
    return {
      open,
      taken,
      calls: upstream.calls,
      [Symbol.asyncDispose]: async () => {
        await gateway[Symbol.asyncDispose]();
        await upstream[Symbol.asyncDispose]();
      },
    };
  }
});

describe("a modern stream", () => {
  it("is kept alive as its route says, not as the others", async () => {
    const queue = callQueue();
    await using upstream = await fakeUpstream((call) => queue.put(call));
    const to = { url: upstream.url, era: "modern" } as const;
    await using gateway = await openGateway({
      timeouts: { streamKeepAlive: "1h" },
      routes: { chatty: { upstream: to, timeouts: { streamKeepAlive: "20ms" } }, quiet: { upstream: to } },
    });
    const seen = { chatty: "", quiet: "" };
    for (const route of ["quiet", "chatty"] as const) {
      const { headers, body } = modernRequest(1, "tools/call", { name: "slow", arguments: {} });
      const outgoing = request(`${gateway.origin}/${route}/mcp`, { method: "POST", headers, agent: false });
      outgoing.end(JSON.stringify(body));
      (await queue.take()).stream();
      const [response] = (await once(outgoing, "response")) as [IncomingMessage];
      response.setEncoding("utf8").on("data", (part: string) => {
        seen[route] += part;
      });
    }
    await expect.poll(() => seen.chatty).toContain(": keep-alive\n\n: keep-alive\n\n");
    expect(seen.quiet).toBe("");
  });

  it("[SC-041] has no event ids, sends comments while it is silent, and takes those of the upstream", async () => {
    const queue = callQueue();
    await using upstream = await fakeUpstream((call) => queue.put(call));
    await using gateway = await openGateway({
      upstream: { url: upstream.url, era: "modern" },
      timeouts: { streamKeepAlive: "20ms" },
    });
    const { headers, body } = modernRequest(1, "tools/call", { name: "slow", arguments: {} });
    const outgoing = request(gateway.url, { method: "POST", headers, agent: false });
    outgoing.end(JSON.stringify(body));
    const sending = (await queue.take()).stream();
    const [response] = (await once(outgoing, "response")) as [IncomingMessage];
    let seen = "";
    response.setEncoding("utf8").on("data", (part: string) => {
      seen += part;
    });
    await expect.poll(() => seen).toContain(": keep-alive\n\n");
    await sending.write(": from upstream\n\n");
    await sending.send(progress(1), { id: "event-1", event: "message" });
    await sending.send(complete(1), { id: "event-2" });
    sending.end();
    await once(response, "end");
    expect(seen).not.toMatch(/^id:/mu);
    expect(seen).not.toContain("from upstream");
    expect(seen.split("\n").filter((line) => line.startsWith("data:"))).toEqual([
      `data: ${JSON.stringify(progress(1))}`,
      `data: ${JSON.stringify(complete(1))}`,
    ]);
  });

  it("[SC-041] that is closed cancels its request upstream and no other", async () => {
    const queue = callQueue();
    await using upstream = await fakeUpstream((call) => queue.put(call));
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
    const open = async (id: number): Promise<{ stream: RawStream; sending: UpstreamStream; call: UpstreamCall }> => {
      const opening = streamModern(gateway.url, modernRequest(id, "tools/call", { name: "slow", arguments: {} }));
      const call = await queue.take();
      const sending = call.stream();
      return { stream: await opening, sending, call };
    };
    const left = await open(1);
    const right = await open(2);
    left.stream.close();
    await left.call.closed;
    await right.sending.send(complete(2));
    right.sending.end();
    expect(await nextMessage(right.stream)).toEqual(complete(2));
    // Nothing is posted to cancel: closing is the cancel.
    expect(upstream.calls.map((call) => sentMessage(call).method)).toEqual(["tools/call", "tools/call"]);
  });

  it("[SC-041] that is closed before anything streamed cancels too", async () => {
    const queue = callQueue();
    await using upstream = await fakeUpstream((call) => queue.put(call));
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
    const leaving = new AbortController();
    const { headers, body } = modernRequest(1, "tools/call", { name: "slow", arguments: {} });
    const outgoing = request(gateway.url, { method: "POST", headers, agent: false, signal: leaving.signal });
    outgoing.on("error", () => {});
    outgoing.end(JSON.stringify(body));
    const call = await queue.take();
    leaving.abort();
    await expect(call.closed).resolves.toBeUndefined();
  });
});

describe("a modern notification", () => {
  it("is answered when the upstream has taken it, however long that takes", async () => {
    const queue = callQueue();
    await using upstream = await fakeUpstream((call) => queue.put(call));
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
    const { headers, body } = modernRequest(1, "notifications/acme/heard", { of: "something" });
    const { id: _id, ...notification } = body as { id: unknown };
    const answer = post(gateway.url, notification, headers);
    const call = await queue.take();
    // Another exchange passes in between, so that the request itself is long since read.
    const other = postModern(gateway.url, modernRequest(2, "tools/list"));
    (await queue.take()).reply(complete(2));
    expect((await other).status).toBe(200);
    call.replyRaw(202);
    expect(await answer).toMatchObject({ status: 202, text: "" });
  });
});

describe("a legacy stream that breaks", () => {
  const open: AsyncDisposable[] = [];
  afterEach(async () => {
    for (const thing of open.splice(0).toReversed()) await thing[Symbol.asyncDispose]();
  });

  interface Setting {
    readonly upstream: Awaited<ReturnType<typeof legacyUpstream>>;
    readonly url: string;
    readonly session: LegacySession;
    readonly other: LegacySession;
    readonly calls: () => Promise<UpstreamCall>;
    /** The next GET that takes up a broken stream. */
    readonly gets: () => Promise<UpstreamCall>;
  }

  async function setting(
    limits: { readonly eventStore?: { readonly streamBytes: number } } = {},
    revision: "2025-06-18" | "2025-11-25" = "2025-06-18",
  ): Promise<Setting> {
    const [queue, gets] = [callQueue(), callQueue()];
    const answer = (call: UpstreamCall, message: UpstreamMessage): void => {
      if (message.method === "tools/call") queue.put(call);
      else call.reply({ jsonrpc: "2.0", id: message.id, result: {} });
    };
    const upstream = await legacyUpstream(answer, (call) => {
      if (call.headers["last-event-id"] === undefined) call.stream();
      else gets.put(call);
    });
    open.push(upstream);
    const gateway = await openGateway({ upstream: { url: upstream.url }, limits });
    open.push(gateway);
    const session = await openSession(gateway.url, revision);
    const other = await openSession(gateway.url, revision);
    return { upstream, url: gateway.url, session, other, calls: queue.take, gets: gets.take };
  }

  it.each([
    { ids: "has event ids", id: (n: number) => ({ id: `up-${n}` }) },
    { ids: "cannot resume", id: () => ({}) },
  ])(
    "[SC-038] is taken up by the client where it left, with ids of ours, also when the upstream $ids",
    async ({ id }) => {
      const { session, calls, upstream } = await setting();
      const opening = session.stream(toolCall(1, "streams", withToken));
      const sending = (await calls()).stream();
      const stream = await opening;
      await sending.send(progress(1), id(1));
      const first = await stream.next();
      expect(messageOf(first)).toEqual(progress(1));
      expect(first?.id).not.toBe("up-1");
      stream.close();
      // The client is away: two events pass, and what comes of them is kept.
      await sending.send(progress(2), id(2));
      await sending.send(progress(3), id(3));
      const resumed = await session.listen(first?.id);
      expect(resumed.status).toBe(200);
      expect(await nextMessage(resumed)).toEqual(progress(2));
      expect(await nextMessage(resumed)).toEqual(progress(3));
      await sending.send(textResult(1, "done"), id(4));
      sending.end();
      expect(await nextMessage(resumed)).toEqual(textResult(1, "done"));
      expect(await nextMessage(resumed)).toBeUndefined();
      // A disconnect is not a cancel (MCP 2025-11-25, Streamable HTTP).
      expect(upstream.received("notifications/cancelled")).toHaveLength(0);
    },
  );

  it("[SC-038] is still there when everything had been sent", async () => {
    const { session, calls } = await setting();
    const opening = session.stream(toolCall(1, "streams", withToken));
    const sending = (await calls()).stream();
    const stream = await opening;
    await sending.send(progress(1));
    const first = await stream.next();
    stream.close();
    await sending.send(textResult(1, "done"));
    sending.end();
    const resumed = await session.listen(first?.id);
    expect(await nextMessage(resumed)).toEqual(textResult(1, "done"));
    expect(await nextMessage(resumed)).toBeUndefined();
  });

  it("[SC-038] upstream is taken up there with the id that the upstream gave, and the client notices nothing", async () => {
    const { session, calls, gets } = await setting();
    const opening = session.stream(toolCall(1, "streams", withToken));
    const sending = (await calls()).stream();
    const stream = await opening;
    await sending.write("retry: 5\n\n");
    await sending.send(progress(1), { id: "up-1" });
    expect(await nextMessage(stream)).toEqual(progress(1));
    sending.hangUp();

    const again = await gets();
    expect(again.headers).toMatchObject({ "last-event-id": "up-1", "mcp-session-id": "upstream-1" });
    const rest = again.stream();
    await rest.send(progress(2), { id: "up-2" });
    expect(await nextMessage(stream)).toEqual(progress(2));
    rest.hangUp();
    const third = await gets();
    expect(third.headers["last-event-id"]).toBe("up-2");
    await third.stream().send(textResult(1, "done"), { id: "up-3" });
    expect(await nextMessage(stream)).toEqual(textResult(1, "done"));
    expect(await nextMessage(stream)).toBeUndefined();
  });

  it("[SC-038] upstream and cannot be taken up there answers the call with an error", async () => {
    const { session, calls, upstream } = await setting();
    const opening = session.stream(toolCall(1, "streams", withToken));
    const sending = (await calls()).stream();
    const stream = await opening;
    await sending.send(progress(1));
    expect(await nextMessage(stream)).toEqual(progress(1));
    sending.hangUp();
    expect(await nextMessage(stream)).toMatchObject({
      id: 1,
      error: { code: -32_603, data: { origin: "gateway" } },
    });
    expect(await nextMessage(stream)).toBeUndefined();
    expect(upstream.of("GET").filter(({ headers }) => headers["last-event-id"] !== undefined)).toHaveLength(0);
  });

  it("[SC-038] of which events are no longer kept ends the waiting with an error", async () => {
    const { session, calls } = await setting({ eventStore: { streamBytes: 300 } });
    const opening = session.stream(toolCall(1, "streams", withToken));
    const sending = (await calls()).stream();
    const stream = await opening;
    await sending.send(progress(1));
    const first = await stream.next();
    stream.close();
    for (let value = 2; value < 12; value++) await sending.send(progress(value));
    // The last one has passed the gateway for sure when a later request has.
    await session.post(ping);
    const resumed = await session.listen(first?.id);
    expect(await nextMessage(resumed)).toMatchObject({ id: 1, error: { data: { origin: "gateway" } } });
    expect(await nextMessage(resumed)).toBeUndefined();
  });

  it("[SC-038] is not found by another session, nor by an id that nobody gave", async () => {
    const { url, session, other, calls } = await setting();
    const opening = session.stream(toolCall(1, "streams", withToken));
    const sending = (await calls()).stream();
    const stream = await opening;
    await sending.send(progress(1));
    const first = await stream.next();
    await sending.send(progress(2));
    for (const [where, id] of [
      [other, first?.id],
      [session, "made-up"],
      [session, `${first?.id}1`],
    ] as const) {
      const refused = await exchange(url, {
        headers: { ...where.headers, accept: "text/event-stream", "last-event-id": id },
      });
      expect(refused).toMatchObject({ status: 400, json: { error: { data: { code: "invalid_message" } } } });
      expect(refused.json).not.toHaveProperty("id");
      expect(refused.text).toContain("Last-Event-ID names no event that this session still knows");
    }
    expect(await nextMessage(stream)).toEqual(progress(2));
    stream.close();
  });

  it("ends the waiting with an error, too, when many later calls have been answered", async () => {
    const { session, calls } = await setting();
    const answerLater = async (id: number) => {
      const opening = session.stream(toolCall(id, "streams", withToken));
      const sending = (await calls()).stream();
      const stream = await opening;
      await sending.send(progress(1));
      const first = await stream.next();
      stream.close();
      await sending.send(textResult(id, "done"));
      sending.end();
      return first?.id;
    };
    const [first, second] = [await answerLater(1), await answerLater(2)];
    for (let id = 3; id < 30; id++) await answerLater(id);
    for (const [id, eventId] of [first, second].entries()) {
      const resumed = await session.listen(eventId);
      expect(await nextMessage(resumed)).toMatchObject({ id: id + 1, error: { data: { origin: "gateway" } } });
      expect(await nextMessage(resumed)).toBeUndefined();
    }
    for (let id = 30; id < 90; id++) await answerLater(id);
    const forgotten = await session.listen(first);
    expect(forgotten.status).toBe(400);
    forgotten.close();
  });

  it("is one of its kind: a second GET stream is refused", async () => {
    const { session } = await setting();
    const first = await session.listen();
    const second = await session.listen();
    expect(second.status).toBe(409);
    first.close();
    await expect
      .poll(async () => {
        const next = await session.listen();
        next.close();
        return next.status;
      })
      .toBe(200);
  });
});

describe("a reader that is too slow", () => {
  const line = "x".repeat(64 * 1024);

  /** A server with a tool that says 16 MB before it answers. */
  function talkative(): McpServer {
    const server = createEverythingServer();
    server.registerTool("talk", { description: "Says 16 MB" }, async ({ mcpReq }) => {
      const { _meta: meta } = mcpReq;
      for (let count = 1; count <= 256; count++) {
        const token = meta?.progressToken ?? "none";
        await mcpReq.notify({
          method: "notifications/progress",
          params: { progressToken: token, progress: count, message: line },
        });
      }
      return { content: [] };
    });
    return server;
  }

  it("of a server that others share is cut off, and the others get their answers", async () => {
    await using gateway = await openGateway({ upstream: { server: talkative } });
    const { headers, body } = modernRequest(1, "tools/call", { name: "talk", arguments: {} });
    const wordy = JSON.parse(JSON.stringify(body).replace('"_meta":{', '"_meta":{"progressToken":"t",')) as unknown;
    // It takes the headers and then reads nothing.
    await using slow = await streamModern(gateway.url, { headers, body: wordy });
    expect(slow.status).toBe(200);
    const answer = await postModern(gateway.url, modernRequest(1, "tools/list"));
    expect(answer).toMatchObject({ status: 200, json: { id: 1 } });
    await expect.poll(() => gateway.gateway.metrics()).toMatch(/evicted\w*\{[^}]*\} 1/u);
    await expect(lastOf(slow)).rejects.toThrow(/aborted/u);
  });

  it("of a server of its own slows that server down, and nobody else", async () => {
    const sent: number[] = [];
    await using upstream = await legacyUpstream(async (call, { id, method }) => {
      if (method !== "tools/call") return call.reply({ jsonrpc: "2.0", id, result: {} });
      const stream = call.stream();
      for (let value = 1; value <= 512; value++) {
        const message = { ...progress(value), params: { ...progress(value).params, message: line } };
        await stream.send(message);
        sent.push(value);
      }
      await stream.send(textResult(id, "done"));
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-06-18");
    const slow = await session.stream(toolCall(1, "talk", withToken));
    const other = await openSession(gateway.url);
    for (let round = 0; round < 20; round++) expect((await other.post(ping)).status).toBe(200);
    expect(sent.length).toBeLessThan(512);
    expect(await lastOf(slow)).toEqual(textResult(1, "done"));
    expect(sent).toHaveLength(512);
    expect((await post(gateway.url, ping, session.headers)).status).toBe(200);
  });

  /** Reads to the end; the last message. */
  async function lastOf(stream: RawStream): Promise<unknown> {
    let last: unknown;
    for (let event = await stream.next(); event !== undefined; event = await stream.next()) last = messageOf(event);
    return last;
  }
});
