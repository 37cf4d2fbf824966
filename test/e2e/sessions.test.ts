import { describe, expect, it } from "vitest";

import { proceed } from "../../src/core/interceptors/action.ts";
import { defineInterceptor } from "../../src/core/interceptors/interceptor.ts";
import { newestModern } from "../../src/protocol/revisions.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import {
  handshake,
  messageOf,
  nextMessage,
  openSession,
  textResult,
  toolCall,
  type LegacySession,
} from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { exchange, openStream, post } from "../support/raw-http.ts";

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });

/** Holds calls back until the test answers them, by the name of the tool. */
function heldCalls(): {
  readonly hold: Answering;
  readonly arrival: (tool: string) => Promise<UpstreamCall>;
} {
  const arrivals = new Map<unknown, PromiseWithResolvers<UpstreamCall>>();
  const arrivalOf = (tool: unknown): PromiseWithResolvers<UpstreamCall> => {
    const arrival = arrivals.get(tool) ?? Promise.withResolvers<UpstreamCall>();
    arrivals.set(tool, arrival);
    return arrival;
  };
  return {
    hold: (call, message) => {
      if (message.method === "tools/call") arrivalOf(message.params?.["name"]).resolve(call);
      else if (message.method === undefined) call.replyRaw(202);
      else call.reply({ jsonrpc: "2.0", id: message.id, result: {} });
    },
    arrival: async (tool) => arrivalOf(tool).promise,
  };
}

describe("the version header", () => {
  it("[SC-004] may be missing in a legacy session, which then speaks the revision it agreed on", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const newer = await openSession(gateway.url, "2025-11-25");
    const older = await openSession(gateway.url, "2025-03-26");
    const ids = { "mcp-session-id": newer.id };
    expect(await post(gateway.url, ping, ids)).toMatchObject({ status: 200, json: { id: 1, result: {} } });
    // Only 2025-03-26 has batches, so this tells which revision governs.
    expect((await post(gateway.url, [ping], ids)).status).toBe(400);
    expect(await post(gateway.url, [ping], { "mcp-session-id": older.id })).toMatchObject({
      status: 200,
      json: [{ id: 1, result: {} }],
    });
  });

  it("[SC-004] is an error where it names a revision that nobody knows", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const { headers } = await openSession(gateway.url);
    const answer = await post(gateway.url, ping, { ...headers, "mcp-protocol-version": "1999-01-01" });
    expect(answer).toMatchObject({ status: 400, json: { id: 1, error: { data: { origin: "gateway" } } } });
    expect(upstream.received("ping")).toHaveLength(0);
  });

  it("[SC-005] must name the revision that the session agreed on, and goes upstream as that", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-06-18");
    const answer = await post(gateway.url, ping, {
      ...session.headers,
      "mcp-protocol-version": "2025-11-25",
    });
    expect(answer).toMatchObject({
      status: 400,
      json: { id: 1, error: { data: { code: "invalid_message" } } },
    });
    for (const method of ["GET", "DELETE"]) {
      const headers = { ...session.headers, "mcp-protocol-version": "2025-11-25", accept: "text/event-stream" };
      expect([method, (await exchange(gateway.url, { method, headers })).status]).toEqual([method, 400]);
    }
    expect((await session.post(ping)).status).toBe(200);
    expect(upstream.received("ping")).toMatchObject([{ headers: { "mcp-protocol-version": "2025-06-18" } }]);
  });

  it("[SC-004] of a modern request must be there and equal its body, and only then must it be supported", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const { headers, body } = modernRequest(7, "tools/list");
    const { "mcp-protocol-version": _named, ...nameless } = headers;
    const mismatch = { status: 400, json: { id: 7, error: { code: -32_020, data: { origin: "gateway" } } } };
    expect(await post(gateway.url, body, nameless)).toMatchObject(mismatch);
    expect(await post(gateway.url, body, { ...headers, "mcp-protocol-version": "2025-11-25" })).toMatchObject(mismatch);

    const future = JSON.parse(JSON.stringify(body).replace(newestModern, "2099-01-01")) as unknown;
    expect(await post(gateway.url, future, { ...headers, "mcp-protocol-version": "2099-01-01" })).toMatchObject({
      status: 400,
      json: { id: 7, error: { code: -32_022, data: { supported: [newestModern], requested: "2099-01-01" } } },
    });
    expect(upstream.calls).toHaveLength(0);
  });
});

