import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";

import { describe, expect, it } from "vitest";

import { mcpFixtures, sseFinalResponse, sseStream } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine, type FakeCall, type FakeReply } from "../../../test/support/fake-pdp.ts";
import { answered, plainContext, responseFacts } from "../../../test/support/mock-pingauthorize.ts";
import type { HttpResponseFacts, StoredContext } from "./contract.ts";
import { responseStatusText } from "./payload.ts";

/** Answers as PingAuthorize does: what it was asked about, with some members changed. */
function result(changes: Readonly<Record<string, unknown>> = {}) {
  return ({ payload: { response_code, headers, body } }: FakeCall): FakeReply => ({
    json: { response_code, headers, body, ...changes },
  });
}

async function evaluate(
  decide: (call: FakeCall) => FakeReply,
  facts: Partial<HttpResponseFacts> = {},
  settings: Readonly<Record<string, unknown>> = {},
  stored: StoredContext = plainContext,
) {
  const faked = createFakedEngine(settings, decide);
  const outcome = await faked.engine.evaluateResponse(responseFacts(facts), stored);
  return { ...faked, outcome, payload: faked.calls[0]?.payload ?? {} };
}

describe("the payload of a response", () => {
  it("[PA-086] [PA-087] [PA-088] [PA-089] [PA-090] [PA-091] has all members in their form", async () => {
    const { payload, calls } = await evaluate(result(), { status: 404, body: Buffer.from("gone") });
    expect(payload).toEqual({
      method: "POST",
      url: "https://api.example.com:443/mcp",
      body: "gone",
      response_code: "404",
      response_status: "NOT FOUND",
      headers: [{ "content-type": "application/json" }, { date: "Sun, 15 Nov 2026 00:00:00 GMT" }],
      http_version: "1.1",
      request: JSON.parse(plainContext.paz_original_request),
    });
    expect(calls[0]?.path).toBe("/sideband/response");
  });

  it.each([
    [200, "OK"],
    [400, "BAD REQUEST"],
    [401, "UNAUTHORIZED"],
    [404, "NOT FOUND"],
    [413, "PAYLOAD TOO LARGE"],
    [429, "TOO MANY REQUESTS"],
    [500, "INTERNAL SERVER ERROR"],
    [503, "SERVICE UNAVAILABLE"],
    [201, ""],
    [403, ""],
    [502, ""],
  ])("[PA-089] calls status %d %j", (status, text) => {
    expect(responseStatusText(status)).toBe(text);
  });

  it.each(['{"n":1e400,"k":1.0}', '"H4sIA"'])(
    "[PA-071] [PA-091] has the state %s as it came, and then no request",
    async (paz_state) => {
      const { calls, payload } = await evaluate(result(), {}, {}, { ...plainContext, paz_state });
      expect(calls[0]?.text).toContain(`"state":${paz_state}}`);
      expect(payload).not.toHaveProperty("request");
    },
  );

  it("[PA-091] has the request as it was sent, digits and all", async () => {
    const stored = '{"method":"P","url":"u","http_version":"2","mcp":{"mcp_tool_arguments":{"n":1.0}}}';
    const { calls } = await evaluate(result(), {}, {}, { paz_original_request: stored });
    expect(calls[0]?.text).toContain(`"request":${stored}}`);
    expect(calls[0]?.payload.http_version).toBe("2");
  });

  const paz_mcp = '{"mcp_method":"tools/call","mcp_tool_name":"t","mcp_jsonrpc_id":1}';
  it("[PA-182] carries the request's MCP context, also when the response is no JSON-RPC", async () => {
    const facts = { body: Buffer.from("<html>") };
    const settings = { enable_mcp: true, extract_headers: ["content-type"] };
    const { payload } = await evaluate(result(), facts, settings, { ...plainContext, paz_mcp });
    expect(payload).toMatchObject({ traffic_type: "mcp", mcp: JSON.parse(paz_mcp) });
    expect(payload).not.toHaveProperty("extracted_headers");
  });

  it("[PA-182] has nothing about MCP for other requests", async () => {
    const { payload } = await evaluate(result(), {}, { enable_mcp: true });
    expect(payload).not.toHaveProperty("traffic_type");
    expect(payload).not.toHaveProperty("mcp");
  });

  it("[PA-039] is none for nested headers: 400", async () => {
    const { outcome, calls } = await evaluate(result(), { headers: { a: { b: "c" } } }, { fail_open: true });
    expect(answered(outcome).answer.status).toBe(400);
    expect(calls).toEqual([]);
  });

  it("[PA-053] is none when what was stored cannot be used: 500, also with fail_open", async () => {
    const stored = { paz_original_request: "{broken" };
    const { outcome, calls } = await evaluate(result(), {}, { fail_open: true }, stored);
    expect(answered(outcome).answer).toEqual({ status: 500, headers: {}, body: Buffer.alloc(0) });
    expect(calls).toEqual([]);
  });
});

