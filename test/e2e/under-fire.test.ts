import { connect } from "node:net";

import { afterEach, describe, expect, it } from "vitest";

import { createDemoServer } from "../../src/demo/server.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { freePort } from "../support/free-port.ts";
import { startGateway } from "../support/gateway.ts";
import { heapInUse } from "../support/heap.ts";
import { openSession, textResult, toolCall, type LegacySession } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { post } from "../support/raw-http.ts";

/** Open handles of this process, where the gateway runs, without those that pass by themselves. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => kind !== "Immediate" && kind !== "TickObject").length;

describe("sessions that come and go", () => {
  const inAll = 1000;
  const atOnce = 50;
  /** What the process itself still grows by while it warms up; one session kept by mistake costs twenty times that. */
  const bytesPerSession = 1000;

  it("leave nothing behind, a thousand of them", async () => {
    await using gateway = await openGateway({ upstream: { server: createDemoServer } });
    const visit = async (turn: number): Promise<void> => {
      const session = await openSession(gateway.url);
      // Every third has a stream open when it goes.
      const stream = turn % 3 === 0 ? await session.listen() : undefined;
      const answer = await session.post(toolCall(turn, "add", { arguments: { a: turn, b: 1 } }));
      expect(answer.text).toContain(`${turn + 1}`);
      if (turn % 2 === 0) stream?.close();
      expect((await session.end()).status).toBe(200);
      stream?.close();
    };
    const visits = async (from: number, to: number): Promise<void> => {
      for (let turn = from; turn < to; turn += atOnce) {
        await Promise.all(Array.from({ length: atOnce }, async (_, index) => visit(turn + index)));
      }
    };
    const rest = async (): Promise<{ readonly heap: number; readonly open: number }> => {
      await eventually(() => {
        expect(gateway.gateway.metrics()).toMatch(/headgate_sessions\{route="default"\} 0/u);
      });
      return { heap: await heapInUse(), open: handles() };
    };
    await visits(0, inAll / 2);
    const before = await rest();
    await visits(inAll / 2, inAll / 2 + inAll);
    const after = await rest();
    expect((after.heap - before.heap) / inAll).toBeLessThan(bytesPerSession);
    expect(after.open).toBeLessThanOrEqual(before.open + 2);
  });
});

