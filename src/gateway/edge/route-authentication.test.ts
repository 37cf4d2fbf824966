import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";

import { principalNamed } from "../../../test/support/principals.ts";
import {
  type Authentication,
  authenticationFailure,
  type Authenticator,
  type Credentials,
} from "../../auth/authenticator.ts";
import { anonymous } from "../../core/exchange.ts";
import { createRouteAuthentication, type RouteAuthenticationOptions } from "./route-authentication.ts";

function doorWith(authenticator: Authenticator | undefined, changes: Partial<RouteAuthenticationOptions> = {}) {
  return createRouteAuthentication({
    route: "files",
    authenticator,
    issuers: ["https://login.example"],
    credentialHeaders: new Set(["authorization"]),
    scopes: [],
    offeredScopes: [],
    endpoints: ["/files/mcp", "/files/sse"],
    publicUrl: undefined,
    isLoopback: true,
    waits: { begin: () => () => {} },
    onFailure: () => {},
    ...changes,
  });
}

/** As much of a request as a door looks at. */
function requestTo(url: string, headers: Readonly<Record<string, string>> = {}): IncomingMessage {
  return { url, headers: { host: "localhost:8484", ...headers }, socket: { localPort: 8484 } } as never;
}

const says = (answer: Authentication | Promise<Authentication>): Authenticator => ({
  authenticate: () => answer,
});
const alice: Authentication = { ok: true, principal: principalNamed("alice", { scopes: new Set(["a"]) }) };

describe("a door", () => {
  it("lets everybody in where no authentication is configured", () => {
    expect(doorWith(undefined).authenticate(requestTo("/files/mcp"))).toEqual({
      ok: true,
      principal: anonymous,
    });
  });

  it("knows a caller without a promise where the authenticator does", async () => {
    expect(doorWith(says(alice)).authenticate(requestTo("/files/mcp"))).toBe(alice);
    expect(await doorWith(says(Promise.resolve(alice))).authenticate(requestTo("/files/mcp"))).toBe(alice);
  });

  it("stays shut when an authenticator breaks", async () => {
    const broken = says(Promise.reject(new Error("bug")));
    expect(await doorWith(broken).authenticate(requestTo("/files/mcp"))).toMatchObject({
      ok: false,
      error: { code: "internal" },
      challenge: undefined,
    });
  });

  it("asks for all scopes of the route when one is missing", () => {
    const door = doorWith(says(alice), { scopes: ["a", "b"] });
    expect(door.authenticate(requestTo("/files/mcp"))).toMatchObject({
      ok: false,
      error: { code: "insufficient_scope" },
      challenge: expect.stringContaining('error="insufficient_scope"') as string,
    });
    expect(door.authenticate(requestTo("/files/mcp"))).toMatchObject({
      challenge: expect.stringContaining('scope="a b"') as string,
    });
  });

  it.each([
    ["missing", "unauthenticated", false],
    ["invalid_token", "unauthenticated", true],
    ["invalid_request", "invalid_message", true],
  ] as const)("answers %s with %s", (error, code, namesError) => {
    const answer = doorWith(says(authenticationFailure(error, "why"))).authenticate(requestTo("/files/mcp"));
    expect(answer).toMatchObject({ ok: false, error: { code } });
    expect("challenge" in answer && answer.challenge?.includes(`error="${error}"`)).toBe(namesError);
  });

  it("names the endpoint by where it listens, and never as the caller says", () => {
    const seen: Credentials["audience"][] = [];
    const looking: Authenticator = {
      authenticate: ({ audience }) => {
        seen.push(audience);
        return alice;
      },
    };
    void doorWith(looking).authenticate(requestTo("/files/mcp", { host: "evil.example" }));
    void doorWith(looking, { publicUrl: "https://Gate.example" }).authenticate(requestTo("/files/mcp"));
    void doorWith(looking, { isLoopback: false }).authenticate(requestTo("/files/mcp"));
    expect(seen[0]).toContain("http://localhost:8484/files/mcp");
    expect(seen[0]?.join()).not.toContain("evil");
    expect(seen[1]).toEqual(["https://gate.example/files/mcp", "https://gate.example/files/sse"]);
    expect(seen[2]).toBeUndefined();
  });

  it("names the metadata URL, also for posts to a stream, but not for an invalid Host", () => {
    const door = doorWith(says(authenticationFailure("missing", "none")));
    const facts = { error: "invalid_token", scopes: [], description: "no" } as const;
    const metadata = "http://localhost:8484/.well-known/oauth-protected-resource/files/sse";
    expect(door.challenge(requestTo("/files/messages?sessionId=1"), facts)).toContain(`"${metadata}"`);
    expect(door.challenge(requestTo("/files/mcp", { host: 'x"y' }), facts)).not.toContain("resource_metadata");
    expect(door.metadata(requestTo("/"), "/files/mcp")).toMatchObject({
      resource: "http://localhost:8484/files/mcp",
      resource_name: "files",
    });
    expect(doorWith(undefined, { issuers: [] }).metadata(requestTo("/"), "/files/mcp")).toBeUndefined();
  });
});
