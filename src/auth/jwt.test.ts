import {
  type CryptoKey,
  exportJWK,
  exportSPKI,
  generateKeyPair,
  generateSecret,
  type JWTHeaderParameters,
  SignJWT,
  UnsecuredJWT,
} from "jose";
import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { bearer, createKeyring, fakeAsk, type TokenFacts } from "../../test/support/tokens.ts";
import type { Principal } from "../core/exchange.ts";
import type { Authentication, Credentials } from "./authenticator.ts";
import { createJwtAuthenticator, type JwtOptions } from "./jwt.ts";
import { createKeySet } from "./key-set.ts";

const issuer = "https://login.example";
const place = "https://gate.example/files/mcp";

async function setUp(changes: Partial<JwtOptions> = {}) {
  const time = createFakeTime();
  const keyring = await createKeyring(issuer, time.clock.wall);
  const state = { isDown: false };
  const { ask, asked } = fakeAsk({
    [`${issuer}/jwks`]: () => (state.isDown ? { status: 503 } : { json: keyring.published() }),
  });
  const keys = createKeySet({ locate: async () => `${issuer}/jwks`, ask, clock: time.clock });
  const kept: [Principal, string][] = [];
  const authenticator = createJwtAuthenticator({
    issuer,
    keys,
    audience: undefined,
    algorithms: ["ES256", "RS256"],
    types: ["at+jwt", "jwt"],
    subjectClaim: "sub",
    allowClients: false,
    scopeClaim: "scope",
    impliedScopes: { admin: ["read"] },
    clockSkewMs: 30_000,
    clock: time.clock,
    maxCached: 10,
    onToken: (principal, token) => kept.push([principal, token]),
    ...changes,
  });
  const show = (token: string, extra: Partial<Credentials> = {}) =>
    authenticator.authenticate({ header: headersOf(bearer(token)), audience: [place], ...extra });
  return {
    time,
    keyring,
    state,
    kept,
    authenticator,
    show,
    fetches: () => asked(`${issuer}/jwks`),
    tokenOf: (facts: TokenFacts = {}) => keyring.token({ audience: place, ...facts }),
  };
}

function headersOf(headers: Readonly<Record<string, string>>) {
  return (name: string): string | undefined => headers[name];
}

const invalid = (description: string): Authentication =>
  ({ ok: false, failure: { error: "invalid_token", description } }) as const;

