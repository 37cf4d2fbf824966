import { once } from "node:events";
import { connect, type Socket } from "node:net";

import { describe, expect, it } from "vitest";

import { memoryStore, type EntityStore } from "../../src/server-kit/index.ts";
import { toolCall } from "../support/kit-client.ts";
import { openKitStream } from "../support/kit-stream.ts";
import { startProcess } from "../support/process.ts";
import { exchange } from "../support/raw-http.ts";
import { serveTestKit, site, type ServedKit } from "../support/served-kit.ts";

const ping = (id: number) => ({ jsonrpc: "2.0", id, method: "ping" });
const openStreams = (kit: ServedKit) => async () => (await kit.kit.health()).activeConnections;

/** A client that opens a stream and then never reads again: its end of the connection is there, and nobody home. */
async function openDeaf(kit: ServedKit): Promise<{ readonly socket: Socket; readonly sessionId: string }> {
  const socket = connect(Number(new URL(kit.origin).port), "127.0.0.1");
  await once(socket, "connect");
  socket.write("GET /mcp/sse HTTP/1.1\r\nHost: localhost\r\n\r\n");
  let text = "";
  while (!text.includes("connected")) {
    const [piece] = (await once(socket, "data")) as [Buffer];
    text += piece.toString();
  }
  socket.pause();
  return { socket, sessionId: /x-mcp-session: (?<id>\w+)/iu.exec(text)?.groups?.["id"] ?? "" };
}

async function expectUntouched(kit: ServedKit, client: Awaited<ReturnType<typeof openKitStream>>): Promise<void> {
  await client.post(ping(999));
  expect(JSON.parse((await client.until("result")).data)).toMatchObject({ id: 999 });
  expect(kit.log.lines.filter(({ level }) => level === "error")).toEqual([]);
}

