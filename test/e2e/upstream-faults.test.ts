import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { gzipSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { fakeUpstream, type UpstreamCall, type UpstreamStream } from "../support/fake-upstream.ts";
import { freePort } from "../support/free-port.ts";
import { handshake, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type UpstreamMessage } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { post, type RawAnswer } from "../support/raw-http.ts";

const list = (id: unknown) => ({ jsonrpc: "2.0", id, method: "tools/list" });
const listed = (id: unknown) => ({ jsonrpc: "2.0", id, result: { resultType: "complete", tools: [] } });
const secret = "a secret of the upstream";

/** What the caller must be told: an error with its id that is marked as ours, and nothing that the upstream said. */
function expectFault(answer: RawAnswer, id: unknown, code: string, status: number): void {
  expect(answer.status).toBe(status);
  expect(answer.json).toMatchObject({
    jsonrpc: "2.0",
    id,
    error: { code: -32_603, data: { origin: "gateway", code } },
  });
  expect(answer.text).not.toContain(secret);
}

interface Fault {
  readonly fault: string;
  readonly code: string;
  readonly status: number;
  readonly answer: (call: UpstreamCall, id: UpstreamMessage["id"]) => void | Promise<void>;
}

const faults: readonly Fault[] = [
  {
    fault: "hangs up before it answers",
    code: "upstream_unreachable",
    status: 502,
    answer: (call) => call.hangUp(),
  },
  {
    fault: "hangs up between headers and body",
    code: "upstream_unreachable",
    status: 502,
    answer: async (call) => {
      const stream = call.stream({ "content-type": "application/json" });
      await stream.write('{"jsonrpc":"2.0",');
      stream.hangUp();
    },
  },
  {
    fault: "answers with something that is not JSON",
    code: "upstream_invalid",
    status: 502,
    answer: (call) => call.replyRaw(200, { "content-type": "application/json" }, `<p>${secret}</p>`),
  },
  {
    fault: "answers with a page",
    code: "upstream_invalid",
    status: 502,
    answer: (call) => call.replyRaw(200, { "content-type": "text/html" }, `<p>${secret}</p>`),
  },
  {
    fault: "answers with nothing",
    code: "upstream_invalid",
    status: 502,
    answer: (call) => call.replyRaw(200, { "content-type": "application/json" }),
  },
  {
    fault: "answers another request than was asked",
    code: "upstream_invalid",
    status: 502,
    answer: (call) => call.reply({ ...(textResult("another", secret) as object) }),
  },
  {
    fault: "redirects",
    code: "upstream_invalid",
    status: 502,
    answer: (call) => call.replyRaw(307, { location: "http://127.0.0.1:1/elsewhere" }),
  },
  {
    fault: "wants other credentials",
    code: "upstream_unreachable",
    status: 502,
    answer: (call) => call.replyRaw(401, { "www-authenticate": `Bearer realm="${secret}"` }),
  },
  {
    fault: "fails itself",
    code: "upstream_invalid",
    status: 502,
    answer: (call) => call.replyRaw(500, { "content-type": "text/plain" }, secret),
  },
  {
    fault: "answers compressed, although asked not to",
    code: "upstream_invalid",
    status: 502,
    answer: (call, id) =>
      call.replyRaw(
        200,
        { "content-type": "application/json", "content-encoding": "gzip" },
        gzipSync(JSON.stringify(listed(id))),
      ),
  },
  {
    fault: "does not stop answering",
    code: "upstream_invalid",
    status: 502,
    answer: async (call) => {
      const stream = call.stream({ "content-type": "application/json" });
      const gone = call.closed.then(() => true);
      const chunk = "x".repeat(64 * 1024);
      for (let isGone = false; !isGone; isGone = await Promise.race([gone, stream.write(chunk).then(() => false)]));
    },
  },
  {
    fault: "sends an event that does not end",
    code: "upstream_invalid",
    status: 502,
    answer: async (call) => {
      const stream = call.stream();
      const gone = call.closed.then(() => true);
      const chunk = `data: ${"x".repeat(64 * 1024)}\n`;
      for (let isGone = false; !isGone; isGone = await Promise.race([gone, stream.write(chunk).then(() => false)]));
    },
  },
];

describe.each(faults)("an upstream that $fault", ({ answer, code, status }) => {
  const limits = { bodyBytes: 256 * 1024 };

  it("is a fault for the caller of that request only, in a session", async () => {
    await using upstream = await legacyUpstream((call, { id }) =>
      id === "well" ? call.reply(listed(id)) : answer(call, id),
    );
    await using gateway = await openGateway({ upstream: { url: upstream.url }, limits });
    const session = await openSession(gateway.url, "2025-06-18");
    const other = await openSession(gateway.url);
    const [fault, well] = await Promise.all([session.post(toolCall(1, "any")), other.post(list("well"))]);
    expectFault(streamedAnswer(fault), 1, code, fault.events.length > 0 ? 200 : status);
    expect(well).toMatchObject({ status: 200, json: listed("well") });
    expect((await session.post(list("well"))).json).toEqual(listed("well"));
    expect(upstream.received("tools/call")).toHaveLength(1);
  });

  it("is a fault for the caller of a modern request", async () => {
    await using upstream = await fakeUpstream((call) => answer(call, 1));
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" }, limits });
    const fault = await postModern(gateway.url, modernRequest(1, "tools/call", { name: "any", arguments: {} }));
    expectFault(streamedAnswer(fault), 1, code, fault.events.length > 0 ? 200 : status);
    expect(upstream.calls).toHaveLength(1);
    expect(upstream.calls[0]?.headers["accept-encoding"]).toBe("identity");
  });
});

/** The answer itself, where it came on a stream that had been opened before the fault showed. */
function streamedAnswer(answer: RawAnswer): RawAnswer {
  const last = answer.events.at(-1);
  return last === undefined ? answer : { ...answer, text: last.data, json: JSON.parse(last.data) as unknown };
}

describe("an upstream", () => {
  it("that cannot be reached is a fault in both eras, and no session is left behind", async () => {
    const url = await closedPort();
    await using gateway = await openGateway({ upstream: { url } });
    const refused = await post(gateway.url, handshake("2025-11-25", 1));
    expectFault(refused, 1, "upstream_unreachable", 502);
    expect(refused.headers).not.toHaveProperty("mcp-session-id");
    expectFault(await postModern(gateway.url, modernRequest(2, "tools/list")), 2, "upstream_unreachable", 502);
  });

  it("that is dead does not affect another route", async () => {
    await using upstream = await legacyUpstream((call, { id }) => call.reply(listed(id)));
    await using gateway = await openGateway({
      routes: { dead: { upstream: { url: await closedPort() } }, alive: { upstream: { url: upstream.url } } },
    });
    const session = await openSession(`${gateway.origin}/alive/mcp`);
    const [dead, alive] = await Promise.all([
      post(`${gateway.origin}/dead/mcp`, handshake("2025-11-25", 1)),
      session.post(list(1)),
    ]);
    expectFault(dead, 1, "upstream_unreachable", 502);
    expect(alive.json).toEqual(listed(1));
  });

  it("that answers twice is heard once", async () => {
    await using upstream = await legacyUpstream(async (call, { id, method }) => {
      if (method !== "tools/call") return call.reply(listed(id));
      const stream = call.stream();
      await stream.send(textResult(id, "first"));
      await stream.send(textResult(id, "second"));
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url, "2025-06-18");
    const { events } = await session.post(toolCall(1, "twice"));
    expect(events.map(({ data }) => JSON.parse(data) as unknown)).toEqual([textResult(1, "first")]);
    expect((await session.post(list(2))).json).toEqual(listed(2));
  });

  it.each(["left out", "null"])(
    "that refuses with an error whose id is %s is heard under the id of the request",
    async (form) => {
      const error = { code: -32_602, message: "no such cursor" };
      await using upstream = await legacyUpstream((call) =>
        call.reply({ jsonrpc: "2.0", ...(form === "null" ? { id: null } : {}), error }, 400),
      );
      await using gateway = await openGateway({ upstream: { url: upstream.url } });
      const session = await openSession(gateway.url);
      expect(await session.post(list("mine"))).toMatchObject({
        status: 400,
        json: { jsonrpc: "2.0", id: "mine", error },
      });
    },
  );

  it("that has forgotten the session is asked for a new one, once, and the call succeeds", async () => {
    await using upstream = await legacyUpstream((call, { id }) => call.reply(listed(id)));
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    expect((await session.post(list(1))).status).toBe(200);
    upstream.forget();
    const answers = await Promise.all([session.post(list(2)), session.post(toolCall(3, "any"))]);
    expect(answers).toMatchObject([{ json: listed(2) }, { json: listed(3) }]);
    expect(upstream.sessions).toEqual(["upstream-1", "upstream-2"]);
    expect(upstream.received("notifications/initialized").at(-1)?.headers["mcp-session-id"]).toBe("upstream-2");
    expect(upstream.received("tools/call").at(-1)?.headers["mcp-session-id"]).toBe("upstream-2");
  });

  it("that forgets every session at once is given up after one new one", async () => {
    await using upstream = await legacyUpstream((call) => call.replyRaw(404));
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const answer = await session.post(toolCall(1, "any"));
    expect(answer.json).toMatchObject({
      id: 1,
      error: { data: { origin: "gateway", code: "upstream_unreachable" } },
    });
    // A 404 would tell the client that our session is gone, which it is not.
    expect(answer.status).not.toBe(404);
    expect(upstream.sessions).toHaveLength(2);
  });

  it("that closes an idle connection is asked again for a list, but not to call a tool", async () => {
    await using upstream = await closingUpstream();
    await using gateway = await openGateway({ upstream: { url: upstream.url, era: "modern" } });
    expect(await postModern(gateway.url, modernRequest(1, "tools/list"))).toMatchObject({ json: listed(1) });
    expect(await postModern(gateway.url, modernRequest(2, "tools/list"))).toMatchObject({ json: listed(2) });
    expect(upstream.seen()).toEqual(["tools/list", "tools/list", "tools/list"]);

    const call = await postModern(gateway.url, modernRequest(3, "tools/call", { name: "pay", arguments: {} }));
    expectFault(call, 3, "upstream_unreachable", 502);
    expect(upstream.seen().slice(3)).toEqual(["tools/call"]);
  });
});

describe("an HTTP+SSE server whose stream breaks in the middle of a call", () => {
  it("is a fault for the caller, and the next session gets a new stream", async () => {
    const streams: UpstreamStream[] = [];
    await using upstream = await fakeUpstream(async (call) => {
      if (call.method === "GET") {
        const stream = call.stream();
        streams.push(stream);
        await stream.write(`event: endpoint\ndata: /messages?stream=${streams.length - 1}\n\n`);
        return;
      }
      call.replyRaw(202);
      const stream = streams[Number(call.path.split("=")[1])];
      const { id, method, params } = sentMessage(call);
      if (method === "tools/call") stream?.hangUp();
      else if (method === "initialize") {
        const { protocolVersion } = params ?? {};
        const serverInfo = { name: "old", version: "1.0.0" };
        await stream?.send({ jsonrpc: "2.0", id, result: { protocolVersion, capabilities: {}, serverInfo } });
      } else if (id !== undefined) await stream?.send(listed(id));
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url, transport: "sse" } });
    const session = await openSession(gateway.url);
    const answer = await session.post(toolCall(1, "any"));
    expect(answer.json).toMatchObject({ id: 1, error: { code: -32_603, data: { origin: "gateway" } } });
    expect((await session.post(list(2))).status).toBe(404);
    const again = await openSession(gateway.url);
    expect((await again.post(list(3))).json).toEqual(listed(3));
    expect(streams).toHaveLength(2);
  });
});

describe("a process that dies in the middle of a call", () => {
  const dying = `
    require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
      const { id, method, params } = JSON.parse(line);
      if (method === "tools/call") process.exit(3);
      const result = method === "initialize"
        ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } }
        : { resultType: "complete", tools: [] };
      if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
    });`;
  const upstream = { command: process.execPath, args: ["-e", dying] };

  it("ends its session and no other, and a new session gets a new process", async () => {
    await using gateway = await openGateway({ upstream });
    const [session, other] = [await openSession(gateway.url), await openSession(gateway.url)];
    const answer = await session.post(toolCall(1, "crash"));
    expect(answer.json).toMatchObject({ id: 1, error: { data: { origin: "gateway" } } });
    expect((await session.post(list(2))).status).toBe(404);
    expect((await other.post(list(2))).json).toEqual(listed(2));
    const again = await openSession(gateway.url);
    expect((await again.post(list(3))).json).toEqual(listed(3));
  });

  it("is started anew for the next modern request", async () => {
    await using gateway = await openGateway({ upstream });
    const crash = await postModern(gateway.url, modernRequest(1, "tools/call", { name: "crash", arguments: {} }));
    expectFault(crash, 1, "upstream_unreachable", 502);
    expect(await postModern(gateway.url, modernRequest(2, "tools/list"))).toMatchObject({ json: listed(2) });
  });

  it("that cannot be started at all is a fault for the caller", async () => {
    await using gateway = await openGateway({ upstream: { command: "/no/such/program", args: [] } });
    const answer = await post(gateway.url, handshake("2025-11-25", 1));
    expectFault(answer, 1, "upstream_unreachable", 502);
    expect(answer.headers).not.toHaveProperty("mcp-session-id");
  });
});

/** A place where nobody listens. */
async function closedPort(): Promise<string> {
  return `http://127.0.0.1:${await freePort()}/mcp`;
}

/**
 * A server that answers the first request of every connection and hangs up on the second one without a word, as if the
 * connection had been closed just before.
 */
async function closingUpstream(): Promise<
  AsyncDisposable & { readonly url: string; readonly seen: () => readonly string[] }
> {
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    let text = "";
    let served = 0;
    socket.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      const found = /\r\n\r\n(\{.*\})$/su.exec(text);
      if (found?.[1] === undefined) return;
      const { id, method } = JSON.parse(found[1]) as { id: unknown; method: string };
      text = "";
      seen.push(method);
      if (served++ > 0) {
        socket.destroy();
        return;
      }
      const body = JSON.stringify(listed(id));
      socket.write(
        `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    seen: () => seen,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