describe("a token of the trusted issuer", () => {
  it("makes a principal of its subject, scopes with all that they imply, and claims", async () => {
    const { show, tokenOf, kept } = await setUp();
    const token = await tokenOf({ subject: "alice", scope: "admin write", claims: { team: "red" } });
    const outcome = await show(token);
    expect(outcome).toMatchObject({
      ok: true,
      principal: { id: `${issuer}#alice`, kind: "token", claims: { team: "red" } },
    });
    if (!outcome.ok) return;
    expect(outcome.principal.scopes).toEqual(new Set(["admin", "read", "write"]));
    expect(kept).toEqual([[outcome.principal, token]]);
    expect(JSON.stringify(outcome.principal)).not.toContain(token);
  });

  it("is verified once, then known without a promise until it expires", async () => {
    const { show, tokenOf, time, kept } = await setUp();
    const token = await tokenOf({ expiresIn: 60 });
    const first = await show(token);
    const second = show(token);
    expect(second).not.toBeInstanceOf(Promise);
    expect(second).toEqual(first);
    expect(kept).toHaveLength(1);
    // The skew counts in its favour, and not a moment longer.
    await time.advance(89_999);
    expect(show(token)).toMatchObject({ ok: true });
    await time.advance(1);
    expect(await show(token)).toMatchObject(invalid("the token has expired"));
  });

  it("is verified once however many show it at the same time", async () => {
    const { show, tokenOf, kept } = await setUp();
    const token = await tokenOf();
    const outcomes = await Promise.all([show(token), show(token), show(token)]);
    expect(outcomes.every(({ ok }) => ok)).toBe(true);
    expect(kept).toHaveLength(1);
  });

  it("is forgotten when too many others come, and works all the same", async () => {
    const { show, tokenOf, kept } = await setUp({ maxCached: 1 });
    const [one, two] = [await tokenOf({ subject: "one" }), await tokenOf({ subject: "two" })];
    await show(one);
    await show(two);
    expect(await show(one)).toMatchObject({ ok: true });
    expect(kept).toHaveLength(3);
  });

  it("opens only the place that it was issued for, also when it is known", async () => {
    const { show, tokenOf } = await setUp();
    const token = await tokenOf({ audience: [place, "https://other.example"] });
    expect(await show(token)).toMatchObject({ ok: true });
    expect(show(token, { audience: ["https://gate.example/mail/mcp"] })).toMatchObject(
      invalid("the token was issued for another resource"),
    );
    expect(show(token, { audience: undefined })).toMatchObject({ ok: false });
    expect(show(token, { audience: ["https://other.example"] })).toMatchObject({ ok: true });
  });

  it("may name its audience with capitals and a slash at the end", async () => {
    const { show, tokenOf } = await setUp();
    expect(await show(await tokenOf({ audience: "HTTPS://Gate.Example/files/mcp/" }))).toMatchObject({
      ok: true,
    });
  });

  it("must name the configured audience, if there is one, at every endpoint", async () => {
    const { show, tokenOf } = await setUp({ audience: ["api://gate"] });
    expect(await show(await tokenOf())).toMatchObject({ ok: false });
    expect(await show(await tokenOf({ audience: "api://gate" }))).toMatchObject({ ok: true });
  });

  it.each<[string, TokenFacts]>([
    ["has expired", { expiresIn: -31 }],
    ["is not valid yet", { claims: { nbf: Date.UTC(2027, 0, 1) / 1000 } }],
    ["is an identity token by its type", { type: "id+jwt" }],
    ["has no type", { type: null }],
    ["is of an unknown key", { keyId: "nobody's" }],
    ["has no audience", { audience: [] }],
    ["is an identity token by its use", { type: "JWT", claims: { token_use: "id" } }],
    ["is an identity token by its claims", { type: "JWT", claims: { typ: "ID" } }],
    ["is a refresh token", { type: "JWT", claims: { typ: "Refresh" } }],
    ["is an offline token", { type: "JWT", claims: { typ: "Offline" } }],
    [
      "is a logout token",
      { type: "JWT", claims: { events: { "http://schemas.openid.net/event/backchannel-logout": {} } } },
    ],
    ["is bound to a key that is not shown (DPoP)", { claims: { cnf: { jkt: "abc" } } }],
    ["is bound to a certificate that is not shown", { claims: { cnf: { "x5t#S256": "abc" } } }],
  ])("is refused when it %s", async (_what, facts) => {
    const { show, tokenOf } = await setUp();
    expect(await show(await tokenOf(facts))).toMatchObject({
      ok: false,
      failure: { error: "invalid_token" },
    });
  });

  const end = 9_999_999_999;
  const base = `"iss":"${issuer}","aud":"${place}"`;
  it.each([
    ["nothing", '{"alg":"ES256","typ":"at+jwt","kid":"key-1"}', `{${base},"sub":"alice","exp":${end}}`, true],
    [
      "two subjects",
      '{"alg":"ES256","typ":"at+jwt","kid":"key-1"}',
      `{${base},"sub":"a","sub":"b","exp":${end}}`,
      false,
    ],
    [
      "two issuers",
      '{"alg":"ES256","typ":"at+jwt","kid":"key-1"}',
      `{"iss":"x",${base},"sub":"a","exp":${end}}`,
      false,
    ],
    [
      "two roles inside a claim",
      '{"alg":"ES256","typ":"at+jwt","kid":"key-1"}',
      `{${base},"sub":"a","act":{"role":"user","r\\u006fle":"root"},"exp":${end}}`,
      false,
    ],
    [
      "two types",
      '{"alg":"ES256","typ":"id+jwt","typ":"at+jwt","kid":"key-1"}',
      `{${base},"sub":"a","exp":${end}}`,
      false,
    ],
    ["two algorithms", '{"alg":"none","alg":"ES256","typ":"at+jwt"}', `{${base},"sub":"a","exp":${end}}`, false],
    [
      "an end that never comes",
      '{"alg":"ES256","typ":"at+jwt","kid":"key-1"}',
      `{${base},"sub":"a","exp":1e999}`,
      false,
    ],
  ])("is judged by one reading of what is signed: with %s", async (_what, header, claims, isTaken) => {
    const { show, keyring } = await setUp();
    expect(await show(await keyring.signed(header, claims))).toMatchObject({ ok: isTaken });
  });

  it("may be without a type where the configuration says so", async () => {
    const { show, tokenOf } = await setUp({ types: ["none"] });
    expect(await show(await tokenOf({ type: null }))).toMatchObject({ ok: true });
  });

  it("is refused when anything of it was changed", async () => {
    const { show, tokenOf } = await setUp();
    const [head = "", , signature = ""] = (await tokenOf()).split(".");
    const [, claims = ""] = (await tokenOf({ subject: "root" })).split(".");
    expect(await show(`${head}.${claims}.${signature}`)).toMatchObject(invalid("the token is not valid"));
  });

  it("is refused without a signature, or with one of a shared secret", async () => {
    const { show } = await setUp();
    const claims = { iss: issuer, sub: "alice", aud: place, exp: 9_999_999_999 };
    const secret = await generateSecret("HS256");
    const shared = await new SignJWT(claims).setProtectedHeader({ alg: "HS256", typ: "at+jwt" }).sign(secret);
    expect(await show(shared)).toMatchObject({ ok: false });
    expect(await show(new UnsecuredJWT(claims).encode())).toMatchObject({ ok: false });
  });

  it("names its subject in another claim where the configuration says so", async () => {
    const { show, tokenOf } = await setUp({ subjectClaim: "oid", scopeClaim: "scp" });
    const outcome = await show(await tokenOf({ claims: { oid: "0815", scp: ["a", "b"] } }));
    expect(outcome).toMatchObject({ ok: true, principal: { id: `${issuer}#0815` } });
    expect(await show(await tokenOf())).toMatchObject(invalid("the token names no subject"));
    // Two users of one client must not become one caller.
    expect(await show(await tokenOf({ claims: { client_id: "app" } }))).toMatchObject(
      invalid("the token names no subject"),
    );
  });

  it.each(["/../mcp", "/./", "/a/..", "/%6dcp", ":443/", "@evil.example/"])(
    "is for its audience exactly, not for what URL parsing makes of it: %s",
    async (spelling) => {
      const { show, tokenOf } = await setUp();
      const odd =
        spelling.startsWith(":") || spelling.startsWith("@")
          ? place.replace(new URL(place).host, new URL(place).host + spelling.slice(0, -1))
          : place + spelling;
      expect(await show(await tokenOf({ audience: odd }))).toMatchObject(
        invalid("the token was issued for another resource"),
      );
    },
  );

  it("may name its audience with a trailing slash and a host in capitals", async () => {
    const { show, tokenOf } = await setUp();
    const { host } = new URL(place);
    for (const aud of [`${place}/`, place.replace(host, host.toUpperCase())])
      expect(await show(await tokenOf({ audience: aud }))).toMatchObject({ ok: true });
  });
});

