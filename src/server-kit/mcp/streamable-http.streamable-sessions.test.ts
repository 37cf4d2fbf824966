import { describe, expect, it } from "vitest";
import { z } from "zod";

import { createFakeTime, type FakeTime } from "../../../test/support/fake-time.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import { modernRequest } from "../../../test/support/modern-request.ts";
import { createTestKit, type TestKit } from "../../../test/support/server-kit.ts";
import type { KitSettingsInput } from "../settings/settings.ts";
import { defineTool } from "../tools/define-tool.ts";

const Wait = defineTool({
  name: "wait",
  description: "Answers when it is cancelled.",
  input: z.object({}),
  run: async (_, { signal }) =>
    new Promise<string>((resolve) => {
      signal.addEventListener("abort", () => resolve("cancelled"));
    }),
});

const initialize = {
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } },
};
const call = { jsonrpc: "2.0", id: 7, method: "tools/call", params: { name: "wait", arguments: {} } };

interface Rig extends AsyncDisposable {
  readonly kit: TestKit;
  readonly time: FakeTime;
  /** Opens a session and returns its id, or the status of the refusal. */
  begin(user: string): Promise<string | number>;
  post(user: string, session: string, body: unknown): Promise<Response>;
  get(user: string, session: string): Promise<Response>;
  /** Opens a stream of a modern client. */
  listen(user: string): Promise<Response>;
}

/** When the credentials of a user expire; never unless it is set. */
type Expiries = Map<string, number>;

