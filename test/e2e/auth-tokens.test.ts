import { describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { handshake, openSession } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { exchange, post } from "../support/raw-http.ts";
import { bearer, startIssuer, type TokenFacts } from "../support/tokens.ts";

const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });
const hello = handshake("2025-11-25");
const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const key = formatApiKey(new Uint8Array(32).fill(7));
const robots = { apiKeys: { keys: { ci: { hash: hashApiKey(key), scopes: ["mcp:use"] } } } };

async function setUp(more: Partial<ConfigInput> = {}) {
  const issuer = await startIssuer();
  const upstream = await legacyUpstream(pong);
  const gateway = await openGateway({
    auth: { authenticators: { staff: { jwt: { issuer: issuer.url } } } },
    upstream: { url: upstream.url },
    ...more,
  });
  return {
    issuer,
    upstream,
    gateway,
    url: gateway.url,
    tokenFor: (facts: TokenFacts = {}) => issuer.token({ audience: gateway.url, ...facts }),
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
      await issuer[Symbol.asyncDispose]();
    },
  };
}

describe("a route that takes tokens", () => {
  it("challenges callers without credentials, on every endpoint and with every verb", async () => {
    await using place = await setUp();
    const { origin } = place.gateway;
    const challenge = (path: string) =>
      `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource${path}"`;
    for (const [method, path, metadata] of [
      ["POST", "/mcp", "/mcp"],
      ["GET", "/mcp", "/mcp"],
      ["DELETE", "/mcp", "/mcp"],
      ["GET", "/sse", "/sse"],
      ["POST", "/messages?sessionId=x", "/sse"],
    ] as const) {
      const answer = await exchange(origin + path, {
        method,
        headers: { "content-type": "application/json" },
      });
      expect([method, path, answer.status]).toEqual([method, path, 401]);
      expect(answer.headers["www-authenticate"]).toBe(challenge(metadata));
      expect(answer.json).toMatchObject({ error: { data: { origin: "gateway", code: "unauthenticated" } } });
    }
    expect(place.upstream.calls).toHaveLength(0);
  });

  it("lets a good one in, in either era", async () => {
    await using place = await setUp();
    const headers = bearer(await place.tokenFor());
    const session = await openSession(place.url, "2025-06-18", headers);
    expect((await session.post(ping)).status).toBe(200);
    const { headers: modern, body } = modernRequest(1, "tools/list");
    const answer = await postModern(place.url, { headers: { ...modern, ...headers }, body });
    expect(answer.status).not.toBe(401);
  });

  it.each<[string, TokenFacts]>([
    ["has expired", { expiresIn: -60 }],
    ["is for another resource", { audience: "https://other.example/mcp" }],
    ["is an identity token", { type: "id+jwt" }],
  ])("says what is wrong with a token that %s, and lets nothing through", async (_what, facts) => {
    await using place = await setUp();
    const answer = await post(place.url, hello, bearer(await place.tokenFor(facts)));
    expect(answer.status).toBe(401);
    expect(answer.headers["www-authenticate"]).toMatch(/^Bearer error="invalid_token", error_description="[^"]+", /u);
    expect(place.upstream.calls).toHaveLength(0);
  });

  it("is not opened by a token in the query", async () => {
    await using place = await setUp();
    const token = await place.tokenFor();
    expect((await post(`${place.url}?access_token=${token}`, hello)).status).toBe(401);
  });

  it("answers 400 to a header that is no token at all", async () => {
    await using place = await setUp();
    const answer = await post(place.url, hello, { authorization: "Bearer two tokens" });
    expect(answer.status).toBe(400);
    expect(answer.headers["www-authenticate"]).toContain('error="invalid_request"');
  });

  it("asks for credentials with every request, not with the first alone", async () => {
    await using place = await setUp();
    const session = await openSession(place.url, "2025-11-25", bearer(await place.tokenFor()));
    const { authorization: _shown, ...without } = session.headers;
    expect((await post(place.url, ping, without)).status).toBe(401);
    expect((await session.post(ping)).status).toBe(200);
  });

  it("is closed, and says so, while the keys of the issuer cannot be had", async () => {
    await using place = await setUp();
    place.issuer.fail(500);
    const answer = await post(place.url, hello, bearer(await place.tokenFor()));
    expect(answer).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
    expect(answer.headers).not.toHaveProperty("www-authenticate");
    expect(place.upstream.calls).toHaveLength(0);
  });

  it("takes tokens of a new key without a restart, and verifies each token once", async () => {
    await using place = await setUp();
    const token = await place.tokenFor();
    for (let turn = 0; turn < 5; turn += 1) expect((await post(place.url, hello, bearer(token))).status).toBe(200);
    expect(place.issuer.asked("/jwks")).toBe(1);
  });

  it("never shows a token to the upstream, the client or the log", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    const lines: string[] = [];
    const log = createLogger({
      level: "trace",
      pretty: false,
      destination: { write: (line) => lines.push(line) },
    });
    await using gateway = await openGateway(
      {
        auth: { authenticators: { staff: { jwt: { issuer: issuer.url } } } },
        upstream: { url: upstream.url },
      },
      { log },
    );
    const token = await issuer.token({ audience: gateway.url });
    const late = await issuer.token({ audience: gateway.url, expiresIn: -60 });
    const session = await openSession(gateway.url, "2025-11-25", bearer(token));
    const answers = [await session.post(ping), await post(gateway.url, hello, bearer(late))];
    const sent = upstream.calls.map(({ headers, text }) => ({ headers, text }));
    const seen = JSON.stringify([sent, answers, lines]);
    for (const part of [...token.split("."), ...late.split(".").slice(1)]) expect(seen).not.toContain(part);
    for (const { headers } of sent) expect(headers).not.toHaveProperty("authorization");
    expect(lines.join("")).toContain("authentication failed");
  });
});

