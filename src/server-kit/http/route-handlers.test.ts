import { describe, expect, it } from "vitest";

import type { Principal } from "../../core/exchange.ts";
import { createFakeAuthenticator, createFakeKit, type FakeKitOptions } from "../../../test/support/fake-kit.ts";
import { ask, openKitClient, toolCall } from "../../../test/support/kit-client.ts";

const paths = [
  ["GET", "/mcp/sse"],
  ["POST", "/mcp/rpc"],
  ["GET", "/mcp/capabilities"],
] as const;
const guarded = (options: FakeKitOptions = {}) =>
  createFakeKit({
    authenticator: createFakeAuthenticator(["ann", "bob"]),
    ...options,
    settings: { requireAuthentication: true, ...options.settings },
  });
const https = { encrypted: true, address: "192.0.2.7", localAddress: "192.0.2.1" };

describe("callers without valid credentials", () => {
  it.each(paths)("[KO-095] get 401 and a challenge on %s %s", async (method, path) => {
    const { edge } = guarded();
    const response = await ask(edge, path, { method });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error: "unauthorized" });
    expect(response.headers.get("www-authenticate")).toBe(
      'Bearer resource_metadata="http://127.0.0.1:5110/.well-known/oauth-protected-resource/mcp"',
    );
  });

  it("[KO-095] are told so when they sent a bad token, without breaking the header's quotes", async () => {
    const { edge } = guarded();
    const response = await ask(edge, "/mcp/capabilities", { headers: { authorization: "Bearer eve" } });
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toMatch(
      /^Bearer error="invalid_token", error_description="not a 'good' token", resource_metadata="/u,
    );
  });

  it("[KO-096] pass where some tool is for everybody, but not with a bad token", async () => {
    const { edge, core } = guarded();
    Object.assign(core, { allowsAnonymous: () => true });
    expect((await ask(edge, "/mcp/sse")).status).toBe(200);
    expect((await ask(edge, "/mcp/sse", { headers: { authorization: "Bearer eve" } })).status).toBe(401);
  });

  it("[KO-032] pass in development, where nothing else is said", async () => {
    const { edge } = createFakeKit({ authenticator: createFakeAuthenticator([]) });
    expect((await ask(edge, "/mcp/capabilities")).status).toBe(200);
    const deployed = createFakeKit({ deployed: true, authenticator: createFakeAuthenticator([]) });
    expect((await ask(deployed.edge, "/mcp/capabilities", { peer: https })).status).toBe(401);
  });

  it("get 503 while credentials cannot be checked, and 500 with an id where checking breaks", async () => {
    const { edge, log } = guarded();
    const down = await ask(edge, "/mcp/capabilities", { headers: { authorization: "Bearer down" } });
    expect(down.status).toBe(503);
    const broken = await ask(edge, "/mcp/capabilities", { headers: { authorization: "Bearer broken" } });
    expect(broken.status).toBe(500);
    const { id, ...rest } = (await broken.json()) as Record<string, unknown>;
    expect(JSON.stringify(rest)).not.toContain("verifier broke");
    expect(log.lines.filter(({ fields }) => fields["id"] === id)).toHaveLength(1);
  });
});

describe("callers with valid credentials", () => {
  it("[KO-094] [KO-099] come in and are shown what they may call", async () => {
    const { edge } = guarded();
    const tools = async (token: string) => {
      const response = await ask(edge, "/mcp/capabilities", {
        headers: { authorization: `Bearer ${token}` },
      });
      const body = (await response.json()) as { tools: { name: string }[] };
      return body.tools.map(({ name }) => name);
    };
    expect(await tools("ann")).not.toContain("Fake_Secret");
    expect(await tools("ann/fake:secret")).toContain("Fake_Secret");
  });

  it("[KO-087] may post to their own session only", async () => {
    const { edge } = guarded();
    const client = await openKitClient(edge, { headers: { authorization: "Bearer ann" } });
    const stolen = await client.post(toolCall(1, "Fake_Echo"), { headers: { authorization: "Bearer bob" } });
    expect(stolen.status).toBe(403);
    expect(await stolen.json()).toMatchObject({ error: "session_principal_mismatch" });
    expect((await client.post(toolCall(2, "Fake_Echo", { text: "mine" }))).status).toBe(202);
  });

  it("[KO-087] may come back to their session with more scopes, which count from then on", async () => {
    const { edge } = guarded();
    const client = await openKitClient(edge, { headers: { authorization: "Bearer ann" } });
    await client.post(toolCall(1, "Fake_Secret"));
    expect((await client.until("result")).at(-1)?.data).toContain("refused");
    await client.post(toolCall(2, "Fake_Secret"), { headers: { authorization: "Bearer ann/fake:secret" } });
    expect((await client.until("result")).at(-1)?.data).toContain("secret");
  });

  it("[KO-075] [KO-121] are known to the tool with session, request, trace and signal", async () => {
    const { edge, core, log } = guarded();
    const client = await openKitClient(edge, { headers: { authorization: "Bearer ann" } });
    const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
    await client.post(toolCall(1, "Fake_Echo", { text: "x" }), { headers: { traceparent } });
    await client.until("result");
    const [caller] = core.callers;
    expect(caller).toMatchObject({ principal: { id: "ann" }, via: "http-sse", sessionId: client.sessionId });
    expect(caller?.signal.aborted).toBe(false);
    caller?.log.info({}, "from the tool");
    const line = log.lines.find(({ message }) => message === "from the tool");
    expect(line?.fields).toMatchObject({
      session: client.sessionId.slice(0, 8),
      request: caller?.requestId,
      traceparent,
    });
  });
});

