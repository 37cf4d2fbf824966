import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { mcpFixtures } from "../fixtures/mcp/messages.ts";
import { allowWith, changeResponse, denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const mcp = { enable_mcp: true };
const withErrors = { ...mcp, mcp_jsonrpc_errors: true };
const post = (body: string) => ({
  method: "POST",
  path: "/mcp",
  headers: { "content-type": "application/json" },
  body,
});
const json = { "content-type": "application/json" };
const parsed = ({ client }: { readonly client: { readonly body: Buffer } }): unknown =>
  JSON.parse(client.body.toString());

describe("MCP in the access phase", () => {
  it("[PA-149] [PA-158] [PA-159] [PA-162] [PA-194] a tool call that is allowed: the decision point knows tool and arguments", async () => {
    await using rig = await createKongRig(server, mcp);
    const { upstream, shared } = await rig.send(post(mcpFixtures.toolsCall));
    expect(upstream?.body.toString()).toBe(mcpFixtures.toolsCall);
    expect(rig.payloads("request")[0]).toMatchObject({
      traffic_type: "mcp",
      mcp: {
        mcp_method: "tools/call",
        mcp_tool_name: "get_weather",
        mcp_tool_arguments: { city: "London" },
        mcp_jsonrpc_id: 1,
      },
    });
    const stored: unknown = JSON.parse(String(shared.get("paz_mcp")));
    expect(stored).toMatchObject({ mcp_method: "tools/call", mcp_tool_name: "get_weather" });
    expect(stored).not.toHaveProperty("mcp_tool_arguments");
  });

  it("[PA-151] [PA-155] passes arguments and id on as they were written", async () => {
    await using rig = await createKongRig(server, mcp);
    await rig.send(
      post(
        '{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call","params":{"name":"t","arguments":{"b":1.0,"2":1,"1":2}}}',
      ),
    );
    expect(rig.mock.requests[0]?.text).toContain('"mcp_tool_arguments":{"b":1.0,"2":1,"1":2}');
    expect(rig.mock.requests[0]?.text).toContain('"mcp_jsonrpc_id":12345678901234567890');
  });

  it.each([
    [
      "[PA-150]",
      mcpFixtures.toolsCallWithoutArguments,
      { mcp_method: "tools/call", mcp_tool_name: "get_weather", mcp_jsonrpc_id: 2 },
    ],
    ["[PA-154] [PA-194]", mcpFixtures.toolsList, { mcp_method: "tools/list", mcp_jsonrpc_id: 3 }],
    [
      "[PA-152] [PA-194]",
      mcpFixtures.resourcesRead,
      { mcp_method: "resources/read", mcp_resource_uri: "file:///data/config.json", mcp_jsonrpc_id: 4 },
    ],
    ["[PA-154]", mcpFixtures.resourcesList, { mcp_method: "resources/list", mcp_jsonrpc_id: 5 }],
    [
      "[PA-153]",
      mcpFixtures.promptsGet,
      { mcp_method: "prompts/get", mcp_prompt_name: "summarize", mcp_jsonrpc_id: 6 },
    ],
    ["[PA-154]", mcpFixtures.promptsList, { mcp_method: "prompts/list", mcp_jsonrpc_id: 7 }],
    ["[PA-154] [PA-194]", mcpFixtures.initialize, { mcp_method: "initialize", mcp_jsonrpc_id: 8 }],
    ["[PA-155]", '{"jsonrpc":"2.0","method":"tools/list"}', { mcp_method: "tools/list" }],
    [
      "[PA-155]",
      '{"jsonrpc":"2.0","id":"a-1","method":"tools/list"}',
      { mcp_method: "tools/list", mcp_jsonrpc_id: "a-1" },
    ],
    [
      "[PA-156]",
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}',
      { mcp_method: "tools/call", mcp_jsonrpc_id: 1 },
    ],
  ])("%s [PA-148] [PA-159] tells what %s is", async (_rows, body, facts) => {
    await using rig = await createKongRig(server, mcp);
    await rig.send(post(body));
    expect(rig.payloads("request")[0]).toMatchObject({ traffic_type: "mcp", body });
    expect(rig.payloads("request")[0]?.["mcp"]).toEqual(facts);
  });

  it.each([
    ["an empty body", ""],
    ["no JSON", "city=London"],
    ["JSON that is no JSON-RPC", '{"id":1,"method":"list"}'],
    ["an unknown method", '{"jsonrpc":"2.0","id":1,"method":"foo/bar"}'],
    ["a notification", '{"jsonrpc":"2.0","method":"notifications/initialized"}'],
  ])("[PA-147] [PA-157] [PA-160] [PA-194] takes %s for ordinary traffic", async (_name, body) => {
    await using rig = await createKongRig(server, withErrors);
    rig.mock.onRequest(denyRequest());
    const { client, shared } = await rig.send({ method: "POST", body });
    expect(rig.payloads("request")[0]).not.toHaveProperty("traffic_type");
    expect(rig.payloads("request")[0]).not.toHaveProperty("mcp");
    expect([client.body.toString(), shared.has("paz_mcp")]).toEqual([
      '{"errorMessage":"Access Denied","status":403}',
      false,
    ]);
  });

  it("[PA-029] [PA-146] [PA-176] [PA-194] [PA-213] looks at no body while enable_mcp is off", async () => {
    await using rig = await createKongRig(server, {
      mcp_jsonrpc_errors: true,
      extract_headers: ["authorization"],
      mcp_retry_methods: [],
      max_retries: 1,
      retry_backoff_ms: 1,
    });
    let isFirst = true;
    rig.mock.onRequest((question) => {
      if (!isFirst) return denyRequest()(question);
      isFirst = false;
      return { status: 500 };
    });
    const { client } = await rig.send({
      ...post(`[${mcpFixtures.toolsCall}]`),
      headers: { authorization: "Bearer t" },
    });
    expect(client.body.toString()).toBe('{"errorMessage":"Access Denied","status":403}');
    expect(rig.payloads("request")).toHaveLength(2);
    for (const name of ["traffic_type", "mcp", "extracted_headers"]) {
      expect(rig.payloads("request")[1]).not.toHaveProperty(name);
    }
  });

  it("[PA-161] repeats the headers that were asked for, body MCP or not", async () => {
    await using rig = await createKongRig(server, {
      ...mcp,
      extract_headers: ["Authorization", "x-user", "x-none"],
    });
    const headers = { authorization: "Bearer t", "x-user": ["a", "b"] };
    await rig.send({ headers });
    await rig.send({});
    const [first, second] = rig.payloads("request");
    expect(first?.["extracted_headers"]).toEqual({ authorization: "Bearer t", "x-user": "a" });
    expect(second).not.toHaveProperty("extracted_headers");
    expect(rig.payloads("response")[0]).not.toHaveProperty("extracted_headers");
  });

  it("[PA-165] [PA-194] sends changed arguments upstream as the JSON-RPC call that it was", async () => {
    await using rig = await createKongRig(server, mcp);
    rig.mock.onRequest(
      allowWith(() => ({
        body: '{"jsonrpc":"2.0","id":99,"method":"tools/list","params":{"name":"get_weather","arguments":{"city":"Paris"}}}',
      })),
    );
    const { upstream } = await rig.send(post(mcpFixtures.toolsCall));
    expect(JSON.parse(upstream?.body.toString() ?? "")).toEqual({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: "get_weather", arguments: { city: "Paris" } },
    });
  });

  it("[PA-166] [PA-167] uses a changed body that is no JSON-RPC as it is, with a warning for MCP only", async () => {
    await using rig = await createKongRig(server, mcp);
    rig.mock.onRequest(allowWith(() => ({ body: "plain" })));
    const call = await rig.send(post(mcpFixtures.toolsCall));
    const other = await rig.send({ method: "POST", body: "text" });
    expect([call.upstream?.body.toString(), other.upstream?.body.toString()]).toEqual(["plain", "plain"]);
    expect([call, other].map(({ log }) => log.some(({ level }) => level === "warn"))).toEqual([true, false]);
  });

  it("[PX-10] refuses batches and bodies that say a thing twice", async () => {
    await using rig = await createKongRig(server, withErrors);
    for (const body of [
      `[${mcpFixtures.toolsCall}]`,
      '{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}',
    ]) {
      const { client, upstream } = await rig.send(post(body));
      expect([client.status, upstream]).toEqual([400, undefined]);
      expect(JSON.parse(client.body.toString())).toMatchObject({ jsonrpc: "2.0", error: { code: -32_600 } });
    }
    expect(rig.mock.requests).toEqual([]);
  });
});

