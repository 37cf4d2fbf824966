import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine } from "../../../test/support/fake-pdp.ts";
import type { FakeReply } from "../../../test/support/fake-pdp.ts";
import {
  answered,
  jsonOf,
  plainContext,
  requestFacts,
  responseFacts,
} from "../../../test/support/mock-pingauthorize.ts";
import { jsonRpcCode } from "./refusal-answer.ts";

const settings = { enable_mcp: true, mcp_jsonrpc_errors: true };
const body = Buffer.from(mcpFixtures.toolsCall);
const deny = (response: Readonly<Record<string, unknown>>): FakeReply => ({ json: { response } });

async function refusalOf(answer: FakeReply, over: Readonly<Record<string, unknown>> = {}, request: Buffer = body) {
  const { engine } = createFakedEngine({ ...settings, ...over }, () => answer);
  return answered(await engine.evaluateRequest(requestFacts({ body: request })));
}

describe("JSON-RPC errors", () => {
  it("[PA-168] take the place of a denial's body", async () => {
    const refused = await refusalOf(
      deny({
        response_code: "403",
        body: '{"message":"not for you"}',
        headers: [{ "content-type": "text/html" }],
      }),
    );
    expect(refused.answer.status).toBe(403);
    expect(refused.answer.body.toString()).toBe(
      '{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"not for you"}}',
    );
  });

  it.each([
    ['"abc"', '"abc"'],
    ["12345678901234567890", "12345678901234567890"],
    ["null", "null"],
  ])("[PA-169] have the id %s of the request", async (id, shown) => {
    const request = Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":"tools/list"}`);
    const { answer } = await refusalOf(deny({ response_code: "403" }), {}, request);
    expect(answer.body.toString()).toContain(`"id":${shown},`);
  });

  it("[PA-169] have the id null when the request had none", async () => {
    const request = Buffer.from('{"jsonrpc":"2.0","method":"tools/list"}');
    const { answer } = await refusalOf(deny({ response_code: "403" }), {}, request);
    expect(answer.body.toString()).toContain('"id":null,');
  });

  it("[PA-170] keep the status and the headers, but for those about the body", async () => {
    const { answer } = await refusalOf(
      deny({
        response_code: "401",
        headers: [
          { "WWW-Authenticate": "Bearer" },
          { "retry-after": "3" },
          { "x-other": "y" },
          { "content-type": "text/html" },
          { "content-encoding": "gzip" },
          { etag: "e" },
          { "content-length": "9" },
        ],
      }),
    );
    expect(answer.status).toBe(401);
    expect(answer.headers).toEqual({
      "www-authenticate": ["Bearer"],
      "retry-after": ["3"],
      "x-other": ["y"],
      "content-type": ["application/json"],
    });
  });

  it.each([
    ["PA-171", 400, -32_600],
    ["PA-171", 401, -32_600],
    ["PA-171", 403, -32_600],
    ["PA-172", 429, -32_000],
    ["PA-172", 502, -32_000],
    ["PA-172", 503, -32_000],
    ["PA-173", 404, -32_601],
    ["PA-173", 500, -32_603],
    ["PA-173", 418, -32_600],
    ["PA-173", 504, -32_000],
    ["PA-173", 599, -32_603],
  ])("[%s] say %d as %d", async (_row, status, code) => {
    expect(jsonRpcCode(status)).toBe(code);
    const refused = await refusalOf(deny({ response_code: status }));
    expect(refused.answer.status).toBe(status);
    expect(jsonOf(refused)).toMatchObject({ error: { code } });
  });

  it.each([
    ['{"message":"a","errorMessage":"b"}', "a"],
    ['{"errorMessage":"b"}', "b"],
    ['{"error_description":"c"}', "c"],
    ['{"error":{"message":"d"}}', "d"],
    ["plain", "FORBIDDEN"],
    ["", "FORBIDDEN"],
  ])("[PA-168] say what the body %s says", async (text, message) => {
    const refused = await refusalOf(deny({ response_code: 403, response_status: "FORBIDDEN", body: text }));
    expect(jsonOf(refused)).toMatchObject({ error: { message } });
  });

  it("[PA-168] say that access is denied when there is no other reason", async () => {
    expect(jsonOf(await refusalOf(deny({ response_code: 403 })))).toMatchObject({
      error: { message: "Access denied" },
    });
  });

  it("[PA-174] name the seconds to wait, now and while the breaker is open", async () => {
    const { engine } = createFakedEngine(settings, () => ({ status: 429, headers: { "retry-after": "30" } }));
    for (let round = 0; round < 2; round++) {
      const refused = answered(await engine.evaluateRequest(requestFacts({ body })));
      expect(refused.answer.status).toBe(429);
      expect(refused.answer.headers["retry-after"]).toEqual(["30"]);
      expect(jsonOf(refused)).toEqual({
        jsonrpc: "2.0",
        id: 1,
        error: { code: -32_000, message: "Service temporarily unavailable. Retry after 30 seconds." },
      });
    }
  });

  it("[PA-174] say that the service is unavailable, now and while the breaker is open", async () => {
    const { engine, calls } = createFakedEngine(settings, () => ({ status: 500 }));
    for (let round = 0; round < 2; round++) {
      const refused = answered(await engine.evaluateRequest(requestFacts({ body })));
      expect(refused.answer.status).toBe(502);
      expect(jsonOf(refused)).toMatchObject({
        error: { code: -32_000, message: expect.stringContaining("unavailable") },
      });
    }
    expect(calls).toHaveLength(1);
  });

  it.each<readonly [string, FakeReply, Readonly<Record<string, unknown>>, number, number]>([
    ["an unreachable decision point", new Error("down"), {}, 502, -32_000],
    ["its failure", { status: 500 }, {}, 502, -32_000],
    ["its refusal", { status: 401 }, {}, 502, -32_000],
    ["an invalid answer", { text: "x" }, {}, 502, -32_000],
    ["a status that is passed through", { status: 413, json: { message: "m" } }, {}, 413, -32_600],
    ["a payload over the limit", {}, { max_sideband_body_bytes: 10 }, 413, -32_600],
  ])("[PA-214] take the place of the answer to %s", async (_what, answer, over, status, code) => {
    const refused = await refusalOf(answer, over);
    expect(refused.answer.status).toBe(status);
    expect(refused.answer.headers["content-type"]).toEqual(["application/json"]);
    expect(jsonOf(refused)).toMatchObject({ jsonrpc: "2.0", id: 1, error: { code } });
  });

  it.each<readonly [string, Readonly<Record<string, unknown>>, Buffer]>([
    ["the flag is off", { mcp_jsonrpc_errors: false }, body],
    ["MCP is off", { enable_mcp: false }, body],
    ["the request is no MCP", {}, Buffer.from("{}")],
  ])("[PA-176] [PA-213] are not used when %s", async (_when, over, request) => {
    const { answer } = await refusalOf(deny({ response_code: "403", body: "no" }), over, request);
    expect(answer).toEqual({ status: 403, headers: {}, body: Buffer.from("no") });
    expect((await refusalOf({ status: 500 }, over, request)).answer.body).toHaveLength(0);
  });

  it("[PA-214] are not used for what is refused before the request is known to be MCP", async () => {
    const { engine } = createFakedEngine(settings, () => ({}));
    const facts = requestFacts({ body, headers: { a: { b: "c" } } });
    expect(answered(await engine.evaluateRequest(facts)).answer.body).toHaveLength(0);
  });

  const stored = { ...plainContext, paz_mcp: '{"mcp_method":"tools/call","mcp_jsonrpc_id":"x"}' };

  it("[PA-175] take the place of a denial in the response phase", async () => {
    const { engine } = createFakedEngine(settings, () => ({
      json: { response_code: "403", body: '{"message":"banned"}', headers: [{ "x-a": "1" }] },
    }));
    const outcome = answered(await engine.evaluateResponse(responseFacts(), stored));
    expect(outcome.answer.status).toBe(403);
    expect(outcome.answer.headers).toEqual({ "x-a": ["1"], "content-type": ["application/json"] });
    expect(jsonOf(outcome)).toEqual({ jsonrpc: "2.0", id: "x", error: { code: -32_600, message: "banned" } });
    expect(outcome.refusal?.reason).toBe("policy");
  });

  it("[PA-175] do not take the place of an upstream's own error that the policy let through", async () => {
    const { engine } = createFakedEngine(settings, () => ({ json: { response_code: 404, body: "own" } }));
    const outcome = answered(await engine.evaluateResponse(responseFacts({ status: 404 }), stored));
    expect(outcome.answer.body.toString()).toBe("own");
    expect(outcome).not.toHaveProperty("refusal");
  });

  it("[PA-175] take the place of the breaker's answer in the response phase", async () => {
    const { engine } = createFakedEngine(settings, () => ({ status: 429 }));
    await engine.evaluateResponse(responseFacts(), stored);
    const outcome = answered(await engine.evaluateResponse(responseFacts(), stored));
    expect(outcome.answer.status).toBe(429);
    expect(jsonOf(outcome)).toMatchObject({ id: "x", error: { code: -32_000 } });
  });
});