describe("a session", () => {
  it("that is not named is 400 and one that is unknown 404, never one for the other", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const named = { "mcp-session-id": "never-opened" };
    const missing = { status: 400, json: { error: { code: -32_000, data: { code: "session_missing" } } } };
    const unknown = { status: 404, json: { error: { code: -32_001, data: { code: "session_unknown" } } } };
    expect(await post(gateway.url, ping)).toMatchObject(missing);
    expect(await post(gateway.url, ping, named)).toMatchObject(unknown);
    const stream = { accept: "text/event-stream" };
    expect(await exchange(gateway.url, { headers: stream })).toMatchObject(missing);
    expect(await exchange(gateway.url, { headers: { ...stream, ...named } })).toMatchObject(unknown);
    expect(await exchange(gateway.url, { method: "DELETE" })).toMatchObject(missing);
    expect(await exchange(gateway.url, { method: "DELETE", headers: named })).toMatchObject(unknown);
    expect(upstream.calls).toHaveLength(0);
  });

  it("is over after DELETE, upstream too", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const listening = await session.listen();
    expect((await session.end()).status).toBe(200);
    expect((await session.post(ping)).status).toBe(404);
    expect((await session.end()).status).toBe(404);
    expect(await listening.next()).toBeUndefined();
    await expect
      .poll(() => upstream.of("DELETE"))
      .toMatchObject([{ headers: { "mcp-session-id": upstream.sessions[0] } }]);
  });

  it("that ends while a call runs answers that call", async () => {
    const { hold, arrival } = heldCalls();
    await using upstream = await legacyUpstream(hold);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const running = session.post(toolCall(5, "slow"));
    const call = await arrival("slow");
    await session.end();
    expect(await running).toMatchObject({
      json: { id: 5, error: { data: { origin: "gateway", code: "session_unknown" } } },
    });
    await call.closed;
  });

  it("is unknown on every other route", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      routes: { one: { upstream: { url: upstream.url } }, two: { upstream: { url: upstream.url } } },
    });
    const { headers } = await openSession(`${gateway.origin}/one/mcp`);
    expect((await post(`${gateway.origin}/one/mcp`, ping, headers)).status).toBe(200);
    expect((await post(`${gateway.origin}/two/mcp`, ping, headers)).status).toBe(404);
  });

  it("[SC-046] has an id of ours for the client and the upstream's own for the upstream, joined in its context", async () => {
    const seen: unknown[] = [];
    const looking = defineInterceptor({
      name: "looking",
      methods: ["ping"],
      phase: "request",
      onMessage: ({ exchange: { session } }) => {
        seen.push({ id: session?.id, upstreamId: session?.upstreamId });
        return proceed();
      },
    });
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } }, { interceptors: [looking] });
    const first = await openSession(gateway.url);
    const second = await openSession(gateway.url);
    await first.post(ping);
    await second.post(ping);
    expect(upstream.sessions).toEqual(["upstream-1", "upstream-2"]);
    expect(new Set([first.id, second.id, ...upstream.sessions]).size).toBe(4);
    expect(seen).toEqual([
      { id: expect.any(String), upstreamId: "upstream-1" },
      { id: expect.any(String), upstreamId: "upstream-2" },
    ]);
    const ours = seen.map((context) => Reflect.get(Object(context), "id") as string);
    expect(new Set([...ours, ...upstream.sessions]).size).toBe(4);
    expect(upstream.received("ping").map(({ headers }) => headers["mcp-session-id"])).toEqual(upstream.sessions);
  });
});

