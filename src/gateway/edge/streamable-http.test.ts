import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createTestContext } from "../../../test/support/gateway-context.ts";
import { handshake } from "../../../test/support/legacy-session.ts";
import { anonymous, type Exchange } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { createMessageCounters } from "../route/guards/limits.ts";
import type { Route } from "../route/route.ts";
import type { HttpCaller } from "./route-authentication.ts";
import { createStreamableHttpHandler } from "./streamable-http.ts";

const protocolVersion = "2025-11-25";
const initialize = handshake(protocolVersion, 1);
const list = { jsonrpc: "2.0", id: 2, method: "tools/list" };

const exchanges: Exchange[] = [];

/** Agrees to every handshake, and answers every other request with no tools. */
function answer(exchange: Exchange): Promise<Reply> {
  exchanges.push(exchange);
  const { message } = exchange;
  if (message.kind !== "request") return Promise.resolve(noReply);
  const result = message.method === "initialize" ? { protocolVersion, capabilities: {} } : { tools: [] };
  return Promise.resolve({ message: resultMessage(message.id, JSON.stringify(result)) });
}

// Only these members are used.
const route = {
  name: "test",
  serving: { eras: "both", supported: ["2026-07-28"] },
  forwardHeaders: new Set(["x-request-id"]),
  toolHeaders: undefined,
  streamOptions: {},
  registerSession: () => {},
  restoreSession: () => {},
  strayResponse: () => {},
  refused: () => {},
  answer,
} as unknown as Route;

const caller = { principal: anonymous, address: "127.0.0.1", isLate: false } as unknown as HttpCaller;
const serve = createStreamableHttpHandler(createTestContext(), createMessageCounters({ total: 10, perPrincipal: 10 }));
const server = createServer((request, response) => {
  void serve(request, response, route, caller);
});
let url = "";

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function post(message: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
    body: typeof message === "string" ? message : JSON.stringify(message),
  });
}

async function codeOf(response: Response): Promise<unknown> {
  const { error } = (await response.json()) as { error?: { data?: { code?: unknown } } };
  return error?.data?.code;
}

describe("the Streamable HTTP endpoint", () => {
  it("opens a session, takes calls in it, and ends it", async () => {
    const opened = await post(initialize);
    const id = opened.headers.get("mcp-session-id") ?? "";
    expect(await opened.json()).toMatchObject({ id: 1, result: { protocolVersion } });
    const session = { "mcp-session-id": id };
    expect(await (await post(list, session)).json()).toMatchObject({ id: 2, result: { tools: [] } });
    expect((await post({ jsonrpc: "2.0", method: "notifications/initialized" }, session)).status).toBe(202);
    const ended = await fetch(url, { method: "DELETE", headers: session });
    expect(ended.status).toBeLessThan(300);
    expect((await post(list, session)).status).toBe(404);
  });

  it("gives an exchange the headers that are forwarded, and no others", async () => {
    const opened = await post(initialize, { "x-request-id": "7", "x-other": "8" });
    await opened.body?.cancel();
    expect(exchanges.at(-1)?.transport).toMatchObject({ type: "http", headers: { "x-request-id": "7" } });
    expect(JSON.stringify(exchanges.at(-1)?.transport)).not.toContain("x-other");
  });

  it.each<[string, () => Promise<Response>, number, unknown]>([
    ["another content type", () => post(list, { "content-type": "text/plain" }), 415, "unsupported_media_type"],
    ["what is not JSON", () => post("{"), 400, "parse_error"],
    ["a request without a session", () => post(list), 400, "session_missing"],
    ["an unknown session", () => post(list, { "mcp-session-id": "none" }), 404, "session_unknown"],
    ["a GET without a session", () => fetch(url, { headers: { accept: "text/event-stream" } }), 400, "session_missing"],
    ["a DELETE without a session", () => fetch(url, { method: "DELETE" }), 400, "session_missing"],
    ["another method", () => fetch(url, { method: "PUT" }), 405, "method_not_allowed"],
  ])("refuses %s", async (_what, send, status, code) => {
    const response = await send();
    expect({ status: response.status, code: await codeOf(response) }).toEqual({ status, code });
  });
});
