import { describe, expect, it } from "vitest";

import type { SidebandSettings } from "../../src/policy/sideband/settings.ts";
import { mcpFixtures, sseFinalResponse, sseStream } from "../fixtures/mcp/messages.ts";
import { drive } from "../support/engine-drive.ts";
import {
  allowWith,
  changeResponse,
  denyRequest,
  requestFacts,
  responseFacts,
  startMockedEngine,
} from "../support/mock-pingauthorize.ts";
import type { MockPingRequest } from "../support/mock-pingauthorize.ts";

const ok = () => responseFacts();
const post = (body: string) => requestFacts({ body: Buffer.from(body) });
const mcpOn: Partial<SidebandSettings> = { enable_mcp: true };
const jsonRpc: Partial<SidebandSettings> = { enable_mcp: true, mcp_jsonrpc_errors: true };

describe("a request on its way, with PingAuthorize on a real socket", () => {
  it("[PA-193] [PA-070] [PA-094] allowed in both phases passes unchanged", async () => {
    await using mocked = await startMockedEngine();
    const driven = await drive(mocked.engine, post("hello"), ok);
    expect(driven).toMatchObject({
      status: 200,
      text: '{"ok":true}',
      upstream: { body: Buffer.from("hello") },
    });
    expect(mocked.mock.requests.map(({ endpoint }) => endpoint)).toEqual(["request", "response"]);
  });

  it("[PA-193] [PA-067] denied gets the policy's answer, and the upstream is not called", async () => {
    await using mocked = await startMockedEngine({}, { mock: { onRequest: denyRequest(402) } });
    const driven = await drive(mocked.engine, post("hello"), ok);
    expect(driven).toMatchObject({ status: 402, text: '{"errorMessage":"Access Denied","status":402}' });
    expect(driven.upstream).toBeUndefined();
    expect(mocked.mock.requests).toHaveLength(1);
  });

  it("[PA-193] modified reaches the upstream as the policy wants it", async () => {
    const changes = ({ payload }: MockPingRequest) => ({
      method: "PUT",
      url: "https://api.example.com:443/v2?compare=co",
      headers: [...(payload["headers"] as object[]), { "x-injected": "by policy" }],
      body: "audited",
    });
    await using mocked = await startMockedEngine({}, { mock: { onRequest: allowWith(changes) } });
    const { upstream } = await drive(mocked.engine, post("raw"), ok);
    expect(upstream).toMatchObject({
      method: "PUT",
      path: "/v2",
      query: "compare=co",
      headers: { "x-injected": ["by policy"] },
      body: Buffer.from("audited"),
    });
  });

  it("[PA-193] gets its response modified, with upstream headers taken off", async () => {
    const onResponse = changeResponse(() => ({ body: "changed", headers: [{ "x-kept": "1" }] }));
    await using mocked = await startMockedEngine({}, { mock: { onResponse } });
    const driven = await drive(mocked.engine, post(""), () =>
      responseFacts({ headers: { "x-powered-by": "y", date: "d" } }),
    );
    expect(driven.text).toBe("changed");
    expect(driven.headers).toEqual({ date: ["d"], "x-kept": ["1"] });
  });

  it("[PA-193] [PA-085] is not asked about again with skip_response_phase", async () => {
    await using mocked = await startMockedEngine({ skip_response_phase: true });
    expect((await drive(mocked.engine, post(""), ok)).text).toBe('{"ok":true}');
    expect(mocked.mock.requests.map(({ endpoint }) => endpoint)).toEqual(["request"]);
  });

  it.each([false, true])(
    "[PA-193] [PA-123] [PA-095] finds PingAuthorize gone, with fail_open %s",
    async (fail_open) => {
      await using mocked = await startMockedEngine({ fail_open, circuit_breaker_enabled: false });
      await mocked.mock.close();
      const driven = await drive(mocked.engine, post("x"), ok);
      expect(driven.status).toBe(fail_open ? 200 : 502);
      expect(driven.upstream === undefined).toBe(!fail_open);
    },
  );

  it.each([
    ["invalid JSON", { text: "<html>" }, 502, 200],
    ["4xx", { status: 403 }, 502, 502],
    ["5xx", { status: 503 }, 502, 200],
    ["a status that is passed through", { status: 413, json: { message: "m" } }, 413, 413],
    ["a reset connection", { fault: "reset" as const }, 502, 200],
  ])("[PA-193] meets %s in the first phase", async (_what, reply, closed, open) => {
    for (const [fail_open, status] of [
      [false, closed],
      [true, open],
    ] as const) {
      await using mocked = await startMockedEngine(
        { fail_open, circuit_breaker_enabled: false },
        { mock: { onRequest: () => reply } },
      );
      expect((await drive(mocked.engine, post("x"), ok)).status).toBe(status);
    }
  });

  it("[PA-193] meets a wrong secret as 401, which never opens the gate", async () => {
    await using mocked = await startMockedEngine({ shared_secret: "wrong", fail_open: true });
    expect((await drive(mocked.engine, post("x"), ok)).status).toBe(502);
    expect(mocked.logs).toContainEqual(
      expect.objectContaining({
        level: "warn",
        status: 401,
        message: "The Gateway Token is invalid",
        id: "mock-401",
      }),
    );
  });

  it("[PA-193] [PA-108] meets 429: PingAuthorize is left alone for a while, then asked again", async () => {
    let now = 0;
    const clock = { now: () => now, wall: () => now };
    await using mocked = await startMockedEngine(
      {},
      {
        surroundings: { clock },
        mock: { onRequest: () => ({ status: 429, headers: { "retry-after": "2" } }) },
      },
    );
    expect((await drive(mocked.engine, post("x"), ok)).headers["retry-after"]).toEqual(["2"]);
    mocked.mock.onRequest(allowWith(() => ({})));
    expect((await drive(mocked.engine, post("x"), ok)).status).toBe(429);
    expect(mocked.mock.requests).toHaveLength(1);
    now = 2000;
    expect((await drive(mocked.engine, post("x"), ok)).status).toBe(200);
  });

  it("[PA-193] [PA-121] uses its retries up, and then the breaker is open", async () => {
    await using mocked = await startMockedEngine(
      { max_retries: 2, retry_backoff_ms: 1 },
      { mock: { onRequest: () => ({ status: 500 }) } },
    );
    expect((await drive(mocked.engine, post("x"), ok)).status).toBe(502);
    expect((await drive(mocked.engine, post("x"), ok)).status).toBe(502);
    expect(mocked.mock.requests).toHaveLength(3);
  });

  it("[PA-193] [PA-009] [PA-071] never meets another one: 200 at once, each with its own state", async () => {
    const onRequest = allowWith(({ payload }) => ({ state: { of: payload["body"] } }));
    const onResponse = changeResponse(({ payload }) => ({ body: JSON.stringify(payload["state"]) }));
    await using mocked = await startMockedEngine({}, { mock: { onRequest, onResponse } });
    const all = await Promise.all(
      Array.from({ length: 200 }, (_, index) => drive(mocked.engine, post(`request ${index}`), ok)),
    );
    expect(all.map(({ text }) => text)).toEqual(Array.from({ length: 200 }, (_, index) => `{"of":"request ${index}"}`));
    expect(mocked.mock.requests.every(({ payload }) => !("state" in payload && "request" in payload))).toBe(true);
  });
});