describe("clients that misbehave", () => {
  it("[KO-077] [KO-078] that are killed leave nothing behind, and others untouched", async () => {
    await using kit = await serveTestKit();
    await using bystander = await openKitStream(kit.url);
    await using victim = await startProcess(["curl", "-sN", `${kit.url}/sse`]);
    const [, id = ""] = await victim.waitForLine(/"sessionId":"(\w+)"/u);
    await exchange(`${kit.url}/rpc?sessionId=${id}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: toolCall(1, "Probe_Wait"),
    });
    await expect.poll(() => kit.waits.waiting).toBe(1);
    process.kill(victim.pid, "SIGKILL");
    await expect.poll(openStreams(kit), { interval: 20 }).toBe(1);
    expect(kit.waits.aborted).toBe(1);
    await expectUntouched(kit, bystander);
  });

  it("[KO-072] [KO-078] that stop reading are cut off before they fill the memory", async () => {
    await using kit = await serveTestKit({ settings: { transport: { maxQueuedBytes: 262_144 } } });
    await using bystander = await openKitStream(kit.url);
    const { socket, sessionId } = await openDeaf(kit);
    const closed = once(socket, "close");
    for (let id = 0; (await openStreams(kit)()) === 2 && id < 1000; id += 1) {
      await exchange(`${kit.url}/rpc?sessionId=${sessionId}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: toolCall(id, "Probe_Big", { bytes: 100_000 }),
      });
    }
    expect(await kit.kit.health()).toMatchObject({ activeConnections: 1, evictions: 1 });
    socket.resume();
    await closed;
    await expectUntouched(kit, bystander);
  });

  it("[KO-069] [KO-080] that stop reading do not hold up the shutdown", async () => {
    const kit = await serveTestKit();
    const { socket } = await openDeaf(kit);
    await kit[Symbol.asyncDispose]();
    socket.resume();
    await once(socket, "close");
    expect(socket.destroyed).toBe(true);
  });

  const beginning = "POST /mcp/rpc?sessionId=x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
  it.each([
    ["nothing", ""],
    ["half a request line", "POST /mc"],
    ["half of the headers", "GET /mcp/health HTTP/1.1\r\nHost: loc"],
    ["headers and half a body", `${beginning}Content-Length: 100\r\n\r\n{"jsonrpc"`],
    ["half a chunk", `${beginning}Transfer-Encoding: chunked\r\n\r\n40\r\n{"json`],
    ["half of a REST body", "POST /api/TrialSite HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"],
    ["half of an MCP body", beginning.replace("/rpc?sessionId=x", "") + "Content-Length: 100\r\n\r\n{"],
    ["a whole request and half of the next", "GET /mcp/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /mcp/he"],
  ])(
    "[KO-080] that have sent %s do not hold up the shutdown, and a running call is still answered",
    async (_, text) => {
      const kit = await serveTestKit();
      await using caller = await openKitStream(kit.url);
      await caller.post(toolCall(1, "Probe_Wait"));
      await expect.poll(() => kit.waits.waiting).toBe(1);
      const socket = connect(Number(new URL(kit.origin).port), "127.0.0.1");
      socket.on("error", () => {}).resume();
      await once(socket, "connect");
      const cut = once(socket, "close");
      socket.write(text);
      // Over another connection, so that the server has read the text before.
      expect((await exchange(`${kit.url}/health`)).status).toBe(200);
      const closed = kit[Symbol.asyncDispose]();
      await expect.poll(async () => (await kit.kit.health()).status).toBe("stopping");
      kit.release();
      expect(JSON.parse((await caller.until("result")).data)).toMatchObject({ id: 1 });
      await closed;
      await cut;
    },
  );

  it("[KO-085] [KO-092] that send nonsense get 4xx and stay connected", async () => {
    await using kit = await serveTestKit({ settings: { transport: { maxRequestBytes: 10_000 } } });
    await using client = await openKitStream(kit.url);
    const statuses = [];
    for (const body of [
      "",
      "{",
      "null",
      "[]",
      '"text"',
      '{"jsonrpc":"2.0"}',
      Buffer.from([0xff, 0xfe, 0x00]),
      "x".repeat(20_000),
    ]) {
      statuses.push((await client.post(body)).status);
    }
    expect(statuses).toEqual([400, 400, 400, 400, 400, 400, 400, 413]);
    expect((await client.post(ping(1), { "content-type": "text/plain" })).status).toBe(415);
    await expectUntouched(kit, client);
  });

  it("[KO-092] that promise a body larger than allowed are answered before they have sent it", async () => {
    await using kit = await serveTestKit({ settings: { transport: { maxRequestBytes: 1000 } } });
    await using client = await openKitStream(kit.url);
    const socket = connect(Number(new URL(kit.origin).port), "127.0.0.1");
    await once(socket, "connect");
    socket.write(
      `POST /mcp/rpc?sessionId=${client.sessionId} HTTP/1.1\r\nHost: localhost\r\n` +
        "Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{",
    );
    const [answer] = (await once(socket, "data")) as [Buffer];
    expect(answer.toString()).toMatch(/^HTTP\/1.1 413 /u);
    expect(answer.toString()).toMatch(/connection: close/iu);
    socket.destroy();
    await expectUntouched(kit, client);
  });

  it("[KO-113] that flood are told to wait, and others are served", async () => {
    await using kit = await serveTestKit({
      settings: { enableRateLimiting: true, rateLimit: { callsPerMinute: 20, streamOpensPerMinute: 5 } },
    });
    const token = await kit.token();
    await using bystander = await openKitStream(kit.url, { authorization: `Bearer ${token}` });
    await using flooder = await openKitStream(kit.url);
    const answers = await Promise.all(Array.from({ length: 100 }, async (_, id) => flooder.post(ping(id))));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(20);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(80);
    expect(refused[0]?.json).toMatchObject({ error: "rate_limited" });
    expect(refused[0]?.headers["retry-after"]).toMatch(/^\d+$/u);
    const opens = await Promise.all(
      Array.from({ length: 10 }, async () => openKitStream(kit.url).catch((error: unknown) => String(error))),
    );
    expect(opens.filter((outcome) => typeof outcome === "string" && outcome.includes("429"))).toHaveLength(7);
    await expectUntouched(kit, bystander);
    for (const outcome of opens) if (typeof outcome !== "string") outcome.stream.close();
  });

  it("[KO-074] that open too many streams are refused, and places become free again", async () => {
    await using kit = await serveTestKit({ settings: { maxConcurrentConnections: 10 } });
    const open = await Promise.all(Array.from({ length: 10 }, async () => openKitStream(kit.url)));
    expect((await exchange(`${kit.url}/sse`)).json).toMatchObject({ error: "max_connections_exceeded" });
    for (const { stream } of open) stream.close();
    await expect.poll(openStreams(kit)).toBe(0);
    await using again = await openKitStream(kit.url);
    await expectUntouched(kit, again);
  });
});

