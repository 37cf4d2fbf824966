import { describe, expect, it } from "vitest";

import { createFakeKit } from "../../../test/support/fake-kit.ts";
import { settled } from "../../../test/support/fake-time.ts";
import { ask, dataOf, openKitClient, toolCall } from "../../../test/support/kit-client.ts";

const errorOf = async (response: Response) => (await response.json()) as Record<string, unknown>;
const names = (events: readonly { readonly event?: string | undefined }[]) => events.map(({ event }) => event);

describe("opening a stream", () => {
  it("[KO-050] [KO-057] [KO-061] answers 200 with the headers of an event stream and the session's id", async () => {
    const { edge } = createFakeKit();
    const response = await ask(edge, "/mcp/sse");
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(response.headers.get("cache-control")).toMatch(/^no-cache\b/u);
    expect(response.headers.get("connection")).toBe("keep-alive");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    expect(response.headers.get("x-mcp-session")).toMatch(/^[\da-f]{32}$/u);
  });

  it("[KO-057] names no connection on HTTP/2", async () => {
    const { edge } = createFakeKit();
    const response = await ask(edge, "/mcp/sse", { peer: { httpVersion: "2.0" } });
    expect(response.headers.has("connection")).toBe(false);
  });

  it("[KO-060] [KO-064] begins with endpoint, then connected, and nothing else", async () => {
    const { edge } = createFakeKit();
    const response = await ask(edge, "/mcp/sse");
    const id = response.headers.get("x-mcp-session");
    const { value } = (await response.body?.getReader().read()) ?? {};
    expect(new TextDecoder().decode(value)).toBe(
      `event: endpoint\ndata: /mcp/rpc?sessionId=${id}&format=message\n\n` +
        `event: connected\ndata: {"sessionId":"${id}","timestamp":"2026-01-01T00:00:00.000Z"}\n\n`,
    );
  });

  it("[KO-052] puts the prefix of host and proxy into every URL", async () => {
    const { edge } = createFakeKit({ settings: { trustedProxies: ["127.0.0.1"] } });
    const headers = { "x-forwarded-prefix": "/outer" };
    const response = await ask(edge, "/mcp/sse", { headers, peer: { prefix: "/inner" } });
    const { value } = (await response.body?.getReader().read()) ?? {};
    expect(new TextDecoder().decode(value)).toContain("data: /outer/inner/mcp/rpc?sessionId=");
    const capabilities = await ask(edge, "/mcp/capabilities", { headers, peer: { prefix: "/inner" } });
    expect(await capabilities.json()).toMatchObject({
      transports: [{ streamEndpoint: "/outer/inner/mcp/sse" }, { endpoint: "/outer/inner/mcp" }],
    });
  });
});

