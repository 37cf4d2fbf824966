import { describe, expect, it } from "vitest";

import { createFakeKit } from "../../../test/support/fake-kit.ts";
import { createFakeTime } from "../../../test/support/fake-time.ts";
import { ask, openKitClient } from "../../../test/support/kit-client.ts";
import { createKeyring, fakeAsk, type TokenFacts } from "../../../test/support/tokens.ts";
import { formatApiKey, hashApiKey } from "../../auth/api-key.ts";
import { apiKeyVerifier, createIntrospectionVerifier, createJwtVerifier } from "./token-verifiers.ts";

const issuer = "https://login.example.com";
const audience = "http://127.0.0.1:5110/mcp";
const metadataUrl = `${issuer}/.well-known/oauth-authorization-server`;

async function jwtKit() {
  const { clock } = createFakeTime();
  const keyring = await createKeyring(issuer, clock.wall);
  const server = fakeAsk({
    [metadataUrl]: () => ({ json: { issuer, jwks_uri: `${issuer}/keys` } }),
    [`${issuer}/keys`]: () => ({ json: keyring.published() }),
  });
  const kit = createFakeKit({
    settings: { requireAuthentication: true },
    authenticator: createJwtVerifier({ issuer }, { clock, client: server.ask }),
    clock,
  });
  const status = async (facts: TokenFacts) => {
    const token = await keyring.token({ subject: "ann", audience, ...facts });
    return (await ask(kit.edge, "/mcp/capabilities", { headers: { authorization: `Bearer ${token}` } })).status;
  };
  return { ...kit, keyring, status };
}

describe("a kit that verifies JSON Web Tokens", () => {
  it("[KO-094] [KO-107] lets in who has one of its issuer, for its own address, that still holds", async () => {
    const { status } = await jwtKit();
    expect(await status({})).toBe(200);
    expect(await status({ audience: "http://127.0.0.1:5110/other" })).toBe(401);
    expect(await status({ expiresIn: -3600 })).toBe(401);
    const stranger = await createKeyring(issuer);
    const { edge } = await jwtKit();
    const forged = await stranger.token({ subject: "ann", audience });
    expect((await ask(edge, "/mcp/sse", { headers: { authorization: `Bearer ${forged}` } })).status).toBe(401);
  });

  it("[KO-107] takes no token for a server that the caller only pretends to call", async () => {
    const { edge, core, keyring } = await jwtKit();
    const token = await keyring.token({ subject: "ann", audience: "http://other.example/mcp" });
    const headers = { authorization: `Bearer ${token}`, host: "other.example" };
    const peer = { address: "192.0.2.7", localAddress: "192.0.2.1" };
    expect((await ask(edge, "/mcp/capabilities", { headers, peer })).status).toBe(401);
    core.reload({ publicUrl: "http://other.example" });
    expect((await ask(edge, "/mcp/capabilities", { headers, peer })).status).toBe(200);
  });

  it.each([
    ["scope as text", { scope: "fake:secret other" }],
    ["scp as text", { claims: { scp: "fake:secret other" } }],
    ["scp as a list", { claims: { scp: ["fake:secret", "other"] } }],
  ])("[KO-105] reads scopes from %s", async (_title, facts) => {
    const { edge, keyring } = await jwtKit();
    const token = await keyring.token({ subject: "ann", audience, ...facts });
    const headers = { authorization: `Bearer ${token}` };
    const body = (await (await ask(edge, "/mcp/capabilities", { headers })).json()) as {
      tools: { name: string }[];
    };
    expect(body.tools.map(({ name }) => name)).toContain("Fake_Secret");
    const client = await openKitClient(edge, { headers });
    expect((await client.post({ jsonrpc: "2.0", id: 1, method: "ping" })).status).toBe(202);
  });
});

describe("a kit that introspects tokens", () => {
  it("[KO-094] asks the authorization server, and says 503 while that cannot answer", async () => {
    const time = createFakeTime();
    let isUp = true;
    const server = fakeAsk({
      [metadataUrl]: () => ({ json: { issuer, introspection_endpoint: `${issuer}/introspect` } }),
      [`${issuer}/introspect`]: ({ form = [] }) => {
        if (!isUp) throw new Error("down");
        const isGood = form.some(([name, value]) => name === "token" && value === "good");
        const exp = time.clock.wall() / 1000 + 3600;
        return {
          json: isGood ? { active: true, sub: "ann", aud: audience, exp, scope: "a b" } : { active: false },
        };
      },
    });
    const { edge } = createFakeKit({
      settings: { requireAuthentication: true },
      authenticator: createIntrospectionVerifier(
        { issuer, clientId: "kit", clientSecret: "secret" },
        { clock: time.clock, client: server.ask },
      ),
    });
    const status = async (token: string) =>
      (await ask(edge, "/mcp/capabilities", { headers: { authorization: `Bearer ${token}` } })).status;
    expect(await status("good")).toBe(200);
    expect(await status("bad")).toBe(401);
    isUp = false;
    expect(await status("unknown")).toBe(503);
  });
});

describe("apiKeyVerifier", () => {
  const key = formatApiKey(new Uint8Array(32).fill(7));
  const credentials = (headers: Record<string, string>) => ({ header: (name: string) => headers[name] });

  it("accepts a key by its hash, with scopes and labels", async () => {
    const verifier = apiKeyVerifier({
      keys: { ci: { hash: hashApiKey(key), scopes: ["notes"], labels: { team: "a" } } },
    });
    expect(await verifier.authenticate(credentials({ authorization: `Bearer ${key}` }))).toMatchObject({
      ok: true,
      principal: { id: "key:kit/ci", claims: { sub: "ci", team: "a" }, scopes: new Set(["notes"]) },
    });
    expect(await verifier.authenticate(credentials({ authorization: `Bearer ${key}x` }))).toMatchObject({ ok: false });
  });

  it("reads another header, and refuses expired keys", async () => {
    const expiresAt = new Date(0);
    const verifier = apiKeyVerifier({ keys: { old: { hash: hashApiKey(key), expiresAt } }, header: "X-Api-Key" });
    expect(await verifier.authenticate(credentials({ "x-api-key": key }))).toMatchObject({ ok: false });
  });

  it("refuses a key in place of its hash", () => {
    expect(() => apiKeyVerifier({ keys: { ci: { hash: key } } })).toThrow("the hash of ci is not sha256:");
  });
});