describe("callers that are not who they should be", () => {
  it("[KO-087] cannot use the session of another principal, nor learn anything from trying", async () => {
    await using kit = await serveTestKit({ settings: { requireAuthentication: true } });
    await using owner = await openKitStream(kit.url, { authorization: `Bearer ${await kit.token()}` });
    const anonymous = await exchange(`${kit.url}/rpc?sessionId=${owner.sessionId}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: toolCall(1, "Probe_Big", { bytes: 1 }),
    });
    expect(anonymous.status).toBe(403);
    expect(anonymous.json).toMatchObject({ error: "session_principal_mismatch" });
    await expectUntouched(kit, owner);
  });

  it("[KO-106] are sent away when their token has expired in the middle of a stream", async () => {
    await using kit = await serveTestKit({
      settings: { requireAuthentication: true },
      tokenLifetimeMs: 1500,
    });
    await using client = await openKitStream(kit.url, { authorization: `Bearer ${await kit.token()}` });
    await expect.poll(async () => (await client.post(ping(1))).status, { interval: 100 }).toBe(401);
    await client.until("end");
    expect(await client.stream.next()).toBeUndefined();
    expect(await openStreams(kit)()).toBe(0);
  });
});

describe("a store that fails in the middle of a call", () => {
  it("[KO-078] [KO-090] fails that call without internals, shows in health, and leaves the rest alone", async () => {
    let isBroken = false;
    const inner = memoryStore();
    const store: EntityStore = new Proxy(inner, {
      get: (target, name, receiver) => {
        const value: unknown = Reflect.get(target, name, receiver);
        if (typeof value !== "function" || name === "open" || name === "close") return value;
        return (...args: unknown[]): unknown => {
          if (isBroken) throw new Error("password=hunter2 at 10.1.2.3");
          return Reflect.apply(value, target, args);
        };
      },
    });
    await using kit = await serveTestKit({ store });
    await kit.kit.records(site).create({ name: "Oslo", location: "Norway" });
    await using client = await openKitStream(kit.url);
    isBroken = true;
    await client.post(toolCall(1, "TrialSite_List"));
    const { data } = await client.until("result");
    expect(JSON.parse(data)).toMatchObject({ id: 1, result: { isError: true } });
    expect(data).not.toMatch(/hunter2|10\.1\.2\.3/u);
    expect((await exchange(`${kit.origin}/api/TrialSite`)).status).toBe(503);
    isBroken = false;
    await client.post(toolCall(2, "TrialSite_List"));
    expect((await client.until("result")).data).toContain("Oslo");
  });
});

describe("many connections one after the other", () => {
  it("[KO-081] leave no session behind", async () => {
    await using kit = await serveTestKit({ settings: { maxConcurrentConnections: 0 } });
    for (let round = 0; round < 20; round += 1) {
      const clients = await Promise.all(Array.from({ length: 10 }, async () => openKitStream(kit.url)));
      await Promise.all(clients.map(async (client) => client.post(ping(round))));
      for (const { stream } of clients) stream.close();
    }
    await expect.poll(openStreams(kit)).toBe(0);
    expect(kit.kit.metrics()).toContain('headgate_kit_sessions_ended_total{reason="client-gone"} 200');
  });
});
