import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { exchangeWith, messageFrom } from "../../../test/support/exchange.ts";
import { echoed, type FakeCall, type FakeReply } from "../../../test/support/fake-pdp.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import type { Exchange } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Decision } from "../provider/provider.ts";
import { sidebandConfig } from "./config.ts";
import { createSidebandProvider, toAccessToken } from "./provider.ts";

function providerWith(
  decide: (call: FakeCall) => FakeReply,
  settings: Readonly<Record<string, unknown>> = {},
  failOpen = false,
) {
  const time = createFakeTime();
  const calls: FakeCall[] = [];
  const opened: string[] = [];
  const config = sidebandConfig.parse({
    serviceUrl: "https://pdp.example",
    sharedSecret: "s",
    secretHeaderName: "CLIENT-TOKEN",
    publicUrl: "https://mcp.example.com",
    ...settings,
  });
  const provider = createSidebandProvider(config, {
    clock: time.clock,
    setTimer: time.setTimer,
    log: () => {},
    failOpen,
    onFailOpen: (problem) => void opened.push(problem),
    client: {
      async post(request) {
        const text = request.body.toString();
        const call: FakeCall = { ...request, text, payload: JSON.parse(text) as FakeCall["payload"] };
        calls.push(call);
        const reply = decide(call);
        if (reply instanceof Error) throw reply;
        const { status = 200, headers = {}, json = {} } = reply;
        return { status, headers, body: Buffer.from(reply.text ?? JSON.stringify(json)) };
      },
      close: () => {},
    },
  });
  return { provider, calls, opened };
}

const call = { signal: new AbortController().signal, memory: undefined };
const request = messageFrom(mcpFixtures.toolsCall);
const subject = (facts: Partial<Exchange> = {}): InspectedMessage => InspectedMessage.of(exchangeWith(request, facts));
const response = messageFrom('{"jsonrpc":"2.0","id":1,"result":{"content":[]}}');

function answering(): InspectedMessage {
  if (request.kind !== "request") throw new Error("the fixture is a request");
  return InspectedMessage.answering(exchangeWith(request), request, response);
}

function refusalOf(decision: Decision) {
  if (decision.effect === "deny") return decision.refusal;
  throw new Error("allowed");
}

