import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine, echoed } from "../../../test/support/fake-pdp.ts";
import type { FakeReply } from "../../../test/support/fake-pdp.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { answered, continued, jsonOf, requestFacts } from "../../../test/support/mock-pingauthorize.ts";
import type { HttpPolicyEngine } from "./contract.ts";

const reply = (answer: FakeReply, settings: Readonly<Record<string, unknown>> = {}) =>
  createFakedEngine(settings, () => answer);

async function statusOf(engine: HttpPolicyEngine): Promise<number | "through"> {
  const outcome = await engine.evaluateRequest(requestFacts());
  return outcome.action === "answer" ? outcome.answer.status : "through";
}

const empty = Buffer.alloc(0);

describe("an answer that refuses", () => {
  it("[PA-067] [PA-040] goes to the client with its status, body and flattened headers", async () => {
    const { engine, logs } = reply({
      json: {
        response: {
          response_code: "403",
          response_status: "FORBIDDEN",
          body: "no",
          headers: [{ "X-A": "1" }, { "x-a": "2" }, { "Content-Length": "99" }],
        },
      },
    });
    const outcome = answered(await engine.evaluateRequest(requestFacts()));
    expect(outcome.answer).toEqual({ status: 403, headers: { "x-a": ["1", "2"] }, body: Buffer.from("no") });
    expect(outcome.refusal).toEqual({ reason: "policy", status: 403, message: "FORBIDDEN" });
    expect(logs).toContainEqual(expect.objectContaining({ level: "info", status_code: 403 }));
  });

  it.each(["401", 402, "451", "503", 200])("[PA-068] passes status %s with its body", async (code) => {
    const { engine } = reply({ json: { response: { response_code: code, body: '{"step":"up"}' } } });
    const { answer } = answered(await engine.evaluateRequest(requestFacts()));
    expect(answer.status).toBe(Number(code));
    expect(answer.body.toString()).toBe('{"step":"up"}');
  });

  it("[PA-069] without body and headers gives an empty body and no policy headers", async () => {
    const { engine } = reply({ json: { response: { response_code: "403" } } });
    expect(answered(await engine.evaluateRequest(requestFacts())).answer).toEqual({
      status: 403,
      headers: {},
      body: empty,
    });
  });

  it.each([
    {},
    { response_code: "none" },
    { response_code: 99 },
    { response_code: 600 },
    { response_code: "403", body: 7 },
    "x",
    [],
    0,
    false,
  ])("[PA-208] is 502 even with fail_open when the response is unusable: %j", async (response) => {
    expect(await statusOf(reply({ json: { response } }, { fail_open: true }).engine)).toBe(502);
  });
});

describe("an answer that allows", () => {
  it("[PA-070] [PA-208] is one without a response, or with null in its place", async () => {
    expect(await statusOf(createFakedEngine({}, echoed).engine)).toBe("through");
    expect(await statusOf(reply({ json: { response: null } }).engine)).toBe("through");
  });

  it.each(['{"n":1e400,"a":{"b":1.0}}', '"H4sIAAAA"', "[1, 2]", "7"])(
    "[PA-071] leaves its state %s as the text it was",
    async (state) => {
      const { engine } = reply({ text: `{"state": ${state} }` });
      expect(continued(await engine.evaluateRequest(requestFacts())).store?.paz_state).toBe(state);
    },
  );

  it("[PA-071] has no state when there is none or null", async () => {
    for (const text of ["{}", '{"state":null}']) {
      const { engine } = reply({ text });
      expect(continued(await engine.evaluateRequest(requestFacts())).store).not.toHaveProperty("paz_state");
    }
  });

  it("[PA-131] leaves the payload as sent, or its three needed members beside a state", async () => {
    const plain = createFakedEngine({}, echoed);
    const { store } = continued(await plain.engine.evaluateRequest(requestFacts()));
    expect(store?.paz_original_request).toBe(plain.calls[0]?.text);
    const stateful = reply({ json: { state: "s" } });
    const other = continued(await stateful.engine.evaluateRequest(requestFacts())).store;
    expect(JSON.parse(other?.paz_original_request ?? "")).toEqual({
      method: "POST",
      url: "https://api.example.com:443/mcp",
      http_version: "1.1",
    });
  });

  it("[PA-131] [PA-085] leaves nothing when there is no response phase", async () => {
    const { engine } = createFakedEngine({ skip_response_phase: true }, echoed);
    expect(engine.hasResponsePhase).toBe(false);
    expect(continued(await engine.evaluateRequest(requestFacts())).store).toBeUndefined();
  });

  it("[PA-162] leaves the MCP context without the arguments", async () => {
    const { engine } = createFakedEngine({ enable_mcp: true }, echoed);
    const body = Buffer.from(mcpFixtures.toolsCall);
    const { store } = continued(await engine.evaluateRequest(requestFacts({ body })));
    expect(store?.paz_mcp).toBe('{"mcp_method":"tools/call","mcp_tool_name":"get_weather","mcp_jsonrpc_id":1}');
  });
});