describe("the life of sessions", () => {
  it("[SC-071] ends when they are idle, not while a stream is open", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url }, sessions: { idleTimeout: "1s" } });
    const listening = await openSession(gateway.url);
    const stream = await listening.listen();
    const idle = await openSession(gateway.url);
    await expect.poll(() => upstream.of("DELETE")).toMatchObject([{ headers: { "mcp-session-id": "upstream-2" } }]);
    expect((await idle.post(ping)).status).toBe(404);
    expect((await listening.post(ping)).status).toBe(200);
    stream.close();
    await expect.poll(() => upstream.of("DELETE")).toHaveLength(2);
    expect((await listening.post(ping)).status).toBe(404);
  });

  it("[SC-071] ends at a certain age, whatever they do", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url }, sessions: { maxAge: "1s" } });
    const session = await openSession(gateway.url);
    const stream = await session.listen();
    await expect.poll(async () => (await session.post(ping)).status).toBe(404);
    expect(await stream.next()).toBeUndefined();
  });

  it("[SC-071] ends for the one that was idle longest when there are too many, never for a busy one", async () => {
    const { hold, arrival } = heldCalls();
    await using upstream = await legacyUpstream(hold);
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      limits: { sessionsPerPrincipal: 3 },
    });
    const busy = await openSession(gateway.url);
    const running = busy.post(toolCall("call", "long"));
    const call = await arrival("long");
    const second = await openSession(gateway.url);
    const third = await openSession(gateway.url);
    expect((await second.post(ping)).status).toBe(200);

    const fourth = await openSession(gateway.url);
    const statuses = async (sessions: readonly LegacySession[]): Promise<number[]> =>
      Promise.all(sessions.map(async (session) => (await session.post(ping)).status));
    expect(await statuses([busy, second, third, fourth])).toEqual([200, 200, 404, 200]);
    call.reply(textResult("call", "done"));
    expect(await running).toMatchObject({ status: 200, json: textResult("call", "done") });
  });

  it("[SC-071] refuses a new one when all are busy, and says when to come back", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url }, limits: { sessions: 1 } });
    const only = await openSession(gateway.url);
    await using stream = await only.listen();
    expect(stream.status).toBe(200);
    expect(await post(gateway.url, handshake("2025-11-25", 9))).toMatchObject({
      status: 503,
      headers: { "retry-after": "5" },
      json: { id: 9, error: { data: { origin: "gateway", code: "overloaded", current: 1, limit: 1 } } },
    });
    expect((await only.post(ping)).status).toBe(200);
  });
});

describe("the session of a connection that stays open", () => {
  it("[SC-071] is not idle, and a new one is refused with its id when there is no room", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      limits: { sessions: 1 },
      sessions: { idleTimeout: "100ms" },
    });
    await using first = await connectSse(gateway.origin);
    await first.say(handshake("2024-11-05", 1));
    expect(await nextMessage(first.stream)).toMatchObject({ id: 1, result: {} });
    // A connection counts from its first byte, before anything names an id.
    const second = await exchange(`${gateway.origin}/sse`);
    expect(second.status).toBeGreaterThanOrEqual(429);
    expect(await post(gateway.url, handshake("2025-11-25", 2))).toMatchObject({
      status: 503,
      json: { id: 2, error: { data: { origin: "gateway", code: "overloaded" } } },
    });
    // Long enough for an idle session to be ended: another gateway's has been.
    await using clock = await openGateway({ upstream: { url: upstream.url }, sessions: { idleTimeout: "200ms" } });
    await openSession(clock.url);
    await expect.poll(() => upstream.of("DELETE")).toHaveLength(1);
    await first.say(ping);
    expect(await nextMessage(first.stream)).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
  });
});

/** An HTTP+SSE connection by hand. */
async function connectSse(origin: string) {
  const stream = await openStream(`${origin}/sse`, { headers: { accept: "text/event-stream" } });
  const endpoint = await stream.next();
  return {
    stream,
    say: async (message: unknown) => post(new URL(endpoint?.data ?? "", origin).href, message),
    [Symbol.asyncDispose]: stream[Symbol.asyncDispose],
  };
}

