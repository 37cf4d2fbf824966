import { PassThrough } from "node:stream";

import { afterEach, describe, expect, it, vi } from "vitest";

import { systemTimer, type Exchange } from "../../src/core/exchange.ts";
import { proceed } from "../../src/core/interceptors/action.ts";
import { defineInterceptor, type MessageView } from "../../src/core/interceptors/interceptor.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { serveStdio } from "../../src/transports/stdio/server.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { stdioFixture } from "../support/fixture.ts";
import { handshake, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { post } from "../support/raw-http.ts";
import { connectV1 } from "../support/v1-client.ts";
import { connectV2 } from "../support/v2-client.ts";

afterEach(() => {
  vi.useRealTimers();
});

type Seen = Pick<MessageView, "direction" | "phase" | "message"> & { readonly exchange: Exchange };

/** An interceptor that only remembers what passes. */
function witness(name: string, methods: readonly string[]) {
  const seen: Seen[] = [];
  const interceptor = defineInterceptor({
    name,
    methods,
    onMessage: ({ direction, phase, message, exchange }) => {
      seen.push({ direction, phase, message, exchange });
      return proceed();
    },
  });
  return { seen, interceptor };
}

const progressive = ["tools/call", "notifications/progress"];

/** Calls a tool that reports progress, as every form of client does. */
async function callWith(gateway: LocalGateway, client: string): Promise<void> {
  const url = client === "HTTP+SSE" ? `${gateway.origin}/sse` : gateway.url;
  const peer = { via: client === "HTTP+SSE" ? "sse" : "http", url } as const;
  await using connected = client === "modern HTTP" ? await connectV2(peer, newestModern) : await connectV1(peer);
  await connected.callTool("test_tool_with_progress", { onProgress: () => {} });
}

describe("the context of a message", () => {
  const [command, ...args] = stdioFixture({ era: "dual" });
  const servers = [
    { server: "stdio", upstream: { command, args }, way: { type: "stdio", command } },
    {
      server: "in-process",
      upstream: { server: () => createEverythingServer() },
      way: { type: "in-process" },
    },
  ];
  const clients = [
    { client: "legacy HTTP", way: { type: "http", method: "POST", path: "/mcp" }, revision: newestLegacy },
    { client: "modern HTTP", way: { type: "http", method: "POST", path: "/mcp" }, revision: newestModern },
    { client: "HTTP+SSE", way: { type: "sse" }, revision: newestLegacy },
  ];
  const pairs = clients.flatMap((client) => servers.map((server) => ({ ...client, from: server })));

  it.each(pairs)(
    "[SC-042, SC-044] says which way it goes, in which session, over what and when ($client, $from.server)",
    async ({ client, way, revision, from }) => {
      const { seen, interceptor } = witness("witness", progressive);
      await using gateway = await openGateway({ upstream: from.upstream }, { interceptors: [interceptor] });
      const before = { monotonic: performance.now(), wall: Date.now() };
      await callWith(gateway, client);
      const [call, ...rest] = seen;
      const answer = rest.at(-1);
      const reports = rest.slice(0, -1);
      expect(call).toMatchObject({
        direction: "client-to-server",
        phase: "request",
        exchange: {
          direction: "client-to-server",
          route: "default",
          revision,
          transport: way,
          parent: undefined,
        },
      });
      expect(reports).toHaveLength(3);
      for (const { direction, exchange } of reports) {
        expect(direction).toBe("server-to-client");
        expect(exchange).toMatchObject({ direction: "server-to-client", revision, transport: from.way });
        // They belong to the call, as the server said by their token.
        expect(exchange.parent?.id).toBe(call?.exchange.id);
        expect(exchange.session).toBe(call?.exchange.session);
      }
      expect(answer).toMatchObject({ direction: "server-to-client", phase: "response" });
      expect(answer?.exchange.id).toBe(call?.exchange.id);
      expect(call?.exchange.session === undefined).toBe(revision === newestModern);

      const times = [call, ...reports].map((one) => one?.exchange.timing.startedAt ?? 0);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(times[0]).toBeGreaterThanOrEqual(before.monotonic);
      expect(call?.exchange.timing.wallTime).toBeGreaterThanOrEqual(before.wall);
    },
  );

  it("[SC-044] has the event that a message came in, and the headers that were chosen, never credentials", async () => {
    const { seen, interceptor } = witness("witness", ["tools/call", "notifications/message"]);
    await using upstream = await legacyUpstream(async (call, { id }) => {
      const stream = call.stream();
      const log = { jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "hi" } };
      await stream.write(`id: e-1\nevent: message\nretry: 7000\ndata: ${JSON.stringify(log)}\n\n`);
      await stream.send(textResult(id, "done"));
      stream.end();
    });
    await using gateway = await openGateway(
      { routes: { one: { upstream: { url: upstream.url }, forwardHeaders: ["x-team"] } } },
      { interceptors: [interceptor] },
    );
    const { headers } = await openSession(gateway.url, "2025-06-18");
    const extra = { "x-team": "blue", "x-other": "no", authorization: "Bearer secret", cookie: "secret" };
    await post(`${gateway.url}?q=1`, toolCall(1, "any"), { ...headers, ...extra });
    const [call, log] = seen;
    expect(call?.exchange.transport).toMatchObject({
      type: "http",
      path: "/mcp?q=1",
      headers: { "x-team": "blue" },
    });
    expect(JSON.stringify(seen.map(({ exchange }) => exchange.transport))).not.toContain("secret");
    expect(log?.exchange.transport).toMatchObject({
      type: "sse",
      eventId: "e-1",
      event: "message",
      retry: 7000,
    });
    expect(upstream.received("tools/call")[0]?.headers).toMatchObject({ "x-team": "blue" });
    expect(upstream.received("tools/call")[0]?.headers).not.toHaveProperty("authorization");
  });

  it("[SC-044] names the connection of a client on standard streams", async () => {
    const { seen, interceptor } = witness("witness", ["initialize"]);
    await using upstream = await legacyUpstream((call) => call.replyRaw(202));
    await using gateway = await openGateway({ upstream: { url: upstream.url } }, { interceptors: [interceptor] });
    const [input, output] = [new PassThrough(), new PassThrough()];
    const channel = serveStdio({ input, output, newId: () => "life-1", setTimer: systemTimer }, (opened) =>
      gateway.gateway.serve(opened, undefined, () => {}),
    );
    input.write(`${JSON.stringify(handshake(newestLegacy))}\n`);
    await expect.poll(() => seen.length).toBe(2);
    expect(seen[0]?.exchange.transport).toEqual({ type: "stdio", incarnation: "life-1" });
    await channel.close("done");
  });
});

