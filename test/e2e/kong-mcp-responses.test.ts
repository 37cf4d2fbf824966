import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKongRig, packingMs, startPackedServer } from "../support/fake-kong/rig.ts";
import type { PluginServerProcess } from "../support/fake-kong/plugin-server-process.ts";
import { mcpFixtures, sseFinalResponse, sseStream } from "../fixtures/mcp/messages.ts";
import { allowRequest, allowWith, changeResponse, denyRequest } from "../support/mock-pingauthorize.ts";

let server: PluginServerProcess;
beforeAll(async () => {
  server = await startPackedServer();
}, packingMs);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const mcp = { enable_mcp: true };
const post = (body: string) => ({
  method: "POST",
  path: "/mcp",
  headers: { "content-type": "application/json" },
  body,
});
const json = { "content-type": "application/json" };
const sse = { "content-type": "text/event-stream; charset=utf-8" };

describe("MCP in the response phase", () => {
  it("[PA-177] [PA-178] [PA-179] [PA-182] [PA-194] shows the decision point the last response of a stream, and the client the stream", async () => {
    await using rig = await createKongRig(server, mcp);
    const { client } = await rig.send(post(mcpFixtures.toolsCall), { headers: sse, body: sseStream });
    expect(rig.payloads("response")[0]).toMatchObject({
      body: sseFinalResponse,
      traffic_type: "mcp",
      mcp: { mcp_method: "tools/call", mcp_tool_name: "get_weather", mcp_jsonrpc_id: 1 },
    });
    expect(rig.payloads("response")[0]?.["mcp"]).not.toHaveProperty("mcp_tool_arguments");
    expect(client.body.toString()).toBe(sseStream);
  });

  it.each([
    ["a stream without a response", sse, "data: {}\n\ndata: text\n\n"],
    ["a stream without data", sse, "no event"],
    ["an empty stream", sse, ""],
    ["JSON", json, sseFinalResponse],
  ])("[PA-180] [PA-182] shows the whole body of %s", async (_name, headers, body) => {
    await using rig = await createKongRig(server, mcp);
    const { client } = await rig.send(post(mcpFixtures.toolsCall), { headers, body });
    expect([rig.payloads("response")[0]?.["body"], client.body.toString()]).toEqual([body, body]);
    expect(rig.payloads("response")[0]?.["traffic_type"]).toBe("mcp");
  });

  it("[PA-177] leaves streams alone while enable_mcp is off", async () => {
    await using rig = await createKongRig(server);
    await rig.send(post(mcpFixtures.toolsCall), { headers: sse, body: sseStream });
    expect(rig.payloads("response")[0]?.["body"]).toBe(sseStream);
  });

  it("[PA-179] goes back to the response before what is none", async () => {
    await using rig = await createKongRig(server, mcp);
    const body = `${sseStream}data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\ndata: rubbish\n\n`;
    await rig.send(post(mcpFixtures.toolsCall), { headers: sse, body });
    expect(rig.payloads("response")[0]?.["body"]).toBe(sseFinalResponse);
  });

  it("[PA-181] takes a large stream", async () => {
    await using rig = await createKongRig(server, mcp);
    const note = 'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}\n\n';
    const body = note.repeat(20_000) + sseStream;
    const { client } = await rig.send(post(mcpFixtures.toolsCall), { headers: sse, body });
    expect(rig.payloads("response")[0]?.["body"]).toBe(sseFinalResponse);
    expect(client.body.length).toBe(body.length);
  });

  it("[PA-207] puts a changed response back into its stream, unless the result is no stream any more", async () => {
    await using rig = await createKongRig(server, mcp);
    const changed = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}';
    rig.mock.onResponse(changeResponse(() => ({ body: changed })));
    const { client } = await rig.send(post(mcpFixtures.toolsCall), { headers: sse, body: sseStream });
    expect(client.body.toString()).toBe(sseStream.replace(sseFinalResponse, changed));
    rig.mock.onResponse(changeResponse(() => ({ body: changed, headers: [json] })));
    const plain = await rig.send(post(mcpFixtures.toolsCall), { headers: sse, body: sseStream });
    expect(plain.client.body.toString()).toBe(changed);
  });

  it.each([
    ["tools", mcpFixtures.toolsList, mcpFixtures.toolsListResponse, "delete_user"],
    ["resources", mcpFixtures.resourcesList, mcpFixtures.resourcesListResponse, "file:///data/secrets.json"],
    ["prompts", mcpFixtures.promptsList, mcpFixtures.promptsListResponse, "exfiltrate"],
  ])("[PA-183] [PA-194] hides %s that the policy takes from a list", async (kind, request, body, hidden) => {
    await using rig = await createKongRig(server, mcp);
    rig.mock.onResponse(
      changeResponse(({ payload }) => {
        const message = JSON.parse(String(payload["body"])) as { result: Record<string, unknown[]> };
        const entries = message.result[kind] ?? [];
        message.result[kind] = entries.filter((entry) => !JSON.stringify(entry).includes(hidden));
        return { body: JSON.stringify(message) };
      }),
    );
    for (const [headers, sent] of [
      [json, body],
      [sse, `data: ${body}\n\n`],
    ] as const) {
      const { client } = await rig.send(post(request), { headers, body: sent });
      expect(client.status).toBe(200);
      expect(client.body.toString()).not.toContain(hidden);
      expect(client.body.toString()).toContain(`"${kind}":[{`);
    }
  });
});

