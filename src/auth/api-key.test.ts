import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createApiKeys, formatApiKey, hashApiKey, isApiKeyHash } from "./api-key.ts";

const keyOf = (byte: number): string => formatApiKey(new Uint8Array(32).fill(byte));
const [ci, old, stranger] = [keyOf(1), keyOf(2), keyOf(3)];

function keysIn(header?: string) {
  return createApiKeys({
    name: "robots",
    header,
    keys: {
      ci: { hash: hashApiKey(ci), scopes: ["admin"], labels: { team: "build" } },
      old: { hash: hashApiKey(old), scopes: [], labels: {}, expiresAt: 1000 },
    },
    impliedScopes: { admin: ["read"] },
    wall: () => 1000,
  });
}

describe("an API key", () => {
  it("lets its owner in with its scopes and labels", () => {
    const outcome = keysIn().authenticate({ header: () => `Bearer ${ci}` });
    expect(outcome).toMatchObject({
      ok: true,
      principal: { id: "key:robots/ci", kind: "key", claims: { sub: "ci", team: "build" } },
    });
    expect("principal" in outcome && outcome.principal.scopes).toEqual(new Set(["admin", "read"]));
  });

  it("may stand in a header of its own, and then in no other", () => {
    const keys = keysIn("x-api-key");
    expect(keys.authenticate({ header: (name) => (name === "x-api-key" ? ci : undefined) })).toMatchObject({
      ok: true,
    });
    expect(
      keys.authenticate({ header: (name) => (name === "authorization" ? `Bearer ${ci}` : undefined) }),
    ).toMatchObject({ failure: { error: "missing" } });
    expect(keys.authenticate({ header: () => "something" })).toMatchObject({
      failure: { error: "invalid_token" },
    });
  });

  it("that nobody has, or that has expired, is refused", () => {
    const keys = keysIn();
    expect(keys.authenticate({ header: () => `Bearer ${stranger}` })).toMatchObject({
      failure: { error: "invalid_token", description: "the key is not valid" },
    });
    expect(keys.authenticate({ header: () => `Bearer ${old}` })).toMatchObject({
      failure: { error: "invalid_token", description: "the key has expired" },
    });
  });

  it("is told from tokens of other kinds, which may be for somebody else", () => {
    expect(keysIn().authenticate({ header: () => "Bearer ey.ey.x" })).toMatchObject({
      failure: { isForeign: true },
    });
    expect(keysIn().authenticate({ header: () => "Bearer" })).toMatchObject({
      failure: { error: "invalid_request" },
    });
  });

  it("is let in by no key but itself", () => {
    const keys = keysIn("x-api-key");
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (text) => {
        expect(keys.authenticate({ header: () => text }).valueOf()).toMatchObject({ ok: text === ci });
      }),
    );
  });

  it("is kept as a hash that tells nothing of it", () => {
    expect(isApiKeyHash(hashApiKey(ci))).toBe(true);
    expect(hashApiKey(ci)).not.toContain(ci.slice(5, 20));
    for (const text of [ci, "sha256:", "md5:abc", hashApiKey(ci).slice(0, -1)]) expect(isApiKeyHash(text)).toBe(false);
  });
});
