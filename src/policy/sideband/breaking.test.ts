import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine, echoed, type FakeReply } from "../../../test/support/fake-pdp.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import {
  answered,
  jsonOf,
  plainContext,
  requestFacts,
  responseFacts,
} from "../../../test/support/mock-pingauthorize.ts";
import { createBreaker, retryAfterSeconds } from "../pdp/call.ts";

const ask = requestFacts();

/** Answers in turn, then allows. */
const inTurn = (answers: readonly FakeReply[], settings: Readonly<Record<string, unknown>> = {}) =>
  createFakedEngine(settings, (call, index) => answers[index] ?? echoed(call));

describe("the breaker around the decision point", () => {
  it.each<readonly [row: string, what: string, failure: FakeReply]>([
    ["PA-109", "a 5xx", { status: 500 }],
    ["PA-110", "a timeout", new Error("no answer within 10 ms")],
    ["PA-110", "a refused connection", new Error("connect ECONNREFUSED")],
  ])("[%s] [PA-113] [PA-115] opens for 30 s after %s", async (_row, _what, failure) => {
    const { engine, calls, time } = inTurn([failure]);
    answered(await engine.evaluateRequest(ask));
    await time.advance(29_999);
    expect(answered(await engine.evaluateRequest(ask)).answer).toEqual({
      status: 502,
      headers: {},
      body: Buffer.alloc(0),
    });
    expect(calls).toHaveLength(1);
    await time.advance(1);
    expect((await engine.evaluateRequest(ask)).action).toBe("continue");
  });

  it("[PA-108] [PA-111] [PA-114] answers 429 for as long as PingAuthorize asks", async () => {
    const { engine, calls, time } = inTurn([{ status: 429, headers: { "retry-after": "12" } }], {
      fail_open: true,
    });
    const first = answered(await engine.evaluateRequest(ask));
    expect(first.answer.status).toBe(429);
    expect(first.answer.headers).toEqual({ "content-type": ["application/json"], "retry-after": ["12"] });
    expect(jsonOf(first)).toEqual({
      code: "LIMIT_EXCEEDED",
      message: "The request exceeded the allowed rate limit. Please try after 1 second.",
    });
    await time.advance(4500);
    const second = answered(await engine.evaluateRequest(ask));
    expect(second.answer.headers["retry-after"]).toEqual(["8"]);
    expect(jsonOf(second)).toEqual(jsonOf(first));
    expect(calls).toHaveLength(1);
    await time.advance(7500);
    expect((await engine.evaluateRequest(ask)).action).toBe("continue");
  });

  it.each([
    ["7", 7],
    ["0", 30],
    ["-3", 30],
    ["soon", 30],
    [undefined, 30],
    ["999999", 3600],
    [["4", "5"], 4],
    [new Date(Date.UTC(2026, 0, 1, 0, 0, 20)).toUTCString(), 20],
    [new Date(Date.UTC(2025, 0, 1)).toUTCString(), 30],
  ])("[PA-108] reads Retry-After %s as %d seconds", (value, seconds) => {
    expect(retryAfterSeconds(value, Date.UTC(2026, 0, 1), 30)).toBe(seconds);
  });

  it("[PA-115] lets through while it is open with fail_open, in both phases", async () => {
    const { engine, calls } = inTurn([{ status: 500 }], { fail_open: true });
    await engine.evaluateRequest(ask);
    expect(await engine.evaluateRequest(ask)).toMatchObject({ action: "continue", decision: "fail-open" });
    expect(await engine.evaluateResponse(responseFacts(), plainContext)).toEqual({
      action: "pass",
      decision: "fail-open",
    });
    expect(calls).toHaveLength(1);
  });

  it("[PA-105] is one for both phases", async () => {
    const { engine, calls } = inTurn([{ status: 500 }]);
    await engine.evaluateResponse(responseFacts(), plainContext);
    expect(answered(await engine.evaluateRequest(ask)).answer.status).toBe(502);
    expect(calls).toHaveLength(1);
  });

  it("[PA-105] is shared by the engines that it is handed to, and by no others", async () => {
    const { clock } = createFakeTime();
    const breaker = createBreaker(clock);
    const one = createFakedEngine({}, () => ({ status: 500 }), { breaker });
    const other = createFakedEngine({}, echoed, { breaker });
    const stranger = createFakedEngine({}, echoed);
    await one.engine.evaluateRequest(ask);
    expect(answered(await other.engine.evaluateRequest(ask)).answer.status).toBe(502);
    expect(other.calls).toEqual([]);
    expect((await stranger.engine.evaluateRequest(ask)).action).toBe("continue");
  });

  it("[PA-107] never opens when it is switched off", async () => {
    const { engine, calls } = inTurn([{ status: 500 }], { circuit_breaker_enabled: false });
    answered(await engine.evaluateRequest(ask));
    expect((await engine.evaluateRequest(ask)).action).toBe("continue");
    expect(calls).toHaveLength(2);
  });

  it.each([400, 404, 301, 200])("stays closed after %d", async (status) => {
    const { engine, calls } = inTurn([{ status, json: { response: { response_code: "403" } } }]);
    answered(await engine.evaluateRequest(ask));
    expect((await engine.evaluateRequest(ask)).action).toBe("continue");
    expect(calls).toHaveLength(2);
  });
});