describe("failures with fail_open off and on", () => {
  it.each<readonly [row: string, what: string, answer: FakeReply, off: number, on: number | "through"]>([
    ["PA-066", "an answer that is no JSON", { text: "<html>" }, 502, "through"],
    ["PA-208", "an answer that is no object", { json: [] }, 502, "through"],
    ["PA-208", "headers that are no list", { json: { headers: {} } }, 502, "through"],
    ["PA-208", "a header value that is no text", { json: { headers: [{ a: 1 }] } }, 502, "through"],
    ["PA-208", "a method that is no text", { json: { method: 1 } }, 502, "through"],
    ["PA-208", "a body that is no text", { json: { body: {} } }, 502, "through"],
    ["PA-208", "a decision in another form", { json: { decision: "DENY" } }, 502, "through"],
    ["PA-208", "an error with status 200", { json: { error: "no such endpoint" } }, 502, "through"],
    [
      "PA-208",
      "a refusal in other letters",
      { json: { method: "POST", Response: { response_code: "403" } } },
      502,
      502,
    ],
    ["PA-208", "a refusal, and none", { text: `{"response":{"response_code":"403"},"response":null}` }, 502, 502],
    ["PA-208", "none, and a refusal", { text: `{"response":null,"response":{"response_code":"403"}}` }, 502, 502],
    ["PA-208", "two methods", { text: `{"method":"GET","m\\u0065thod":"DELETE"}` }, 502, 502],
    [
      "PA-208",
      "a refusal with two statuses",
      { text: `{"response":{"response_code":"403","response_code":"200"}}` },
      502,
      502,
    ],
    ["PA-123", "an unreachable decision point", new Error("connect ECONNREFUSED"), 502, "through"],
    ["PA-124", "500", { status: 500 }, 502, "through"],
    ["PA-124", "503 with a body", { status: 503, json: { message: "x" } }, 502, "through"],
    ["PA-125", "a timeout", new Error("no answer within 10000 ms"), 502, "through"],
    ["PA-126", "400", { status: 400 }, 502, 502],
    ["PA-126", "401 with a page", { status: 401, text: "<html>" }, 502, 502],
    ["PA-127", "413, which is passed through", { status: 413 }, 413, 413],
    ["PA-209", "301", { status: 301, headers: { location: "http://elsewhere" } }, 502, 502],
    ["PA-111", "429", { status: 429 }, 429, 429],
  ])("[%s] %s", async (_row, _what, answer, off, on) => {
    expect(await statusOf(reply(answer).engine)).toBe(off);
    expect(await statusOf(reply(answer, { fail_open: true }).engine)).toBe(on);
  });

  it("[PA-208] takes two members of one name in what is the policy's own", async () => {
    expect(await statusOf(reply({ text: `{"state":{"a":1,"a":2}}` }).engine)).toBe("through");
  });

  it("[PA-065] looks at no status when there was no answer", async () => {
    const { engine } = reply(Object.assign(new Error("socket hang up"), { status: 200 }));
    expect(await statusOf(engine)).toBe(502);
  });

  it("[PA-128] answers 502 with an empty body", async () => {
    const { engine } = reply({ status: 500, json: { message: "internals" } });
    expect(answered(await engine.evaluateRequest(requestFacts())).answer).toEqual({
      status: 502,
      headers: {},
      body: empty,
    });
  });

  it("[PA-126] answers 502 to a 429 when the breaker is off", async () => {
    const settings = { circuit_breaker_enabled: false, fail_open: true };
    const { engine, calls } = reply({ status: 429, headers: { "retry-after": "5" } }, settings);
    expect(await statusOf(engine)).toBe(502);
    expect(await statusOf(engine)).toBe(502);
    expect(calls).toHaveLength(2);
  });

  it("[PA-130] says that the gate was open", async () => {
    const { engine, logs } = reply({ status: 500 }, { fail_open: true });
    continued(await engine.evaluateRequest(requestFacts()));
    expect(logs).toContainEqual(expect.objectContaining({ level: "warn", cause: "status 500" }));
  });

  it("[PA-132] stores the request without state when the gate was open", async () => {
    const { engine, calls } = reply(new Error("down"), { fail_open: true });
    const first = continued(await engine.evaluateRequest(requestFacts()));
    expect(first).toMatchObject({ decision: "fail-open", store: { paz_original_request: calls[0]?.text } });
    const second = continued(await engine.evaluateRequest(requestFacts()));
    expect(calls).toHaveLength(1);
    expect(second.store).toEqual({ paz_original_request: calls[0]?.text });
  });

  it("[PA-076] takes Accept-Encoding off also when the gate was open, if responses are asked about", async () => {
    const headers = { "accept-encoding": ["gzip"] };
    const clear = [{ type: "clear-header", name: "accept-encoding" }];
    for (const [skip_response_phase, changes] of [
      [false, clear],
      [true, []],
    ] as const) {
      const { engine } = reply(new Error("down"), { fail_open: true, skip_response_phase });
      expect(continued(await engine.evaluateRequest(requestFacts({ headers }))).changes).toEqual(changes);
    }
  });
});

