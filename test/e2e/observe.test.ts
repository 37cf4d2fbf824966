import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";
import { describe, expect, it } from "vitest";
import { anonymous, systemTimer } from "../../src/core/exchange.ts";
import { createPassThrough } from "../../src/gateway/passthrough/pass-through.ts";
import type { ObservedRequest } from "../../src/gateway/passthrough/traffic-observer.ts";
import { defaultLimits } from "../../src/protocol/message.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { exchange, openStream, post } from "../support/raw-http.ts";

/** Things that a terminating route would refuse, and that must pass here as they are. */
const oddities = [
  '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
  '{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
  "not json at all",
  "[]",
  '{"jsonrpc":"1.0"}',
];

describe("a route in observe mode", () => {
  it("[SC-062] passes on every byte, status and header, whatever the message is", async () => {
    await using upstream = await fakeUpstream((call) => {
      call.replyRaw(418, { "content-type": "text/x-odd", "x-mine": "1" }, `got ${call.text}`);
    });
    await using gateway = await openGateway({
      routes: { seen: { upstream: { url: upstream.url }, mode: "observe" } },
    });
    for (const body of oddities) {
      const answer = await post(gateway.url, body, { "mcp-session-id": "theirs" });
      expect([answer.status, answer.headers["content-type"], answer.headers["x-mine"], answer.text]).toEqual([
        418,
        "text/x-odd",
        "1",
        `got ${body}`,
      ]);
    }
    expect(upstream.calls.map(({ text }) => text)).toEqual(oddities);
    expect(upstream.calls[0]?.headers["mcp-session-id"]).toBe("theirs");
    const gone = await exchange(gateway.url, { method: "DELETE" });
    expect(gone.status).toBe(418);
  });

  it("passes events on as they come", async () => {
    const second = Promise.withResolvers<void>();
    await using upstream = await fakeUpstream(async (call) => {
      const stream = call.stream();
      await stream.send({
        jsonrpc: "2.0",
        method: "notifications/progress",
        params: { progressToken: 1, progress: 1 },
      });
      await second.promise;
      await stream.send({ jsonrpc: "2.0", id: 1, result: {} });
      stream.end();
    });
    await using gateway = await openGateway({
      routes: { seen: { upstream: { url: upstream.url }, mode: "observe" } },
    });
    await using stream = await openStream(gateway.url, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "text/event-stream" },
      body: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "t" } },
    });
    expect((await stream.next())?.data).toContain("notifications/progress");
    second.resolve();
    expect((await stream.next())?.data).toContain('"result"');
    expect(await stream.next()).toBeUndefined();
  });

  it("[SC-062] is not changed by a fault in the observer", async () => {
    const fail = (): never => {
      throw new Error("the observer is broken");
    };
    const broken: ObservedRequest = {
      fromClient: fail,
      clientDone: fail,
      answered: fail,
      fromUpstream: fail,
      closed: fail,
    };
    let faults = 0;
    await using upstream = await fakeUpstream((call) => {
      call.reply({ echo: call.text });
    });
    const { origin, pathname } = new URL(upstream.url);
    const pool = new Pool(origin);
    const relay = createPassThrough(
      {
        origin,
        path: pathname,
        headers: {},
        forwardHeaders: [],
        dispatcher: pool,
        limits: defaultLimits,
        setTimer: systemTimer,
        quickMs: 60_000,
        newId: () => "1",
      },
      { open: () => broken },
      () => {
        faults++;
      },
      () => {},
    );
    const server = createServer((request, response) => {
      void relay(request, response, new Set(), anonymous);
    });
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as AddressInfo;
    const answer = await post(`http://127.0.0.1:${port}/mcp`, "anything");
    expect(answer.json).toEqual({ echo: "anything" });
    expect(faults).toBeGreaterThanOrEqual(4);
    server.close();
    await pool.close();
  });
});