describe("retries", () => {
  const settings = { max_retries: 2, retry_backoff_ms: 100 };

  it.each<readonly [string, FakeReply]>([
    ["a refused connection", new Error("connect ECONNREFUSED")],
    ["a timeout", new Error("no answer within 10 ms")],
    ["a 5xx", { status: 502 }],
  ])("[PA-118] come after %s", async (_what, failure) => {
    const { engine, calls, time } = inTurn([failure, failure], settings);
    const outcome = engine.evaluateRequest(ask);
    await time.advance(200);
    expect((await outcome).action).toBe("continue");
    expect(calls).toHaveLength(3);
  });

  it.each([429, 400, 413, 301, 200])("[PA-119] [PA-209] do not come after %d", async (status) => {
    const { engine, calls } = inTurn([{ status }], settings);
    await engine.evaluateRequest(ask);
    expect(calls).toHaveLength(1);
  });

  it("[PA-117] [PA-121] end after their number, and only then the breaker opens", async () => {
    const { engine, calls, time } = createFakedEngine(settings, () => ({ status: 500 }));
    const first = engine.evaluateRequest(ask);
    await time.advance(100);
    expect(calls).toHaveLength(2);
    const meanwhile = engine.evaluateRequest(ask);
    await time.advance(0);
    expect(calls).toHaveLength(3);
    await time.advance(100);
    expect(answered(await first).answer.status).toBe(502);
    await time.advance(100);
    expect(answered(await meanwhile).answer.status).toBe(502);
    expect(calls).toHaveLength(6);
    expect(answered(await engine.evaluateRequest(ask)).answer.status).toBe(502);
    expect(calls).toHaveLength(6);
  });

  it("[PA-122] are not made while the breaker is open", async () => {
    const { engine, calls } = inTurn([{ status: 429 }], settings);
    await engine.evaluateRequest(ask);
    await engine.evaluateRequest(ask);
    expect(calls).toHaveLength(1);
  });

  const mcp = { ...settings, enable_mcp: true };
  it.each(["toolsCall", "resourcesRead", "promptsGet"] as const)(
    "[PA-184] are not made for %s, in neither phase",
    async (name) => {
      const body = Buffer.from(mcpFixtures[name]);
      const access = inTurn([{ status: 500 }], mcp);
      answered(await access.engine.evaluateRequest(requestFacts({ body })));
      expect(access.calls).toHaveLength(1);
      const response = createFakedEngine(mcp, () => ({ status: 500 }));
      const stored = { ...plainContext, paz_mcp: `{"mcp_method":"${methodOf(name)}"}` };
      answered(await response.engine.evaluateResponse(responseFacts(), stored));
      expect(response.calls).toHaveLength(1);
    },
  );

  it.each(["toolsList", "resourcesList", "promptsList", "initialize"] as const)(
    "[PA-185] are made for %s",
    async (name) => {
      const { engine, calls, time } = inTurn([{ status: 500 }], mcp);
      const outcome = engine.evaluateRequest(requestFacts({ body: Buffer.from(mcpFixtures[name]) }));
      await time.advance(100);
      expect((await outcome).action).toBe("continue");
      expect(calls).toHaveLength(2);
    },
  );

  it("[PA-186] follow the operator's list, and the old rule for other requests", async () => {
    const listed = inTurn([{ status: 500 }], { ...mcp, mcp_retry_methods: ["tools/call"] });
    const call = listed.engine.evaluateRequest(requestFacts({ body: Buffer.from(mcpFixtures.toolsCall) }));
    await listed.time.advance(100);
    expect((await call).action).toBe("continue");
    const other = inTurn([{ status: 500 }], { ...mcp, mcp_retry_methods: [] });
    const plain = other.engine.evaluateRequest(ask);
    await other.time.advance(100);
    expect((await plain).action).toBe("continue");
    const none = inTurn([{ status: 500 }], { ...mcp, mcp_retry_methods: [] });
    answered(await none.engine.evaluateRequest(requestFacts({ body: Buffer.from(mcpFixtures.toolsList) })));
    expect(none.calls).toHaveLength(1);
  });

  it("[PA-213] ignore MCP methods with enable_mcp off", async () => {
    const { engine, calls, time } = inTurn([{ status: 500 }], { ...settings, mcp_retry_methods: [] });
    const outcome = engine.evaluateRequest(requestFacts({ body: Buffer.from(mcpFixtures.toolsCall) }));
    await time.advance(100);
    expect((await outcome).action).toBe("continue");
    expect(calls).toHaveLength(2);
  });
});

function methodOf(name: keyof typeof mcpFixtures): string {
  const { method } = JSON.parse(mcpFixtures[name]) as { readonly method: string };
  return method;
}