describe("tokens in the query", () => {
  const query = "?access_token=ann";

  it("[KO-102] count on /sse only", async () => {
    const { edge } = guarded();
    expect((await ask(edge, `/mcp/sse${query}`)).status).toBe(200);
    expect((await ask(edge, `/mcp/capabilities${query}`)).status).toBe(401);
    expect((await ask(edge, `/mcp/rpc${query}`, { method: "POST" })).status).toBe(401);
  });

  it("[KO-102] lose against the header", async () => {
    const { edge } = guarded();
    expect((await ask(edge, `/mcp/sse${query}`, { headers: { authorization: "Bearer eve" } })).status).toBe(401);
    expect((await ask(edge, "/mcp/sse?access_token=eve", { headers: { authorization: "Bearer ann" } })).status).toBe(
      200,
    );
  });

  it.each([
    ["with HTTPS and rate limits", { enableRateLimiting: true }, https, 200, undefined],
    ["without rate limits", {}, https, 401, "query_token_refused"],
    ["without HTTPS", { enableRateLimiting: true }, { ...https, encrypted: false }, 400, undefined],
    [
      "where they are switched off",
      { enableRateLimiting: true, allowQueryToken: false },
      https,
      401,
      "query_token_refused",
    ],
  ])("[KO-046] [KO-103] when deployed %s", async (_title, settings, peer, status, reason) => {
    const { edge } = guarded({ deployed: true, settings });
    const response = await ask(edge, `/mcp/sse${query}`, { peer });
    expect(response.status).toBe(status);
    if (status !== 200) {
      const body = (await response.json()) as Record<string, unknown>;
      expect(body["reason"]).toBe(reason);
      expect(response.headers.get("www-authenticate") ?? "").not.toContain("error=");
    }
  });

  it("[KO-104] never appear in a log record or an answer", async () => {
    const { edge, log } = guarded();
    const secret = "s3cr3t-token";
    for (const path of [`/mcp/sse?access_token=${secret}`, `/mcp/rpc?access_token=${secret}&sessionId=${secret}x`]) {
      const response = await ask(edge, path, { method: path.includes("rpc") ? "POST" : "GET" });
      expect(JSON.stringify([await response.text(), [...response.headers]])).not.toContain(secret);
    }
    const opened = await openKitClient(edge, { query });
    await opened.leave();
    expect(JSON.stringify(log.lines)).not.toMatch(/s3cr3t|access_token/u);
  });
});

describe("the host's own login", () => {
  const carol: Principal = { id: "host:carol", kind: "token", scopes: new Set(), claims: {} };
  const identify = (request: Request) => (request.headers.get("cookie") === "user=carol" ? carol : undefined);
  const cookie = { cookie: "user=carol" };
  const own = { origin: "http://127.0.0.1:5110" };

  it("[KO-140] opens streams by cookie and takes posts that name their page", async () => {
    const { edge, core } = createFakeKit({ identify, settings: { requireAuthentication: true } });
    const client = await openKitClient(edge, { headers: cookie });
    expect((await client.post(toolCall(1, "Fake_Echo", { text: "x" }), { headers: own })).status).toBe(202);
    await client.until("result");
    expect(core.callers[0]?.principal.id).toBe("host:carol");
    expect((await ask(edge, "/mcp/sse")).status).toBe(401);
  });

  it("[KO-140] takes no post by cookie without an origin, of a foreign one, or of a form's type", async () => {
    const { edge } = createFakeKit({ identify, settings: { requireAuthentication: true } });
    const client = await openKitClient(edge, { headers: cookie });
    const post = async (headers: Record<string, string>) => client.post(toolCall(1, "Fake_Echo"), { headers });
    const silent = await post({});
    expect(silent.status).toBe(403);
    expect(await silent.json()).toMatchObject({ error: "origin_refused", reason: "origin_required" });
    expect((await post({ origin: "https://evil.example" })).status).toBe(403);
    expect((await post({ ...own, "content-type": "text/plain" })).status).toBe(415);
  });

  it("[KO-140] gets the host's request object, for principals that its middleware found", async () => {
    const { edge } = createFakeKit({
      settings: { requireAuthentication: true },
      identify: (_request, { native }) => (native as { user?: Principal } | undefined)?.user,
    });
    expect((await ask(edge, "/mcp/sse", { peer: { native: { user: carol } } })).status).toBe(200);
    expect((await ask(edge, "/mcp/sse")).status).toBe(401);
  });
});

describe("metadata of the protected resource", () => {
  it("[KO-107] are published for the base route and need no login", async () => {
    const { edge } = guarded({ authorizationServers: ["https://login.example.com"] });
    for (const path of ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]) {
      const response = await ask(edge, path);
      expect(await response.json()).toEqual({
        resource: "http://127.0.0.1:5110/mcp",
        authorization_servers: ["https://login.example.com"],
        bearer_methods_supported: ["header"],
      });
    }
  });

  it("[KO-107] name the public address where it is set", async () => {
    const { edge } = guarded({ settings: { publicUrl: "https://kit.example.com/" } });
    const response = await ask(edge, "/mcp/sse");
    expect(response.headers.get("www-authenticate")).toContain(
      '"https://kit.example.com/.well-known/oauth-protected-resource/mcp"',
    );
  });
});
