import { createServer, IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, Socket } from "node:net";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { messageFrom, textOf } from "../../../test/support/exchange.ts";
import { createTestContext } from "../../../test/support/gateway-context.ts";
import { anonymous } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { systemTimer } from "../../lib/clock.ts";
import { idFrom, type Message } from "../../protocol/message.ts";
import type { Revision } from "../../protocol/revisions.ts";
import { createKeepAlive } from "../../transports/http/sse-response.ts";
import type { GatewayContext } from "../context.ts";
import { SessionStreams } from "../route/session-streams.ts";
import {
  HttpBatchReply,
  httpFactsOfPost,
  type HttpReplyTarget,
  LegacyReply,
  ModernReply,
  refuseRequest,
} from "./http-reply.ts";

const context = createTestContext();
const keepAlive = createKeepAlive(60_000, systemTimer);
const result = resultMessage(idFrom(1), '{"tools":[]}');
const progress = messageFrom('{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}');
const errorOf = (code: number): Message => errorMessage(idFrom(1), { code, message: "no" });

let respond: (target: HttpReplyTarget) => void = () => {};
const server = createServer((_request, response) => {
  respond({
    response,
    streamOptions: { queueBytes: 100_000, keepAlive },
    hold: () => context.bytes.hold("ann"),
    setChallenge: ({ error }) => response.setHeader("www-authenticate", `Bearer error="${error}"`),
  });
});

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
});

afterAll(() => {
  keepAlive.close();
  server.closeAllConnections();
  server.close();
});

interface Answer {
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
  readonly headers: Headers;
}