describe("a message on its way", () => {
  it("[SC-042, SC-061] is the same parsed message for every step, with the same context, on every transport", async () => {
    const [command, ...args] = stdioFixture({ era: "dual" });
    const first = witness("first", progressive);
    const second = witness("second", progressive);
    await using gateway = await openGateway(
      { upstream: { command, args } },
      { interceptors: [first.interceptor, second.interceptor] },
    );
    for (const client of ["legacy HTTP", "modern HTTP", "HTTP+SSE"]) await callWith(gateway, client);
    // A call, three reports and a result, each way three times.
    expect(first.seen).toHaveLength(15);
    expect(second.seen).toHaveLength(15);
    for (const [index, { message, exchange }] of first.seen.entries()) {
      const later = second.seen[index];
      expect(later?.message).toBe(message);
      expect(later?.exchange.transport).toBe(exchange.transport);
      expect(later?.exchange.timing).toBe(exchange.timing);
      expect(later?.exchange.session).toBe(exchange.session);
    }
    for (const { exchange, phase, message } of second.seen) {
      if (phase === "request") expect(exchange.original).toBe(message);
    }
  });
});

describe("a clock that is set", () => {
  it.each([
    { what: "forward by a year", by: 365 * 86_400_000 },
    { what: "back by an hour", by: -3_600_000 },
  ])("[SC-045] $what changes no duration, no time limit and no session", async ({ by }) => {
    const { seen, interceptor } = witness("witness", ["tools/call"]);
    const arrived = Promise.withResolvers<() => void>();
    await using upstream = await legacyUpstream((call, { id }) => {
      arrived.resolve(() => call.reply(textResult(id, "done")));
    });
    await using gateway = await openGateway(
      { upstream: { url: upstream.url }, sessions: { idleTimeout: "1h" } },
      { interceptors: [interceptor] },
    );
    const session = await openSession(gateway.url);
    const answer = session.post(toolCall(1, "any"));
    const finish = await arrived.promise;
    const wall = Date.now();
    vi.useFakeTimers({ toFake: ["Date"], now: wall + by });
    finish();
    expect((await answer).json).toEqual(textResult(1, "done"));
    const metric = /^headgate_exchange_duration_seconds_sum\{[^}]*method="tools\/call"[^}]*\} (\S+)$/mu;
    const seconds = Number(metric.exec(gateway.gateway.metrics())?.[1]);
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThan(600);
    const again = session.post(toolCall(2, "any"));
    await expect.poll(() => upstream.received("tools/call").length).toBe(2);
    // The wall time is for people, and follows the clock.
    expect(Math.abs((seen.at(-1)?.exchange.timing.wallTime ?? 0) - (wall + by))).toBeLessThan(600_000);
    await session.end();
    expect((await again).json).toMatchObject({ id: 2 });
  });
});