describe("the result for a response", () => {
  it("[PA-085] is not asked for when the phase is off", async () => {
    const { outcome, calls } = await evaluate(result(), {}, { skip_response_phase: true });
    expect(outcome).toEqual({ action: "pass", decision: "skipped" });
    expect(calls).toEqual([]);
  });

  it("[PA-094] gives the client its status, body and flattened headers", async () => {
    const changes = { response_code: "201", body: "new", headers: [{ "X-A": "1" }, { "x-a": "2" }] };
    const { outcome } = await evaluate(result(changes));
    expect(outcome).toEqual({
      action: "answer",
      answer: { status: 201, headers: { "x-a": ["1", "2"] }, body: Buffer.from("new") },
      clearHeaders: ["content-type"],
      isOriginalBody: false,
    });
  });

  it("[PA-093] removes upstream headers that it does not name, but for four", async () => {
    const headers = {
      "X-Powered-By": "x",
      server: "y",
      "content-length": "2",
      date: "d",
      connection: "c",
      vary: "v",
    };
    const { outcome } = await evaluate(result({ headers: [{ server: "z" }] }), { headers });
    expect(answered(outcome).clearHeaders).toEqual(["x-powered-by"]);
    expect(answered(outcome).answer.headers).toEqual({ server: ["z"] });
  });

  it("[PX-06] never sets what belongs to the connection", async () => {
    const headers = [{ "content-length": "1" }, { "transfer-encoding": "chunked" }, { connection: "close" }];
    const { outcome } = await evaluate(result({ headers, body: "longer than one" }));
    expect(answered(outcome).answer.headers).toEqual({});
  });

  it("[PA-094] is an empty body when it has none", async () => {
    const { outcome } = await evaluate(result({ body: undefined }));
    expect(answered(outcome).answer.body).toHaveLength(0);
  });

  it("keeps the upstream's headers when it has none, with a warning", async () => {
    const { outcome, logs } = await evaluate(result({ headers: undefined }));
    expect(answered(outcome).clearHeaders).toEqual([]);
    expect(answered(outcome).answer.headers["content-type"]).toEqual(["application/json"]);
    expect(logs.some(({ level }) => level === "warn")).toBe(true);
  });

  it.each<readonly [row: string, what: string, answer: FakeReply, off: number, on: number | "pass"]>([
    ["PA-092", "no JSON", { text: "x" }, 502, "pass"],
    ["PA-208", "no object", { json: 7 }, 502, "pass"],
    ["PA-208", "headers of another shape", { json: { response_code: "200", headers: "x" } }, 502, "pass"],
    ["PA-208", "no response_code", { json: { body: "x" } }, 502, 502],
    ["PA-208", "a bad response_code", { json: { response_code: "2xx" } }, 502, 502],
    ["PA-208", "two statuses", { text: `{"response_code":"403","response_code":"200"}` }, 502, 502],
    ["PA-095", "no answer", new Error("down"), 502, "pass"],
    ["PA-124", "500", { status: 500 }, 502, "pass"],
    ["PA-126", "403", { status: 403 }, 502, 502],
    ["PA-127", "413", { status: 413 }, 413, 413],
    ["PA-209", "302", { status: 302 }, 502, 502],
    ["PA-111", "429", { status: 429 }, 429, 429],
  ])("[%s] is %s: with fail_open off and on", async (_row, _what, answer, off, on) => {
    const closed = await evaluate(() => answer);
    expect(answered(closed.outcome).answer.status).toBe(off);
    expect(answered(closed.outcome).clearHeaders).not.toContain("date");
    const { outcome, logs } = await evaluate(() => answer, {}, { fail_open: true });
    expect(outcome.action === "answer" ? outcome.answer.status : outcome.action).toBe(on);
    if (on === "pass") expect(logs.some(({ level }) => level === "warn")).toBe(true);
  });

  it("[PA-095] takes the upstream's headers off a refusal", async () => {
    const { outcome } = await evaluate(() => ({ status: 500 }), {
      headers: { "set-cookie": ["a"], "content-encoding": ["gzip"], date: ["d"] },
    });
    expect(answered(outcome).clearHeaders).toEqual(["set-cookie", "content-encoding"]);
  });
});

