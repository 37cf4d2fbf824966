import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine } from "../../../test/support/fake-pdp.ts";
import { answered, continued, requestFacts } from "../../../test/support/mock-pingauthorize.ts";
import type { HttpRequestFacts } from "./contract.ts";

const noStrip = { strip_accept_encoding: false };

/** Lets the policy answer with the question and some members changed; `undefined` takes a member out. */
function policy(answer: Readonly<Record<string, unknown>>, settings: Readonly<Record<string, unknown>> = noStrip) {
  return createFakedEngine(settings, ({ payload }) => ({ json: { ...payload, ...answer } }));
}

async function changesFor(
  answer: Readonly<Record<string, unknown>>,
  facts: Partial<HttpRequestFacts> = {},
  settings?: Readonly<Record<string, unknown>>,
) {
  const { engine, logs } = policy(answer, settings);
  const { changes } = continued(await engine.evaluateRequest(requestFacts(facts)));
  const warnings = logs.filter(({ level }) => level === "warn").map(({ warning }) => String(warning));
  return { changes, warnings };
}

const headers = { host: ["h"], a: ["1", "2"], b: ["3"] };

describe("headers that the policy changes", () => {
  it.each([
    ["PA-072", "leaves equal lists alone", [{ host: "h" }, { a: "1" }, { a: "2" }, { b: "3" }], []],
    [
      "PA-073",
      "sets a list of another order",
      [{ host: "h" }, { a: "2" }, { a: "1" }, { b: "3" }],
      [{ type: "set-headers", headers: { a: ["2", "1"] } }],
    ],
    [
      "PA-073",
      "sets a shorter list",
      [{ host: "h" }, { a: "1" }, { b: "3" }],
      [{ type: "set-headers", headers: { a: ["1"] } }],
    ],
    [
      "PA-073",
      "sets another value",
      [{ host: "h" }, { a: "1" }, { a: "2" }, { B: "4" }],
      [{ type: "set-headers", headers: { b: ["4"] } }],
    ],
    [
      "PA-074",
      "clears what is not in the answer",
      [{ host: "h" }, { a: "1" }, { a: "2" }],
      [{ type: "clear-header", name: "b" }],
    ],
    [
      "PA-075",
      "adds what is new, with all values",
      [{ host: "h" }, { a: "1" }, { a: "2" }, { b: "3" }, { c: "5" }, { C: "6" }],
      [{ type: "set-headers", headers: { c: ["5", "6"] } }],
    ],
  ])("[%s] %s", async (_row, _title, list, changes) => {
    expect((await changesFor({ headers: list }, { headers })).changes).toEqual(changes);
  });

  it("[PA-074] never clears the host, and has no say about the connection", async () => {
    const given = { host: ["h"], "content-length": ["3"], connection: ["keep-alive"], x: ["1"] };
    const wanted = [{ "content-length": "99" }, { "transfer-encoding": "chunked" }];
    const { changes } = await changesFor({ headers: wanted }, { headers: given });
    expect(changes).toEqual([{ type: "clear-header", name: "x" }]);
  });

  it("takes missing headers, method and URL as unchanged, and warns of each once", async () => {
    const { engine, logs } = policy({ headers: undefined, method: null, url: undefined });
    for (let round = 0; round < 2; round++) {
      expect(continued(await engine.evaluateRequest(requestFacts({ headers }))).changes).toEqual([]);
    }
    expect(logs.filter(({ level }) => level === "warn")).toHaveLength(3);
  });

  it.each([
    ["is there", { "accept-encoding": ["gzip"] }, {}],
    ["is set by the policy", { "accept-encoding": ["gzip"] }, { headers: [{ "accept-encoding": "br" }] }],
  ])("[PA-076] clears Accept-Encoding when it %s, after the other headers", async (_when, given, answer) => {
    const { changes } = await changesFor(answer, { headers: given }, { strip_accept_encoding: true });
    expect(changes).toEqual([{ type: "clear-header", name: "accept-encoding" }]);
  });

  it("[PA-076] leaves Accept-Encoding alone when told to", async () => {
    expect((await changesFor({}, { headers: { "accept-encoding": ["gzip"] } })).changes).toEqual([]);
  });
});

