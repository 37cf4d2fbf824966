import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";

import { defineInterceptor, type MessageInterceptor } from "../../src/core/interceptors/interceptor.ts";
import { proceed } from "../../src/core/interceptors/action.ts";
import { systemTimer } from "../../src/lib/clock.ts";
import { serveStdio } from "../../src/transports/stdio/server.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { eventually } from "../support/eventually.ts";
import { handshake, openSession } from "../support/legacy-session.ts";
import { type LocalGateway, openGateway } from "../support/local-gateway.ts";
import { newestModern } from "../../src/protocol/revisions.ts";
import { openStream, post, type RawAnswer } from "../support/raw-http.ts";

const slow = "notifications/slow";
const notification = { jsonrpc: "2.0", method: slow };

/** Sends messages of one client; an answer where the transport has one. */
type Send = (message: unknown) => Promise<RawAnswer | undefined>;

/** Connects a client, and hands what it sends with to `use`. */
type Connect = (gateway: LocalGateway, use: (send: Send) => Promise<void>) => Promise<void>;

const transports: Readonly<Record<string, Connect>> = {
  "Streamable HTTP, legacy": async ({ url }, use) => use((await openSession(url)).post),
  "Streamable HTTP, legacy, in batches": async ({ url }, use) => {
    const { post: send } = await openSession(url, "2025-03-26");
    await use(async (message) => send([message]));
  },
  "Streamable HTTP, modern": async ({ url }, use) =>
    use(async (message) => post(url, message, { "mcp-protocol-version": newestModern, "mcp-method": slow })),
  "HTTP+SSE": async ({ origin }, use) => {
    await using stream = await openStream(`${origin}/sse`, { headers: { accept: "text/event-stream" } });
    const path = (await stream.next())?.data ?? "";
    const send: Send = async (message) => post(new URL(path, origin).href, message);
    await send(handshake("2024-11-05"));
    expect((await stream.next())?.data).toContain("serverInfo");
    await use(send);
  },
  stdio: async ({ gateway }, use) => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const channel = serveStdio({ input, output, newId: () => "one", setTimer: systemTimer }, (opened) =>
      gateway.serve(opened, undefined, () => {}),
    );
    const send: Send = async (message) => void input.write(`${JSON.stringify(message)}\n`);
    await send(handshake("2025-11-25"));
    await eventually(() => expect(String(output.read() ?? "")).toContain("serverInfo"));
    await use(send);
    // Nobody may answer a notification.
    expect(output.read()).toBeNull();
    await channel.close("the test is over");
  },
};

/** An interceptor that lets nothing pass until it is told to. */
function holdingInterceptor(): {
  readonly interceptor: MessageInterceptor;
  held: number;
  readonly release: () => void;
} {
  const gate = Promise.withResolvers<void>();
  const holding = {
    held: 0,
    release: gate.resolve,
    interceptor: defineInterceptor({
      name: "slow",
      methods: [slow],
      timeoutMs: 600_000,
      onMessage: async () => {
        holding.held++;
        await gate.promise;
        return proceed();
      },
    }),
  };
  return holding;
}

/** The body of an answer, without the id that differs. */
function withoutExchange(answer: RawAnswer | undefined): unknown {
  return JSON.parse((answer?.text ?? "").replace(/"exchange":"[^"]+"/u, '"exchange":""'));
}

/** MCP 2025-11-25, "Sending Messages to the Server": a JSON-RPC error response that has no id. */
const refusal = {
  jsonrpc: "2.0",
  error: {
    code: expect.any(Number),
    message: "this caller has too many notifications in flight",
    data: { current: 5, limit: 5, retryAfter: 1, origin: "gateway", code: "rate_limited", exchange: "" },
  },
};

function refusalsOf({ gateway }: LocalGateway): number {
  const lines = gateway.metrics().split("\n");
  const counted = lines.filter(
    (line) => line.startsWith("headgate_exchanges_total") && line.includes(`outcome="refused"`),
  );
  return counted.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

describe.each(Object.entries(transports))("a client that floods with notifications (%s)", (name, connect) => {
  it("has as many in the gateway as it may have requests, and the rest are refused", async () => {
    const slowly = holdingInterceptor();
    await using gateway = await openGateway(
      { upstream: { server: () => createEverythingServer() }, limits: { requests: 20, requestsPerPrincipal: 5 } },
      { interceptors: [slowly.interceptor] },
    );
    await connect(gateway, async (send) => {
      const sent = Array.from({ length: 30 }, async () => send(notification));
      await eventually(() => expect([refusalsOf(gateway), slowly.held]).toEqual([25, 5]));
      slowly.release();
      const answers = await Promise.all(sent);
      if (name.startsWith("Streamable HTTP")) {
        expect(answers.filter((answer) => answer?.status === 202)).toHaveLength(5);
        expect(answers.filter((answer) => answer?.status === 429).map(withoutExchange)).toEqual(
          Array.from({ length: 25 }, () => refusal),
        );
      } else expect(answers.every((answer) => (answer?.status ?? 202) === 202)).toBe(true);
      // There is room again.
      await eventually(async () => {
        await send(notification);
        expect(slowly.held).toBeGreaterThan(5);
      });
    });
  });
});
