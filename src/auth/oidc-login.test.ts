import { generateKeyPair, SignJWT } from "jose";
import { expect, it } from "vitest";

import { createOidcLogin } from "./oidc-login.ts";

const url = "https://login.example.com";
const endpoints = {
  authorization_endpoint: `${url}/auth`,
  token_endpoint: `${url}/token`,
  userinfo_endpoint: `${url}/me`,
};

/** The claims of somebody of whom the ID token and the userinfo endpoint say this. */
async function claimsFrom(inToken: object, fromUserInfo: object) {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  let nonce = "";
  const login = createOidcLogin({
    issuer: { url, metadata: async () => ({ document: endpoints, jwksUri: undefined }) } as never,
    keys: { find: async () => publicKey } as never,
    clientId: "console",
    client: { headers: {}, fields: [] },
    scopes: [],
    isEnough: () => false,
    clock: { wall: () => 1_000_000 },
    ask: async ({ url: asked }) => {
      if (asked === endpoints.userinfo_endpoint) return answerOf({ sub: "1", ...fromUserInfo });
      const token = new SignJWT({ nonce, sub: "1", ...inToken }).setProtectedHeader({ alg: "ES256" });
      const signed = token.setIssuer(url).setAudience("console").setIssuedAt(1000).setExpirationTime(2000);
      return answerOf({ id_token: await signed.sign(privateKey), access_token: "t" });
    },
  });
  const { flow } = await login.begin("https://gate.example/callback");
  ({ nonce } = flow);
  const answer = new URLSearchParams({ state: flow.state, code: "c" });
  return login.finish(answer, flow, "https://gate.example/callback");
}

function answerOf(json: object) {
  return { status: 200, json } as never;
}

it.each([
  ["of both", { email: "root@x" }, { email: "ann@x", email_verified: true }, { email: "ann@x", email_verified: true }],
  [
    "of the token",
    { email: "ann@x", email_verified: true },
    { email: "b@x" },
    { email: "ann@x", email_verified: true },
  ],
  ["of neither", { email: "root@x" }, { email: "ann@x" }, { email: "root@x", email_verified: undefined }],
  ["of somebody else", { email: "root@x" }, { sub: "2", email_verified: true }, { email_verified: undefined }],
])(
  "an address counts as verified only where its source says so: %s",
  async (_whose, inToken, fromUserInfo, expected) => {
    expect(await claimsFrom(inToken, fromUserInfo)).toMatchObject(expected);
  },
);
