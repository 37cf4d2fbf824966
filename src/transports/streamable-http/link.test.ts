import type { Dispatcher } from "undici";
import { describe, expect, it } from "vitest";

import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { defaultLimits } from "../../protocol/message.ts";
import type { LinkEvents } from "../transport.ts";
import type { HttpEndpoint } from "./endpoint.ts";
import { createHttpLink } from "./link.ts";

interface Sent {
  readonly options: Dispatcher.DispatchOptions;
  readonly body: { readonly method?: string; readonly id?: unknown };
  readonly headers: Readonly<Record<string, string>>;
  readonly isAborted: () => boolean;
  /** Answers with JSON, or with a status alone. */
  readonly reply: (status: number, json?: unknown, headers?: Readonly<Record<string, string>>) => void;
  /** Answers with an event stream. */
  readonly stream: (messages: readonly unknown[]) => void;
  /** Sends an event and leaves the stream open. */
  readonly begin: (message: unknown) => void;
  /** Breaks the connection before a response. */
  readonly fail: (code: string) => void;
}

/** A legacy link whose requests are answered by the test. */
function setUp() {
  const time = createFakeTime();
  const sent: Sent[] = [];
  const received: unknown[] = [];
  const endpoint: HttpEndpoint = {
    origin: "http://upstream.example",
    path: "/mcp",
    headers: {},
    forwardHeaders: [],
    limits: defaultLimits,
    setTimer: time.setTimer,
    quickMs: 1000,
    newId: () => "link-1",
    dispatcher: {
      dispatch: (options, handler) => {
        let isAborted = false;
        const controller = { abort: () => (isAborted = true), pause: () => {}, resume: () => {} } as never;
        handler.onRequestStart?.(controller, undefined);
        sent.push({
          options,
          body: JSON.parse(Buffer.isBuffer(options.body) ? options.body.toString() : "{}") as Sent["body"],
          headers: options.headers as Record<string, string>,
          isAborted: () => isAborted,
          reply: (status, json, headers = {}) => {
            handler.onResponseStart?.(controller, status, { "content-type": "application/json", ...headers }, "");
            if (json !== undefined) handler.onResponseData?.(controller, Buffer.from(JSON.stringify(json)));
            handler.onResponseEnd?.(controller, {});
          },
          begin: (message) => {
            handler.onResponseStart?.(controller, 200, { "content-type": "text/event-stream" }, "");
            handler.onResponseData?.(controller, Buffer.from(`data: ${JSON.stringify(message)}\n\n`));
          },
          stream: (messages) => {
            const text = messages.map((message) => `data: ${JSON.stringify(message)}\n\n`).join("");
            handler.onResponseStart?.(controller, 200, { "content-type": "text/event-stream" }, "");
            handler.onResponseData?.(controller, Buffer.from(text));
            handler.onResponseEnd?.(controller, {});
          },
          fail: (code) => {
            handler.onResponseError?.(controller, Object.assign(new Error(code), { code }));
          },
        });
        return true;
      },
    },
  };
  const events: LinkEvents = {
    message: (message) => void received.push(message.method),
    malformed: () => {},
    error: () => {},
    closed: () => {},
  };
  const link = createHttpLink(endpoint, "legacy", events);
  const result = (id: unknown, value: unknown = {}) => ({ jsonrpc: "2.0", id, result: value });
  return { link, sent, received, result, time };
}