describe("MCP and retries", () => {
  const retrying = { ...mcp, max_retries: 2, retry_backoff_ms: 1, circuit_breaker_enabled: false };

  it.each([mcpFixtures.toolsCall, mcpFixtures.resourcesRead, mcpFixtures.promptsGet])(
    "[PA-184] [PA-194] asks once about %s, in both phases",
    async (body) => {
      await using rig = await createKongRig(server, retrying);
      rig.mock.onRequest(() => ({ status: 500 }));
      await rig.send(post(body));
      expect(rig.payloads("request")).toHaveLength(1);
      rig.mock.onRequest(allowRequest);
      rig.mock.onResponse(() => ({ status: 500 }));
      await rig.send(post(body));
      expect(rig.payloads("response")).toHaveLength(1);
    },
  );

  it("[PA-185] [PA-186] [PA-194] asks again about lists, about ordinary requests and about whatever the operator listed", async () => {
    await using rig = await createKongRig(server, {
      ...retrying,
      mcp_retry_methods: ["tools/list", "tools/call"],
    });
    for (const body of [mcpFixtures.toolsList, mcpFixtures.toolsCall, '"plain"']) {
      let left = 1;
      rig.mock.onRequest(({ payload }) => (left-- > 0 ? { status: 500 } : { json: payload }));
      expect((await rig.send(post(body))).client.status).toBe(200);
    }
    expect(rig.payloads("request")).toHaveLength(6);
  });

  it("[PA-033] asks once about every method when the list is empty", async () => {
    await using rig = await createKongRig(server, { ...retrying, mcp_retry_methods: [] });
    rig.mock.onRequest(() => ({ status: 500 }));
    await rig.send(post(mcpFixtures.toolsList));
    expect(rig.payloads("request")).toHaveLength(1);
  });

  it("[PA-163] [PA-164] [PA-194] shortens the body of a large call and keeps what MCP says", async () => {
    await using rig = await createKongRig(server, { ...mcp, max_sideband_body_bytes: 1200 });
    const body = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "tools/list",
      params: { padding: "ü".repeat(4000) },
    });
    const { upstream, log } = await rig.send(post(body));
    const [question] = rig.mock.requests;
    expect(Buffer.byteLength(question?.text ?? "")).toBeLessThanOrEqual(1200);
    expect(question?.payload).toMatchObject({ mcp: { mcp_method: "tools/list", mcp_jsonrpc_id: 1 } });
    expect(body.startsWith(String(question?.payload["body"]))).toBe(true);
    expect([upstream?.body.toString() === body, log.some(({ level }) => level === "warn")]).toEqual([true, true]);
    rig.mock.onRequest(allowWith(() => ({ body: "{}" })));
    expect((await rig.send(post(body))).client.status).toBe(502);
    rig.mock.onRequest(denyRequest());
    expect((await rig.send(post(body))).client.status).toBe(403);
  });
});
