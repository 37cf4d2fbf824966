import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine, echoed } from "../../../test/support/fake-pdp.ts";
import { plainContext, plainSettings, requestFacts, responseFacts } from "../../../test/support/mock-pingauthorize.ts";
import { createShowForLog, toPlainFields, truncateText } from "./telemetry.ts";
import { parseSidebandSettings } from "./settings.ts";

const body = Buffer.from(mcpFixtures.toolsCall);
const otel = { enable_otel: true };
const denial = { json: { response: { response_code: "403" } } };

describe("log entries", () => {
  it("[PA-133] all have the same head, and no user information in the URL", async () => {
    const settings = { service_url: "https://user:pass@pdp.example/base" };
    const { engine, logs } = createFakedEngine(settings, () => ({ status: 500 }));
    await engine.evaluateRequest(requestFacts());
    await engine.evaluateResponse(responseFacts(), plainContext);
    expect(logs.length).toBeGreaterThan(2);
    for (const entry of logs) {
      expect(entry).toMatchObject({
        plugin: "idpartners-ping-authorize",
        service_url: "https://pdp.example/base",
      });
      expect(["debug", "info", "warn", "error"]).toContain(entry.level);
      expect(typeof entry.msg).toBe("string");
      expect(JSON.stringify(entry)).not.toContain("pass");
    }
    expect(new Set(logs.map(({ phase }) => phase))).toEqual(new Set(["access", "response"]));
  });

  it("[PA-215] tell of a call, a denial and an unreachable decision point", async () => {
    const denied = createFakedEngine({}, () => denial);
    await denied.engine.evaluateRequest(requestFacts());
    expect(denied.logs).toMatchObject([
      { level: "debug", msg: "Sending sideband request", path: "/sideband/request" },
      { level: "info", status_code: 403 },
    ]);
    const down = createFakedEngine({}, () => new Error("dial timeout"));
    await down.engine.evaluateRequest(requestFacts());
    expect(down.logs).toContainEqual(
      expect.objectContaining({ level: "error", msg: "PingAuthorize unreachable", error: "dial timeout" }),
    );
  });

  it.each([
    [401, "warn"],
    [413, "warn"],
    [500, "error"],
  ])("[PA-129] tell of status %d at level %s, with what PingAuthorize says", async (status, level) => {
    const { engine, logs } = createFakedEngine({}, () => ({ status, json: { message: "why", id: "i-1" } }));
    await engine.evaluateRequest(requestFacts());
    expect(logs).toContainEqual(expect.objectContaining({ level, status, message: "why", id: "i-1" }));
  });

  it("[PA-134] have payloads and answers only with debug logging", async () => {
    for (const enable_debug_logging of [false, true]) {
      const { engine, logs } = createFakedEngine({ enable_debug_logging }, echoed);
      await engine.evaluateRequest(requestFacts());
      const shown = logs.filter((entry) => "payload" in entry || "answer" in entry);
      expect(shown).toHaveLength(enable_debug_logging ? 2 : 0);
      expect(shown.every(({ level }) => level === "debug")).toBe(true);
    }
  });

  it("[PA-191] tell of MCP requests at info, only with debug logging, with arguments cut", async () => {
    const settings = { enable_mcp: true, enable_debug_logging: true, debug_body_max_bytes: 10 };
    const { engine, logs } = createFakedEngine(settings, echoed);
    await engine.evaluateRequest(requestFacts({ body }));
    expect(logs).toContainEqual(
      expect.objectContaining({
        level: "info",
        mcp_method: "tools/call",
        mcp_tool_name: "get_weather",
        traffic_type: "mcp",
      }),
    );
    expect(logs).toContainEqual(
      expect.objectContaining({
        payload: expect.objectContaining({
          mcp: expect.objectContaining({ mcp_tool_arguments: '{"city":"L... [truncated, 17 bytes]' }),
        }),
      }),
    );
    const quiet = createFakedEngine({ enable_mcp: true }, echoed);
    await quiet.engine.evaluateRequest(requestFacts({ body }));
    expect(quiet.logs.filter(({ level }) => level === "info")).toEqual([]);
  });
});

it("log entries can be had as plain values", () => {
  const head = { plugin: "p", phase: "access", service_url: "u" } as const;
  expect(
    toPlainFields({ ...head, level: "debug", msg: "m", path: "/x", payload: { a: [1] }, message: undefined }),
  ).toEqual({ ...head, path: "/x", payload: '{"a":[1]}', message: undefined });
});

