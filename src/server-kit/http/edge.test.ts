import { describe, expect, it } from "vitest";

import { createFakeAuthenticator, createFakeKit } from "../../../test/support/fake-kit.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { ask, openKitClient, toolCall } from "../../../test/support/kit-client.ts";

const remote = { address: "192.0.2.7", localAddress: "192.0.2.1" };
const ide = "https://ide.example.com";

describe("routes", () => {
  it("[KO-030] do not exist while the transport is off", async () => {
    const { edge } = createFakeKit({ settings: { enableHttpSseTransport: false } });
    for (const path of ["/mcp/sse", "/mcp/rpc", "/mcp/capabilities", "/mcp/health", "/mcp", "/api/x"]) {
      expect(await edge.handle(new Request(`http://localhost${path}`))).toBeUndefined();
    }
  });

  it("[KO-135] follow one switch, unless the base route is switched by itself", async () => {
    const both = createFakeKit();
    expect((await ask(both.edge, "/mcp")).status).toBe(200);
    const profileOnly = createFakeKit({ settings: { enableStreamableHttp: false } });
    expect((await ask(profileOnly.edge, "/mcp")).status).toBe(404);
    expect((await ask(profileOnly.edge, "/mcp/sse")).status).toBe(200);
    const baseOnly = createFakeKit({
      settings: { enableHttpSseTransport: false, enableStreamableHttp: true },
    });
    expect((await ask(baseOnly.edge, "/mcp")).status).toBe(200);
    expect((await ask(baseOnly.edge, "/mcp/sse")).status).toBe(404);
  });

  it.each([
    ["/tools/", "/tools"],
    ["", "/mcp"],
    ["deep/path", "/deep/path"],
  ])("[KO-031] stand under the route %j", async (httpSseRoute, base) => {
    const { edge } = createFakeKit({ settings: { httpSseRoute } });
    const body = (await (await ask(edge, `${base}/capabilities`)).json()) as { transports: unknown[] };
    expect(body.transports[0]).toMatchObject({
      streamEndpoint: `${base}/sse`,
      submitEndpoint: `${base}/rpc`,
    });
  });

  it.each([
    ["POST", "/mcp/sse", "GET, OPTIONS"],
    ["HEAD", "/mcp/sse", "GET, OPTIONS"],
    ["GET", "/mcp/rpc", "POST, OPTIONS"],
    ["DELETE", "/mcp/capabilities", "GET, OPTIONS"],
  ])("[KO-053] answer %s %s with 405 and Allow", async (method, path, allow) => {
    const { edge } = createFakeKit();
    const response = await ask(edge, path, { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe(allow);
    expect(await response.json()).toMatchObject({ error: "method_not_allowed" });
  });

  it("[KO-055] leave the base route and REST to the core, behind the same door", async () => {
    const { edge } = createFakeKit({
      settings: { requireAuthentication: true },
      authenticator: createFakeAuthenticator(["ann"]),
    });
    const headers = { authorization: "Bearer ann" };
    expect(await (await ask(edge, "/mcp", { method: "POST", headers })).json()).toEqual({
      streamable: "POST",
    });
    expect(await (await ask(edge, "/api/Site/1", { headers })).json()).toEqual({
      rest: "/Site/1",
      method: "GET",
      caller: "ann",
    });
    expect((await ask(edge, "/mcp", { method: "POST" })).status).toBe(401);
    expect((await ask(edge, "/api/Site")).status).toBe(401);
  });

  it("[KO-143] are described for OpenAPI with stable names and media types", () => {
    const { edge, core } = createFakeKit();
    expect(edge.openApi()).toMatchObject({
      "/api/Fake": {},
      "/mcp/sse": {
        get: { operationId: "McpSseStream", responses: { 200: { content: { "text/event-stream": {} } } } },
      },
      "/mcp/rpc": {
        post: { operationId: "McpRpcSubmit", requestBody: { content: { "application/json": {} } } },
      },
      "/mcp/capabilities": { get: { operationId: "McpCapabilities" } },
    });
    core.reload({ publishCapabilityEndpoint: false });
    expect(Object.keys(edge.openApi())).not.toContain("/mcp/capabilities");
    core.reload({ enableHttpSseTransport: false });
    expect(Object.keys(edge.openApi())).toEqual(["/api/Fake"]);
  });
});

describe("the capability document", () => {
  it("[KO-114] [KO-115] [KO-116] names version, transports and tools", async () => {
    const { edge } = createFakeKit();
    const response = await ask(edge, "/mcp/capabilities");
    expect(response.headers.get("content-type")).toContain("application/json");
    expect(await response.json()).toMatchObject({
      version: "2.0",
      transports: [
        {
          kind: "http+sse",
          streamEndpoint: "/mcp/sse",
          submitEndpoint: "/mcp/rpc",
          capabilityEndpoint: "/mcp/capabilities",
          requireAuthentication: false,
        },
        { kind: "streamable-http", endpoint: "/mcp", requireAuthentication: false },
      ],
      tools: expect.arrayContaining([expect.objectContaining({ name: "Fake_Echo", requiredScopes: [] })]),
    });
  });

  it("[KO-037] [KO-118] is 404 where it is not published", async () => {
    const { edge } = createFakeKit({ settings: { publishCapabilityEndpoint: false } });
    expect((await ask(edge, "/mcp/capabilities")).status).toBe(404);
    expect((await ask(edge, "/mcp/sse")).status).toBe(200);
  });
});

describe("HTTPS", () => {
  it("[KO-100] is required when deployed, judged after a trusted proxy's word", async () => {
    const { edge } = createFakeKit({
      deployed: true,
      settings: { requireAuthentication: false, trustedProxies: ["192.0.2.7"] },
    });
    for (const path of ["/mcp/sse", "/mcp/capabilities", "/mcp", "/api/x"]) {
      const plain = await ask(edge, path, { peer: remote });
      expect(plain.status).toBe(400);
      expect(await plain.json()).toEqual({
        error: "https_required",
        message: "MCP HTTP+SSE requires HTTPS in production",
      });
      const forwarded = await ask(edge, path, { headers: { "x-forwarded-proto": "https" }, peer: remote });
      expect(forwarded.status).toBe(200);
    }
    const stranger = { ...remote, address: "198.51.100.1" };
    expect((await ask(edge, "/mcp", { headers: { "x-forwarded-proto": "https" }, peer: stranger })).status).toBe(400);
    expect((await ask(edge, "/mcp/health", { peer: remote })).status).toBe(200);
  });

  it("[KO-101] is not required in development, nor where that is switched off", async () => {
    expect((await ask(createFakeKit().edge, "/mcp", { peer: remote })).status).toBe(200);
    const { edge } = createFakeKit({
      deployed: true,
      settings: { requireAuthentication: false, requireHttps: false },
    });
    expect((await ask(edge, "/mcp", { peer: remote })).status).toBe(200);
  });
});

describe("pages of other origins", () => {
  it("[KO-109] [KO-111] get CORS headers on every answer where they are listed, and 403 where not", async () => {
    const { edge } = createFakeKit({ settings: { enableCors: true, allowedOrigins: [ide] } });
    for (const path of ["/mcp/sse", "/mcp/capabilities", "/mcp", "/mcp/rpc"]) {
      const listed = await ask(edge, path, { headers: { origin: ide } });
      expect(listed.headers.get("access-control-allow-origin")).toBe(ide);
      expect(listed.headers.get("vary")).toContain("Origin");
      const foreign = await ask(edge, path, { headers: { origin: "https://evil.example" } });
      expect(foreign.status).toBe(403);
      expect(foreign.headers.has("access-control-allow-origin")).toBe(false);
    }
  });

  it("[KO-109] are answered a preflight without authentication", async () => {
    const { edge } = createFakeKit({
      settings: { enableCors: true, allowedOrigins: [ide], requireAuthentication: true },
      authenticator: createFakeAuthenticator([]),
    });
    const response = await ask(edge, "/mcp/rpc", { method: "OPTIONS", headers: { origin: ide } });
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-headers")).toContain("X-Mcp-Session");
  });

  it("[KO-112] reach no route by a foreign name on loopback", async () => {
    const { edge } = createFakeKit();
    for (const path of ["/mcp/sse", "/mcp/capabilities", "/mcp", "/api/x"]) {
      const response = await ask(edge, path, { headers: { host: "rebound.example" } });
      expect(response.status).toBe(403);
      expect(await response.json()).toMatchObject({ error: "host_refused" });
    }
  });
});

describe("rate limits", () => {
  const on = { enableRateLimiting: true, rateLimit: { callsPerMinute: 3, streamOpensPerMinute: 2 } };

  it("[KO-113] count calls by caller and streams by address, and say when to come back", async () => {
    const { edge, time } = createFakeKit({
      settings: on,
      authenticator: createFakeAuthenticator(["ann", "bob"]),
    });
    const as = (name: string) => ({ headers: { authorization: `Bearer ${name}` } });
    for (let call = 0; call < 3; call += 1) {
      expect((await ask(edge, "/mcp/capabilities", as("ann"))).status).toBe(200);
    }
    const refused = await ask(edge, "/mcp/capabilities", as("ann"));
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toBe("20");
    expect(await refused.json()).toMatchObject({ error: "rate_limited" });
    expect((await ask(edge, "/mcp/capabilities", as("bob"))).status).toBe(200);
    expect((await ask(edge, "/mcp/sse", as("ann"))).status).toBe(200);
    expect((await ask(edge, "/mcp/sse", as("bob"))).status).toBe(200);
    expect((await ask(edge, "/mcp/sse", as("bob"))).status).toBe(429);
    expect((await ask(edge, "/mcp/sse", { ...as("bob"), peer: { address: "192.0.2.9" } })).status).toBe(200);
    await time.advance(60_000);
    expect((await ask(edge, "/mcp/capabilities", as("ann"))).status).toBe(200);
  });

  it("[KO-113] count every request of a batch, and run nothing of one that is too much", async () => {
    const { edge, core } = createFakeKit({ settings: on });
    const client = await openKitClient(edge);
    const batch = (from: number) => [from, from + 1].map((id) => toolCall(id, "Fake_Echo", { text: "x" }));
    expect((await client.post(batch(1))).status).toBe(202);
    await settled();
    expect(core.callers).toHaveLength(2);
    expect((await client.post(batch(3))).status).toBe(429);
    await settled();
    expect(core.callers).toHaveLength(2);
  });

  it("[KO-113] stop an address that tries tokens", async () => {
    const { edge } = createFakeKit({ settings: on, authenticator: createFakeAuthenticator(["ann"]) });
    const guess = async (peer = {}) =>
      (await ask(edge, "/mcp/capabilities", { headers: { authorization: "Bearer guess" }, peer })).status;
    expect([await guess(), await guess(), await guess(), await guess()]).toEqual([401, 401, 401, 429]);
    expect(await guess({ address: "192.0.2.9" })).toBe(401);
  });

  it("[KO-044] are off unless switched on", async () => {
    const { edge } = createFakeKit();
    for (let call = 0; call < 100; call += 1) expect((await ask(edge, "/mcp/capabilities")).status).toBe(200);
  });
});

describe("health and metrics", () => {
  it("[KO-119] [KO-120] show connections and are pushed on every open and close", async () => {
    const { edge, time } = createFakeKit();
    const pushed: unknown[] = [];
    const stop = edge.onHealth(({ activeConnections, status, lastChange }) => {
      pushed.push([activeConnections, status, lastChange]);
    });
    expect(await edge.health()).toEqual({
      status: "healthy",
      activeConnections: 0,
      maxConnections: 100,
      lastChange: "2026-01-01T00:00:00.000Z",
      heartbeatIntervalMs: 15_000,
      evictions: 0,
    });
    await time.advance(1000);
    const client = await openKitClient(edge);
    await time.advance(1000);
    await client.leave();
    stop();
    expect(pushed).toEqual([
      [1, "healthy", "2026-01-01T00:00:01.000Z"],
      [0, "healthy", "2026-01-01T00:00:02.000Z"],
    ]);
  });

  it("[KO-120] are degraded from 80 percent of the limit on, and while the store fails", async () => {
    const { edge, core } = createFakeKit({ settings: { maxConcurrentConnections: 5 } });
    for (let stream = 0; stream < 3; stream += 1) await openKitClient(edge);
    expect((await edge.health()).status).toBe("healthy");
    await openKitClient(edge);
    expect(await edge.health()).toMatchObject({
      status: "degraded",
      reason: "4 of 5 connections are in use",
    });
    core.reload({ maxConcurrentConnections: 0 });
    expect((await edge.health()).status).toBe("healthy");
    core.store = { ok: false, reason: "disk full" };
    expect(await edge.health()).toMatchObject({ status: "degraded", reason: "the store failed: disk full" });
    const probe = await ask(edge, "/mcp/health");
    expect([probe.status, await probe.json()]).toEqual([200, { status: "degraded" }]);
  });

  it("[KO-123] count sessions, calls, durations, acks, refusals and bytes", async () => {
    const { edge } = createFakeKit({ settings: { maxConcurrentConnections: 1 } });
    const client = await openKitClient(edge);
    await client.post(toolCall(1, "Fake_Echo", { text: "x" }));
    await client.until("result");
    await ask(edge, "/mcp/sse");
    const text = edge.metrics();
    expect(text).toContain("headgate_kit_sessions 1\n");
    expect(text).toContain('headgate_kit_calls_total{tool="Fake_Echo",via="http-sse",outcome="ok"} 1\n');
    expect(text).toContain('headgate_kit_call_duration_seconds_count{tool="Fake_Echo"} 1\n');
    expect(text).toContain("headgate_kit_ack_latency_seconds_count 1\n");
    expect(text).toContain('headgate_kit_refused_total{code="max_connections_exceeded"} 1\n');
    expect(text).toMatch(/headgate_kit_bytes_out_total [1-9]\d+\n/u);
    await client.leave();
    expect(edge.metrics()).toContain("headgate_kit_sessions 0\n");
  });
});

describe("a fault of ours", () => {
  it("[KO-128] [KO-141] is 500 with an id that is in the log, and nothing internal", async () => {
    const { edge, log } = createFakeKit();
    const response = await ask(edge, "/api/broken");
    expect(response.status).toBe(500);
    const body = (await response.json()) as Record<string, unknown>;
    expect(body["error"]).toBe("internal_error");
    expect(JSON.stringify(body)).not.toContain("hunter2");
    const line = log.lines.find(({ fields }) => fields["id"] === body["id"]);
    expect(line).toMatchObject({ level: "error", fields: { error: expect.stringContaining("hunter2") } });
  });
});

describe("a reload", () => {
  it("[KO-142] holds for the next request and leaves open streams alone", async () => {
    const { edge, core } = createFakeKit({ authenticator: createFakeAuthenticator(["ann"]) });
    const client = await openKitClient(edge, { headers: { authorization: "Bearer ann" } });
    core.reload({ requireAuthentication: true, maxConcurrentConnections: 1, allowedOrigins: [ide] });
    expect((await ask(edge, "/mcp/capabilities")).status).toBe(401);
    const headers = { authorization: "Bearer ann", origin: ide };
    expect((await ask(edge, "/mcp/sse", { headers })).status).toBe(429);
    await client.post(toolCall(1, "Fake_Echo", { text: "still here" }));
    expect((await client.until("result")).at(-1)?.data).toContain("still here");
  });
});
