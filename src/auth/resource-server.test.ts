import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { formatChallenge, insufficientScope, metadataUrlOf, protectedResourceMetadata } from "./resource-server.ts";

describe("a challenge", () => {
  it.each([
    [{}, "Bearer"],
    [{ scopes: ["a", "b"] }, 'Bearer scope="a b"'],
    // RFC 6750 section 3: a request without credentials gets no error code.
    [{ description: "hidden", metadataUrl: "https://x/y" }, 'Bearer resource_metadata="https://x/y"'],
    [
      { error: "insufficient_scope", description: 'needs "more"', scopes: ["w"], metadataUrl: "https://x" },
      `Bearer error="insufficient_scope", error_description="needs 'more'", scope="w", resource_metadata="https://x"`,
    ],
  ] as const)("of %j is written %s", (facts, text) => {
    expect(formatChallenge(facts)).toBe(text);
  });

  it("cannot be broken out of by what it says", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.constantFrom('a"b', "a\\", "a\r\nx: y", "ü", "\u0000")), (description) => {
        const text = formatChallenge({ error: "invalid_token", description });
        expect(text).toMatch(/^Bearer error="invalid_token", error_description="[^"\\\r\n]*"$/u);
      }),
    );
  });
});

describe("the metadata of a resource", () => {
  it("name it, its issuers and its scopes, and that tokens go in the header", () => {
    const facts = {
      resource: "https://x/mcp",
      authorizationServers: ["https://y"],
      scopes: ["a"],
      name: "files",
    };
    expect(protectedResourceMetadata(facts)).toEqual({
      resource: "https://x/mcp",
      authorization_servers: ["https://y"],
      scopes_supported: ["a"],
      bearer_methods_supported: ["header"],
      resource_name: "files",
    });
    expect(protectedResourceMetadata({ ...facts, scopes: [] })).not.toHaveProperty("scopes_supported");
  });

  it("are between the host and the path of the resource", () => {
    expect(metadataUrlOf("https://x:8443/gate/files/mcp")).toBe(
      "https://x:8443/.well-known/oauth-protected-resource/gate/files/mcp",
    );
    expect(metadataUrlOf("https://x")).toBe("https://x/.well-known/oauth-protected-resource");
  });
});

describe("a step-up", () => {
  it("is an error that names the scopes", () => {
    expect(insufficientScope(["a", "b"])).toMatchObject({
      code: "insufficient_scope",
      details: { scopes: ["a", "b"] },
    });
  });
});