describe("a gateway that is killed and started again", () => {
  it("tells what it does not know any more, and serves everything new", async () => {
    await using server = await startFixture({ era: "dual" });
    const args = ["run", "--upstream", server.url, "--port", String(await freePort())];
    const first = await startGateway(args);
    const session = await openSession(first.url);
    expect((await session.post(toolCall(1, "test_simple_text"))).status).toBe(200);
    process.kill(first.process.pid, "SIGKILL");
    await first.process.exited;
    await expect(session.post(toolCall(2, "test_simple_text"))).rejects.toThrow(/ECONNREFUSED|socket hang up/u);

    await using second = await startGateway(args);
    expect(await session.post(toolCall(3, "test_simple_text"))).toMatchObject({
      status: 404,
      json: { id: 3, error: { code: -32_001, data: { code: "session_unknown" } } },
    });
    const again = await openSession(second.url);
    expect((await again.post(toolCall(4, "test_simple_text"))).status).toBe(200);
    const modern = modernRequest(5, "tools/call", { name: "test_simple_text", arguments: {} });
    expect(await postModern(second.url, modern)).toMatchObject({ status: 200 });
  });

  it("refuses the retry of a call that it had parked, and says so", async () => {
    await using server = await startFixture({ era: "legacy" });
    const args = ["run", "--upstream", server.url, "--port", String(await freePort())];
    const first = await startGateway(args);
    const params = { name: "test_elicitation", arguments: { message: "Sure?" } };
    const capabilities = { "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } } };
    const asking = (more: object): ReturnType<typeof modernRequest> => {
      const { headers, body } = modernRequest(1, "tools/call", { ...params, ...more });
      const asked = structuredClone(body) as { params: { _meta: object } };
      Object.assign(asked.params._meta, capabilities);
      return { headers, body: asked };
    };
    const round = await postModern(first.url, asking({}));
    const answer = (round.json ?? JSON.parse(round.events.at(-1)?.data ?? "null")) as {
      readonly result: { readonly requestState: string; readonly inputRequests: object };
    };
    const [question] = Object.keys(answer.result.inputRequests);
    process.kill(first.process.pid, "SIGKILL");
    await first.process.exited;

    await using second = await startGateway(args);
    const { requestState } = answer.result;
    const inputResponses = { [question ?? ""]: { action: "accept", content: {} } };
    const retry = await postModern(second.url, asking({ requestState, inputResponses }));
    expect(retry.json).toMatchObject({
      id: 1,
      error: { message: expect.stringMatching(/state|restart|again/u), data: { origin: "gateway" } },
    });
  });
});

describe("a reload under load", () => {
  it("loses no call and no session, in any way a server is reached", async () => {
    await using fixture = await startFixture({ era: "dual" });
    const [command, ...args] = stdioFixture({ era: "dual" });
    const demo = { upstream: { server: createDemoServer } };
    const input = (turn: number) => ({
      routes: {
        http: { upstream: { url: fixture.url } },
        stdio: { upstream: { command, args } },
        demo,
        ...(turn % 2 === 0 ? { guest: demo } : {}),
      },
      limits: { depth: 100 + (turn % 2) },
    });
    await using local = await openGateway(input(0));
    let isOver = false;
    let calls = 0;
    const work = async (session: LegacySession, tool: string): Promise<void> => {
      while (!isOver) {
        const answer = await session.post(toolCall(++calls, tool, { arguments: { a: 1, b: 2 } }));
        expect(answer.status).toBe(200);
        expect(answer.text).toContain('"result"');
      }
    };
    const modernWork = async (): Promise<void> => {
      while (!isOver) {
        const request = modernRequest(++calls, "tools/call", { name: "test_simple_text", arguments: {} });
        expect((await postModern(`${local.origin}/http/mcp`, request)).status).toBe(200);
      }
    };
    const workers = [
      work(await openSession(`${local.origin}/http/mcp`), "test_simple_text"),
      work(await openSession(`${local.origin}/http/mcp`), "test_simple_text"),
      work(await openSession(`${local.origin}/stdio/mcp`), "test_simple_text"),
      work(await openSession(`${local.origin}/demo/mcp`), "add"),
      modernWork(),
    ];
    for (let turn = 1; turn <= 50; turn++) {
      const until = calls + 10;
      expect(await local.gateway.reload(localConfig(input(turn)))).toMatchObject({ ok: true });
      await eventually(() => {
        expect(calls).toBeGreaterThan(until);
      });
    }
    isOver = true;
    await Promise.all(workers);
    expect(calls).toBeGreaterThan(500);
  });
});

describe("clients that send rubbish", () => {
  const open: { destroy(): void }[] = [];
  afterEach(() => {
    for (const socket of open.splice(0)) socket.destroy();
  });

  it("are answered or cut off, and others do not notice", async () => {
    await using upstream = await legacyUpstream((call, { id }) => {
      call.reply(textResult(id, "well"));
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const { port, host } = new URL(gateway.url);
    const session = await openSession(gateway.url);
    const before = handles();
    const rubbish = [
      "GET / HTTP/9.9\r\n\r\n",
      "\u0016\u0003\u0001\u0002\u0000\u0001\u0000",
      `POST /mcp HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"jsonrpc`,
      `POST /mcp HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n`,
      `POST /mcp HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}`,
      `POST /mcp HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\nhalf of it`,
      `GET /mcp HTTP/1.1\r\nhost: ${host}\r\nx: ${"y".repeat(100_000)}\r\n\r\n`,
    ];
    const send = async (text: string): Promise<string> => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const socket = connect(Number(port), "127.0.0.1", () => {
        // Goes away in the middle where its request is not complete.
        socket.end(text);
      });
      open.push(socket);
      let heard = "";
      socket.on("data", (chunk: Buffer) => (heard += chunk.toString("latin1")));
      socket.on("error", () => resolve(heard));
      socket.on("close", () => resolve(heard));
      return promise;
    };
    const answers = Promise.all(
      Array.from({ length: 30 }, () => rubbish)
        .flat()
        .map(send),
    );
    for (let turn = 0; turn < 100; turn++) {
      const answer = await session.post(toolCall(turn, "any"));
      expect(answer.json).toEqual(textResult(turn, "well"));
    }
    for (const answer of await answers) expect(answer).toMatch(/^$|^HTTP\/1\.1 4\d\d /u);
    await eventually(() => {
      expect(handles()).toBeLessThanOrEqual(before + 2);
    });
    expect(upstream.received("tools/call")).toHaveLength(100);
  });
});

describe("an upstream whose event stream is badly written", () => {
  const dressed = (body: string) => `\uFEFF: hello\nretry: soon\nfoo: bar\nid\ndata: ${body}\r\r\n\n: bye\n\n`;

  it("is understood where the rules of event streams allow it", async () => {
    await using upstream = await legacyUpstream(async (call, { id }) => {
      const stream = call.stream();
      await stream.write(dressed(JSON.stringify(textResult(id, "found"))));
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const answer = await session.post(toolCall(1, "any"));
    expect(JSON.parse(answer.events.at(-1)?.data ?? answer.text)).toEqual(textResult(1, "found"));
  });

  it("is a fault for the caller where a message is not UTF-8, and the next call works", async () => {
    await using upstream = await legacyUpstream(async (call, { id }) => {
      const stream = call.stream();
      const good = Buffer.from(`data: ${JSON.stringify(textResult(id, "found"))}\n\n`);
      await stream.write(
        id === 1 ? Buffer.concat([good.subarray(0, 20), Buffer.of(0xff, 0xfe), good.subarray(20)]) : good,
      );
      stream.end();
    });
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    const session = await openSession(gateway.url);
    const fault = await session.post(toolCall(1, "any"));
    expect(JSON.parse(fault.events.at(-1)?.data ?? fault.text)).toMatchObject({
      id: 1,
      error: { data: { origin: "gateway", code: "upstream_invalid" } },
    });
    expect((await post(gateway.url, toolCall(2, "any"), session.headers)).text).toContain("found");
  });
});