describe("several ways to be known on one route", () => {
  const both = (issuer: string): ConfigInput["auth"] => ({
    authenticators: { staff: { jwt: { issuer } }, robots },
    scopes: ["mcp:use"],
  });

  it("each know their own, and refuse what nobody knows", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ auth: both(issuer.url), upstream: { url: upstream.url } });
    const token = await issuer.token({ audience: gateway.url, scope: "mcp:use" });
    expect((await post(gateway.url, hello, bearer(token))).status).toBe(200);
    expect((await post(gateway.url, hello, bearer(key))).status).toBe(200);
    const wrong = formatApiKey(new Uint8Array(32).fill(8));
    for (const headers of [bearer(wrong), bearer("opaque"), { authorization: "Basic YTpi" }]) {
      expect((await post(gateway.url, hello, headers)).status).toBe(401);
    }
  });

  it("take a key in a header of its own where that is configured", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      auth: { authenticators: { robots: { apiKeys: { ...robots.apiKeys, header: "X-Api-Key" } } } },
      upstream: { url: upstream.url },
    });
    expect((await post(gateway.url, hello, { "x-api-key": key })).status).toBe(200);
    expect((await post(gateway.url, hello, bearer(key))).status).toBe(401);
    for (const { headers } of upstream.calls) expect(headers).not.toHaveProperty("x-api-key");
  });

  it("leave a route open to callers without credentials that says so, but not to bad ones", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      auth: { authenticators: { robots }, use: ["robots", "anonymous"] },
      upstream: { url: upstream.url },
    });
    expect((await post(gateway.url, hello)).status).toBe(200);
    expect((await post(gateway.url, hello, bearer("bad"))).status).toBe(401);
  });
});

describe("a reload", () => {
  it("withdraws a key at once, and keeps what other authenticators know", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    const staff = { jwt: { issuer: issuer.url } };
    const input = (authenticators: NonNullable<ConfigInput["auth"]>["authenticators"]): ConfigInput => ({
      auth: { authenticators },
      upstream: { url: upstream.url },
    });
    await using local = await openGateway(input({ staff, robots }));
    const token = await issuer.token({ audience: local.url });
    const session = await openSession(local.url, "2025-11-25", bearer(key));
    expect((await post(local.url, hello, bearer(token))).status).toBe(200);
    expect(await local.gateway.reload(localConfig(input({ staff })))).toMatchObject({ ok: true });
    expect((await session.post(ping)).status).toBe(401);
    expect((await post(local.url, hello, bearer(token))).status).toBe(200);
    expect(issuer.asked("/jwks")).toBe(1);
  });

  it("does not open a listener to everybody that was opened for known callers", async () => {
    await using upstream = await legacyUpstream(pong);
    const closed: ConfigInput = {
      listen: { host: "0.0.0.0", publicUrl: "https://gate.example" },
      auth: { authenticators: { robots } },
      upstream: { url: upstream.url },
    };
    await using local = await openGateway(closed);
    const open = localConfig({ upstream: { url: upstream.url } });
    expect(await local.gateway.reload(open)).toMatchObject({
      ok: false,
      problem: expect.stringContaining("unauthenticated callers are admitted") as string,
    });
  });
});
