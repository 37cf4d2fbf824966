import { once } from "node:events";
import { Agent, createServer as createHttpServer, request } from "node:http";
import { createServer, type AddressInfo, type Socket } from "node:net";

import { describe, expect, it } from "vitest";

import { legacyUpstream, sentMessage, type UpstreamMessage } from "../support/legacy-upstream.ts";
import { fakeUpstream, type UpstreamCall, type UpstreamStream } from "../support/fake-upstream.ts";
import { nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { eventually } from "../support/eventually.ts";

/** A server whose answers are written byte by byte: `head` goes before each, in the given pieces. */
async function rawServer(head: string, pieceLength: number) {
  const answer = (socket: Socket, id: unknown): void => {
    const body = JSON.stringify({ jsonrpc: "2.0", id, result: { resultType: "complete", content: [] } });
    const text = `${head}HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    socket.setNoDelay(true);
    const write = (at: number): void => {
      if (at >= text.length || socket.destroyed) return;
      socket.write(text.slice(at, at + pieceLength), () => {
        setImmediate(write, at + pieceLength);
      });
    };
    write(0);
  };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    let received = "";
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      received += chunk.toString();
      const end = received.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/iu.exec(received)?.[1] ?? 0);
      if (end < 0 || received.length < end + 4 + length) return;
      const body: unknown = length === 0 ? {} : JSON.parse(received.slice(end + 4));
      received = "";
      answer(socket, Reflect.get(Object(body), "id"));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    connections: () => sockets.size,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe("interim responses that nobody asked for", () => {
  const heads = {
    "100 Continue": "HTTP/1.1 100 Continue\r\n\r\n",
    "100 with headers": "HTTP/1.1 100 Continue\r\nserver: fake\r\nx-a: b\r\n\r\n",
    "100 twice": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
    "102 and 100": "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
    "103 with a link, then 100 without a reason": "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 100\r\n\r\n",
    none: "",
  };
  const cases = Object.entries(heads).flatMap(([name, head]) =>
    [1, 7, 25, 10_000].map((pieces) => ({ name, head, pieces })),
  );

  it.each(cases)("are skipped: $name, in pieces of $pieces bytes", async ({ head, pieces }) => {
    await using server = await rawServer(head, pieces);
    await using gateway = await openGateway({ upstream: { url: server.url, era: "modern" } });
    for (let turn = 0; turn < 3; turn++) {
      const answer = await postModern(gateway.url, modernRequest(turn, "tools/call", { name: "any", arguments: {} }));
      expect(answer.status).toBe(200);
    }
    expect(server.connections()).toBe(1);
  });
});

describe("an upstream that is busy", () => {
  const answers = [
    { status: 429, headers: { "retry-after": "7" }, told: "7", code: "rate_limited" },
    { status: 503, headers: { "retry-after": "7" }, told: "7", code: "overloaded" },
    { status: 503, headers: { "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, told: "0", code: "overloaded" },
    { status: 429, headers: {}, told: undefined, code: "rate_limited" },
    { status: 503, headers: { "retry-after": "soon" }, told: undefined, code: "overloaded" },
  ];

  it.each(answers)("is told to legacy clients as $status ($headers)", async ({ status, headers, told, code }) => {
    await using upstream = await legacyUpstream((call) => {
      call.replyRaw(status, headers);
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const answer = await session.post(toolCall(1, "any"));
    expect(answer.status).toBe(status);
    expect(answer.headers["retry-after"]).toBe(told);
    expect(JSON.parse(answer.text)).toMatchObject({ id: 1, error: { data: { code, upstreamStatus: status } } });
  });

  it.each(answers)("is told to modern clients as $status ($headers)", async ({ status, headers, told, code }) => {
    await using upstream = await fakeUpstream((call) => {
      call.replyRaw(status, headers);
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
    const answer = await postModern(gateway.url, modernRequest(1, "tools/call", { name: "any", arguments: {} }));
    expect(answer.status).toBe(status);
    expect(answer.headers["retry-after"]).toBe(told);
    expect(JSON.parse(answer.text)).toMatchObject({ id: 1, error: { data: { code } } });
  });

  it("keeps its own error response and the time to wait", async () => {
    await using upstream = await legacyUpstream((call, { id }) => {
      call.reply({ jsonrpc: "2.0", id, error: { code: -32_000, message: "slow down" } }, 429, { "retry-after": "3" });
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const answer = await session.post(toolCall(1, "any"));
    expect([answer.status, answer.headers["retry-after"]]).toEqual([429, "3"]);
    expect(JSON.parse(answer.text)).toMatchObject({ error: { message: "slow down" } });
  });
});

describe("a question that its client never answers", () => {
  const params = { message: "Which one?", requestedSchema: { type: "object", properties: {} } };
  const question = { jsonrpc: "2.0", id: "q", method: "elicitation/create", params };

  it.each(["on the stream of a call", "on the server's own stream"])(
    "is answered to the server with an error (%s)",
    async (where) => {
      const answers: UpstreamMessage[] = [];
      const general: UpstreamStream[] = [];
      const started: UpstreamCall[] = [];
      await using upstream = await legacyUpstream(
        (call, message) => {
          if (message.method === "tools/call") {
            started.push(call);
            if (where === "on the stream of a call") void call.stream().send(question);
            else void general[0]?.send(question);
          } else {
            answers.push({ ...message, error: Reflect.get(Object(call.json), "error") });
            call.replyRaw(202);
          }
        },
        (call) => {
          general.push(call.stream());
        },
      );
      await using gateway = await openGateway({ upstream: { url: upstream.url }, timeouts: { human: "300ms" } });
      const session = await openSession(gateway.url);
      await using listening = await session.listen();
      const call = await Promise.race([session.stream(toolCall(1, "asks")), nextMessage(listening)]);
      expect(call).toBeDefined();
      await eventually(() => {
        expect(answers.filter(({ id }) => id === "q")).toMatchObject([{ error: { code: -32_603 } }]);
      });
    },
  );
});

/** A proxy that forwards requests with an absolute URL. */
async function forwardProxy() {
  let requests = 0;
  const agent = new Agent({ keepAlive: true });
  const server = createHttpServer((received, response) => {
    requests++;
    const { method, headers, url = "" } = received;
    const forwarded = request(url, { method, headers, agent }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    received.pipe(forwarded);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: () => requests,
    [Symbol.asyncDispose]: async () => {
      agent.destroy();
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

describe("`connections`", () => {
  it.each(["directly", "through a proxy"])("bounds the connections for calls %s; further calls wait", async (how) => {
    const order: string[] = [];
    await using proxy = await forwardProxy();
    const running: UpstreamCall[] = [];
    await using upstream = await fakeUpstream((call) => {
      running.push(call);
      order.push(String(Reflect.get(Object(call.json), "id")));
    });
    await using gateway = await openGateway({
      upstream: {
        url: upstream.url,
        era: "modern",
        connections: 4,
        proxy: how === "directly" ? "none" : proxy.url,
      },
    });
    const calls = Array.from({ length: 60 }, async (_, id) =>
      postModern(gateway.url, modernRequest(id, "tools/call", { name: "any", arguments: {} })),
    );
    let most = 0;
    let answered = 0;
    while (answered < 60) {
      await eventually(() => {
        expect(running.length).toBe(Math.min(4, 60 - answered));
      });
      most = Math.max(most, running.length);
      const call = running.shift();
      const { id } = sentMessage(call as UpstreamCall);
      call?.reply({ jsonrpc: "2.0", id, result: { resultType: "complete", content: [] } });
      answered++;
    }
    for (const answer of await Promise.all(calls)) expect(answer.status).toBe(200);
    expect(most).toBe(4);
    expect(upstream.connections()).toBeLessThanOrEqual(4);
    expect(proxy.requests()).toBe(how === "directly" ? 0 : 60);
  });

  it("does not count streams, and lets answers pass while all calls wait for them", async () => {
    const general: UpstreamStream[] = [];
    let waiting: UpstreamCall | undefined;
    const params = { message: "Which one?", requestedSchema: { type: "object", properties: {} } };
    await using upstream = await legacyUpstream(
      (call, message) => {
        if (message.method === "tools/call") {
          waiting = call;
          void general[0]?.send({ jsonrpc: "2.0", id: "q", method: "elicitation/create", params });
        } else {
          call.replyRaw(202);
          if (message.id === "q" && waiting !== undefined) waiting.reply(textResult(1, "answered"));
        }
      },
      (call) => {
        general.push(call.stream());
      },
    );
    await using gateway = await openGateway({ upstream: { url: upstream.url, connections: 1 } });
    const session = await openSession(gateway.url);
    await using listening = await session.listen();
    const answer = session.post(toolCall(1, "asks"));
    expect(await nextMessage(listening)).toMatchObject({ method: "elicitation/create" });
    await session.post({ jsonrpc: "2.0", id: "q", result: { action: "accept", content: {} } });
    expect((await answer).text).toContain("answered");
  });

  it("gives the place of a call that was given up to the next", async () => {
    const seen: unknown[] = [];
    await using upstream = await fakeUpstream((call) => {
      const { id } = sentMessage(call);
      seen.push(id);
      if (id !== "stuck") call.reply({ jsonrpc: "2.0", id, result: { resultType: "complete", content: [] } });
    });
    await using gateway = await openGateway({
      upstream: { url: upstream.url, era: "modern", connections: 1 },
      timeouts: { tool: "2s" },
    });
    const call = async (id: string, method = "tools/call") =>
      postModern(gateway.url, modernRequest(id, method, { name: "any", arguments: {} }));
    const stuck = call("stuck");
    await eventually(() => {
      expect(seen).toEqual(["stuck"]);
    });
    // A prompt waits as long as a list: longer than the tool.
    const next = postModern(gateway.url, modernRequest("next", "tools/list"));
    expect((await stuck).status).toBe(504);
    expect((await next).status).toBe(200);
    expect(seen).toEqual(["stuck", "next"]);
  });
});
