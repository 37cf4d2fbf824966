import { describe, expect, it } from "vitest";
import { type BridgedSession, openSession } from "../../../test/support/bridged-session.ts";
import { messageFrom } from "../../../test/support/exchange.ts";
import { settled } from "../../../test/support/fake-time.ts";
import type { LinkRequest } from "../../../test/support/modern-link.ts";
import { GatewayError } from "../../errors.ts";

const lists = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
const subscription = "io.modelcontextprotocol/subscriptionId";

async function acknowledge(stream: LinkRequest, notifications: unknown = stream.params["notifications"]) {
  await stream.say("notifications/subscriptions/acknowledged", {
    notifications,
    _meta: { [subscription]: stream.id },
  });
}

async function listening(server?: unknown): Promise<{ session: BridgedSession; stream: LinkRequest }> {
  const session = await openSession(server === undefined ? {} : { server });
  void session.link.listen();
  const stream = session.upstream.take("subscriptions/listen");
  await acknowledge(stream);
  return { session, stream };
}

describe("changes of a modern server", () => {
  it("are subscribed to once the client can receive them, as far as the server supports them", async () => {
    const { session, stream } = await listening({ tools: { listChanged: true }, prompts: {}, resources: {} });
    expect(stream.params["notifications"]).toEqual({ toolsListChanged: true });
    void session.link.listen();
    expect(session.upstream.requests.filter(({ method }) => method === "subscriptions/listen")).toHaveLength(1);
  });

  it("are not subscribed to where there are none", async () => {
    const session = await openSession({ server: { tools: {} } });
    void session.link.listen();
    expect(session.upstream.requests.map(({ method }) => method)).toEqual(["server/discover"]);
  });

  it("reach the client without a subscription id", async () => {
    const { session, stream } = await listening();
    await stream.say("notifications/tools/list_changed", { _meta: { [subscription]: stream.id } });
    await stream.say("notifications/resources/updated", {
      uri: "dock://1",
      _meta: { [subscription]: stream.id, keep: 1 },
    });
    await stream.say("notifications/prompts/list_changed");
    expect(session.events.map(({ value, related }) => [value, related])).toEqual([
      [{ jsonrpc: "2.0", method: "notifications/tools/list_changed", params: {} }, undefined],
      [
        {
          jsonrpc: "2.0",
          method: "notifications/resources/updated",
          params: { uri: "dock://1", _meta: { keep: 1 } },
        },
        undefined,
      ],
      [{ jsonrpc: "2.0", method: "notifications/prompts/list_changed" }, undefined],
    ]);
  });

  it("are recognised by their subscription id where the transport does not tell the stream", async () => {
    const { session, stream } = await listening();
    const text = (id: unknown): string =>
      `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"${subscription}":${String(id)}}}}`;
    await session.upstream.events().message(messageFrom(text(stream.id)), undefined, { type: "in-process" });
    await session.upstream.events().message(messageFrom(text(99)), undefined, { type: "in-process" });
    expect(session.events).toHaveLength(1);
  });
});

