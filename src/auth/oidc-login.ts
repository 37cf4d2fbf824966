import { hash, randomBytes } from "node:crypto";

import { GatewayError } from "../errors.ts";
import { jose } from "../lib/lazy-modules.ts";
import type { Clock } from "../lib/clock.ts";
import { asObject } from "../lib/is-object.ts";
import { signatureAlgorithms } from "./config.ts";
import type { HttpClient } from "./http-client.ts";
import { type Issuer, issuerEndpoint } from "./issuer.ts";
import type { KeySet } from "./key-set.ts";
import type { ClientAuthentication } from "./token-source.ts";

/** The state of a login until the browser comes back. */
export interface LoginFlow {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** What an issuer says about a person. */
export type Claims = Readonly<Record<string, unknown>>;

export interface OidcLoginOptions {
  readonly issuer: Issuer;
  readonly keys: KeySet;
  readonly clientId: string;
  readonly client: ClientAuthentication;
  readonly scopes: readonly string[];
  /** Whether the claims of the ID token are enough; otherwise those of the userinfo endpoint are added. */
  readonly isEnough: (claims: Claims) => boolean;
  readonly ask: HttpClient;
  readonly clock: Pick<Clock, "wall">;
}

const clockSkewSeconds = 30;

/** Creates the login at one issuer. */
export function createOidcLogin(options: OidcLoginOptions) {
  const { issuer, clientId, scopes } = options;
  return {
    /** Where to send the browser. */
    begin: async (redirectUri: string): Promise<{ readonly url: string; readonly flow: LoginFlow }> => {
      const { document } = await issuer.metadata();
      const flow = { state: randomText(), nonce: randomText(), verifier: randomText() };
      const url = new URL(endpointOf(document, "authorization_endpoint", issuer.url));
      const parameters = {
        response_type: "code",
        client_id: clientId,
        redirect_uri: redirectUri,
        scope: [...new Set(["openid", ...scopes])].join(" "),
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: hash("sha256", flow.verifier, "base64url"),
        code_challenge_method: "S256",
      };
      for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
      return { url: url.href, flow };
    },
    /** The claims of the person who signed in. Rejects with `unauthenticated` if the login failed. */
    finish: async (answer: URLSearchParams, flow: LoginFlow, redirectUri: string): Promise<Claims> => {
      const { document } = await issuer.metadata();
      const code = codeOf(answer, flow, document, issuer.url);
      const tokens = await redeem(code, flow, redirectUri, document, options);
      const claims = await verifyIdToken(tokens.idToken, flow, options);
      if (options.isEnough(claims)) return claims;
      const more = await userInfo(tokens.accessToken, claims, document, options);
      // `email_verified` is about the address beside it, so both are taken from the same claims.
      const { email, email_verified } = more["email_verified"] === undefined ? claims : more;
      return { ...more, ...claims, email, email_verified };
    },
  };
}

/** The code of an answer that belongs to this login and comes from this issuer. */
function codeOf(answer: URLSearchParams, { state }: LoginFlow, document: Claims, issuer: string): string {
  if (answer.get("state") !== state) throw refused("the answer belongs to another login");
  // RFC 9207: an answer of another issuer must not be used (mix-up attack).
  const from = answer.get("iss");
  const mustName = document["authorization_response_iss_parameter_supported"] === true;
  if (from === null ? mustName : from !== issuer) throw refused("the answer comes from another issuer");
  const error = answer.get("error");
  if (error !== null) throw refused(`the issuer answered ${error.slice(0, 100)}`);
  const code = answer.get("code");
  if (code === null || code === "") throw refused("the answer has no code");
  return code;
}

async function redeem(
  code: string,
  { verifier }: LoginFlow,
  redirectUri: string,
  document: Claims,
  { issuer, client, ask }: OidcLoginOptions,
): Promise<{ readonly idToken: string; readonly accessToken: string | undefined }> {
  const { status, json } = await ask({
    url: endpointOf(document, "token_endpoint", issuer.url),
    headers: client.headers,
    form: [
      ["grant_type", "authorization_code"],
      ["code", code],
      ["redirect_uri", redirectUri],
      ["code_verifier", verifier],
      ...client.fields,
    ],
  });
  const { id_token: idToken, access_token: accessToken, error } = asObject(json) ?? {};
  if (status === 200 && typeof idToken === "string")
    return { idToken, accessToken: typeof accessToken === "string" ? accessToken : undefined };
  throw refused(`the issuer gave no ID token (${status}, ${typeof error === "string" ? error : "no error"})`);
}

/** OpenID Connect Core 3.1.3.7. */
async function verifyIdToken(token: string, { nonce }: LoginFlow, options: OidcLoginOptions): Promise<Claims> {
  const { keys, issuer, clientId, clock } = options;
  try {
    const { payload } = await jose().jwtVerify(token, keys.find, {
      issuer: issuer.url,
      audience: clientId,
      algorithms: [...signatureAlgorithms],
      clockTolerance: clockSkewSeconds,
      currentDate: new Date(clock.wall()),
      requiredClaims: ["sub", "exp", "iat"],
    });
    if (payload["nonce"] !== nonce) throw refused("the ID token belongs to another login");
    const isForSeveral = Array.isArray(payload.aud) && payload.aud.length > 1;
    if ((isForSeveral || payload["azp"] !== undefined) && payload["azp"] !== clientId)
      throw refused("the ID token was issued to another client");
    return payload;
  } catch (error) {
    if (error instanceof jose().errors.JOSEError) throw refused(`the ID token is not valid: ${error.code}`, error);
    throw error;
  }
}

/** Many providers keep claims such as groups out of the ID token (OpenID Connect Core 5.3). */
async function userInfo(
  accessToken: string | undefined,
  { sub }: Claims,
  document: Claims,
  { ask, issuer }: OidcLoginOptions,
): Promise<Claims> {
  const url = issuerEndpoint(document, "userinfo_endpoint", issuer.url);
  if (accessToken === undefined || url === undefined) return {};
  const { status, json } = await ask({ url, headers: { authorization: `Bearer ${accessToken}` } });
  const claims = status === 200 ? asObject(json) : undefined;
  // Core 5.3.2: without this check an attacker could substitute the claims of another person.
  return claims !== undefined && claims["sub"] === sub ? claims : {};
}

function endpointOf(document: Claims, name: string, issuer: string): string {
  const url = issuerEndpoint(document, name, issuer);
  if (url !== undefined) return url;
  throw new GatewayError("upstream_invalid", `the metadata of ${issuer} has no usable ${name}`);
}

function randomText(): string {
  return randomBytes(32).toString("base64url");
}

function refused(message: string, cause?: unknown): GatewayError {
  return new GatewayError("unauthenticated", message, cause === undefined ? {} : { cause });
}