describe("submitting", () => {
  it("[KO-062] [KO-066] [KO-086] accepts with 202, acks first, then gives the whole response as result", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    const response = await client.post(toolCall(7, "Fake_Echo", { text: "hi" }));
    expect(response.status).toBe(202);
    expect(response.headers.get("location")).toBe(`/mcp/rpc?sessionId=${client.sessionId}`);
    expect(await response.text()).toBe("");
    const [ack, result] = await client.until("result");
    expect(ack).toMatchObject({ event: "ack", data: '{"id":7}' });
    expect(dataOf(result)).toMatchObject({
      jsonrpc: "2.0",
      id: 7,
      result: { content: [{ type: "text", text: "hi" }] },
    });
  });

  it("[KO-063] [KO-090] gives an error response as event error, with its id", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post({ jsonrpc: "2.0", id: "x", method: "no/such" });
    const events = await client.until("error");
    expect(names(events)).toEqual(["ack", "error"]);
    expect(dataOf(events[1])).toMatchObject({ id: "x", error: { code: -32_601 } });
    await client.post(toolCall(2, "No_Such"));
    expect(dataOf((await client.until("error")).at(-1))).toMatchObject({ id: 2, error: { code: -32_602 } });
  });

  it("[KO-064] [KO-065] names replies and notices message for clients that post to the endpoint", async () => {
    const { edge, core } = createFakeKit();
    const client = await openKitClient(edge);
    const query = `?sessionId=${client.sessionId}&format=message`;
    await client.post(toolCall(1, "Fake_Echo", { text: "a" }), { query });
    const [, reply] = [await client.next(), await client.next()];
    expect(reply).toMatchObject({ event: "message" });
    expect(dataOf(reply)).toMatchObject({ id: 1, result: {} });
    await client.post({ jsonrpc: "2.0", id: 2, method: "no/such" }, { query });
    await client.until("ack");
    expect(await client.next()).toMatchObject({ event: "message", data: expect.stringContaining("-32601") });
    await client.post(toolCall(3, "Fake_Wait"));
    await client.until("ack");
    expect(dataOf(await client.next())).toMatchObject({ method: "notifications/message" });
    core.release();
    expect((await client.next())?.event).toBe("result");
  });

  it("[KO-070] echoes ids with their JSON type", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post(toolCall("1", "Fake_Echo", { text: "text" }));
    await client.post(toolCall(1, "Fake_Echo", { text: "number" }));
    const replies = new Map<unknown, unknown>();
    while (replies.size < 2) {
      const event = await client.next();
      const data = dataOf(event) as { id: unknown; result: { content: { text: string }[] } };
      if (event?.event === "result") replies.set(data.id, data.result.content[0]?.text);
    }
    expect([...replies]).toEqual([
      ["1", "text"],
      [1, "number"],
    ]);
  });

  it("[KO-067] acks neither notifications nor responses", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    expect((await client.post({ jsonrpc: "2.0", method: "notifications/initialized" })).status).toBe(202);
    expect((await client.post({ jsonrpc: "2.0", id: 9, result: {} })).status).toBe(202);
    await client.post({ jsonrpc: "2.0", id: 1, method: "ping" });
    expect(names(await client.until("result"))).toEqual(["ack", "result"]);
  });

  it("[KO-088] [KO-089] lists tools and answers ping without initialize, and initialize like any server", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post({ jsonrpc: "2.0", id: 1, method: "tools/list" });
    expect(dataOf((await client.until("result")).at(-1))).toMatchObject({
      result: { tools: expect.arrayContaining([expect.objectContaining({ name: "Fake_Echo" })]) },
    });
    await client.post({ jsonrpc: "2.0", id: 2, method: "ping" });
    expect(dataOf((await client.until("result")).at(-1))).toMatchObject({ id: 2, result: {} });
    const params = {
      protocolVersion: "2024-11-05",
      capabilities: {},
      clientInfo: { name: "t", version: "1" },
    };
    await client.post({ jsonrpc: "2.0", id: 3, method: "initialize", params });
    expect(dataOf((await client.until("result")).at(-1))).toMatchObject({
      id: 3,
      result: { protocolVersion: "2024-11-05", serverInfo: { name: "fake" } },
    });
  });

  it("[KO-079] runs calls of one session side by side and replies as they finish", async () => {
    const { edge, core } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post(toolCall(1, "Fake_Wait"));
    await client.post(toolCall(2, "Fake_Echo", { text: "quick" }));
    expect(dataOf((await client.until("result")).at(-1))).toMatchObject({ id: 2 });
    core.release();
    expect(dataOf((await client.until("result")).at(-1))).toMatchObject({ id: 1 });
  });

  it("[KO-093] cancels a call when the client says so, and does not answer it", async () => {
    const { edge, core } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post(toolCall(1, "Fake_Wait"));
    await settled();
    await client.post({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 1 } });
    await settled();
    expect(core.aborted()).toBe(1);
    await client.post({ jsonrpc: "2.0", id: 1, method: "ping" });
    expect(dataOf((await client.until("result")).at(-1))).toEqual({ jsonrpc: "2.0", id: 1, result: {} });
  });
});

describe("naming the session", () => {
  it.each([
    ["header alone", "", {}],
    ["query alone", undefined, { "x-mcp-session": "" }],
    ["both", undefined, {}],
  ])("[KO-082] is possible by %s", async (_title, query, headers) => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    const init = query === undefined ? { headers } : { headers, query };
    expect((await client.post({ jsonrpc: "2.0", id: 1, method: "ping" }, init)).status).toBe(202);
  });

  it("[KO-083] is refused where header and query differ", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    const response = await client.post({}, { query: `?sessionId=${"f".repeat(32)}` });
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ error: "session_mismatch" });
  });

  it("[KO-084] tells a missing session from an unknown one", async () => {
    const { edge } = createFakeKit();
    const post = async (path: string) =>
      ask(edge, path, { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
    const missing = await post("/mcp/rpc");
    expect(missing.status).toBe(404);
    expect(await errorOf(missing)).toMatchObject({ error: "unknown_session", reason: "session_missing" });
    const unknown = await post("/mcp/rpc?sessionId=abc");
    expect(unknown.status).toBe(404);
    expect(await errorOf(unknown)).toMatchObject({ error: "unknown_session", reason: "session_unknown" });
  });
});