describe("credentials of another issuer", () => {
  it.each([{}, { authorization: "Basic YTpi" }, { "x-api-key": "k" }])("are passed over: %j", async (headers) => {
    const { authenticator } = await setUp();
    expect(authenticator.authenticate({ header: headersOf(headers) })).toMatchObject({
      failure: { error: "missing" },
    });
  });

  it("may be known to somebody else", async () => {
    const { show } = await setUp();
    const other = await createKeyring("https://elsewhere.example");
    for (const token of ["opaque", "a.b.c", await other.token({ audience: place })]) {
      expect(show(token)).toMatchObject({ ok: false, failure: { isForeign: true } });
    }
  });

  it.each(["Bearer", "Bearer a b", "bearer ä"])("are malformed where they are no token at all: %j", async (value) => {
    const { authenticator } = await setUp();
    expect(authenticator.authenticate({ header: headersOf({ authorization: value }) })).toMatchObject({
      failure: { error: "invalid_request" },
    });
  });
});

describe("the keys of the issuer", () => {
  it("are fetched again when a token has a new one", async () => {
    const { show, tokenOf, keyring, time, fetches } = await setUp();
    const old = await tokenOf();
    await show(old);
    await time.advance(30_000);
    await keyring.rotate({ keepsOld: true });
    expect(await show(await tokenOf({ subject: "bob" }))).toMatchObject({ ok: true });
    expect(fetches()).toBe(2);
    expect(show(old)).toMatchObject({ ok: true });
  });

  it("that were withdrawn take the tokens along that were known already", async () => {
    const { show, tokenOf, keyring, time } = await setUp();
    const old = await tokenOf({ expiresIn: 3600 });
    await show(old);
    await keyring.rotate();
    await time.advance(10 * 60_000);
    // The first to come has the keys fetched anew, without waiting.
    expect(show(old)).toMatchObject({ ok: true });
    await time.advance(0);
    expect(await show(old)).toMatchObject({ ok: false });
  });

  it("that are too old to be trusted leave the tokens unchecked that were known already, too", async () => {
    const { show, tokenOf, state, time } = await setUp();
    const old = await tokenOf({ expiresIn: 7200 });
    await show(old);
    state.isDown = true;
    await time.advance(59 * 60_000);
    expect(show(old)).toMatchObject({ ok: true });
    await time.advance(2 * 60_000);
    expect(await show(old)).toMatchObject({ ok: false, failure: { error: "unavailable" } });
    state.isDown = false;
    await time.advance(30_000);
    expect(await show(old)).toMatchObject({ ok: true });
  });

  it("are never those that a token brings along, or names a place for", async () => {
    const { keyring } = await setUp();
    const pair = await generateKeyPair("ES256", { extractable: true });
    const own = { ...(await exportJWK(pair.publicKey)), kid: "key-1", alg: "ES256" };
    const rsa = await generateKeyPair("RS256", { extractable: true });
    const pem = await exportSPKI(pair.publicKey);
    const claims = { sub: "alice", aud: place, iss: issuer, exp: 9_999_999_999 };
    const by = async (key: CryptoKey | Uint8Array, header: JWTHeaderParameters) =>
      new SignJWT(claims).setProtectedHeader({ typ: "at+jwt", kid: "key-1", ...header }).sign(key);
    const published = JSON.stringify(keyring.published().keys[0]);
    const forged = [
      await by(pair.privateKey, { alg: "ES256", jwk: own }),
      await by(pair.privateKey, { alg: "ES256", jku: "https://evil.example/jwks" }),
      await by(pair.privateKey, { alg: "ES256", x5u: "https://evil.example/cert" }),
      await by(pair.privateKey, { alg: "ES256", x5c: [pem.replaceAll(/-----[^-]+-----|\n/gu, "")] }),
      await by(rsa.privateKey, { alg: "RS256" }),
      await by((await generateKeyPair("PS256")).privateKey, { alg: "PS256" }),
      await by(Buffer.from(published), { alg: "HS256" }),
      await by(Buffer.from(pem), { alg: "HS256" }),
    ];
    for (const token of forged) {
      const { show, fetches } = await setUp();
      expect(await show(token)).toMatchObject({ ok: false, failure: { error: "invalid_token" } });
      expect(fetches()).toBeLessThanOrEqual(1);
    }
    for (const header of [
      '"crit":["exp"],"exp":1',
      '"crit":["b64"],"b64":false',
      '"crit":[]',
      '"crit":["x"],"x":1',
      '"alg":"none"',
      '"alg":"es256"',
    ]) {
      const { show, keyring: other } = await setUp();
      const whole = header.includes("alg") ? header : `"alg":"ES256",${header}`;
      const token = await other.signed(`{${whole},"typ":"at+jwt","kid":"key-1"}`, JSON.stringify(claims));
      expect([header, await show(token)]).toMatchObject([header, { ok: false, failure: { error: "invalid_token" } }]);
    }
  });

  it("that cannot be had leave tokens unchecked, not wrong", async () => {
    const { show, tokenOf, state } = await setUp();
    state.isDown = true;
    expect(await show(await tokenOf())).toMatchObject({ ok: false, failure: { error: "unavailable" } });
  });
});