describe("method and URL that the policy changes", () => {
  it("[PA-077] sets another method and does not touch an equal one", async () => {
    expect((await changesFor({ method: "POST" })).changes).toEqual([]);
    expect((await changesFor({ method: "PUT" })).changes).toEqual([{ type: "set-method", method: "PUT" }]);
  });

  it.each([{ method: "BREW" }, { url: "not a url" }, { url: "/only/a/path" }])(
    "[PA-210] refuses with 502 what cannot be carried out: %j",
    async (answer) => {
      const { engine } = policy(answer, { fail_open: true });
      const outcome = answered(await engine.evaluateRequest(requestFacts()));
      expect(outcome.answer).toEqual({ status: 502, headers: {}, body: Buffer.alloc(0) });
      expect(outcome.refusal.reason).toBe("invalid_answer");
    },
  );

  it.each([
    ["PA-078", "does nothing for the same URL", "https://api.example.com:443/mcp?q=1", []],
    ["PA-079", "does nothing when only the default port is left out", "https://api.example.com/mcp?q=1", []],
    [
      "PA-079",
      "sets Host for another host",
      "https://other.example/mcp?q=1",
      [{ type: "set-headers", headers: { host: ["other.example:443"] } }],
    ],
    [
      "PA-079",
      "sets Host for another port",
      "https://api.example.com:8443/mcp?q=1",
      [{ type: "set-headers", headers: { host: ["api.example.com:8443"] } }],
    ],
    ["PA-080", "sets the path alone", "https://api.example.com:443/v2?q=1", [{ type: "set-path", path: "/v2" }]],
    ["PA-080", "sets the query alone", "https://api.example.com:443/mcp?q=2", [{ type: "set-query", query: "q=2" }]],
    ["PA-080", "takes the query off", "https://api.example.com:443/mcp", [{ type: "set-query", query: "" }]],
  ])("[%s] %s", async (_row, _title, url, changes) => {
    expect((await changesFor({ url }, { query: "q=1" })).changes).toEqual(changes);
  });

  it("[PA-081] only warns of another scheme", async () => {
    const { changes, warnings } = await changesFor({ url: "http://api.example.com:443/mcp" });
    expect(changes).toEqual([]);
    expect(warnings).toEqual(["the policy changed the scheme, which is not supported"]);
  });

  it("[PA-084] warns of changes that are not supported, and does nothing", async () => {
    const answer = { source_ip: "198.51.100.1", source_port: "1", client_certificate: { kty: "RSA" } };
    const { changes, warnings } = await changesFor(answer);
    expect(changes).toEqual([]);
    expect(warnings).toHaveLength(3);
  });

  it("[PA-084] does not warn of a port written as a number, nor of missing members", async () => {
    const { warnings } = await changesFor({ source_port: 54_321, source_ip: undefined });
    expect(warnings).toEqual([]);
  });
});

describe("a body that the policy changes", () => {
  it("[PA-082] [PA-167] becomes the upstream's body", async () => {
    const { changes } = await changesFor({ body: "new" }, { body: Buffer.from("old") });
    expect(changes).toEqual([{ type: "set-body", body: Buffer.from("new") }]);
  });

  it.each([null, undefined])("[PA-083] is emptied by %s, unless it was empty", async (body) => {
    const { changes } = await changesFor({ body }, { body: Buffer.from("old") });
    expect(changes).toEqual([{ type: "set-body", body: Buffer.alloc(0) }]);
    expect((await changesFor({ body }, { body: Buffer.alloc(0) })).changes).toEqual([]);
  });

  it("[PX-09] is not overwritten by the echo of a binary one", async () => {
    expect((await changesFor({}, { body: Buffer.from([0xff, 0xfe, 0x00]) })).changes).toEqual([]);
  });

  it("[PA-211] comes last, after headers, method and URL, and the URL's host wins", async () => {
    const { changes } = await changesFor(
      {
        headers: [{ host: "from-headers" }, { z: "1" }],
        method: "PUT",
        url: "https://new.example:1/p?q",
        body: "b",
      },
      { headers: { host: ["h"], "accept-encoding": ["gzip"] }, body: Buffer.from("a") },
      { strip_accept_encoding: true },
    );
    expect(changes).toEqual([
      { type: "set-headers", headers: { z: ["1"] } },
      { type: "clear-header", name: "accept-encoding" },
      { type: "set-method", method: "PUT" },
      { type: "set-headers", headers: { host: ["new.example:1"] } },
      { type: "set-path", path: "/p" },
      { type: "set-query", query: "q" },
      { type: "set-body", body: Buffer.from("b") },
    ]);
  });
});

describe("an MCP body that the policy changes", () => {
  const mcp = { ...noStrip, enable_mcp: true };
  const body = Buffer.from(
    '{ "jsonrpc":"2.0", "id":12345678901234567890, "method":"tools/call", "params":{"name":"a"} }',
  );

  async function upstreamBody(changed: string) {
    const { changes, warnings } = await changesFor({ body: changed }, { body }, mcp);
    const [change] = changes;
    return { text: change?.type === "set-body" ? change.body.toString() : undefined, warnings };
  }

  it("[PA-165] keeps jsonrpc, id and method of the original and takes the policy's params", async () => {
    const { text, warnings } = await upstreamBody(
      '{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"name":"a","arguments":{"n":1.0}}}',
    );
    expect(text).toBe(
      '{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0}}}',
    );
    expect(warnings).toEqual([]);
  });

  it("[PA-165] has no params when the policy removed them", async () => {
    const { text } = await upstreamBody('{"jsonrpc":"2.0","id":7,"method":"tools/call"}');
    expect(text).toBe('{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call"}');
  });

  it.each(["not json", "[]", '{"jsonrpc":"2.0","id":1,"result":{}}', '{"method":"tools/call"}', ""])(
    "[PA-166] is used as it is when it is %j, with a warning",
    async (changed) => {
      const { text, warnings } = await upstreamBody(changed);
      expect(text).toBe(changed);
      expect(warnings).toHaveLength(1);
    },
  );

  it("[PA-165] stays byte for byte when the policy only repeats it", async () => {
    const { changes } = await changesFor({}, { body: Buffer.from(mcpFixtures.toolsCall) }, mcp);
    expect(changes).toEqual([]);
  });
});
