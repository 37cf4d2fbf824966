import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine, echoed } from "../../../test/support/fake-pdp.ts";
import { answered, continued, requestFacts } from "../../../test/support/mock-pingauthorize.ts";
import { formatHttpVersion } from "./access-payload.ts";
import type { HttpRequestFacts } from "./contract.ts";

async function payloadOf(facts: Partial<HttpRequestFacts>, settings: Readonly<Record<string, unknown>> = {}) {
  const { engine, calls } = createFakedEngine(settings, echoed);
  continued(await engine.evaluateRequest(requestFacts(facts)));
  expect(calls).toHaveLength(1);
  return { payload: calls[0]?.payload ?? {}, text: calls[0]?.text ?? "" };
}

describe("the payload of a request", () => {
  it("[PA-042] [PA-043] [PA-044] [PA-045] [PA-048] [PA-049] [PA-050] has all members in their form", async () => {
    const { payload } = await payloadOf({ query: "key=value" });
    expect(payload).toEqual({
      source_ip: "192.0.2.7",
      source_port: "54321",
      method: "POST",
      url: "https://api.example.com:443/mcp?key=value",
      body: "",
      headers: [{ host: "api.example.com" }, { "content-type": "application/json" }],
      http_version: "1.1",
    });
  });

  it("[PA-048] has the body as text, and a mark where it is not UTF-8", async () => {
    expect((await payloadOf({ body: Buffer.from("größe") })).payload.body).toBe("größe");
    expect((await payloadOf({ body: Buffer.from([0x61, 0xff]) })).payload.body).toBe("a\uFFFD");
  });

  it.each([
    [1.1, "1.1"],
    [2, "2"],
    ["2.0", "2"],
    [1, "1.0"],
    ["1.0", "1.0"],
    [3, "3"],
  ])("[PA-050] writes HTTP version %s as %s", (version, text) => {
    expect(formatHttpVersion(version)).toBe(text);
  });

  it("[PA-050] goes to the decision point for HTTP/2 clients too", async () => {
    expect((await payloadOf({ httpVersion: 2 })).payload.http_version).toBe("2");
  });

  it("[PA-051] [PA-096] has no certificate where there is none", async () => {
    expect((await payloadOf({ clientCertificate: undefined })).payload).not.toHaveProperty("client_certificate");
  });

  it("[PA-097] is none when the certificate cannot be read, also with fail_open", async () => {
    const { engine, calls } = createFakedEngine({ fail_open: true }, echoed);
    const { answer } = answered(await engine.evaluateRequest(requestFacts({ clientCertificate: "junk" })));
    expect(answer).toEqual({ status: 400, headers: {}, body: Buffer.alloc(0) });
    expect(calls).toEqual([]);
  });

  it("[PA-039] [PA-128] is none when a header value is nested: 400 with an empty body", async () => {
    const { engine, calls } = createFakedEngine({ fail_open: true }, echoed);
    const { answer } = answered(await engine.evaluateRequest(requestFacts({ headers: { "x-deep": [["a"]] } })));
    expect(answer).toEqual({ status: 400, headers: {}, body: Buffer.alloc(0) });
    expect(calls).toEqual([]);
  });

  it("[PA-049] is none when headers may be missing", async () => {
    const { engine } = createFakedEngine({}, echoed);
    const headers = { a: ["1", "2"], b: ["3"] };
    expect((await engine.evaluateRequest(requestFacts({ headers, headerLimit: 4 }))).action).toBe("continue");
    const { answer } = answered(await engine.evaluateRequest(requestFacts({ headers, headerLimit: 3 })));
    expect(answer.status).toBe(400);
  });

  it("[PA-053] is none when it cannot be written: 400, also with fail_open, and nothing is sent", async () => {
    const { engine, calls } = createFakedEngine({ fail_open: true, max_retries: 3 }, echoed);
    const { answer } = answered(await engine.evaluateRequest(requestFacts({ accessToken: { exp: 1n } })));
    expect(answer.status).toBe(400);
    expect(calls).toEqual([]);
  });

  it("[PA-047] warns of arguments that the policy does not see, and leaves the upstream's query alone", async () => {
    const { engine, logs } = createFakedEngine({}, echoed);
    const query = Array.from({ length: 101 }, (_, index) => `a${index}`).join("&");
    const { changes } = continued(await engine.evaluateRequest(requestFacts({ query })));
    expect(changes).toEqual([]);
    expect(logs).toContainEqual(expect.objectContaining({ level: "warn", omitted: 1 }));
  });

  it("has what is known of the token, where the caller says it", async () => {
    const { payload } = await payloadOf({ accessToken: { active: true, sub: "ada" } });
    expect(payload.access_token).toEqual({ active: true, sub: "ada" });
  });
});