describe("what is shown of payloads", () => {
  const show = createShowForLog(
    parseSidebandSettings({
      ...plainSettings,
      redact_headers: ["Authorization", "x-key"],
      debug_body_max_bytes: 5,
    }),
  );
  const headers = [{ Authorization: "a" }, { "X-KEY": "b" }, { "client-token": "c" }, { other: "d" }];
  const hidden = [
    { Authorization: "[REDACTED]" },
    { "X-KEY": "[REDACTED]" },
    { "client-token": "[REDACTED]" },
    { other: "d" },
  ];

  it("[PA-135] [PA-136] hides secret headers wherever they stand", () => {
    expect(show(JSON.stringify({ headers }))).toEqual({ headers: hidden });
    expect(show(JSON.stringify({ request: { headers } }))).toEqual({ request: { headers: hidden } });
    expect(show(JSON.stringify({ response: { headers } }))).toEqual({ response: { headers: hidden } });
    expect(show(JSON.stringify({ extracted_headers: { authorization: "a", other: "d" } }))).toEqual({
      extracted_headers: { authorization: "[REDACTED]", other: "d" },
    });
  });

  it.each([
    ["a list", JSON.stringify([{ headers }])],
    [
      "headers in another form",
      JSON.stringify({ headers: { authorization: "a", "X-Key": ["b"] }, "client-token": "c" }),
    ],
    ["another place", JSON.stringify({ original: { all: [{ headers }] } })],
    ["a text that is not JSON", `${JSON.stringify({ headers })}x`],
    ["a text that is cut off", JSON.stringify({ headers }).slice(0, 45)],
    ["JSON in a text", `error: ${JSON.stringify(JSON.stringify({ headers }))}`],
    ["a page", "<pre>Authorization: a\r\nx-key = b\nCLIENT-TOKEN:c</pre>"],
  ])("[PA-135] [PA-136] hides secret headers in an answer that has them in %s", (_what, text) => {
    const wide = createShowForLog(
      parseSidebandSettings({ ...plainSettings, redact_headers: ["Authorization", "x-key"], debug_body_max_bytes: 0 }),
    );
    const secret = text.replaceAll(/(?<=[":=\s\\[])[abc](?=["\\\r\n<]|$)/gu, "S3CRET");
    expect(secret).toContain("S3CRET");
    expect(JSON.stringify(wide(secret))).not.toContain("S3CRET");
    expect(JSON.stringify(wide(secret))).toContain("[REDACTED]");
  });

  it("[PA-136] hides the secret's header whatever the list says", () => {
    const bare = createShowForLog(parseSidebandSettings({ ...plainSettings, redact_headers: [] }));
    expect(bare('{"headers":[{"CLIENT-Token":"x"},{"authorization":"y"}]}')).toEqual({
      headers: [{ "CLIENT-Token": "[REDACTED]" }, { authorization: "y" }],
    });
  });

  it("[PA-137] cuts bodies beyond the limit, wherever they stand", () => {
    expect(show('{"body":"12345"}')).toEqual({ body: "12345" });
    expect(show('{"body":"123456","request":{"body":"abcdefg"}}')).toEqual({
      body: "12345... [truncated, 6 bytes]",
      request: { body: "abcde... [truncated, 7 bytes]" },
    });
    expect(show("no json at all")).toBe("no js... [truncated, 14 bytes]");
  });

  it("[PA-137] cuts on whole characters, and not at all at 0", () => {
    expect(truncateText("aø", 2)).toBe("a... [truncated, 3 bytes]");
    expect(truncateText("aø", 3)).toBe("aø");
    expect(truncateText("😀", 3)).toBe("... [truncated, 4 bytes]");
    expect(truncateText("long text", 0)).toBe("long text");
  });

  it("never shows a state, which may hold the whole request", () => {
    expect(show('{"state":"secret"}')).toEqual({ state: "[opaque, 8 bytes]" });
  });
});