/** What a client gets of a reply. */
async function answerOf(write: (target: HttpReplyTarget) => void): Promise<Answer> {
  respond = write;
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp?token=secret`);
  const { status, headers } = response;
  return { status, headers, type: headers.get("content-type"), text: await response.text() };
}

function legacyReply(target: HttpReplyTarget, facts: { revision?: Revision; sealId?: () => string } = {}) {
  const session = context.registry.open("test", anonymous);
  session.revision = facts.revision ?? "2025-06-18";
  const streams = new SessionStreams(context, session, () => "label");
  const reply = new LegacyReply(target, {
    session,
    streams: () => streams,
    request: idFrom(1),
    sealId: facts.sealId,
  });
  return { reply, session, streams };
}

describe("the reply to a modern request", () => {
  it.each<[string, Reply, number]>([
    ["a result", { message: result }, 200],
    ["an unknown method", { message: errorOf(-32601) }, 404],
    ["a header mismatch", { message: errorOf(-32020) }, 400],
    ["invalid params", { message: errorOf(-32602) }, 200],
    ["an error of an upstream that spoke HTTP", { message: errorOf(-32000), status: 503 }, 503],
    ["a result, whatever the upstream's status was", { message: result, status: 201 }, 200],
    ["a notification", { message: undefined }, 202],
    ["a refused notification", { message: undefined, status: 403 }, 403],
  ])("has the status that the revision ties to %s", async (_what, reply, status) => {
    expect((await answerOf((target) => new ModernReply(target).finish(reply))).status).toBe(status);
  });

  it("is one JSON body as long as nothing streams", async () => {
    const { type, text } = await answerOf((target) => new ModernReply(target).finish({ message: result }));
    expect({ type, body: JSON.parse(text) as unknown }).toEqual({
      type: "application/json",
      body: { jsonrpc: "2.0", id: 1, result: { tools: [] } },
    });
  });

  it("is an event stream without ids once something streams, with the answer last", async () => {
    const { type, text } = await answerOf((target) => {
      const reply = new ModernReply(target);
      void reply.write(progress);
      void reply.writeRaw(Buffer.from("not JSON"), "note");
      reply.finish({ message: result });
    });
    expect(type).toBe("text/event-stream");
    const written = [progress, result].map((message) => `event: message\ndata: ${textOf(message)}\n\n`);
    expect(text).toBe([written[0], "event: note\ndata: not JSON\n\n", written[1]].join(""));
  });

  it("carries the challenge and the time to wait", async () => {
    const { headers } = await answerOf((target) =>
      new ModernReply(target).finish({
        message: errorOf(-32000),
        status: 403,
        retryAfter: 7,
        challenge: { error: "insufficient_scope", scopes: ["write"], description: "more" },
      }),
    );
    expect(headers.get("www-authenticate")).toBe('Bearer error="insufficient_scope"');
    expect(headers.get("retry-after")).toBe("7");
  });
});

describe("the reply in a legacy session", () => {
  it.each<[string, Reply, number]>([
    ["a result", { message: result }, 200],
    ["an error", { message: errorOf(-32601) }, 200],
    ["a 404 of the upstream, which would end the session", { message: errorOf(-32000), status: 404 }, 200],
    ["another status of the upstream", { message: errorOf(-32000), status: 429 }, 429],
    ["a notification", { message: undefined }, 202],
  ])("has the status for %s", async (_what, reply, status) => {
    expect((await answerOf((target) => legacyReply(target).reply.finish(reply))).status).toBe(status);
  });

  it("names the session in the answer to initialize, unless it is over", async () => {
    const opened = await answerOf((target) =>
      legacyReply(target, { sealId: () => "sealed" }).reply.finish({ message: result }),
    );
    expect(opened.headers.get("mcp-session-id")).toBe("sealed");
    const refused = await answerOf((target) => {
      const { reply, session } = legacyReply(target, { sealId: () => "sealed" });
      session.end("refused", "refused");
      reply.finish({ message: errorOf(-32000) });
    });
    expect(refused.headers.get("mcp-session-id")).toBeNull();
  });

  it.each<[Revision, boolean]>([
    ["2025-06-18", false],
    ["2025-11-25", true],
  ])("streams events with ids; in %s it begins with an empty one: %s", async (revision, isPrimed) => {
    const { text } = await answerOf((target) => {
      const { reply } = legacyReply(target, { revision });
      void reply.write(progress);
      reply.finish({ message: result });
    });
    const events = text.trim().split("\n\n");
    expect(events.every((event) => /^id: /mu.test(event))).toBe(true);
    expect(/^data: ?$/mu.test(events[0] ?? "")).toBe(isPrimed);
    expect(events).toHaveLength(isPrimed ? 3 : 2);
  });

  it("keeps the answer of a client that left before anything streamed, for its return", () => {
    const gone = { destroyed: true, headersSent: false } as ServerResponse;
    const target = {
      response: gone,
      streamOptions: { queueBytes: 1, keepAlive },
      hold: () => context.bytes.hold("ann"),
      setChallenge: () => {},
    };
    const { reply, streams } = legacyReply(target);
    const stored: unknown[] = [];
    const open = streams.open.bind(streams);
    streams.open = (requests) => {
      const stream = open(requests);
      const write = stream.write.bind(stream);
      stream.write = (message, label) => {
        stored.push(message);
        return write(message, label);
      };
      return stream;
    };
    reply.finish({ message: result });
    expect(stored).toEqual([result]);
  });
});

describe("the reply to a batch", () => {
  const open = () => {
    const session = context.registry.open("test", anonymous);
    return new SessionStreams(context, session, () => "label").open([]);
  };

  it("is one array of all answers", async () => {
    const { status, text } = await answerOf((target) => {
      const reply = new HttpBatchReply(target, open);
      reply.add(result);
      reply.add(errorOf(-32602));
      reply.finish();
    });
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject([{ result: {} }, { error: { code: -32602 } }]);
  });

  it("is 202 where nothing is answered", async () => {
    expect(await answerOf((target) => new HttpBatchReply(target, open).finish())).toMatchObject({
      status: 202,
      text: "",
    });
  });

  it("is a stream as soon as a member streams, with the answers so far", async () => {
    const { type, text } = await answerOf((target) => {
      const reply = new HttpBatchReply(target, open);
      reply.add(result);
      void reply.write(progress);
      reply.add(errorOf(-32602));
      reply.finish();
    });
    expect(type).toBe("text/event-stream");
    expect([...text.matchAll(/"(?:result|method|error)":/gu)].map(([name]) => name)).toEqual([
      '"result":',
      '"method":',
      '"error":',
    ]);
  });
});

describe("a refused request", () => {
  it("is answered with the error, and noted without its query", async () => {
    const noted: unknown[] = [];
    const gateway = { ...context, noteRefusal: (refused) => noted.push(refused) } as GatewayContext;
    const error = new GatewayError("overloaded", "too many", { details: { retryAfter: 2 } });
    const { status, headers, text } = await answerOf(({ response }) => refuseRequest(gateway, "test", response, error));
    expect({ status, wait: headers.get("retry-after") }).toEqual({ status: 503, wait: "2" });
    expect(JSON.parse(text)).toMatchObject({ error: { message: "too many", data: { origin: "gateway" } } });
    expect(noted).toMatchObject([{ route: "test", code: "overloaded", status: 503, transport: { path: "/mcp" } }]);
    expect(JSON.stringify(noted)).not.toContain("secret");
  });

  it("closes the connection where the error has no status", async () => {
    const error = new GatewayError("cancelled", "gone");
    await expect(answerOf(({ response }) => refuseRequest(context, "test", response, error))).rejects.toThrow(
      "fetch failed",
    );
  });
});

describe("the facts of a POST", () => {
  const first = { path: "/mcp", peer: "192.0.2.1", headers: { host: "gate.example" } };
  const factsOf = (socket: Socket, { path, peer, headers }: typeof first) => {
    const request = Object.assign(new IncomingMessage(socket), { headers });
    return httpFactsOfPost(request, path, new Set(["x-team"]), peer);
  };

  it("are one object for equal requests of a connection, because sessions keep them", () => {
    const socket = new Socket();
    expect(factsOf(socket, { ...first, headers: { ...first.headers } })).toBe(factsOf(socket, first));
  });

  it.each([
    { path: "/other" },
    { peer: "192.0.2.2" },
    { headers: { host: "other.example" } },
    { headers: { ...first.headers, "x-team": "a" } },
    { headers: { ...first.headers, traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01` } },
  ])("are never those of an earlier request that differs: %j", (change) => {
    const socket = new Socket();
    const changed = { ...first, ...change };
    const before = factsOf(socket, first);
    const after = factsOf(socket, changed);
    expect(after).not.toEqual(before);
    expect(after).toEqual(factsOf(new Socket(), changed));
    expect(factsOf(socket, first)).toEqual(before);
  });
});