async function initialized() {
  const rig = setUp();
  const handshake = rig.link.request(exchangeWith(requestOf("initialize", {}, "init")));
  rig.sent[0]?.reply(200, rig.result("init", { protocolVersion: "2025-11-25" }), { "mcp-session-id": "s1" });
  await handshake;
  return rig;
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe("a link over Streamable HTTP", () => {
  it("sends the session and revision of the handshake with every later message", async () => {
    const { link, sent, result } = await initialized();
    const call = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 1)));
    expect(sent[1]?.headers).toMatchObject({ "mcp-session-id": "s1", "mcp-protocol-version": "2025-11-25" });
    sent[1]?.reply(200, result(1));
    expect(await call).toMatchObject({ status: 200, message: { kind: "result" } });
  });

  it("repeats the handshake once when the upstream has lost the session, and then every waiting call", async () => {
    const { link, sent, result } = await initialized();
    const calls = [1, 2].map((id) => link.request(exchangeWith(requestOf("tools/call", { name: "x" }, id))));
    sent[1]?.reply(404);
    sent[2]?.reply(404);
    await settled();
    expect(sent.slice(3).map(({ body }) => body.method)).toEqual(["initialize"]);
    sent[3]?.reply(200, result("init", { protocolVersion: "2025-11-25" }), { "mcp-session-id": "s2" });
    await settled();
    expect(sent.slice(4).map(({ headers }) => headers["mcp-session-id"])).toEqual(["s2", "s2"]);
    for (const { body, reply } of sent.slice(4)) reply(200, result(body.id));
    expect(await Promise.all(calls)).toHaveLength(2);
  });

  it("sends a list again after a broken connection, but never a tool call", async () => {
    const { link, sent, result } = await initialized();
    const list = link.request(exchangeWith(requestOf("tools/list", {}, 1)));
    sent[1]?.fail("ECONNRESET");
    await settled();
    sent[2]?.reply(200, result(1));
    expect(await list).toMatchObject({ status: 200 });
    const call = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 2)));
    sent[3]?.fail("ECONNRESET");
    await expect(call).rejects.toMatchObject({ code: "upstream_unreachable" });
    expect(sent).toHaveLength(4);
  });

  it("aborts a request that times out, and tells a legacy upstream", async () => {
    const { link, sent } = await initialized();
    const exchange = exchangeWith(requestOf("tools/call", { name: "x" }, 1));
    const call = link.request(exchange);
    exchange.cancellation.cancel("timeout");
    await expect(call).rejects.toMatchObject({ code: "upstream_timeout" });
    expect(sent[1]?.isAborted()).toBe(true);
    expect(sent[2]?.body).toMatchObject({ method: "notifications/cancelled", params: { requestId: 1 } });
  });

  it("does not send a request that was cancelled before", async () => {
    const { link, sent } = await initialized();
    const exchange = exchangeWith(requestOf("tools/call", { name: "x" }, 1));
    exchange.cancellation.cancel("timeout");
    await expect(link.request(exchange)).rejects.toMatchObject({ code: "upstream_timeout" });
    expect(sent).toHaveLength(1);
  });

  it("delivers notifications of a response stream before the response, which settles the call once", async () => {
    const { link, sent, received } = await initialized();
    const call = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 1)));
    sent[1]?.stream([
      { jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "hi" } },
      { jsonrpc: "2.0", id: 1, result: {} },
      { jsonrpc: "2.0", id: 1, result: { again: true } },
    ]);
    expect(await call).toMatchObject({ message: { kind: "result" } });
    expect(received).toEqual(["notifications/message", undefined]);
  });

  it("gives up a notification that the upstream does not accept, but not a call", async () => {
    const { link, sent, time, result } = await initialized();
    const told = link.send(exchangeWith(notificationOf("notifications/x")));
    const call = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 1)));
    const failed = told.catch((error: unknown) => error);
    await time.advance(1000);
    expect(await failed).toMatchObject({ code: "upstream_timeout" });
    expect(sent.slice(1).map(({ isAborted }) => isAborted())).toEqual([true, false]);
    sent[2]?.reply(200, result(1));
    expect(await call).toMatchObject({ status: 200 });
  });

  it("has so many answers and notifications under way and no more, while calls go on", async () => {
    const { link, sent, result } = await initialized();
    const message = notificationOf("notifications/x");
    const told = Array.from({ length: 1000 }, async () => link.send(exchangeWith(message)));
    await expect(link.send(exchangeWith(message))).rejects.toMatchObject({ code: "overloaded" });
    const call = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 1)));
    sent.at(-1)?.reply(200, result(1));
    expect(await call).toMatchObject({ status: 200 });
    // Each that is accepted, or fails, makes room for one.
    sent[1]?.reply(202);
    sent[2]?.fail("ECONNRESET");
    const next = [1, 2].map(async () => link.send(exchangeWith(message)));
    await expect(link.send(exchangeWith(message))).rejects.toMatchObject({ code: "overloaded" });
    for (const { body, reply } of sent.slice(3)) if (body.method === "notifications/x") reply(202);
    const outcomes = await Promise.allSettled([...told, ...next]);
    expect(outcomes.filter(({ status }) => status === "rejected")).toHaveLength(1);
  });

  it("closes a stream that stays open after the answer", async () => {
    const { link, sent, time, result } = await initialized();
    const call = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 1)));
    sent[1]?.begin(result(1));
    await call;
    await time.advance(4999);
    expect(sent[1]?.isAborted()).toBe(false);
    await time.advance(1);
    expect(sent[1]?.isAborted()).toBe(true);
  });

  it("lets nothing wait longer than its own time for a session that is renewed, and renews it again", async () => {
    const { link, sent, time, result } = await initialized();
    const lost = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 1)));
    sent[1]?.reply(404);
    await settled();
    const waiting = exchangeWith(requestOf("tools/call", { name: "x" }, 2));
    const late = link.request(waiting);
    waiting.cancellation.cancel("timeout");
    await expect(late).rejects.toMatchObject({ code: "upstream_timeout" });
    const failed = lost.catch((error: unknown) => error);
    await time.advance(1000);
    expect(await failed).toMatchObject({ code: "upstream_timeout" });
    const next = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 3)));
    await settled();
    sent.at(-1)?.reply(404);
    await settled();
    expect(sent.at(-1)?.body.method).toBe("initialize");
    sent.at(-1)?.reply(200, result("init", { protocolVersion: "2025-11-25" }), { "mcp-session-id": "s2" });
    await settled();
    sent.at(-1)?.reply(200, result(3));
    expect(await next).toMatchObject({ status: 200 });
  });

  it("rejects everything and deletes the session when it is closed", async () => {
    const { link, sent } = await initialized();
    const call = link.request(exchangeWith(requestOf("tools/call", { name: "x" }, 1)));
    const closing = link.close("bye");
    await expect(call).rejects.toMatchObject({ code: "cancelled", message: "bye" });
    await settled();
    expect(sent.at(-1)?.options.method).toBe("DELETE");
    sent.at(-1)?.reply(200);
    await closing;
    await expect(link.send(exchangeWith(notificationOf("notifications/x")))).rejects.toMatchObject({
      code: "upstream_unreachable",
    });
  });
});