describe("bodies that are refused", () => {
  it.each([
    ["no JSON", "{", "not_json"],
    ["not JSON-RPC 2.0", '{"jsonrpc":"1.0","method":"ping"}', "not_jsonrpc"],
    ["a number", "7", "not_jsonrpc"],
    ["a request with an object as id", '{"jsonrpc":"2.0","id":{},"method":"ping"}', "not_jsonrpc"],
  ])("[KO-085] %s is 400 and nothing is acked", async (_title, body, reason) => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    const response = await client.post(body);
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ error: "invalid_jsonrpc", reason });
    await client.post({ jsonrpc: "2.0", id: "next", method: "ping" });
    expect(dataOf(await client.next())).toEqual({ id: "next" });
  });

  it("[KO-085] a readable id also gets -32600 on the stream", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    expect((await client.post({ id: 5, method: "ping" })).status).toBe(400);
    expect(dataOf((await client.until("error")).at(-1))).toEqual({
      jsonrpc: "2.0",
      id: 5,
      error: { code: -32_600, message: "Invalid request" },
    });
  });

  it("an id that still runs is refused, and its call keeps its own answer", async () => {
    const { edge, core } = createFakeKit();
    const client = await openKitClient(edge);
    await client.post(toolCall(1, "Fake_Wait"));
    expect(await errorOf(await client.post(toolCall(1, "Fake_Wait")))).toMatchObject({ reason: "id_in_use" });
    expect((await client.post({ id: 1, method: "x" })).status).toBe(400);
    await settled();
    core.release();
    const events = await client.until("result");
    expect(names(events)).toEqual(["ack", "message", "result"]);
  });

  it("[KO-092] too large is 413 and another media type 415, both before parsing", async () => {
    const { edge } = createFakeKit({ settings: { transport: { maxRequestBytes: 100 } } });
    const client = await openKitClient(edge);
    const large = await client.post("x".repeat(101));
    expect(large.status).toBe(413);
    expect(await errorOf(large)).toMatchObject({ error: "too_large" });
    const plain = await client.post("{", { headers: { "content-type": "text/plain" } });
    expect(plain.status).toBe(415);
    expect(await errorOf(plain)).toMatchObject({ error: "unsupported_media_type" });
  });
});

describe("a batch", () => {
  it("[KO-091] is handled element by element, each with its own ack and reply", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    const batch = [1, 2, 3].map((id) => toolCall(id, "Fake_Echo", { text: String(id) }));
    expect((await client.post([...batch, { jsonrpc: "2.0", method: "notifications/initialized" }])).status).toBe(202);
    const seen: unknown[] = [];
    for (let left = 6; left > 0; left -= 1) {
      const event = await client.next();
      seen.push([event?.event, (dataOf(event) as { id: number }).id]);
    }
    expect(seen).toHaveLength(6);
    for (const id of [1, 2, 3]) {
      expect(seen).toContainEqual(["ack", id]);
      expect(seen).toContainEqual(["result", id]);
    }
  });

  it.each([
    ["empty", [], "empty_batch"],
    ["too large", Array.from({ length: 21 }, (_, id) => toolCall(id, "Fake_Echo")), "batch_too_large"],
    [
      "with initialize",
      [toolCall(1, "Fake_Echo"), { jsonrpc: "2.0", id: 2, method: "initialize" }],
      "initialize_in_batch",
    ],
    ["with an invalid element", [toolCall(1, "Fake_Echo", { text: "" }), { id: 2 }], "not_jsonrpc"],
    ["with one id twice", [toolCall(1, "Fake_Echo"), toolCall(1, "Fake_Echo")], "id_in_use"],
  ])("[KO-091] that is %s is refused whole", async (_title, batch, reason) => {
    const { edge, core } = createFakeKit();
    const client = await openKitClient(edge);
    const response = await client.post(batch);
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ error: "invalid_jsonrpc", reason });
    await settled();
    expect(core.callers).toEqual([]);
  });

  it("[KO-091] without requests is 202 and not acked", async () => {
    const { edge } = createFakeKit();
    const client = await openKitClient(edge);
    expect((await client.post([{ jsonrpc: "2.0", method: "notifications/initialized" }])).status).toBe(202);
    await client.post({ jsonrpc: "2.0", id: 1, method: "ping" });
    expect(names(await client.until("result"))).toEqual(["ack", "result"]);
  });
});