describe("MCP requests on their way", () => {
  it("[PA-194] [PA-149] tools/call, allowed: the policy sees the MCP context", async () => {
    await using mocked = await startMockedEngine(mcpOn);
    const { upstream } = await drive(mocked.engine, post(mcpFixtures.toolsCall), ok);
    expect(upstream?.body.toString()).toBe(mcpFixtures.toolsCall);
    expect(mocked.mock.requests[0]?.payload).toMatchObject({
      traffic_type: "mcp",
      mcp: { mcp_method: "tools/call", mcp_tool_name: "get_weather", mcp_tool_arguments: { city: "London" } },
    });
  });

  it.each([
    [mcpOn, '{"errorMessage":"Access Denied","status":403}'],
    [jsonRpc, '{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Access Denied"}}'],
  ])("[PA-194] [PA-168] tools/call, denied, with %j", async (settings, text) => {
    await using mocked = await startMockedEngine(settings, { mock: { onRequest: denyRequest() } });
    const driven = await drive(mocked.engine, post(mcpFixtures.toolsCall), ok);
    expect(driven).toMatchObject({ status: 403, text });
    expect(driven.upstream).toBeUndefined();
  });

  it("[PA-194] [PA-165] tools/call with changed arguments stays JSON-RPC", async () => {
    const onRequest = allowWith(() => ({
      body: '{"jsonrpc":"2.0","id":99,"method":"x","params":{"name":"get_weather","arguments":{"city":"Paris"}}}',
    }));
    await using mocked = await startMockedEngine(mcpOn, { mock: { onRequest } });
    const { upstream } = await drive(mocked.engine, post(mcpFixtures.toolsCall), ok);
    expect(upstream?.body.toString()).toBe(mcpFixtures.toolsCall.replace("London", "Paris"));
  });

  it.each([
    ["toolsList", { mcp_method: "tools/list" }],
    ["resourcesRead", { mcp_resource_uri: "file:///data/config.json" }],
    ["initialize", { mcp_method: "initialize" }],
  ] as const)("[PA-194] [PA-162] [PA-182] %s, allowed: both phases carry its context", async (name, mcp) => {
    await using mocked = await startMockedEngine(mcpOn);
    await drive(mocked.engine, post(mcpFixtures[name]), ok);
    const [request, response] = mocked.mock.requests;
    expect(request?.payload["mcp"]).toMatchObject(mcp);
    expect(response?.payload["mcp"]).toEqual(request?.payload["mcp"]);
    expect(request?.payload["body"]).toBe(mcpFixtures[name]);
  });

  it("[PA-194] initialize: the protocol version stands in the body", async () => {
    await using mocked = await startMockedEngine(mcpOn);
    await drive(mocked.engine, post(mcpFixtures.initialize), ok);
    expect(mocked.mock.requests[0]?.payload["body"]).toContain('"protocolVersion":"2025-11-25"');
  });

  it.each([
    [mcpOn, '{"plain":"json"}'],
    [{}, mcpFixtures.toolsCall],
  ])("[PA-194] [PA-160] [PA-146] no MCP fields with %j and body %s", async (settings, body) => {
    await using mocked = await startMockedEngine(settings);
    await drive(mocked.engine, post(body), ok);
    for (const { payload } of mocked.mock.requests) {
      expect(payload).not.toHaveProperty("mcp");
      expect(payload).not.toHaveProperty("traffic_type");
    }
  });

  it("[PA-194] [PA-178] event stream: the policy gets the last response", async () => {
    await using mocked = await startMockedEngine(mcpOn);
    const stream = responseFacts({
      body: Buffer.from(sseStream),
      headers: { "content-type": "text/event-stream" },
    });
    const driven = await drive(mocked.engine, post(mcpFixtures.toolsCall), () => stream);
    expect(mocked.mock.requests[1]?.payload["body"]).toBe(sseFinalResponse);
    expect(driven.text).toBe(sseStream);
  });

  it.each([
    ["toolsList", "toolsListResponse", "delete_user"],
    ["resourcesList", "resourcesListResponse", "secrets"],
    ["promptsList", "promptsListResponse", "exfiltrate"],
  ] as const)("[PA-194] [PA-183] %s: what the policy removes is invisible", async (request, response, hidden) => {
    const onResponse = changeResponse(({ payload }) => {
      const message = JSON.parse(String(payload["body"])) as { result: Record<string, { name: string }[]> };
      for (const [key, entries] of Object.entries(message.result)) {
        message.result[key] = entries.filter(({ name }) => name !== hidden);
      }
      return { body: JSON.stringify(message) };
    });
    await using mocked = await startMockedEngine(mcpOn, { mock: { onResponse } });
    const driven = await drive(mocked.engine, post(mcpFixtures[request]), () =>
      responseFacts({ body: Buffer.from(mcpFixtures[response]) }),
    );
    expect(mcpFixtures[response]).toContain(hidden);
    expect(driven.text).not.toContain(hidden);
    expect(JSON.parse(driven.text)).toMatchObject({ jsonrpc: "2.0", id: expect.any(Number) as unknown });
  });

  it("[PA-194] [PA-175] denial in the response phase is a JSON-RPC error", async () => {
    const onResponse = changeResponse(() => ({ response_code: "403", body: '{"message":"banned"}' }));
    await using mocked = await startMockedEngine(jsonRpc, { mock: { onResponse } });
    const driven = await drive(mocked.engine, post(mcpFixtures.toolsCall), ok);
    expect(driven).toMatchObject({
      status: 403,
      text: '{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"banned"}}',
    });
  });

  it("[PA-194] [PA-184] [PA-185] tools/call is asked once, tools/list again", async () => {
    const settings = { ...mcpOn, max_retries: 2, retry_backoff_ms: 1, circuit_breaker_enabled: false };
    await using mocked = await startMockedEngine(settings);
    mocked.mock.onRequest(() => ({ status: 500 }));
    expect((await drive(mocked.engine, post(mcpFixtures.toolsCall), ok)).status).toBe(502);
    expect(mocked.mock.requests).toHaveLength(1);
    let asked = 0;
    mocked.mock.onRequest(({ payload }) => (asked++ === 0 ? { status: 500 } : { json: payload }));
    expect((await drive(mocked.engine, post(mcpFixtures.toolsList), ok)).status).toBe(200);
    expect(asked).toBe(2);
  });

  it("[PA-194] [PA-174] open breaker is a JSON-RPC error", async () => {
    await using mocked = await startMockedEngine(jsonRpc, { mock: { onRequest: () => ({ status: 500 }) } });
    await drive(mocked.engine, post(mcpFixtures.toolsList), ok);
    const driven = await drive(mocked.engine, post(mcpFixtures.toolsList), ok);
    expect(driven.status).toBe(502);
    expect(JSON.parse(driven.text)).toMatchObject({ id: 3, error: { code: -32_000 } });
    expect(mocked.mock.requests).toHaveLength(1);
  });

  it.each([
    ["truncate", 200],
    ["reject", 413],
  ])("[PA-194] [PA-164] [PA-204] body over the limit: %s", async (max_sideband_body_action, status) => {
    const settings = { ...mcpOn, max_sideband_body_bytes: 2000, max_sideband_body_action };
    await using mocked = await startMockedEngine(settings);
    const body = mcpFixtures.promptsGet.replace('"params":{', `"params":{"pad":"${"x".repeat(5000)}",`);
    const driven = await drive(mocked.engine, post(body), ok);
    expect(driven.status).toBe(status);
    if (status === 200) {
      expect(Buffer.byteLength(mocked.mock.requests[0]?.text ?? "")).toBe(2000);
      expect(driven.upstream?.body.toString()).toBe(body);
    } else expect(mocked.mock.requests).toEqual([]);
  });
});
