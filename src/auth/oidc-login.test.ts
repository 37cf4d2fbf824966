import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { beforeAll, describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import type { HttpClientRequest } from "./http-client.ts";
import { createIssuer } from "./issuer.ts";
import { createKeySet } from "./key-set.ts";
import { type Claims, createOidcLogin, type LoginFlow } from "./oidc-login.ts";

const url = "https://login.example.com";
const redirectUri = "https://gate.example.com/console/callback";
const { clock } = createFakeTime();
const now = Math.floor(clock.wall() / 1000);
const metadata = {
  issuer: url,
  authorization_endpoint: `${url}/auth?tenant=1`,
  token_endpoint: `${url}/token`,
  jwks_uri: `${url}/keys`,
  userinfo_endpoint: `${url}/me`,
};

let keys: Awaited<ReturnType<typeof generateKeyPair>>;
let other: typeof keys;

beforeAll(async () => {
  [keys, other] = await Promise.all([generateKeyPair("ES256"), generateKeyPair("ES256")]);
});

interface Provider {
  readonly document?: Claims;
  readonly tokenStatus?: number;
  readonly idToken?: (flow: LoginFlow) => Promise<string> | string;
  readonly userInfo?: Claims;
}

/** Signs in at a provider that answers as told. */
async function login({ document = metadata, tokenStatus = 200, idToken = good, userInfo }: Provider = {}) {
  const asked: HttpClientRequest[] = [];
  let flow: LoginFlow | undefined;
  const ask = async (request: HttpClientRequest) => {
    asked.push(request);
    const answer = async (): Promise<readonly [number, unknown]> => {
      if (request.url.includes("/.well-known/")) return [200, document];
      if (request.url.endsWith("/keys"))
        return [200, { keys: [{ ...(await exportJWK(keys.publicKey)), alg: "ES256" }] }];
      if (request.url.endsWith("/me")) return [userInfo === undefined ? 401 : 200, userInfo];
      if (flow === undefined) throw new Error("asked for a token too early");
      return [tokenStatus, { id_token: await idToken(flow), access_token: "access", error: "invalid_grant" }];
    };
    const [status, json] = await answer();
    return { status, json, header: () => undefined };
  };
  const issuer = createIssuer(url, ask, clock);
  const made = createOidcLogin({
    issuer,
    keys: createKeySet({ locate: async () => metadata.jwks_uri, ask, clock }),
    clientId: "console",
    client: { headers: { authorization: "Basic c2VjcmV0" }, fields: [] },
    scopes: ["profile"],
    isEnough: ({ groups }) => groups !== undefined,
    ask,
    clock,
  });
  const begun = await made.begin(redirectUri);
  ({ flow } = begun);
  const finish = (answer: Readonly<Record<string, string>> = {}) =>
    made.finish(new URLSearchParams({ code: "c", state: begun.flow.state, ...answer }), begun.flow, redirectUri);
  return { ...begun, finish, asked };
}

const claims = { sub: "ann", iss: url, aud: "console", iat: now, exp: now + 60, groups: ["staff"] };
const signed =
  (more: Claims, by: () => typeof keys = () => keys) =>
  (flow: LoginFlow) =>
    new SignJWT({ ...claims, nonce: flow.nonce, ...more }).setProtectedHeader({ alg: "ES256" }).sign(by().privateKey);
const good = (flow: LoginFlow) => signed({})(flow);

describe("a login by OpenID Connect", () => {
  it("sends the browser away with PKCE, state and nonce, and takes the claims of the ID token", async () => {
    const { url: to, flow, finish, asked } = await login();
    const { origin, pathname, searchParams } = new URL(to);
    expect(origin + pathname).toBe(`${url}/auth`);
    expect(Object.fromEntries(searchParams)).toMatchObject({
      tenant: "1",
      response_type: "code",
      client_id: "console",
      redirect_uri: redirectUri,
      scope: "openid profile",
      state: flow.state,
      nonce: flow.nonce,
      code_challenge: expect.stringMatching(/^[\w-]{43}$/u) as string,
      code_challenge_method: "S256",
    });
    expect(searchParams.get("code_challenge")).not.toBe(flow.verifier);
    expect(await finish()).toMatchObject({ sub: "ann", groups: ["staff"] });
    const { form, headers } = asked.find((request) => request.url.endsWith("/token")) ?? {};
    expect(headers).toMatchObject({ authorization: "Basic c2VjcmV0" });
    expect(Object.fromEntries(form ?? [])).toEqual({
      grant_type: "authorization_code",
      code: "c",
      redirect_uri: redirectUri,
      code_verifier: flow.verifier,
    });
  });

  it("asks the userinfo endpoint for what the ID token lacks, and believes it about this person only", async () => {
    const bare = { idToken: signed({ groups: undefined }) };
    const found = await login({ ...bare, userInfo: { sub: "ann", groups: ["security"], iss: "x" } });
    expect(await found.finish()).toMatchObject({ groups: ["security"], iss: url });
    for (const userInfo of [{ sub: "bob", groups: ["security"] }, { groups: ["security"] }, undefined]) {
      const { finish } = await login({ ...bare, ...(userInfo === undefined ? {} : { userInfo }) });
      expect(await finish()).not.toHaveProperty("groups");
    }
  });

  it.each<readonly [string, Provider]>([
    ["of another login", { idToken: signed({ nonce: "x" }) }],
    ["without a nonce", { idToken: signed({ nonce: undefined }) }],
    ["of another issuer", { idToken: signed({ iss: "https://other.example" }) }],
    ["for another client", { idToken: signed({ aud: "other" }) }],
    ["issued to another client", { idToken: signed({ azp: "other" }) }],
    ["for several clients, issued to nobody", { idToken: signed({ aud: ["console", "other"] }) }],
    ["that has expired", { idToken: signed({ exp: now - 60 }) }],
    ["without an end", { idToken: signed({ exp: undefined }) }],
    ["of nobody", { idToken: signed({ sub: undefined }) }],
    ["signed by somebody else", { idToken: signed({}, () => other) }],
    [
      "without a signature",
      { idToken: ({ nonce }) => `${encoded({ alg: "none" })}.${encoded({ ...claims, nonce })}.` },
    ],
    [
      "signed with a shared secret",
      {
        idToken: ({ nonce }) =>
          new SignJWT({ ...claims, nonce }).setProtectedHeader({ alg: "HS256" }).sign(Buffer.alloc(32)),
      },
    ],
    ["that is none", { idToken: () => "x.y.z" }],
    ["that was not given", { tokenStatus: 400 }],
  ])("refuses an ID token %s", async (_what, provider) => {
    const { finish } = await login(provider);
    await expect(finish()).rejects.toMatchObject({ code: "unauthenticated" });
  });

  it.each([
    [{ state: "x" }, metadata],
    [{ iss: "https://other.example" }, metadata],
    [{}, { ...metadata, authorization_response_iss_parameter_supported: true }],
    [{ error: "access_denied" }, metadata],
    [{ code: "" }, metadata],
  ])("refuses the answer %j before it asks for a token", async (answer, document) => {
    const { finish, asked } = await login({ document });
    await expect(finish(answer as Readonly<Record<string, string>>)).rejects.toMatchObject({ code: "unauthenticated" });
    expect(asked.some((request) => request.url.endsWith("/token"))).toBe(false);
  });

  it("uses no endpoint that others could listen to", async () => {
    const document = { ...metadata, authorization_endpoint: "http://login.example.com/auth" };
    await expect(login({ document })).rejects.toMatchObject({ code: "upstream_invalid" });
  });
});

function encoded(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}
