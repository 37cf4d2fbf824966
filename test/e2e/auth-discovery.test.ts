import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
  type OAuthClientProvider,
} from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";

import { createGateway } from "../../src/gateway/gateway.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { listenOnLoopback } from "../support/demo-http.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { localConfig, openGateway } from "../support/local-gateway.ts";
import { agentClient, gatewayClient, startOAuthServer } from "../support/oauth-server.ts";
import { exchange, post } from "../support/raw-http.ts";
import { handshake, openSession } from "../support/legacy-session.ts";
import { bearer } from "../support/tokens.ts";

const everything = { server: () => createEverythingServer() };
const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });

function agentOf(issuer: string): ClientCredentialsProvider {
  const { id, secret } = agentClient;
  return new ClientCredentialsProvider({ clientId: id, clientSecret: secret, expectedIssuer: issuer });
}

async function connect(url: string, authProvider: OAuthClientProvider) {
  const sdk = new Client({ name: "discoverer", version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  await sdk.connect(transport);
  return { sdk, [Symbol.asyncDispose]: async () => sdk.close() };
}

/** A client with a user, who is sent to the authorization server with a browser. */
function userClient() {
  const kept: { tokens?: unknown; client?: unknown; verifier?: string; sentTo?: URL; discovery?: unknown } = {};
  const provider: OAuthClientProvider = {
    redirectUrl: "http://127.0.0.1:1/callback",
    clientMetadata: {
      client_name: "a client with a user",
      redirect_uris: ["http://127.0.0.1:1/callback"],
      grant_types: ["authorization_code"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
      application_type: "native",
    },
    clientInformation: () => kept.client as never,
    saveClientInformation: (information) => {
      kept.client = information;
    },
    tokens: () => kept.tokens as never,
    saveTokens: (tokens) => {
      kept.tokens = tokens;
    },
    redirectToAuthorization: (url) => {
      kept.sentTo = url;
    },
    saveCodeVerifier: (verifier) => {
      kept.verifier = verifier;
    },
    codeVerifier: () => kept.verifier ?? "",
    saveDiscoveryState: (state) => {
      kept.discovery = state;
    },
    discoveryState: () => kept.discovery as never,
  };
  return { provider, kept };
}

describe("the official client before a route that wants tokens", () => {
  it("finds the authorization server by itself and gets in with a token for this endpoint", async () => {
    await using server = await startOAuthServer();
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } }, scopes: ["files:read"] },
      upstream: everything,
    });
    await using client = await connect(gateway.url, agentOf(server.issuer));
    expect((await client.sdk.listTools()).tools.length).toBeGreaterThan(0);
    expect(server.tokenRequests).toMatchObject([
      { grant_type: "client_credentials", resource: gateway.url, scope: "files:read" },
    ]);
  });

  it("registers, sends its user to agree, and comes back with a code", async () => {
    await using server = await startOAuthServer({ user: "alice" });
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } }, scopes: ["files:read"] },
      routes: { files: { upstream: everything }, mail: { upstream: everything } },
    });
    const url = `${gateway.origin}/files/mcp`;
    const { provider, kept } = userClient();
    await expect(connect(url, provider)).rejects.toThrow(UnauthorizedError);
    const back = await server.approve(kept.sentTo ?? new URL("about:blank"));
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    await transport.finishAuth(back.searchParams);
    await using client = await connect(url, provider);
    expect((await client.sdk.listTools()).tools.length).toBeGreaterThan(0);
    // A token for one route is none for another (MCP 2025-06-18 and later, Token Audience Binding).
    const { access_token: token } = kept.tokens as { readonly access_token: string };
    const elsewhere = await post(`${gateway.origin}/mail/mcp`, handshake("2025-11-25"), bearer(token));
    expect(elsewhere.status).toBe(401);
    expect(elsewhere.headers["www-authenticate"]).toContain('error="invalid_token"');
  });

  it("gets more scopes when it is told that its token lacks one", async () => {
    await using server = await startOAuthServer();
    await using gateway = await openGateway({
      auth: {
        authenticators: { staff: { jwt: { issuer: server.issuer } } },
        scopes: ["files:read", "files:write"],
      },
      upstream: everything,
    });
    const provider = agentOf(server.issuer);
    const poor = await server.token({
      grant_type: "client_credentials",
      resource: gateway.url,
      scope: "files:read",
    });
    provider.saveTokens({ access_token: poor, token_type: "Bearer", issuer: server.issuer });
    const refused = await post(gateway.url, handshake("2025-11-25"), bearer(poor));
    expect(refused).toMatchObject({ status: 403, json: { error: { data: { code: "insufficient_scope" } } } });
    expect(refused.headers["www-authenticate"]).toBe(
      `Bearer error="insufficient_scope", error_description="the token lacks a required scope", scope="files:read files:write", resource_metadata="${gateway.origin}/.well-known/oauth-protected-resource/mcp"`,
    );
    await using client = await connect(gateway.url, provider);
    expect((await client.sdk.listTools()).tools.length).toBeGreaterThan(0);
    expect(server.tokenRequests.at(-1)).toMatchObject({ scope: "files:read files:write" });
  });
});