describe("bodies that only a lenient server reads as MCP", () => {
  const call = mcpFixtures.toolsCall;
  const ways: readonly (readonly [string, string | Buffer, Readonly<Record<string, string | readonly string[]>>])[] = [
    ["a byte order mark", `\uFEFF${call}`, json],
    ["an invalid byte", Buffer.from(call.replace("London", "\xFF"), "latin1"), json],
    ["UTF-16", Buffer.from(call, "utf16le"), { "content-type": "application/json; charset=utf-16" }],
    ["UTF-16 that is not declared", Buffer.from(call, "utf16le"), {}],
    ["gzip", gzipSync(call), { ...json, "content-encoding": "gzip" }],
    ["NaN", call.replace('"London"', "NaN"), json],
    ["a comment, as text", `/**/${call}`, { "content-type": "text/plain" }],
    ["a trailing comma, in a type of its own", call.replace("}}}", "},}}"), { "content-type": "application/json5" }],
    ["a method in another case", call.replace('"method"', '"METHOD"'), json],
    ["a tool name in another case", call.replace('"name"', '"Name"'), {}],
    ["no version", call.replace('"jsonrpc":"2.0",', ""), json],
    ["two content types", call, { "content-type": ["text/plain", "application/json"] }],
    ["two values", `${call}\n${call}`, { "content-type": "application/x-ndjson" }],
  ];

  it.each(ways)(
    "[PX-10] [PA-147] [PA-157] refuses %s before the policy or the server sees it",
    async (_what, body, headers) => {
      await using rig = await createKongRig(server, withErrors);
      const passage = await rig.send({ method: "POST", body, headers });
      expect([passage.client.status, passage.upstream, rig.mock.requests.length]).toEqual([400, undefined, 0]);
      expect(parsed(passage)).toMatchObject({ jsonrpc: "2.0", error: { code: -32_600 } });
      await using plain = await createKongRig(server, { ...mcp, fail_open: true });
      const bare = await plain.send({ method: "POST", body, headers });
      expect([bare.client.status, bare.client.body.length, bare.upstream]).toEqual([400, 0, undefined]);
    },
  );

  it("[PX-10] lets them go on as ordinary traffic with non_mcp_json: allow", async () => {
    await using rig = await createKongRig(server, { ...mcp, non_mcp_json: "allow" });
    for (const [what, body, headers] of ways) {
      const { client } = await rig.send({ method: "POST", body, headers });
      expect([what, client.status]).toEqual([what, 200]);
    }
  });
});