describe("the body for the client", () => {
  const binary = Buffer.from([0xff, 0x00, 0xfe]);

  it("[PA-206] [PX-09] is the upstream's own bytes when the policy repeats what it saw", async () => {
    const { outcome } = await evaluate(result({ response_code: "202" }), { body: binary });
    const { answer, isOriginalBody } = answered(outcome);
    expect(answer.status).toBe(202);
    expect(answer.body).toBe(binary);
    expect(isOriginalBody).toBe(true);
  });

  const plain = '{"big":true}';
  const compressed = {
    body: gzipSync(plain),
    headers: { "content-encoding": ["gzip"], "content-type": ["application/json"] },
  };

  it("[PA-206] keeps its coding when only repeated, though the policy saw it without", async () => {
    const { outcome, payload } = await evaluate(result(), compressed);
    expect(payload.body).toBe(plain);
    expect(payload.headers).toEqual([{ "content-type": "application/json" }]);
    const { answer, clearHeaders } = answered(outcome);
    expect(answer.body).toBe(compressed.body);
    expect(answer.headers["content-encoding"]).toEqual(["gzip"]);
    expect(clearHeaders).toEqual([]);
  });

  it("[PA-206] has no coding when changed", async () => {
    const headers = [{ "content-encoding": "gzip" }];
    const { outcome } = await evaluate(result({ body: "{}", headers }), compressed);
    const { answer, clearHeaders } = answered(outcome);
    expect(answer.body.toString()).toBe("{}");
    expect(answer.headers).not.toHaveProperty("content-encoding");
    expect(clearHeaders).toContain("content-encoding");
  });

  it.each(["gzip", "unknown", "gzip, br"])("is shown unchanged when it is not really %s", async (coding) => {
    const { payload } = await evaluate(result(), { headers: { "content-encoding": [coding] } });
    expect(payload.body).toBe('{"ok":true}');
  });

  const words = Buffer.from(JSON.stringify(Array.from({ length: 200 }, (_, at) => `word ${at * at}`)));
  const coded: readonly (readonly [string, Buffer])[] = [
    ["gzip", gzipSync(words)],
    ["X-GZip", gzipSync(words)],
    ["deflate", deflateSync(words)],
    ["br", brotliCompressSync(words)],
    ["zstd", zstdCompressSync(words)],
    ["gzip, br", brotliCompressSync(gzipSync(words))],
    ["identity, gzip", gzipSync(words)],
  ];

  it.each([...coded, ["deflate", deflateRawSync(words)] as const])(
    "[PA-206] is seen by the policy as the client decodes %s",
    async (coding, body) => {
      for (const values of [[coding], coding.split(", ")]) {
        const { payload } = await evaluate(result(), { body, headers: { "content-encoding": values } });
        expect(payload.body).toBe(words.toString());
      }
    },
  );

  it.each([
    ...coded.map(([coding, body]) => [coding, "cut off", body.subarray(0, -12), 0] as const),
    ...coded.map(([coding, body]) => [coding, "longer than max_body_bytes", body, 1000] as const),
    ["gzip", "followed by something else", Buffer.concat([gzipSync(words), Buffer.from("junk")]), 0] as const,
    ["gzip, gzip, gzip, gzip, gzip", "coded too often", gzipSync(words), 0] as const,
  ])("[PA-206] is refused with 502 when it is %s and %s: a client may read it", async (coding, _what, body, limit) => {
    const settings = { fail_open: true, max_body_bytes: limit };
    const { outcome, calls } = await evaluate(result(), { body, headers: { "content-encoding": [coding] } }, settings);
    expect([answered(outcome).answer.status, calls.length]).toEqual([502, 0]);
  });

  it("[PA-203] [PA-205] is the upstream's own when the policy repeats a shortened one", async () => {
    const body = Buffer.from("y".repeat(2000));
    const { outcome, calls } = await evaluate(result(), { body }, { max_sideband_body_bytes: 800 });
    expect(calls[0]?.body.length).toBe(800);
    expect(answered(outcome).answer.body).toBe(body);
  });

  it("[PA-205] is refused with 502 when the policy changed a shortened one, but a denial is delivered", async () => {
    const body = Buffer.from("y".repeat(2000));
    const limit = { max_sideband_body_bytes: 800, fail_open: true };
    const changed = await evaluate(result({ body: "x" }), { body }, limit);
    expect(answered(changed.outcome).answer.status).toBe(502);
    const denied = await evaluate(result({ body: "no", response_code: "403" }), { body }, limit);
    expect(answered(denied.outcome).answer).toMatchObject({ status: 403, body: Buffer.from("no") });
  });

  it.each(["reject", "truncate"])(
    "[PA-204] is refused with 502 when it cannot fit (%s), also with fail_open",
    async (action) => {
      const settings = { max_sideband_body_bytes: 60, max_sideband_body_action: action, fail_open: true };
      const { outcome, calls } = await evaluate(result(), {}, settings);
      expect(answered(outcome).answer).toEqual({ status: 502, headers: {}, body: Buffer.alloc(0) });
      expect(calls).toEqual([]);
    },
  );
});

