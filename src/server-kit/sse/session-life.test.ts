import { describe, expect, it } from "vitest";

import { createFakeAuthenticator, createFakeKit } from "../../../test/support/fake-kit.ts";
import type { ConnectionContext, HttpEdge } from "../http/contract.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { heapInUse } from "../../../test/support/heap.ts";
import { ask, dataOf, openKitClient, toolCall, type KitClient } from "../../../test/support/kit-client.ts";

const minute = 60_000;
const ping = (id: number) => ({ jsonrpc: "2.0", id, method: "ping" });

/** Reads a stream in the background, as a live client does. */
function follow(client: KitClient): string[] {
  const seen: string[] = [];
  void (async () => {
    for (let event = await client.next(); event !== undefined; event = await client.next()) {
      seen.push(event.event ?? "message");
    }
    seen.push("(over)");
  })().catch(() => seen.push("(broken)"));
  return seen;
}

describe("heartbeats", () => {
  it("[KO-043] [KO-068] come every interval on every open stream, with a timestamp", async () => {
    const { edge, time } = createFakeKit();
    const clients = [await openKitClient(edge), await openKitClient(edge)];
    await time.advance(15_000);
    for (const client of clients) {
      expect(await client.next()).toMatchObject({
        event: "heartbeat",
        data: '{"timestamp":"2026-01-01T00:00:15.000Z"}',
      });
    }
    const seen = follow(clients[0] as KitClient);
    await time.advance(60_000);
    expect(seen).toEqual(["heartbeat", "heartbeat", "heartbeat", "heartbeat"]);
  });

  it("[KO-043] fall back to 15 seconds where the setting makes no sense, and follow a reload", async () => {
    const { edge, core, time } = createFakeKit({ settings: { transport: { sseKeepAliveInterval: 0 } } });
    const seen = follow(await openKitClient(edge));
    await time.advance(15_000);
    expect(seen).toEqual(["heartbeat"]);
    core.reload({ transport: { sseKeepAliveInterval: "5s" } });
    // The beat that is due already keeps its time, and so does the one it sets off.
    await time.advance(30_000);
    expect(seen).toHaveLength(3);
    await time.advance(10_000);
    expect(seen).toHaveLength(5);
  });

  it("[KO-039] [KO-041] of the transport go to the log and to health, not to the stream", async () => {
    const { edge, log, time } = createFakeKit({
      settings: {
        transport: { sseKeepAliveInterval: "1h", heartbeatInterval: "30s", loggerCategory: "Mine" },
      },
    });
    const seen = follow(await openKitClient(edge));
    await time.advance(61_000);
    const beats = log.lines.filter(({ message }) => message === "transport heartbeat");
    expect(beats).toHaveLength(2);
    expect(beats[0]).toMatchObject({ level: "debug", fields: { logger: "Mine", connections: 1 } });
    expect(seen).toEqual([]);
  });
});

describe("idle sessions", () => {
  it("[KO-034] [KO-069] [KO-076] end with end after the limit, though heartbeats flow", async () => {
    const { edge, time } = createFakeKit({ settings: { sseConnectionTimeout: "61s" } });
    const client = await openKitClient(edge);
    const seen = follow(client);
    await time.advance(61_000);
    expect(seen).toEqual(["heartbeat", "heartbeat", "heartbeat", "heartbeat", "end", "(over)"]);
    expect((await client.post(ping(1))).status).toBe(404);
    expect((await edge.health()).activeConnections).toBe(0);
  });

  it("[KO-076] count from the last message or event", async () => {
    const { edge, time } = createFakeKit({ settings: { sseConnectionTimeout: "1m" } });
    const client = await openKitClient(edge);
    const seen = follow(client);
    await time.advance(50_000);
    await client.post(ping(1));
    await time.advance(50_000);
    expect(seen).not.toContain("end");
    await time.advance(10_000);
    expect(seen).toContain("end");
  });

  it("[KO-076] stay while a call runs, and for the limit after its end", async () => {
    const { edge, core, time } = createFakeKit({ settings: { sseConnectionTimeout: "1m" } });
    const client = await openKitClient(edge);
    const seen = follow(client);
    await client.post(toolCall(1, "Fake_Wait"));
    await time.advance(5 * minute);
    expect(seen).not.toContain("end");
    core.release();
    await time.advance(59_000);
    expect(seen).toContain("result");
    expect(seen).not.toContain("end");
    await time.advance(61_000);
    expect(seen).toContain("end");
  });

  it("[KO-034] never end where the limit is 0, until a reload sets one", async () => {
    const { edge, core, time } = createFakeKit({ settings: { sseConnectionTimeout: 0 } });
    const seen = follow(await openKitClient(edge));
    await time.advance(600 * minute);
    expect(seen).not.toContain("end");
    core.reload({ sseConnectionTimeout: "10m" });
    await time.advance(minute);
    expect(seen).toContain("end");
  });
});