describe("JSON-RPC errors", () => {
  it("[PA-168] [PA-169] [PA-170] [PA-171] [PA-194] a refused call is answered in JSON-RPC, with the challenge of the policy", async () => {
    await using rig = await createKongRig(server, withErrors);
    rig.mock.onRequest(
      denyRequest(401, '{"message":"Token too old"}', [
        { "content-type": "application/problem+json" },
        { "www-authenticate": "Bearer" },
      ]),
    );
    const passage = await rig.send(post('{"jsonrpc":"2.0","id":"x-7","method":"tools/list"}'));
    expect(passage.client.status).toBe(401);
    expect(parsed(passage)).toEqual({
      jsonrpc: "2.0",
      id: "x-7",
      error: { code: -32_600, message: "Token too old" },
    });
    expect(passage.client.headers).toMatchObject({
      "content-type": ["application/json"],
      "www-authenticate": ["Bearer"],
    });
  });

  it.each([
    [400, -32_600],
    [401, -32_600],
    [403, -32_600],
    [404, -32_601],
    [429, -32_000],
    [500, -32_603],
    [502, -32_000],
    [503, -32_000],
  ])("[PA-171] [PA-172] [PA-173] status %i has code %i", async (status, code) => {
    await using rig = await createKongRig(server, withErrors);
    rig.mock.onRequest(denyRequest(status));
    const passage = await rig.send(post('{"jsonrpc":"2.0","method":"tools/list"}'));
    expect([passage.client.status, parsed(passage)]).toMatchObject([status, { id: null, error: { code } }]);
  });

  it("[PA-174] [PA-194] an open breaker says when to come back", async () => {
    await using rig = await createKongRig(server, withErrors);
    rig.mock.onRequest(() => ({ status: 429, headers: { "retry-after": "30" } }));
    await rig.send(post(mcpFixtures.toolsList));
    const passage = await rig.send(post(mcpFixtures.toolsCall));
    expect([passage.client.status, passage.client.headers["retry-after"]]).toEqual([
      429,
      [expect.stringMatching(/^(29|30)$/u)],
    ]);
    expect(parsed(passage)).toMatchObject({
      id: 1,
      error: { code: -32_000, message: expect.stringMatching(/Retry after (29|30) seconds/u) as unknown },
    });
    await using down = await createKongRig(server, withErrors);
    down.mock.onRequest(() => ({ status: 500 }));
    await down.send(post(mcpFixtures.toolsList));
    const refused = await down.send(post(mcpFixtures.toolsCall));
    expect([refused.client.status, parsed(refused)]).toMatchObject([
      502,
      { id: 1, error: { code: -32_000, message: expect.stringMatching(/unavailable/iu) as unknown } },
    ]);
  });

  it.each([
    ["no answer", { fault: "reset" }, {}, 502, -32_000],
    ["no JSON", { text: "x" }, {}, 502, -32_000],
    ["a status that is passed on", { status: 413, json: {} }, {}, 413, -32_600],
    ["a payload that is too large", {}, { max_sideband_body_bytes: 50 }, 413, -32_600],
  ] as const)("[PA-214] %s has that form too", async (_name, reply, settings, status, code) => {
    await using rig = await createKongRig(server, { ...withErrors, ...settings });
    rig.mock.onRequest(() => reply);
    const passage = await rig.send(post(mcpFixtures.toolsCall));
    expect([passage.client.status, parsed(passage)]).toMatchObject([status, { id: 1, error: { code } }]);
  });

  it("[PA-175] [PA-194] a response that is refused has that form too, by policy or breaker", async () => {
    await using rig = await createKongRig(server, withErrors);
    rig.mock.onResponse(
      changeResponse(() => ({
        response_code: "403",
        body: '{"errorMessage":"Not for you"}',
        headers: [json],
      })),
    );
    const passage = await rig.send(post(mcpFixtures.toolsCall), {
      headers: { ...json, "x-internal": "1" },
      body: '{"jsonrpc":"2.0","id":1,"result":{}}',
    });
    expect([passage.client.status, parsed(passage)]).toEqual([
      403,
      { jsonrpc: "2.0", id: 1, error: { code: -32_600, message: "Not for you" } },
    ]);
    expect(passage.client.headers).not.toHaveProperty("x-internal");
    rig.mock.onResponse(() => ({ status: 429, headers: { "retry-after": "9" } }));
    const limited = await rig.send(post(mcpFixtures.toolsCall), { headers: json, body: "{}" });
    expect([limited.client.status, parsed(limited)]).toMatchObject([429, { id: 1, error: { code: -32_000 } }]);
  });

  it("[PA-176] [PA-030] everything is as without them while they are off", async () => {
    await using rig = await createKongRig(server, mcp);
    rig.mock.onRequest(denyRequest());
    const { client } = await rig.send(post(mcpFixtures.toolsCall));
    expect([client.status, client.body.toString()]).toEqual([403, '{"errorMessage":"Access Denied","status":403}']);
  });
});