describe("event streams", () => {
  const mcp = { enable_mcp: true };
  const stream = {
    body: Buffer.from(sseStream),
    headers: { "content-type": ["Text/Event-Stream; charset=utf-8"] },
  };

  it("[PA-177] [PA-178] [PA-179] show the policy their last response", async () => {
    expect((await evaluate(result(), stream, mcp)).payload.body).toBe(sseFinalResponse);
    const noise = Buffer.from(`${sseStream}data: {"jsonrpc":"2.0","method":"notifications/x"}\n\ndata: nonsense\n\n`);
    expect((await evaluate(result(), { ...stream, body: noise }, mcp)).payload.body).toBe(sseFinalResponse);
  });

  it("[PA-177] [PA-180] are shown whole without MCP, without a response in them, or when they are not event streams", async () => {
    expect((await evaluate(result(), stream)).payload.body).toBe(sseStream);
    const none = "data: x\n\n: nothing\n\n";
    const without = await evaluate(result(), { ...stream, body: Buffer.from(none) }, mcp);
    expect(without.payload.body).toBe(none);
    const json = await evaluate(result(), { body: Buffer.from(sseStream) }, mcp);
    expect(json.payload.body).toBe(sseStream);
    expect((await evaluate(result(), { ...stream, body: Buffer.alloc(0) }, mcp)).payload.body).toBe("");
  });

  it("[PA-181] of any length are read event by event", async () => {
    const event = 'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n';
    const body = Buffer.from(event.repeat(20_000) + sseStream);
    expect((await evaluate(result(), { ...stream, body }, mcp)).payload.body).toBe(sseFinalResponse);
  });

  it("[PA-207] stay as they were when the policy changed nothing", async () => {
    const { outcome } = await evaluate(result(), stream, mcp);
    expect(answered(outcome).answer.body).toBe(stream.body);
  });

  it("[PA-207] get the changed response in its place", async () => {
    const { outcome } = await evaluate(result({ body: '{"jsonrpc":"2.0","id":1,"result":{}}' }), stream, mcp);
    expect(answered(outcome).answer.body.toString()).toBe(
      sseStream.replace(sseFinalResponse, '{"jsonrpc":"2.0","id":1,"result":{}}'),
    );
  });

  it.each([
    ["a denial", { response_code: "403", body: "no" }],
    ["another content type", { body: "no", headers: [{ "content-type": "application/json" }] }],
  ])("[PA-207] give way to the result's body for %s", async (_what, changes) => {
    const { outcome } = await evaluate(result(changes), stream, mcp);
    expect(answered(outcome).answer.body.toString()).toBe("no");
  });
});

describe("lists", () => {
  it.each([
    ["toolsListResponse", "tools/list", "delete_user"],
    ["resourcesListResponse", "resources/list", "secrets"],
    ["promptsListResponse", "prompts/list", "exfiltrate"],
  ] as const)("[PA-183] of %s reach the client without what the policy took out", async (name, method, hidden) => {
    const body = Buffer.from(mcpFixtures[name]);
    const stored = { ...plainContext, paz_mcp: `{"mcp_method":"${method}"}` };
    const filter = (call: FakeCall): FakeReply => {
      const message = JSON.parse(String(call.payload.body)) as {
        result: Record<string, { name: string }[]>;
      };
      for (const [key, entries] of Object.entries(message.result)) {
        message.result[key] = entries.filter((entry) => entry.name !== hidden);
      }
      return result({ body: JSON.stringify(message) })(call);
    };
    const { outcome } = await evaluate(filter, { body }, { enable_mcp: true }, stored);
    const text = answered(outcome).answer.body.toString();
    expect(mcpFixtures[name]).toContain(hidden);
    expect(text).not.toContain(hidden);
    expect(text).toContain('"jsonrpc":"2.0"');
  });
});