describe("a client that goes away", () => {
  it("[KO-073] [KO-077] takes its session with it, cancels its calls and is no fault", async () => {
    const { edge, core, log } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post(toolCall(1, "Fake_Wait"));
    await settled();
    expect(core.waiting()).toBe(1);
    await client.leave();
    await settled();
    expect(core.aborted()).toBe(1);
    expect(core.waiting()).toBe(0);
    expect((await client.post(ping(2))).status).toBe(404);
    const closed = log.lines.find(({ message }) => message === "stream closed");
    expect(closed).toMatchObject({ level: "debug", fields: { reason: "client-gone" } });
    expect(log.lines.filter(({ level }) => level === "warn" || level === "error")).toEqual([]);
  });

  it("[KO-073] gets a new id when it comes back", async () => {
    const { edge } = createFakeKit();
    const first = await openKitClient(edge);
    await first.leave();
    const second = await openKitClient(edge);
    expect(second.sessionId).not.toBe(first.sessionId);
    expect(
      (
        await second.post(ping(1), {
          query: `?sessionId=${first.sessionId}`,
          headers: { "x-mcp-session": "" },
        })
      ).status,
    ).toBe(404);
  });

  it("[KO-078] leaves other sessions alone", async () => {
    const { edge, core } = createFakeKit();
    const [one, two] = [await openKitClient(edge), await openKitClient(edge)];
    await two.post(toolCall(1, "Fake_Wait"));
    await settled();
    await one.leave();
    await settled();
    expect(core.aborted()).toBe(0);
    core.release();
    expect(dataOf((await two.until("result")).at(-1))).toMatchObject({ id: 1 });
  });
});

describe("a slow consumer", () => {
  it("[KO-072] [KO-078] is cut off, counted and logged; its calls stop, others go on", async () => {
    const { edge, core, log } = createFakeKit({ settings: { transport: { maxQueuedBytes: 10_000 } } });
    const [slow, quick] = [await openKitClient(edge), await openKitClient(edge)];
    await slow.post(toolCall("wait", "Fake_Wait"));
    await settled();
    for (let call = 0; call < 3; call += 1) await slow.post(toolCall(call, "Fake_Big", { bytes: 5000 }));
    await settled();
    expect((await edge.health()).evictions).toBe(1);
    expect(core.aborted()).toBe(1);
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: "warn",
        fields: expect.objectContaining({ reason: "slow-consumer" }),
      }),
    );
    expect(edge.metrics()).toContain('headgate_kit_sessions_ended_total{reason="slow-consumer"} 1');
    await expect(slow.until("end")).rejects.toThrow("too slow");
    await quick.post(ping(1));
    expect(dataOf((await quick.until("result")).at(-1))).toMatchObject({ id: 1 });
  });
});

describe("the limit on connections", () => {
  it("[KO-033] [KO-074] refuses one stream too many and says when to come back", async () => {
    const { edge, core } = createFakeKit({ settings: { maxConcurrentConnections: 2 } });
    const [one] = [await openKitClient(edge), await openKitClient(edge)];
    const refused = await ask(edge, "/mcp/sse");
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toMatch(/^\d+$/u);
    expect(await refused.json()).toMatchObject({ error: "max_connections_exceeded" });
    await one?.leave();
    expect((await ask(edge, "/mcp/sse")).status).toBe(200);
    core.reload({ maxConcurrentConnections: 0 });
    expect((await ask(edge, "/mcp/sse")).status).toBe(200);
  });
});