async function createRig(settings: KitSettingsInput, expiries: Expiries = new Map()): Promise<Rig> {
  const time = createFakeTime();
  const kit = await createTestKit({
    tools: [Wait],
    settings,
    clock: time.clock,
    setTimer: time.setTimer,
    auth: {
      identify: (request) => {
        const user = request.headers.get("x-user") ?? "ann";
        const expiresAt = expiries.get(user);
        return { ...principalNamed(user), ...(expiresAt === undefined ? {} : { expiresAt }) };
      },
    },
  });
  const send = async (method: string, headers: Record<string, string>, body?: unknown): Promise<Response> =>
    kit.fetch(
      new Request("http://localhost/mcp", {
        method,
        headers: {
          "content-type": "application/json",
          accept: method === "GET" ? "text/event-stream" : "application/json, text/event-stream",
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    );
  return {
    kit,
    time,
    begin: async (user) => {
      await time.advance(1);
      const response = await send("POST", { "x-user": user }, initialize);
      return response.headers.get("mcp-session-id") ?? response.status;
    },
    post: async (user, session, body) => send("POST", { "x-user": user, "mcp-session-id": session }, body),
    get: async (user, session) => send("GET", { "x-user": user, "mcp-session-id": session }),
    listen: async (user) => {
      const { headers, body } = modernRequest("l", "subscriptions/listen", {
        notifications: { toolsListChanged: true },
      });
      return send("POST", { ...headers, "x-user": user }, body);
    },
    [Symbol.asyncDispose]: async () => kit[Symbol.asyncDispose](),
  };
}

const ping = { jsonrpc: "2.0", id: 3, method: "ping" };

describe("sessions at their limit", () => {
  it("ends the longest idle session for a new one", async () => {
    await using rig = await createRig({ maxConcurrentConnections: 2 });
    const first = String(await rig.begin("ann"));
    const second = String(await rig.begin("ann"));
    await rig.time.advance(1);
    await rig.post("ann", first, ping);
    const third = String(await rig.begin("ann"));
    expect(rig.kit.core.streamableSessions().open).toBe(2);
    const statuses = [first, second, third].map(async (session) => (await rig.post("ann", session, ping)).status);
    expect(await Promise.all(statuses)).toEqual([200, 404, 200]);
  });

  it("takes the place from the caller who holds most idle sessions", async () => {
    await using rig = await createRig({ maxConcurrentConnections: 3 });
    const bob = String(await rig.begin("bob"));
    for (let count = 0; count < 10; count += 1) expect(await rig.begin("ann")).toBeTypeOf("string");
    expect((await rig.post("bob", bob, ping)).status).toBe(200);
  });

  it("keeps sessions with a running call or an open stream, and refuses when all are in use", async () => {
    await using rig = await createRig({ maxConcurrentConnections: 2 });
    const calling = String(await rig.begin("ann"));
    const listening = String(await rig.begin("ann"));
    await rig.post("ann", calling, call);
    const stream = await rig.get("ann", listening);
    expect(await rig.begin("ann")).toBe(429);
    expect(await rig.kit.health()).toMatchObject({ status: "degraded", activeConnections: 2 });

    await rig.post("ann", calling, { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } });
    expect(await rig.begin("ann")).toBeTypeOf("string");
    expect((await rig.post("ann", calling, ping)).status).toBe(404);
    await stream.body?.cancel();
    expect(await rig.kit.health()).toMatchObject({ status: "healthy", activeConnections: 0 });
    expect(rig.kit.metrics()).toContain('headgate_kit_streamable_sessions{state="idle"} 2');
  });

  it("bounds how fast one address opens sessions where rates are limited", async () => {
    await using rig = await createRig({ enableRateLimiting: true, rateLimit: { streamOpensPerMinute: 3 } });
    const opened = [];
    for (let count = 0; count < 5; count += 1) opened.push(typeof (await rig.begin("ann")));
    expect(opened).toEqual(["string", "string", "string", "number", "number"]);
  });
});

/** Whether a stream ends; reads what comes until then. */
function watchEnd(response: Response): () => boolean {
  let isOver = false;
  void response.text().then(() => (isOver = true));
  return () => isOver;
}

describe("streams of modern clients", () => {
  it("[KO-033] [KO-074] are bounded in number, and make room when a client leaves", async () => {
    await using rig = await createRig({ maxConcurrentConnections: 2 });
    const first = await rig.listen("ann");
    const second = await rig.listen("bob");
    const third = await rig.listen("ann");
    expect([first.status, second.status, third.status]).toEqual([200, 200, 429]);
    expect(await third.json()).toMatchObject({ error: "max_connections_exceeded" });
    await first.body?.cancel();
    expect((await rig.listen("ann")).status).toBe(200);
    expect((await rig.listen("ann")).status).toBe(429);
    rig.kit.reload({ enableHttpSseTransport: true, maxConcurrentConnections: 0 });
    expect((await rig.listen("ann")).status).toBe(200);
  });

  it("[KO-113] are bounded in how fast one address opens them, where rates are limited", async () => {
    await using rig = await createRig({ enableRateLimiting: true, rateLimit: { streamOpensPerMinute: 2 } });
    const statuses = [];
    for (let count = 0; count < 3; count += 1) statuses.push((await rig.listen("ann")).status);
    expect(statuses).toEqual([200, 200, 429]);
  });
});

describe("credentials that expire while a stream is open", () => {
  const settings = { sseConnectionTimeout: 10_000 };

  it("[KO-106] end it one idle time later: a modern client's, and a session's", async () => {
    const expiries: Expiries = new Map();
    await using rig = await createRig(settings, expiries);
    expiries.set("ann", rig.time.clock.wall() + 60_000);
    const session = String(await rig.begin("ann"));
    const streams = [await rig.listen("ann"), await rig.get("ann", session), await rig.listen("bob")].map(watchEnd);
    // A call that runs keeps its session alive, but not its credentials.
    await rig.post("ann", session, call);
    await rig.time.advance(69_000);
    expect(streams.map((isOver) => isOver())).toEqual([false, false, false]);
    await rig.time.advance(5000);
    expect(streams.map((isOver) => isOver())).toEqual([true, true, false]);
    expect(rig.kit.core.streamableSessions().open).toBe(0);
  });

  it("[KO-106] do not when the session has been used with newer ones", async () => {
    const expiries: Expiries = new Map();
    await using rig = await createRig(settings, expiries);
    expiries.set("ann", rig.time.clock.wall() + 60_000);
    const session = String(await rig.begin("ann"));
    const isOver = watchEnd(await rig.get("ann", session));
    expiries.set("ann", rig.time.clock.wall() + 600_000);
    for (let elapsed = 0; elapsed < 120_000; elapsed += 5000) {
      await rig.post("ann", session, ping);
      await rig.time.advance(5000);
    }
    expect(isOver()).toBe(false);
  });
});

describe("batches of a session", () => {
  const pings = (count: number) => Array.from({ length: count }, (_, id) => ({ ...ping, id: id + 100 }));

  it("[KO-045] [KO-091] hold at most maxBatchSize messages", async () => {
    await using rig = await createRig({ transport: { maxBatchSize: 3 } });
    const session = String(await rig.begin("ann"));
    expect((await rig.post("ann", session, pings(3))).status).toBe(200);
    const refused = await rig.post("ann", session, pings(4));
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: -32_600 } }]);
  });

  it("[KO-113] count each request against the caller's rate limit", async () => {
    await using rig = await createRig({ enableRateLimiting: true, rateLimit: { callsPerMinute: 10 } });
    const session = String(await rig.begin("ann"));
    expect((await rig.post("ann", session, pings(8))).status).toBe(200);
    expect((await rig.post("ann", session, pings(2))).status).toBe(429);
  });

  it.each([
    ["in one batch", [ping, ping]],
    ["of a running call", { ...ping, id: call.id }],
  ])("[KO-071] refuse an id that is used again %s", async (_when, body) => {
    await using rig = await createRig({});
    const session = String(await rig.begin("ann"));
    await rig.post("ann", session, call);
    const refused = await rig.post("ann", session, body);
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: -32_600 } }]);
    expect((await rig.post("ann", session, { ...ping, id: String(call.id) })).status).toBe(200);
    await rig.post("ann", session, {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: call.id },
    });
  });
});

describe("what is kept for resuming", () => {
  it("is bounded in bytes and gone with the session", async () => {
    await using rig = await createRig({ transport: { maxResumeBytes: 2000, maxResumeBytesTotal: 3000 } });
    const sessions = [String(await rig.begin("ann")), String(await rig.begin("ann"))];
    for (const session of sessions) {
      for (let id = 10; id < 60; id += 1) {
        await (await rig.post("ann", session, { jsonrpc: "2.0", id, method: "tools/list" })).text();
        expect(rig.kit.core.streamableSessions().resumeBytes).toBeLessThanOrEqual(3000);
      }
    }
    expect(rig.kit.core.streamableSessions().resumeBytes).toBeGreaterThan(1000);
    for (const session of sessions) {
      const headers = { "x-user": "ann", "mcp-session-id": session };
      await rig.kit.fetch(new Request("http://localhost/mcp", { method: "DELETE", headers }));
    }
    expect(rig.kit.core.streamableSessions()).toEqual({ open: 0, inUse: 0, resumeBytes: 0 });
  });
});
