import { describe, expect, it } from "vitest";

import { createTestContext } from "../../../test/support/gateway-context.ts";
import { anonymous, type Exchange } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { idFrom } from "../../protocol/message.ts";
import type { Session } from "../../sessions/session.ts";
import type { GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import { type ChannelClient, serveChannel } from "./channel-client.ts";

const protocolVersion = "2025-11-25";
const initialize = {
  id: 1,
  method: "initialize",
  params: { protocolVersion, capabilities: {}, clientInfo: { name: "c", version: "1" } },
};
const modernMeta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "c", version: "1" },
};
const modernList = (id: number) => ({ id, method: "tools/list", params: { _meta: modernMeta } });

/** Agrees to every handshake, and answers every other request with no tools. */
async function agree({ message }: Exchange): Promise<Reply> {
  if (message.kind !== "request") return noReply;
  const result = message.method === "initialize" ? { protocolVersion, capabilities: {} } : { tools: [] };
  return { message: resultMessage(message.id, JSON.stringify(result)) };
}

interface Sent {
  readonly body: unknown;
  readonly resumeId: string | undefined;
}

function setUp(facts: Partial<ChannelClient> = {}, answer: (exchange: Exchange) => Promise<Reply> = agree) {
  const refused: unknown[] = [];
  const gateway = { ...createTestContext(), noteRefusal: (one) => refused.push(one) } as GatewayContext;
  const sent: Sent[] = [];
  const closed: string[] = [];
  const exchanges: Exchange[] = [];
  let sendToClient: ((message: never) => unknown) | undefined;
  // Only these members are used.
  const route = {
    name: "test",
    serving: { eras: "both", supported: ["2026-07-28"] },
    toolHeaders: undefined,
    registerSession: () => {},
    strayResponse: () => {},
    setClientSender: (_session: unknown, send: (message: never) => unknown) => {
      sendToClient = send;
    },
    answer: (exchange: Exchange) => {
      exchanges.push(exchange);
      return answer(exchange);
    },
  } as unknown as Route;
  const channel = {
    incarnation: "1",
    send: (bytes: Buffer, resumeId?: string) => {
      sent.push({ body: JSON.parse(bytes.toString()), resumeId });
    },
    close: async (reason: string) => {
      closed.push(reason);
    },
  };
  const events = serveChannel(gateway, channel, {
    route,
    principal: anonymous,
    eras: "both",
    transport: { type: "in-process" },
    mayStillRead: false,
    isLate: false,
    ...facts,
  });
  const send = (...messages: object[]): void => {
    const frames = messages.map((message) => ({ jsonrpc: "2.0", ...message }));
    events.message(Buffer.from(JSON.stringify(frames.length === 1 ? frames[0] : frames)));
  };
  /** The next things that the client gets. */
  const next = async (count: number): Promise<readonly Sent[]> => {
    await expect.poll(() => sent.length).toBeGreaterThanOrEqual(count);
    return sent.splice(0, count);
  };
  return { gateway, events, send, next, sent, closed, exchanges, refused, sender: () => sendToClient };
}

const gone = new GatewayError("cancelled", "the client closed its end");