describe("statuses that are passed through", () => {
  it("[PA-127] go to the client with the body as JSON", async () => {
    const { engine } = reply({ status: 413, json: { message: "too large", id: "x" } });
    const { answer } = answered(await engine.evaluateRequest(requestFacts()));
    expect(answer.headers).toEqual({ "content-type": ["application/json"] });
    expect(answer.body.toString()).toBe('{"message":"too large","id":"x"}');
  });

  it("[PA-127] keep the content type of a body that is no JSON", async () => {
    const { engine } = reply(
      { status: 451, text: "<p>", headers: { "content-type": "text/html" } },
      { passthrough_status_codes: [451] },
    );
    const { answer } = answered(await engine.evaluateRequest(requestFacts()));
    expect(answer).toEqual({
      status: 451,
      headers: { "content-type": ["text/html"] },
      body: Buffer.from("<p>"),
    });
  });

  it("[PA-127] [PA-111] may be a 5xx: after its retries, and the breaker opens all the same", async () => {
    const { engine, calls, time } = reply(
      { status: 503 },
      { passthrough_status_codes: [503], max_retries: 1, retry_backoff_ms: 10 },
    );
    const outcome = engine.evaluateRequest(requestFacts());
    await time.advance(10);
    expect(answered(await outcome).answer.status).toBe(503);
    expect(calls).toHaveLength(2);
    expect(await statusOf(engine)).toBe(502);
    expect(calls).toHaveLength(2);
  });

  it("[PA-111] may be 429: passed through at first, then the breaker answers", async () => {
    const { engine } = reply(
      { status: 429, json: { message: "slow" }, headers: { "retry-after": "7" } },
      { passthrough_status_codes: [429] },
    );
    const first = answered(await engine.evaluateRequest(requestFacts()));
    expect(jsonOf(first)).toEqual({ message: "slow" });
    const second = answered(await engine.evaluateRequest(requestFacts()));
    expect(jsonOf(second)).toMatchObject({ code: "LIMIT_EXCEEDED" });
  });
});

describe("asking", () => {
  it("[PA-009] keeps concurrent requests apart", async () => {
    const { engine } = createFakedEngine({}, async (call) => {
      await settled();
      return { json: { ...call.payload, state: call.payload.body } };
    });
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        engine.evaluateRequest(requestFacts({ body: Buffer.from(`body ${index}`) })),
      ),
    );
    expect(outcomes.map((outcome) => continued(outcome).store?.paz_state)).toEqual(
      Array.from({ length: 50 }, (_, index) => `"body ${index}"`),
    );
  });

  it("[PA-212] hands the signal and what is left of the time down to the client", async () => {
    const controller = new AbortController();
    const { engine, calls } = createFakedEngine({ connection_timeout_ms: 900 }, echoed);
    await engine.evaluateRequest(requestFacts(), { signal: controller.signal, budgetMs: 400 });
    await engine.evaluateRequest(requestFacts(), { signal: controller.signal, budgetMs: 4000 });
    expect(calls.map(({ timeoutMs, signal }) => [timeoutMs, signal === controller.signal])).toEqual([
      [400, true],
      [900, true],
    ]);
  });

  it("[PA-212] begins no attempt beyond the time given", async () => {
    const settings = { max_retries: 9, retry_backoff_ms: 300 };
    const { engine, calls, time } = reply({ status: 500 }, settings);
    const outcome = engine.evaluateRequest(requestFacts(), { budgetMs: 1000 });
    await time.advance(2000);
    expect(answered(await outcome).answer.status).toBe(502);
    expect(calls).toHaveLength(4);
  });

  it("[PA-212] rejects when the client is gone, without counting it as a failure", async () => {
    const controller = new AbortController();
    const { engine, calls } = createFakedEngine({}, () => {
      controller.abort(new Error("client gone"));
      return new Error("aborted");
    });
    await expect(engine.evaluateRequest(requestFacts(), { signal: controller.signal })).rejects.toThrow("client gone");
    await engine.evaluateRequest(requestFacts());
    expect(calls).toHaveLength(2);
  });

  it("[PA-110] holds it against the decision point when somebody's patience is over", async () => {
    const controller = new AbortController();
    const { engine, calls } = createFakedEngine({}, () => {
      controller.abort("timeout");
      return new Error("aborted");
    });
    expect(answered(await engine.evaluateRequest(requestFacts(), { signal: controller.signal })).answer.status).toBe(
      502,
    );
    answered(await engine.evaluateRequest(requestFacts()));
    expect(calls).toHaveLength(1);
  });

  it("[PA-212] rejects with an error of its own when the reason is none", async () => {
    const { engine } = createFakedEngine({}, () => new Error("aborted"));
    const gone = engine.evaluateRequest(requestFacts(), { signal: AbortSignal.abort("client-gone") });
    await expect(gone).rejects.toMatchObject({ name: "AbortError" });
  });

  it("takes the secret as it is now", async () => {
    let secret = "first";
    const { engine, calls } = createFakedEngine({}, echoed, { secret: () => secret });
    await engine.evaluateRequest(requestFacts());
    secret = "second";
    await engine.evaluateRequest(requestFacts());
    expect(calls.map(({ headers }) => headers["CLIENT-TOKEN"])).toEqual(["first", "second"]);
  });
});