describe("PingAuthorize as a provider of the gateway", () => {
  it("maps an HTTP message to its request", async () => {
    const { provider, calls } = providerWith(echoed);
    const transport = {
      type: "http",
      method: "POST",
      path: "/files?a=1",
      headers: { "x-tenant": "t1" },
      peer: "198.51.100.4",
    } as const;
    expect(await provider.evaluateRequest(subject({ transport }), call)).toMatchObject({ effect: "allow" });
    expect(calls[0]?.payload).toMatchObject({
      source_ip: "198.51.100.4",
      source_port: "1",
      method: "POST",
      url: "https://mcp.example.com:443/files?a=1",
      http_version: "1.1",
      body: mcpFixtures.toolsCall,
      traffic_type: "mcp",
      headers: [
        { "x-tenant": "t1" },
        { host: "mcp.example.com" },
        { "content-type": "application/json" },
        { "mcp-protocol-version": "2025-11-25" },
      ],
    });
    expect(calls[0]?.payload).not.toHaveProperty("access_token");
  });

  it("synthesizes HTTP for other transports", async () => {
    const { provider, calls } = providerWith(echoed);
    await provider.evaluateRequest(subject({ route: "my files", direction: "server-to-client" }), call);
    expect(calls[0]?.payload).toMatchObject({
      source_ip: "127.0.0.1",
      url: "https://mcp.example.com:443/my%20files",
      headers: expect.arrayContaining([{ "headgate-direction": "server-to-client" }]) as unknown,
    });
  });

  it("sends the caller as access_token", async () => {
    const principal = {
      id: "https://issuer|ada",
      kind: "token",
      scopes: new Set(["files:read"]),
      claims: { sub: "ada", aud: "https://mcp.example.com", iss: "https://issuer", exp: 9, secret: "x" },
    } as const;
    const { provider, calls } = providerWith(echoed);
    await provider.evaluateRequest(subject({ principal }), call);
    expect(calls[0]?.payload["access_token"]).toEqual({
      active: true,
      sub: "ada",
      scope: ["files:read"],
      aud: ["https://mcp.example.com"],
      iss: "https://issuer",
      exp: 9,
    });
    expect(toAccessToken({ ...principal, kind: "key", claims: {} })).toMatchObject({
      sub: "https://issuer|ada",
    });
  });

  it("changes the message by a changed body", async () => {
    const { provider } = providerWith(({ payload }) => ({
      json: { ...payload, body: mcpFixtures.toolsCall.replace("London", "Paris") },
    }));
    const decision = await provider.evaluateRequest(subject(), call);
    const bytes = Buffer.from(mcpFixtures.toolsCall.replace("London", "Paris"));
    expect(decision).toMatchObject({ effect: "allow", change: { bytes } });
  });

  it("keeps the policy's answer in a denial", async () => {
    const { provider } = providerWith(() => ({
      json: { response: { response_code: "403", body: '{"message":"no"}', headers: [{ "X-A": "1" }] } },
    }));
    expect(refusalOf(await provider.evaluateRequest(subject(), call))).toEqual({
      kind: "forbidden",
      code: "denied_by_policy",
      reason: "no",
      http: { status: 403, headers: { "x-a": ["1"] }, body: '{"message":"no"}' },
    });
  });

  it.each<readonly [string, FakeReply, string, boolean]>([
    ["nobody answers", new Error("down"), "unavailable", true],
    ["it fails", { status: 503 }, "unavailable", true],
    ["its answer is no JSON", { text: "?" }, "unavailable", true],
    ["it asks for a pause", { status: 429, headers: { "retry-after": "4" } }, "rate", false],
    ["it does not know us", { status: 401 }, "unavailable", false],
    ["its refusal cannot be used", { json: { response: {} } }, "unavailable", false],
  ])("[PA-126] [PA-208] marks which failures may fail open: %s", async (_when, reply, kind, opens) => {
    const { provider } = providerWith(() => reply);
    const denial = refusalOf(await provider.evaluateRequest(subject(), call));
    expect([denial.kind, denial.neverFailOpen]).toEqual([kind, kind === "unavailable" && !opens ? true : undefined]);
    const open = providerWith(() => reply, {}, true);
    const decision = await open.provider.evaluateRequest(subject(), call);
    expect(decision.effect).toBe(opens ? "allow" : "deny");
    expect(open.opened).toHaveLength(opens ? 1 : 0);
  });

  it("refuses changes that only a proxy can make", async () => {
    const transport = { type: "http", method: "POST", path: "/m", headers: { "x-go": "1" } } as const;
    const asking = async (changes: (payload: FakeCall["payload"]) => Readonly<Record<string, unknown>>) => {
      const { provider } = providerWith(({ payload }) => ({ json: { ...payload, ...changes(payload) } }));
      return provider.evaluateRequest(subject({ transport }), call);
    };
    const headersOf = (payload: FakeCall["payload"]) => payload["headers"] as readonly Record<string, string>[];
    for (const changes of [
      () => ({ method: "PUT" }),
      () => ({ url: "https://mcp.example.com/other" }),
      (payload: FakeCall["payload"]) => ({ headers: [...headersOf(payload), { "x-role": "admin" }] }),
      (payload: FakeCall["payload"]) => ({
        headers: headersOf(payload).filter((entry) => !("x-go" in entry)),
      }),
    ]) {
      expect(refusalOf(await asking(changes)).code).toBe("decision_not_usable");
    }
    const harmless = (payload: FakeCall["payload"]) => ({
      headers: headersOf(payload).filter((entry) => !("mcp-protocol-version" in entry)),
    });
    expect(await asking(harmless)).toMatchObject({ effect: "allow" });
  });

  it("[PA-091] evaluates the response with the stored request", async () => {
    const { provider, calls } = providerWith(({ path, payload }) => {
      if (path.endsWith("request")) return { json: { ...payload, state: { a: 1 } } };
      return { json: { response_code: "200", body: '{"jsonrpc":"2.0","id":1,"result":{}}' } };
    });
    const first = await provider.evaluateRequest(subject(), call);
    const memory = first.effect === "allow" ? first.memory : undefined;
    const decision = await provider.evaluateResponse(answering(), { ...call, memory });
    expect(decision).toMatchObject({ change: { bytes: Buffer.from('{"jsonrpc":"2.0","id":1,"result":{}}') } });
    expect(calls[1]?.payload).toMatchObject({
      response_code: "200",
      body: '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}',
      state: { a: 1 },
      mcp: { mcp_tool_name: "get_weather" },
    });
  });

  it.each([
    ["a denial", { response_code: "403", body: "no" }, "denied_by_policy"],
    ["a redirect", { response_code: "302" }, "decision_not_usable"],
    ["nothing at all", { response_code: "200", body: "" }, "decision_not_usable"],
  ])("refuses a response for %s", async (_what, json, code) => {
    const { provider } = providerWith((question) => (question.path.endsWith("request") ? echoed(question) : { json }));
    const first = await provider.evaluateRequest(subject(), call);
    const memory = first.effect === "allow" ? first.memory : undefined;
    expect(refusalOf(await provider.evaluateResponse(answering(), { ...call, memory })).code).toBe(code);
  });

  it("refuses the response to a request that was not evaluated", async () => {
    const { provider, calls } = providerWith(echoed);
    expect(refusalOf(await provider.evaluateResponse(answering(), call)).code).toBe("decision_failed");
    expect(calls).toEqual([]);
  });

  it("[PA-085] can skip the response phase", async () => {
    const { provider, calls } = providerWith(echoed, { skipResponsePhase: true });
    expect(await provider.evaluateResponse(answering(), call)).toMatchObject({ effect: "allow" });
    expect(calls).toEqual([]);
  });

  it("[PA-132] evaluates the response after the request failed open", async () => {
    const { provider, opened } = providerWith(() => new Error("down"), { circuitBreaker: false }, true);
    const first = await provider.evaluateRequest(subject(), call);
    const memory = first.effect === "allow" ? first.memory : undefined;
    expect(memory).toHaveProperty("paz_original_request");
    expect(await provider.evaluateResponse(answering(), { ...call, memory })).toMatchObject({
      effect: "allow",
    });
    expect(opened).toHaveLength(2);
  });
});