describe("clients that look elsewhere for the authorization server", () => {
  it("find the metadata of the one endpoint at the root, and those of each endpoint below", async () => {
    await using server = await startOAuthServer();
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } } },
      routes: { files: { upstream: everything } },
    });
    const wellKnown = `${gateway.origin}/.well-known/oauth-protected-resource`;
    for (const [path, resource] of [
      ["", "/mcp"],
      ["/mcp", "/mcp"],
      ["/sse", "/sse"],
      ["/files/mcp", "/files/mcp"],
      ["/files/sse", "/files/sse"],
    ] as const) {
      expect((await exchange(wellKnown + path)).json).toMatchObject({ resource: gateway.origin + resource });
    }
    expect((await exchange(`${wellKnown}/nothing/mcp`)).status).toBe(404);
  });

  it("may be pages of any origin, and may only read", async () => {
    await using server = await startOAuthServer();
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } } },
      upstream: everything,
    });
    const url = `${gateway.origin}/.well-known/oauth-protected-resource/mcp`;
    const origin = "https://page.example";
    const read = await exchange(url, { headers: { origin } });
    expect(read).toMatchObject({ status: 200, headers: { "access-control-allow-origin": "*" } });
    const preflight = await exchange(url, {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "GET",
        "access-control-request-headers": "mcp-protocol-version",
      },
    });
    expect(preflight).toMatchObject({
      status: 204,
      headers: { "access-control-allow-origin": "*", "access-control-allow-headers": "mcp-protocol-version" },
    });
    expect((await fetch(url, { method: "HEAD" })).status).toBe(200);
    expect((await exchange(url, { method: "POST", headers: { origin } })).status).toBe(405);
    // Everything else stays closed to that page, and a foreign Host gets nothing at all.
    expect((await exchange(`${gateway.origin}/healthz`, { headers: { origin } })).status).toBe(403);
    expect((await exchange(url, { headers: { origin, host: "evil.example" } })).status).toBe(403);
  });

  it("of 2025-03-26 find what the authorization server says of itself at the root", async () => {
    await using server = await startOAuthServer();
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } } },
      upstream: everything,
    });
    const copy = await exchange(`${gateway.origin}/.well-known/oauth-authorization-server`);
    expect(copy.json).toMatchObject({ issuer: server.issuer, token_endpoint: `${server.issuer}/token` });
  });

  it("find nothing where nobody is asked, or where keys are not to be had by OAuth", async () => {
    await using gateway = await openGateway({ upstream: everything });
    for (const path of ["oauth-protected-resource/mcp", "oauth-authorization-server"]) {
      expect((await exchange(`${gateway.origin}/.well-known/${path}`)).status).toBe(404);
    }
  });
});

describe("the public URL of a gateway", () => {
  it("is what tokens are issued for and where the metadata are, whatever the Host header says", async () => {
    await using server = await startOAuthServer();
    await using upstream = await legacyUpstream(pong);
    const publicUrl = "https://gate.example/tools";
    await using gateway = createGateway(
      localConfig({
        listen: { publicUrl },
        auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } } },
        upstream: { url: upstream.url },
      }),
    );
    await using mounted = await listenOnLoopback(gateway.handle);
    const local = mounted.origin;
    const challenged = await post(`${local}/mcp`, handshake("2025-11-25"));
    expect(challenged.headers["www-authenticate"]).toContain(
      'resource_metadata="https://gate.example/.well-known/oauth-protected-resource/tools/mcp"',
    );
    for (const path of ["/tools/mcp", "/mcp"]) {
      expect((await exchange(`${local}/.well-known/oauth-protected-resource${path}`)).json).toMatchObject({
        resource: `${publicUrl}/mcp`,
      });
    }
    const grant = { grant_type: "client_credentials", resource: `${publicUrl}/mcp` };
    expect((await post(`${local}/mcp`, handshake("2025-11-25"), bearer(await server.token(grant)))).status).toBe(200);
  });
});

describe("tokens that the authorization server is asked about", () => {
  it("let a caller in for as long as they are good", async () => {
    await using server = await startOAuthServer({ format: "opaque" });
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      auth: {
        authenticators: {
          staff: {
            introspection: {
              issuer: server.issuer,
              clientId: gatewayClient.id,
              clientSecret: gatewayClient.secret,
              cacheMaxAge: 0,
              // The server names no subject in tokens of a client.
              allowClients: true,
            },
          },
        },
        scopes: ["files:read"],
      },
      upstream: { url: upstream.url },
    });
    const grant = { grant_type: "client_credentials", resource: gateway.url, scope: "files:read" };
    const token = await server.token(grant);
    const session = await openSession(gateway.url, "2025-11-25", bearer(token));
    expect((await session.post({ jsonrpc: "2.0", id: 1, method: "ping" })).status).toBe(200);
    await server.revoke(token);
    expect((await session.post({ jsonrpc: "2.0", id: 2, method: "ping" })).status).toBe(401);
    expect((await post(gateway.url, handshake("2025-11-25"), bearer("made-up"))).status).toBe(401);
  });
});