describe("metrics and spans", () => {
  it("[PA-139] [PA-190] do not exist without enable_otel", async () => {
    const { engine, metrics, spans } = createFakedEngine({ enable_mcp: true }, echoed);
    const before = metrics.text();
    await engine.evaluateRequest(requestFacts({ body }));
    expect(metrics.text()).toBe(before);
    expect(spans).toEqual([]);
  });

  it("[PA-140] [PA-141] are one span for each call, retries included", async () => {
    const settings = { ...otel, max_retries: 1, retry_backoff_ms: 1 };
    const { engine, spans, time } = createFakedEngine(settings, (call, index) =>
      index === 0 ? { status: 500 } : echoed(call),
    );
    const outcome = engine.evaluateRequest(requestFacts());
    await time.advance(1);
    await outcome;
    await engine.evaluateResponse(responseFacts(), plainContext);
    expect(spans).toEqual([
      {
        name: "ping-authorize.access",
        attributes: {
          "http.method": "POST",
          "http.status_code": 200,
          "http.url": "http://pdp.example/sideband/request",
          "policy.decision": "allow",
          "circuit_breaker.state": "closed",
        },
      },
      expect.objectContaining({ name: "ping-authorize.response" }),
    ]);
  });

  it("[PA-141] say deny, failure and open breaker", async () => {
    const denied = createFakedEngine(otel, () => denial);
    await denied.engine.evaluateRequest(requestFacts());
    expect(denied.spans[0]?.attributes["policy.decision"]).toBe("deny");
    expect(denied.spans[0]).not.toHaveProperty("error");
    const failed = createFakedEngine(otel, () => ({ status: 503 }));
    await failed.engine.evaluateRequest(requestFacts());
    expect(failed.spans).toMatchObject([
      { error: "status 503", attributes: { "http.status_code": 503, "circuit_breaker.state": "open" } },
    ]);
    expect(failed.spans[0]?.attributes).not.toHaveProperty("policy.decision");
  });

  it("[PA-142] [PA-143] [PA-145] count calls, their time and the decisions", async () => {
    const { engine, metrics, time } = createFakedEngine(otel, async (call, index) => {
      await time.advance(40);
      return index === 0 ? denial : call.path.endsWith("response") ? { text: "?" } : echoed(call);
    });
    await engine.evaluateRequest(requestFacts());
    await engine.evaluateRequest(requestFacts());
    await engine.evaluateResponse(responseFacts(), plainContext);
    const lines = metrics.text().split("\n");
    expect(lines).toContain('ping_authorize_sideband_total{phase="access",result="deny"} 1');
    expect(lines).toContain('ping_authorize_sideband_total{phase="access",result="allow"} 1');
    expect(lines).toContain('ping_authorize_sideband_total{phase="response",result="error"} 1');
    expect(lines).toContain('ping_authorize_sideband_duration_ms_sum{phase="access"} 80');
    expect(lines).toContain('ping_authorize_sideband_duration_ms_count{phase="response"} 1');
    expect(lines).toContain('ping_authorize_policy_decisions_total{decision="deny"} 1');
    expect(lines).toContain('ping_authorize_policy_decisions_total{decision="allow"} 1');
    expect(metrics.text()).toContain("# TYPE ping_authorize_sideband_duration_ms histogram");
  });

  it("[PA-144] show the breaker as 0 or 1", async () => {
    const { engine, metrics, time } = createFakedEngine(otel, (call, index) =>
      index === 0 ? { status: 500 } : echoed(call),
    );
    await engine.evaluateRequest(requestFacts());
    expect(metrics.text()).toContain("ping_authorize_circuit_breaker_state 1\n");
    await time.advance(30_000);
    await engine.evaluateRequest(requestFacts());
    expect(metrics.text()).toContain("ping_authorize_circuit_breaker_state 0\n");
  });

  it("[PA-187] [PA-188] [PA-189] count MCP requests once, their denials and tools", async () => {
    const { engine, metrics } = createFakedEngine({ ...otel, enable_mcp: true }, (call, index) =>
      index === 1
        ? denial
        : index === 2
          ? { status: 401 }
          : call.path.endsWith("response")
            ? { json: { response_code: "200" } }
            : echoed(call),
    );
    const first = await engine.evaluateRequest(requestFacts({ body }));
    await engine.evaluateRequest(requestFacts({ body }));
    await engine.evaluateRequest(requestFacts({ body: Buffer.from(mcpFixtures.toolsList) }));
    if (first.action === "continue" && first.store !== undefined) {
      await engine.evaluateResponse(responseFacts(), first.store);
    }
    const lines = metrics.text().split("\n");
    expect(lines).toContain('mcp_requests_total{method="tools/call"} 2');
    expect(lines).toContain('mcp_requests_total{method="tools/list"} 1');
    expect(lines).toContain('mcp_denied_total{method="tools/call",reason="policy"} 1');
    expect(lines).toContain('mcp_denied_total{method="tools/list",reason="rejected"} 1');
    expect(lines).toContain('mcp_tool_calls_total{tool="get_weather"} 2');
  });

  it("[PA-188] count denials of responses too", async () => {
    const { engine, metrics } = createFakedEngine({ ...otel, enable_mcp: true }, () => ({
      json: { response_code: "403", body: "" },
    }));
    const stored = { ...plainContext, paz_mcp: '{"mcp_method":"tools/call"}' };
    await engine.evaluateResponse(responseFacts(), stored);
    expect(metrics.text()).toContain('mcp_denied_total{method="tools/call",reason="policy"} 1\n');
  });

  it("[PA-189] do not let clients invent labels without end", async () => {
    const { engine, metrics } = createFakedEngine({ ...otel, enable_mcp: true }, echoed);
    for (let index = 0; index < 203; index++) {
      const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool-${index}"}}`;
      await engine.evaluateRequest(requestFacts({ body: Buffer.from(call) }));
    }
    const lines = metrics
      .text()
      .split("\n")
      .filter((line) => line.startsWith("mcp_tool_calls_total{"));
    expect(lines).toHaveLength(201);
    expect(lines).toContain('mcp_tool_calls_total{tool="other"} 3');
  });

  it("[PA-190] have nothing of MCP with enable_mcp off", async () => {
    const { engine, metrics } = createFakedEngine(otel, echoed);
    await engine.evaluateRequest(requestFacts({ body }));
    expect(metrics.text()).not.toMatch(/^mcp_\w+\{/mu);
    expect(metrics.text()).toContain('ping_authorize_sideband_total{phase="access",result="allow"} 1');
  });
});