describe("subscribing to a resource", () => {
  it("opens a new stream with the whole filter, and closes the old one once it is acknowledged", async () => {
    const { session, stream } = await listening();
    const subscribe = session.begin("resources/subscribe", { uri: "dock://1" });
    const wider = session.upstream.take("subscriptions/listen");
    expect(wider.params["notifications"]).toEqual({ ...lists, resourceSubscriptions: ["dock://1"] });
    expect(stream.cancelled()).toBeUndefined();
    await acknowledge(wider);
    expect(stream.cancelled()).toBe("client-gone");
    expect(await subscribe.answer()).toEqual({ jsonrpc: "2.0", id: "c2", result: {} });
    const unsubscribe = session.begin("resources/unsubscribe", { uri: "dock://1" });
    const narrower = session.upstream.take("subscriptions/listen");
    expect(narrower.params["notifications"]).toEqual(lists);
    await acknowledge(narrower);
    expect(wider.cancelled()).toBe("client-gone");
    expect(await unsubscribe.answer()).toMatchObject({ result: {} });
    await settled();
    expect(session.troubles).toEqual([]);
  });

  it("twice changes nothing", async () => {
    const { session } = await listening();
    const first = session.begin("resources/subscribe", { uri: "dock://1" });
    await acknowledge(session.upstream.take("subscriptions/listen"));
    await first.reply;
    expect(await session.begin("resources/subscribe", { uri: "dock://1" }).answer()).toMatchObject({
      result: {},
    });
    expect(await session.begin("resources/unsubscribe", { uri: "dock://2" }).answer()).toMatchObject({
      result: {},
    });
    expect(() => session.upstream.take("subscriptions/listen")).toThrow("no request");
  });

  it("waits for the server until a timeout", async () => {
    const { session } = await listening();
    const subscribe = session.begin("resources/subscribe", { uri: "dock://1" });
    await session.time.advance(5000);
    expect(await subscribe.answer()).toMatchObject({ result: {} });
  });

  it("in quick succession leaves one stream, with everything", async () => {
    const { session, stream } = await listening();
    const calls = ["dock://1", "dock://2"].map((uri) => session.begin("resources/subscribe", { uri }));
    const [first, second] = [
      session.upstream.take("subscriptions/listen"),
      session.upstream.take("subscriptions/listen"),
    ];
    expect(first.cancelled()).toBe("client-gone");
    await acknowledge(second);
    expect(second.params["notifications"]).toEqual({
      ...lists,
      resourceSubscriptions: ["dock://1", "dock://2"],
    });
    expect(stream.cancelled()).toBe("client-gone");
    for (const call of calls) expect(await call.answer()).toMatchObject({ result: {} });
  });

  it("before the client listens takes effect when it does", async () => {
    const session = await openSession({ server: { resources: { subscribe: true } } });
    expect(await session.begin("resources/subscribe", { uri: "dock://1" }).answer()).toMatchObject({
      result: {},
    });
    expect(() => session.upstream.take("subscriptions/listen")).toThrow("no request");
    void session.link.listen();
    const stream = session.upstream.take("subscriptions/listen");
    expect(stream.params["notifications"]).toEqual({ resourceSubscriptions: ["dock://1"] });
    await acknowledge(stream);
    expect(await session.begin("resources/unsubscribe", { uri: "dock://1" }).answer()).toMatchObject({
      result: {},
    });
    expect(stream.cancelled()).toBe("client-gone");
    expect(() => session.upstream.take("subscriptions/listen")).toThrow("no request");
  });

  it("is limited, and needs a URI", async () => {
    const session = await openSession({ options: { limits: { maxResources: 1 } } });
    await session.begin("resources/subscribe", { uri: "dock://1" }).reply;
    await expect(session.begin("resources/subscribe", { uri: "dock://2" }).reply).rejects.toMatchObject({
      code: "overloaded",
    });
    await expect(session.begin("resources/subscribe", {}).reply).rejects.toMatchObject({
      code: "invalid_params",
    });
  });
});

describe("a listen stream that ends", () => {
  it("by breaking is opened again with exponential backoff", async () => {
    const { session, stream } = await listening();
    stream.fail(new GatewayError("upstream_unreachable", "gone"));
    for (const pause of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
      await session.time.advance(pause - 1);
      expect(() => session.upstream.take("subscriptions/listen")).toThrow("no request");
      await session.time.advance(1);
      session.upstream.take("subscriptions/listen").fail(new GatewayError("upstream_unreachable", "gone"));
      await settled();
    }
    await session.time.advance(30_000);
    const working = session.upstream.take("subscriptions/listen");
    await acknowledge(working);
    working.reply({ resultType: "complete", _meta: { [subscription]: working.id } });
    await session.time.advance(1000);
    expect(session.upstream.take("subscriptions/listen").params["notifications"]).toEqual(lists);
    expect(session.troubles.map(({ code }) => code)).toContain("upstream_unreachable");
  });

  it("by the server's cancel is opened again too", async () => {
    const { session, stream } = await listening();
    await stream.say("notifications/cancelled", { requestId: stream.id });
    expect(stream.cancelled()).toBe("cancelled");
    await session.time.advance(1000);
    expect(session.upstream.take("subscriptions/listen").params["notifications"]).toEqual(lists);
    expect(session.events).toEqual([]);
  });

  it.each([
    [
      "the server has no such method",
      async (stream: LinkRequest) => {
        stream.refuse({ code: -32601, message: "none" }, 404);
      },
    ],
    [
      "the server will tell nothing",
      async (stream: LinkRequest) => {
        await acknowledge(stream, {});
        stream.reply({ resultType: "complete" });
      },
    ],
  ])("is left closed when %s", async (_why, end) => {
    const session = await openSession();
    void session.link.listen();
    await end(session.upstream.take("subscriptions/listen"));
    await session.time.advance(120_000);
    expect(() => session.upstream.take("subscriptions/listen")).toThrow("no request");
    expect(session.time.pending()).toBe(0);
  });

  it("without ever being acknowledged is tried again", async () => {
    const session = await openSession();
    void session.link.listen();
    const silent = session.upstream.take("subscriptions/listen");
    await session.time.advance(30_000);
    expect(silent.cancelled()).toBe("timeout");
    await session.time.advance(1000);
    expect(session.upstream.take("subscriptions/listen").params["notifications"]).toEqual(lists);
  });

  it("with the upstream's process does not end the session", async () => {
    const { session, stream } = await listening();
    session.upstream.events().closed(new GatewayError("upstream_unreachable", "the process has ended"));
    stream.fail(new GatewayError("upstream_unreachable", "the process has ended"));
    await session.time.advance(1000);
    expect(session.upstream.take("subscriptions/listen").params["notifications"]).toEqual(lists);
    expect(await session.begin("ping").answer()).toMatchObject({ result: {} });
  });
});