describe("the payload of an MCP request", () => {
  it.each([
    [
      "toolsCall",
      {
        mcp_method: "tools/call",
        mcp_tool_name: "get_weather",
        mcp_tool_arguments: { city: "London" },
        mcp_jsonrpc_id: 1,
      },
    ],
    ["toolsCallWithoutArguments", { mcp_method: "tools/call", mcp_tool_name: "get_weather", mcp_jsonrpc_id: 2 }],
    ["toolsList", { mcp_method: "tools/list", mcp_jsonrpc_id: 3 }],
    [
      "resourcesRead",
      { mcp_method: "resources/read", mcp_resource_uri: "file:///data/config.json", mcp_jsonrpc_id: 4 },
    ],
    ["resourcesList", { mcp_method: "resources/list", mcp_jsonrpc_id: 5 }],
    ["promptsGet", { mcp_method: "prompts/get", mcp_prompt_name: "summarize", mcp_jsonrpc_id: 6 }],
    ["promptsList", { mcp_method: "prompts/list", mcp_jsonrpc_id: 7 }],
    ["initialize", { mcp_method: "initialize", mcp_jsonrpc_id: 8 }],
  ] as const)(
    "[PA-147] [PA-148] [PA-149] [PA-150] [PA-152] [PA-153] [PA-154] [PA-158] [PA-159] says what %s is",
    async (name, mcp) => {
      const { payload } = await payloadOf({ body: Buffer.from(mcpFixtures[name]) }, { enable_mcp: true });
      expect(payload.traffic_type).toBe("mcp");
      expect(payload.mcp).toEqual(mcp);
      expect(payload.body).toBe(mcpFixtures[name]);
    },
  );

  it("[PA-151] [PA-155] keeps the arguments' and the id's own text", async () => {
    const args = '{"b":1.0,"2":1,"1":12345678901234567890}';
    const body = `{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"n","arguments":${args}}}`;
    const { text } = await payloadOf({ body: Buffer.from(body) }, { enable_mcp: true });
    expect(text).toContain(`"mcp_tool_arguments":${args}`);
    expect(text).toContain('"mcp_jsonrpc_id":12345678901234567890');
  });

  it.each([
    ['"abc"', "abc"],
    ["null", null],
    ["7", 7],
  ])("[PA-155] keeps the id %s", async (id, value) => {
    const body = Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":"tools/list"}`);
    const { payload } = await payloadOf({ body }, { enable_mcp: true });
    expect(payload.mcp).toEqual({ mcp_method: "tools/list", mcp_jsonrpc_id: value });
  });

  it("[PA-155] [PA-156] is MCP without id and with unusable params", async () => {
    const body = Buffer.from('{"jsonrpc":"2.0","method":"tools/call","params":[1]}');
    const { payload } = await payloadOf({ body }, { enable_mcp: true });
    expect(payload.mcp).toEqual({ mcp_method: "tools/call" });
  });

  it.each(["", "no json", '{"method":"list","id":1}', '{"jsonrpc":"2.0","id":1,"method":"foo/bar"}', "[1,2]"])(
    "[PA-157] [PA-160] has nothing about MCP for the body %j",
    async (body) => {
      const { payload } = await payloadOf({ body: Buffer.from(body), headers: {} }, { enable_mcp: true });
      expect(payload).not.toHaveProperty("traffic_type");
      expect(payload).not.toHaveProperty("mcp");
    },
  );

  it("[PA-052] [PA-146] [PA-213] is that of any other request with enable_mcp off, whatever else is set", async () => {
    const facts = { body: Buffer.from(mcpFixtures.toolsCall), headers: { authorization: ["Bearer x"] } };
    const plain = await payloadOf(facts);
    const off = await payloadOf(facts, {
      enable_mcp: false,
      mcp_jsonrpc_errors: true,
      extract_headers: ["authorization"],
      mcp_retry_methods: [],
    });
    expect(off.text).toBe(plain.text);
    for (const name of ["traffic_type", "mcp", "extracted_headers"]) expect(off.payload).not.toHaveProperty(name);
  });

  it("[PA-161] repeats the first value of the named headers, MCP or not", async () => {
    const headers = { Authorization: ["Bearer a", "Bearer b"], "x-user": "ada" };
    const settings = { enable_mcp: true, extract_headers: ["authorization", "X-User", "x-absent"] };
    const { payload } = await payloadOf({ headers }, settings);
    expect(payload.extracted_headers).toEqual({ authorization: "Bearer a", "x-user": "ada" });
  });

  it.each([
    [{ enable_mcp: true, extract_headers: [] }],
    [{ enable_mcp: true, extract_headers: ["x-absent"] }],
    [{ enable_mcp: false, extract_headers: ["content-type"] }],
  ])("[PA-161] leaves the member out when there is nothing in it: %j", async (settings) => {
    expect((await payloadOf({}, settings)).payload).not.toHaveProperty("extracted_headers");
  });

  it.each([
    ["a batch", `[${mcpFixtures.toolsCall}]`, "null"],
    ["a method that comes twice", '{"jsonrpc":"2.0","id":"a","method":"tools/list","method":"tools/call"}', '"a"'],
    ["params that come twice", '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{},"params":{}}', "5"],
    ["a byte order mark", `\uFEFF${mcpFixtures.toolsCall}`, "null"],
    ["a method in another case", mcpFixtures.toolsCall.replace("method", "Method"), "1"],
    ["a call without its version", '{"id":7,"method":"tools/call","params":{"name":"a"}}', "7"],
    ["a name that comes twice", '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","name":"b"}}', "5"],
  ])("[PX-10] refuses %s before anybody is asked", async (_what, text, id) => {
    const body = Buffer.from(text);
    const plain = createFakedEngine({ enable_mcp: true, fail_open: true }, echoed);
    const refused = answered(await plain.engine.evaluateRequest(requestFacts({ body })));
    expect(refused.answer).toEqual({ status: 400, headers: {}, body: Buffer.alloc(0) });
    expect(plain.calls).toEqual([]);
    const jsonRpc = createFakedEngine({ enable_mcp: true, mcp_jsonrpc_errors: true }, echoed);
    const { answer } = answered(await jsonRpc.engine.evaluateRequest(requestFacts({ body })));
    expect(answer.status).toBe(400);
    expect(answer.body.toString()).toContain(`"id":${id},"error":{"code":-32600,`);
  });

  it.each([
    ["a content coding", { "content-encoding": "gzip" }],
    ["a charset", { "content-type": "application/json; charset=utf-16" }],
    ["two content types", { "content-type": ["application/json", "text/plain"] }],
  ])("[PX-10] refuses %s, unless non_mcp_json allows it", async (_what, headers) => {
    const facts = requestFacts({ body: Buffer.from(mcpFixtures.toolsCall), headers });
    const strict = createFakedEngine({ enable_mcp: true, fail_open: true }, echoed);
    expect(answered(await strict.engine.evaluateRequest(facts)).answer.status).toBe(400);
    expect(strict.calls).toEqual([]);
    const { payload } = await payloadOf(facts, { enable_mcp: true, non_mcp_json: "allow" });
    expect(payload.traffic_type).toBe("mcp");
  });

  it("[PX-10] lets batches pass where MCP is off", async () => {
    const { payload } = await payloadOf({ body: Buffer.from(`[${mcpFixtures.toolsCall}]`) });
    expect(payload.body).toBe(`[${mcpFixtures.toolsCall}]`);
  });
});