describe("a client on a channel", () => {
  it("opens a session with its handshake, and calls in it", async () => {
    const { send, next, exchanges, sender } = setUp();
    send(initialize);
    expect(await next(1)).toMatchObject([{ body: { id: 1, result: { protocolVersion } } }]);
    send({ id: 2, method: "tools/list" });
    expect(await next(1)).toMatchObject([{ body: { id: 2, result: { tools: [] } } }]);
    expect(exchanges[1]?.session).toBe(exchanges[0]?.session);
    expect(sender()).toBeTypeOf("function");
  });

  it("needs a session, or a request of the modern era", async () => {
    const { send, next } = setUp();
    send({ id: 1, method: "tools/list" });
    expect(await next(1)).toMatchObject([{ body: { id: 1, error: { data: { code: "session_missing" } } } }]);
    send(modernList(2));
    expect(await next(1)).toMatchObject([{ body: { id: 2, result: { tools: [] } } }]);
  });

  it("stays in the legacy era where the transport has no other, and once a session is open", async () => {
    const legacy = setUp({ eras: "legacy" });
    legacy.send(modernList(1));
    expect(await legacy.next(1)).toMatchObject([{ body: { error: { data: { code: "session_missing" } } } }]);
    const both = setUp();
    both.send(initialize);
    both.send(modernList(2));
    await both.next(2);
    expect(both.exchanges.map(({ era }) => era)).toEqual(["legacy", "legacy"]);
  });

  it("gets the answers to a batch in one array", async () => {
    const { send, next } = setUp({}, async ({ message }) => {
      if (message.kind !== "request") return noReply;
      return { message: resultMessage(message.id, JSON.stringify({ protocolVersion: "2025-03-26" })) };
    });
    send({ ...initialize, params: { ...initialize.params, protocolVersion: "2025-03-26" } });
    await next(1);
    send({ id: 2, method: "ping" }, { method: "notifications/initialized" }, { id: 3, method: "ping" });
    expect(await next(1)).toMatchObject([{ body: [{ id: 2 }, { id: 3 }] }]);
  });

  it("is told its session in the answer to initialize where it may resume", async () => {
    const { send, next } = setUp({ mayResume: true });
    send(initialize);
    const [opened] = await next(1);
    expect(opened?.resumeId).toBeTypeOf("string");
    send({ id: 2, method: "tools/list" });
    expect((await next(1))[0]?.resumeId).toBeUndefined();
  });

  it("gets an error for what is no message, which is noted", async () => {
    const { events, next, refused } = setUp();
    events.malformed(Buffer.from("hello"), "the line is not a JSON object or batch");
    expect(await next(1)).toMatchObject([{ body: { error: { code: -32700 } } }]);
    expect(refused).toMatchObject([{ route: "test", code: "parse_error" }]);
  });

  it("can try again after the upstream refused its handshake", async () => {
    const refusal = errorMessage(idFrom(1), { code: -32000, message: "no" });
    const { send, next, closed } = setUp({}, async (exchange) =>
      exchange.message.id?.key === "n:1" ? { message: refusal } : agree(exchange),
    );
    send(initialize);
    expect(await next(1)).toMatchObject([{ body: { id: 1, error: {} } }]);
    send({ ...initialize, id: 2 });
    expect(await next(1)).toMatchObject([{ body: { id: 2, result: {} } }]);
    expect(closed).toEqual([]);
  });

  it("is disconnected when its session ends", async () => {
    const { send, next, exchanges, closed } = setUp();
    send(initialize);
    await next(1);
    const session = exchanges[0]?.session as Session | undefined;
    session?.end("idle for too long");
    await expect.poll(() => closed).toEqual(["idle for too long"]);
  });

  it("cancels a modern request by a notification", async () => {
    const { send, exchanges } = setUp({}, () => new Promise(() => {}));
    send(modernList(7));
    send({ method: "notifications/cancelled", params: { requestId: 7, _meta: modernMeta } });
    await expect.poll(() => exchanges[0]?.cancellation.reason).toBe("client-gone");
  });

  it("that cannot read any more has its requests cancelled, then its session ended", async () => {
    const order: string[] = [];
    const running = Promise.withResolvers<Reply>();
    const { send, next, events, exchanges } = setUp({ onGone: () => order.push("gone") }, (exchange) =>
      exchange.message.method === "initialize" ? agree(exchange) : running.promise,
    );
    send(initialize);
    await next(1);
    send({ id: 2, method: "tools/list" });
    await expect.poll(() => exchanges.length).toBe(2);
    exchanges[1]?.cancellation.onCancel((reason) => order.push(reason));
    events.closed(gone);
    await expect.poll(() => order).toEqual(["client-gone", "gone"]);
    expect(exchanges[0]?.session).toMatchObject({ isOver: true });
  });

  it("that may still read gets its last answer before it is gone", async () => {
    const order: string[] = [];
    const running = Promise.withResolvers<Reply>();
    const { send, events, sent, exchanges } = setUp({ mayStillRead: true, onGone: () => order.push("gone") }, () =>
      running.promise.then((reply) => {
        order.push("answered");
        return reply;
      }),
    );
    send(modernList(1));
    await expect.poll(() => exchanges.length).toBe(1);
    events.closed(gone);
    expect(exchanges[0]?.cancellation.isCancelled).toBe(false);
    running.resolve({ message: resultMessage(exchanges[0]?.message.id ?? { key: "n:1", json: "1" }, "{}") });
    await expect.poll(() => order).toEqual(["answered", "gone"]);
    expect(sent).toHaveLength(1);
  });
});
