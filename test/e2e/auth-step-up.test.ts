import { Client, ClientCredentialsProvider, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { createEverythingServer } from "../fixtures/everything/server.ts";
import { handshake, nextMessage, openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { agentClient, startOAuthServer } from "../support/oauth-server.ts";
import { openStream, post } from "../support/raw-http.ts";
import { bearer, startIssuer } from "../support/tokens.ts";

const pong: Answering = (call, { id }) => call.reply(textResult(id, "done"));
/** One tool needs a scope that others do not. */
const policy: ConfigInput["policy"] = {
  rules: [
    { id: "writes", allow: "mcp.tool == 'write'", requireScope: ["files:write", "files:read"] },
    { id: "rest", allow: "true" },
  ],
};

function challengeAt(origin: string, path: string): string {
  return `scope="files:write files:read", resource_metadata="${origin}/.well-known/oauth-protected-resource${path}"`;
}

describe("a tool that needs a scope which the token lacks", () => {
  it("is answered 403 with a challenge that names all of them, in either era, and does not reach the server", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: issuer.url } } } },
      policy,
      upstream: { url: upstream.url, era: "legacy" },
    });
    const poor = bearer(await issuer.token({ audience: gateway.url, scope: "files:read" }));
    const session = await openSession(gateway.url, "2025-11-25", poor);
    const { headers, body } = modernRequest(7, "tools/call", { name: "write", arguments: {} });
    for (const [answer, id] of [
      [await session.post(toolCall(7, "write")), 7],
      [await postModern(gateway.url, { headers: { ...headers, ...poor }, body }), 7],
    ] as const) {
      expect(answer.status).toBe(403);
      expect(answer.headers["www-authenticate"]).toMatch(/^Bearer error="insufficient_scope", error_description="/u);
      expect(answer.headers["www-authenticate"]).toContain(challengeAt(gateway.origin, "/mcp"));
      expect(answer.json).toMatchObject({
        id,
        error: { data: { origin: "gateway", code: "insufficient_scope" } },
      });
    }
    expect(upstream.received("tools/call")).toHaveLength(0);
    const rich = bearer(await issuer.token({ audience: gateway.url, scope: "files:read files:write" }));
    expect(await post(gateway.url, toolCall(8, "write"), { ...session.headers, ...rich })).toMatchObject({
      status: 200,
      json: { id: 8, result: {} },
    });
    expect((await session.post(toolCall(9, "read"))).status).toBe(200);
  });

  it("is answered in band where there is no status to carry a challenge", async () => {
    await using issuer = await startIssuer();
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: issuer.url } } } },
      policy,
      upstream: { url: upstream.url },
    });
    const refusal = {
      id: 7,
      error: { data: { code: "insufficient_scope", scopes: ["files:write", "files:read"] } },
    };
    const poor = bearer(await issuer.token({ audience: gateway.url, scope: "files:read" }));
    await using stream = await openStream(`${gateway.origin}/sse`, {
      headers: { ...poor, accept: "text/event-stream" },
    });
    const endpoint = new URL((await stream.next())?.data ?? "", gateway.origin).href;
    await post(endpoint, handshake("2024-11-05"), poor);
    await nextMessage(stream);
    expect((await post(endpoint, toolCall(7, "write"), poor)).status).toBe(202);
    expect(await nextMessage(stream)).toMatchObject(refusal);
    const session = await openSession(gateway.url, "2025-03-26", poor);
    expect((await session.post([toolCall(7, "write")])).json).toMatchObject([refusal]);
  });

  it("is called by the official client with a token that it gets for it", async () => {
    await using server = await startOAuthServer();
    await using gateway = await openGateway({
      auth: { authenticators: { staff: { jwt: { issuer: server.issuer } } }, scopes: ["files:read"] },
      policy: {
        rules: [
          {
            id: "texts",
            allow: "mcp.tool == 'test_simple_text'",
            requireScope: ["files:read", "files:write"],
          },
          { id: "rest", allow: "true" },
        ],
      },
      upstream: { server: () => createEverythingServer() },
    });
    const authProvider = new ClientCredentialsProvider({
      clientId: agentClient.id,
      clientSecret: agentClient.secret,
      expectedIssuer: server.issuer,
    });
    const client = new Client({ name: "stepping up", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url), { authProvider }));
    expect(await client.callTool({ name: "test_simple_text", arguments: {} })).toHaveProperty("content");
    expect(server.tokenRequests.map(({ scope }) => scope)).toEqual(["files:read", "files:read files:write"]);
    await client.close();
  });
});