describe("equal ids that are in flight at once", () => {
  it("[SC-082] stay apart in two sessions, answered the other way round", async () => {
    const { hold, arrival } = heldCalls();
    await using upstream = await legacyUpstream(hold);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const [left, right] = [await openSession(gateway.url), await openSession(gateway.url)];
    const answers = [left.post(toolCall(1, "left")), right.post(toolCall(1, "right"))];
    const [toLeft, toRight] = [await arrival("left"), await arrival("right")];
    toRight.reply(textResult(1, "right"));
    expect(await answers[1]).toMatchObject({ json: textResult(1, "right") });
    toLeft.reply(textResult(1, "left"));
    expect(await answers[0]).toMatchObject({ json: textResult(1, "left") });
  });

  it("[SC-082] stay apart in two modern requests, answered the other way round", async () => {
    const arrivals = new Map([
      ["left", Promise.withResolvers<UpstreamCall>()],
      ["right", Promise.withResolvers<UpstreamCall>()],
    ]);
    await using upstream = await fakeUpstream((call) =>
      arrivals.get(String(sentMessage(call).params?.["name"]))?.resolve(call),
    );
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
    const ask = async (name: string) =>
      postModern(gateway.url, modernRequest(1, "tools/call", { name, arguments: {} }));
    const answers = [ask("left"), ask("right")];
    const [toLeft, toRight] = [await arrivals.get("left")?.promise, await arrivals.get("right")?.promise];
    const complete = (text: string) => ({
      jsonrpc: "2.0",
      id: 1,
      result: { resultType: "complete", content: [], text },
    });
    toRight?.reply(complete("right"));
    expect(await answers[1]).toMatchObject({ json: complete("right") });
    toLeft?.reply(complete("left"));
    expect(await answers[0]).toMatchObject({ json: complete("left") });
  });

  it("[SC-059, SC-082] stay apart where several clients share one process, with their progress tokens", async () => {
    await using gateway = await openGateway({ upstream: { server: () => createEverythingServer() } });
    const { headers, body } = modernRequest(1, "tools/call", {
      name: "test_tool_with_progress",
      arguments: {},
    });
    const withToken = (token: string | number): unknown =>
      JSON.parse(JSON.stringify(body).replace('"_meta":{', `"_meta":{"progressToken":${JSON.stringify(token)},`));
    const answers = await Promise.all([1, 1, "1"].map(async (token) => post(gateway.url, withToken(token), headers)));
    for (const [index, { events }] of answers.entries()) {
      const progressToken = index === 2 ? "1" : 1;
      const messages = events.map(messageOf);
      expect(messages.slice(0, 3)).toMatchObject(
        [0, 50, 100].map((progress) => ({ params: { progressToken, progress } })),
      );
      // What the server saw was another token; the answer is not ours to change.
      expect(messages.slice(3)).toMatchObject([{ id: 1, result: { content: [{ type: "text" }] } }]);
    }
  });

  it("[SC-082] stay apart where client and server ask each other with the same id", async () => {
    const answered = Promise.withResolvers<unknown>();
    await using upstream = await legacyUpstream(async (call, message) => {
      if (message.method === undefined) {
        answered.resolve(call.json);
        call.replyRaw(202);
        return;
      }
      const stream = call.stream();
      await stream.send({ jsonrpc: "2.0", id: 1, method: "roots/list" });
      await answered.promise;
      await stream.send(textResult(1, "after the roots"));
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    await using stream = await session.stream(toolCall(1, "asks"));
    expect(await nextMessage(stream)).toEqual({ jsonrpc: "2.0", id: 1, method: "roots/list" });
    const roots = { jsonrpc: "2.0", id: 1, result: { roots: [] } };
    expect((await session.post(roots)).status).toBe(202);
    expect(await answered.promise).toEqual(roots);
    expect(await nextMessage(stream)).toEqual(textResult(1, "after the roots"));
    expect(await nextMessage(stream)).toBeUndefined();
  });

  it("do not hide an answer to what nobody asked: it is taken and goes nowhere", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const before = upstream.of("POST").length;
    expect((await session.post({ jsonrpc: "2.0", id: 99, result: {} })).status).toBe(202);
    expect((await session.post(ping)).status).toBe(200);
    // Of messages: the gateway also asks for the session's stream.
    expect(upstream.of("POST")).toHaveLength(before + 1);
  });
});