describe("tokens that expire", () => {
  const start = Date.UTC(2026, 0, 1);

  it("[KO-106] end the session at the next call, which is 401", async () => {
    let expiresAt = start + minute;
    const { edge, time } = createFakeKit({
      authenticator: createFakeAuthenticator(["ann"], () => expiresAt),
    });
    const client = await openKitClient(edge, { headers: { authorization: "Bearer ann" } });
    const seen = follow(client);
    expect((await client.post(ping(1))).status).toBe(202);
    await time.advance(minute);
    expect(seen).not.toContain("end");
    const response = await client.post(ping(2));
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toContain('error="invalid_token"');
    await settled();
    expect(seen.slice(-2)).toEqual(["end", "(over)"]);
    expiresAt = start + 10 * minute;
    expect((await client.post(ping(3))).status).toBe(404);
  });

  it("[KO-106] end it at the latest one idle limit after the expiry, whatever goes on", async () => {
    const { edge, core, time } = createFakeKit({
      settings: { sseConnectionTimeout: "5m" },
      authenticator: createFakeAuthenticator(["ann"], () => start + minute),
    });
    const client = await openKitClient(edge, { headers: { authorization: "Bearer ann" } });
    const seen = follow(client);
    await client.post(toolCall(1, "Fake_Wait"));
    await time.advance(6 * minute - 1);
    expect(seen).not.toContain("end");
    await time.advance(1);
    expect(seen.slice(-2)).toEqual(["end", "(over)"]);
    expect(core.aborted()).toBe(1);
  });

  it("[KO-106] do not end it where the same caller has shown a newer one", async () => {
    let expiresAt = start + minute;
    const { edge, time } = createFakeKit({
      settings: { sseConnectionTimeout: "5m" },
      authenticator: createFakeAuthenticator(["ann"], () => expiresAt),
    });
    const client = await openKitClient(edge, { headers: { authorization: "Bearer ann" } });
    const seen = follow(client);
    expiresAt = start + 30 * minute;
    for (let round = 0; round < 5; round += 1) {
      expect((await client.post(ping(round))).status).toBe(202);
      await time.advance(4 * minute);
    }
    expect(seen).not.toContain("end");
  });
});

describe("a long day", () => {
  it("[KO-146] of heartbeats and some calls on 100 sessions loses nothing and does not drift", async () => {
    const { edge, time } = createFakeKit({ settings: { sseConnectionTimeout: "25h" } });
    const clients = await Promise.all(Array.from({ length: 100 }, async () => openStream(edge)));
    const hours = 24;
    const heaps: number[] = [];
    for (let hour = 0; hour < hours; hour += 1) {
      await time.advance(60 * minute);
      // After the first hours everything is there that a session needs.
      if (hour === 4 || hour === hours - 1) heaps.push(await heapInUse());
      const { sessionId } = clients[hour % clients.length] ?? { sessionId: "" };
      const headers = { "content-type": "application/json", "x-mcp-session": sessionId };
      await ask(edge, "/mcp/rpc", { method: "POST", headers, body: JSON.stringify(ping(hour)) });
    }
    await settled();
    const beats = (hours * 60 * minute) / 15_000;
    for (const [index, { counts }] of clients.entries()) {
      expect(counts.get("heartbeat")).toBe(beats);
      expect(counts.get("result")).toBe(index < hours ? 1 : undefined);
    }
    // Nineteen hours are 456,000 heartbeats: even ten bytes of each would be seen.
    const [early = 0, late = 0] = heaps;
    expect(late - early).toBeLessThan(4_000_000);
    // One timer for all heartbeats, one for the diagnostic, and one a session for its idle limit.
    expect(time.pending()).toBe(102);
    expect((await edge.health()).activeConnections).toBe(100);
  });
});

/** A stream whose events are only counted: a day has very many of them. */
async function openStream(edge: HttpEdge): Promise<{ sessionId: string; counts: ReadonlyMap<string, number> }> {
  const response = await ask(edge, "/mcp/sse");
  const counts = new Map<string, number>();
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  void (async () => {
    for (let piece = await reader?.read(); piece?.done === false; piece = await reader?.read()) {
      for (const [, name = ""] of decoder.decode(piece.value).matchAll(/^event: (\w+)$/gmu)) {
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
    }
  })();
  await settled();
  return { sessionId: response.headers.get("x-mcp-session") ?? "", counts };
}

describe("a session's server", () => {
  it("[KO-075] is made for its first message, once, and the session ends where that fails", async () => {
    const { edge, core, log } = createFakeKit();
    const create: typeof core.createServer = core.createServer.bind(core);
    let made = 0;
    Object.assign(core, {
      createServer: (connection: ConnectionContext) => {
        made += 1;
        if (made > 1) throw new Error("no more servers");
        return create(connection);
      },
    });
    const [first, second] = [await openKitClient(edge), await openKitClient(edge)];
    expect(made).toBe(0);
    await Promise.all([first.post(ping(1)), first.post(ping(2))]);
    expect(made).toBe(1);
    const failed = await second.post(ping(1));
    expect(failed.status).toBe(500);
    expect(await failed.text()).not.toContain("no more servers");
    expect(log.lines.some(({ fields }) => String(fields["error"]).includes("no more servers"))).toBe(true);
    await expect(second.until("end")).rejects.toThrow("failed");
    expect((await edge.health()).activeConnections).toBe(1);
  });
});
