import { describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { createDemoServer } from "../../src/demo/server.ts";
import { createLegacySse } from "../fixtures/everything/legacy-sse.ts";
import { listenOnLoopback } from "../support/demo-http.ts";
import { fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { handshake, openSession } from "../support/legacy-session.ts";
import { legacyUpstream, sentMessage, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { agentClient, gatewayClient, startOAuthServer } from "../support/oauth-server.ts";
import { exchange, openStream, post } from "../support/raw-http.ts";
import { bearer } from "../support/tokens.ts";

const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });
const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const key = formatApiKey(new Uint8Array(32).fill(5));
const robots: NonNullable<ConfigInput["auth"]> = {
  authenticators: { robots: { apiKeys: { keys: { ci: { hash: hashApiKey(key) } } } } },
};

/** An authorization server that issues numbered tokens. */
async function tokenServer(lifetime = 600) {
  const forms: Readonly<Record<string, string>>[] = [];
  const server = await fakeUpstream((call) => {
    forms.push(Object.fromEntries(new URLSearchParams(call.text)));
    call.reply({ access_token: `token-${forms.length}`, token_type: "Bearer", expires_in: lifetime });
  });
  return { ...server, forms, url: server.url };
}

function shownTo({ calls }: { readonly calls: readonly UpstreamCall[] }): (string | undefined)[] {
  return calls.map(({ headers }) => headers.authorization);
}

describe("the caller's credentials", () => {
  it("never reach the upstream, on any transport and in any era", async () => {
    await using upstream = await legacyUpstream(pong);
    const seen: unknown[] = [];
    const sse = createLegacySse(createDemoServer);
    await using older = await listenOnLoopback((request, response) => {
      seen.push(request.headers, request.url);
      void sse(request, response);
    });
    await using gateway = await openGateway({
      auth: robots,
      routes: {
        legacy: { upstream: { url: upstream.url } },
        modern: { upstream: { url: upstream.url, era: "modern" } },
        older: { upstream: { url: `${older.origin}/sse`, transport: "sse" } },
        watched: { mode: "observe", upstream: { url: upstream.url } },
      },
    });
    const { origin } = gateway;
    const shown = bearer(key);
    const session = await openSession(`${origin}/legacy/mcp`, "2025-11-25", shown);
    await session.post(ping);
    await session.end();
    const { headers, body } = modernRequest(1, "tools/list");
    await postModern(`${origin}/modern/mcp`, { headers: { ...headers, ...shown }, body });
    await openSession(`${origin}/older/mcp`, "2025-03-26", shown);
    expect((await post(`${origin}/watched/mcp`, handshake("2025-11-25"), shown)).status).toBe(200);
    await using stream = await openStream(`${origin}/legacy/sse`, {
      headers: { ...shown, accept: "text/event-stream" },
    });
    const endpoint = new URL((await stream.next())?.data ?? "", origin).href;
    expect((await post(endpoint, handshake("2024-11-05"), shown)).status).toBe(202);
    await stream.next();
    expect(upstream.calls.length).toBeGreaterThan(5);
    const all = JSON.stringify([upstream.calls.map((call) => [call.headers, call.path, call.text]), seen]);
    expect(all).not.toContain(key);
    expect(all).not.toContain("authorization");
  });
});

describe("a fixed header for the upstream", () => {
  it("goes with every request, and a client cannot put its own in its place", async () => {
    await using upstream = await legacyUpstream(pong, (call) => {
      call.stream();
    });
    await using gateway = await openGateway({
      routes: {
        a: {
          upstream: { url: upstream.url, credentials: { header: { value: "Bearer fixed" } } },
          forwardHeaders: ["authorization"],
        },
      },
    });
    const session = await openSession(`${gateway.origin}/a/mcp`, "2025-11-25", bearer("mine"));
    await using stream = await session.listen();
    expect(stream.status).toBe(200);
    await session.post(ping);
    await expect.poll(() => upstream.of("GET").length).toBe(1);
    await session.end();
    await expect.poll(() => upstream.of("DELETE").length).toBe(1);
    expect(new Set(shownTo(upstream))).toEqual(new Set(["Bearer fixed"]));
  });
});

describe("a token of the gateway's own", () => {
  function setUp(tokenEndpoint: string, upstream: string, more: Partial<ConfigInput> = {}) {
    const clientCredentials = { tokenEndpoint, clientId: "gate", clientSecret: "s3cret", scopes: ["up"] };
    return openGateway({ upstream: { url: upstream, credentials: { clientCredentials } }, ...more });
  }

  it("is obtained once and shown with every request of every caller", async () => {
    await using tokens = await tokenServer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await setUp(tokens.url, upstream.url);
    const sessions = await Promise.all([openSession(gateway.url), openSession(gateway.url)]);
    await Promise.all(sessions.map((session) => session.post(ping)));
    expect(new Set(shownTo(upstream))).toEqual(new Set(["Bearer token-1"]));
    expect(tokens.forms).toEqual([{ grant_type: "client_credentials", scope: "up" }]);
    expect(tokens.calls[0]?.headers.authorization).toBe(`Basic ${Buffer.from("gate:s3cret").toString("base64")}`);
  });

  it("is renewed before it expires", async () => {
    await using tokens = await tokenServer(1);
    await using upstream = await legacyUpstream(pong);
    await using gateway = await setUp(tokens.url, upstream.url);
    const session = await openSession(gateway.url);
    await expect
      .poll(async () => {
        expect((await session.post(ping)).status).toBe(200);
        return new Set(shownTo(upstream)).size;
      })
      .toBeGreaterThan(2);
  });

  it("that the upstream refuses is told as the gateway's failure, never as the client's", async () => {
    await using tokens = await tokenServer();
    await using upstream = await fakeUpstream((call) => {
      call.replyRaw(401, {
        "www-authenticate": 'Bearer resource_metadata="https://up.example/.well-known/oauth-protected-resource"',
      });
    });
    await using gateway = await setUp(tokens.url, upstream.url);
    const { headers, body } = modernRequest(1, "tools/list");
    for (const answer of [
      await post(gateway.url, handshake("2025-11-25")),
      await postModern(gateway.url, { headers, body }),
    ]) {
      expect(answer.status).toBe(502);
      expect(answer.headers).not.toHaveProperty("www-authenticate");
      expect(answer.json).toMatchObject({ error: { code: -32_603, data: { code: "upstream_unreachable" } } });
      expect(answer.text).not.toContain("up.example");
    }
  });

  it("that cannot be obtained is told without the server's words", async () => {
    await using tokens = await fakeUpstream((call) => {
      call.reply({ error: "invalid_client", error_description: "wrong secret words" }, 401);
    });
    await using upstream = await legacyUpstream(pong);
    await using gateway = await setUp(tokens.url, upstream.url);
    const answer = await post(gateway.url, handshake("2025-11-25"));
    expect(answer.status).toBe(502);
    expect(answer.text).not.toContain("secret");
    expect(upstream.calls).toHaveLength(0);
  });

  it("is shown to an HTTP+SSE server too", async () => {
    await using tokens = await tokenServer();
    const seen: (string | undefined)[] = [];
    const sse = createLegacySse(createDemoServer);
    await using upstream = await listenOnLoopback((request, response) => {
      seen.push(request.headers.authorization);
      void sse(request, response);
    });
    const clientCredentials = { tokenEndpoint: tokens.url, clientId: "gate", clientSecret: "s3cret" };
    await using gateway = await openGateway({
      upstream: { url: `${upstream.origin}/sse`, transport: "sse", credentials: { clientCredentials } },
    });
    const session = await openSession(gateway.url, "2025-03-26");
    expect((await session.post({ jsonrpc: "2.0", id: 1, method: "tools/list" })).status).toBe(200);
    expect(seen.length).toBeGreaterThan(2);
    expect(new Set(seen)).toEqual(new Set(["Bearer token-1"]));
  });
});

describe("a token that the upstream has forgotten", () => {
  it("is replaced, and the request sent once more", async () => {
    await using tokens = await tokenServer();
    let forgotten = "";
    await using upstream = await fakeUpstream((call) => {
      if (call.headers.authorization === forgotten) return call.replyRaw(401);
      const { id, method } = sentMessage(call);
      const result = method === "server/discover" ? { supportedVersions: ["2026-07-28"], capabilities: {} } : {};
      return call.reply({ jsonrpc: "2.0", id, result: { resultType: "complete", ...result } });
    });
    const clientCredentials = { tokenEndpoint: tokens.url, clientId: "gate", clientSecret: "s3cret" };
    await using gateway = await openGateway({
      upstream: { url: upstream.url, era: "modern", credentials: { clientCredentials } },
    });
    const call = async () => (await postModern(gateway.url, modernRequest(1, "tools/list"))).status;
    expect(await call()).toBe(200);
    forgotten = "Bearer token-1";
    // A token that was only just issued is not replaced: its successor would fare no better.
    await expect.poll(call, { interval: 500 }).toBe(200);
    expect(tokens.forms).toHaveLength(2);
    expect(shownTo(upstream).slice(-2)).toEqual(["Bearer token-1", "Bearer token-2"]);
  });
});

describe("token exchange", () => {
  it("shows the upstream a token of its own for each caller, and the caller's to the issuer alone", async () => {
    await using server = await startOAuthServer();
    await using upstream = await legacyUpstream(pong);
    const resource = "https://up.example/mcp";
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } } },
      upstream: {
        url: upstream.url,
        credentials: {
          tokenExchange: {
            issuer: server.issuer,
            clientId: gatewayClient.id,
            clientSecret: gatewayClient.secret,
            scopes: ["upstream:call"],
            resource,
          },
        },
      },
    });
    const token = await server.token({ grant_type: "client_credentials", resource: gateway.url });
    const session = await openSession(gateway.url, "2025-11-25", bearer(token));
    expect((await session.post(ping)).status).toBe(200);
    const shown = new Set(shownTo(upstream));
    expect(shown.size).toBe(1);
    const [exchanged = ""] = shown;
    expect(exchanged).not.toContain(token);
    const [, claims = ""] = exchanged?.split(".") ?? [];
    expect(JSON.parse(Buffer.from(claims, "base64url").toString())).toMatchObject({
      sub: agentClient.id,
      aud: resource,
      scope: "upstream:call",
    });
    expect(server.tokenRequests.filter(({ subject_token: subject }) => subject === token)).toHaveLength(1);
    expect((await exchange(gateway.url)).status).toBe(401);
  });
});
