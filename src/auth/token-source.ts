import { GatewayError } from "../errors.ts";
import type { Clock } from "../lib/clock.ts";
import type { MaybePromise } from "../lib/is-promise.ts";
import { asObject } from "../lib/is-object.ts";
import type { HttpClient, HttpClientRequest } from "./http-client.ts";

export interface IssuedToken {
  readonly accessToken: string;
  readonly lifetimeMs: number;
}

/** A token that is obtained on demand and renewed before it expires. */
export type TokenSource = ReturnType<typeof createTokenSource>;

/** Share of a token's lifetime after which it is renewed. */
const renewAfter = 0.8;
/** How long a failure is reported again without asking the authorization server. */
const failureMs = 1000;
/** A rejected token younger than this is not renewed: its successor would be rejected too. */
const brandNewMs = 5000;

interface Current {
  readonly token: string;
  readonly issuedAt: number;
  readonly renewAt: number;
  readonly expiresAt: number;
}

/** Creates a source of one token; concurrent callers share one request. */
export function createTokenSource(obtain: () => Promise<IssuedToken>, clock: Pick<Clock, "now">) {
  let current: Current | undefined;
  let obtaining: Promise<string> | undefined;
  let failure: { readonly error: GatewayError; readonly at: number } | undefined;

  function renew(): Promise<string> {
    obtaining ??= obtain()
      .then(({ accessToken, lifetimeMs }) => {
        const issuedAt = clock.now();
        current = {
          token: accessToken,
          issuedAt,
          renewAt: issuedAt + lifetimeMs * renewAfter,
          expiresAt: issuedAt + lifetimeMs,
        };
        failure = undefined;
        return accessToken;
      })
      .catch((error: unknown) => {
        failure = { error: GatewayError.from(error), at: clock.now() };
        throw failure.error;
      })
      .finally(() => {
        obtaining = undefined;
      });
    return obtaining;
  }

  const hasJustFailed = (): boolean => failure !== undefined && clock.now() - failure.at < failureMs;

  return {
    /** The current token, or a promise of a new one. Rejects with a GatewayError if none can be obtained. */
    get: (): MaybePromise<string> => {
      const now = clock.now();
      if (current !== undefined && now < current.expiresAt) {
        // The old token is still valid; the next caller retries a failed renewal.
        if (now >= current.renewAt && !hasJustFailed()) renew().catch(ignore);
        return current.token;
      }
      if (failure !== undefined && hasJustFailed()) return Promise.reject(failure.error);
      return renew();
    },
    /** The upstream rejected this token. Returns whether a new one may help: not if this one is brand-new. */
    invalidate: (token: string): boolean => {
      if (current === undefined || current.token !== token) return true;
      if (clock.now() - current.issuedAt < brandNewMs) return false;
      current = undefined;
      return true;
    },
  };
}

/** The next caller tries again, and gets the error if that fails too. */
function ignore(): void {}

/** Where and as which client the gateway requests tokens. */
export interface TokenEndpoint {
  readonly locate: () => Promise<string>;
  readonly client: ClientAuthentication;
  readonly ask: HttpClient;
}

/** Used if the server sends no lifetime (RFC 6749 section 5.1). */
const assumedLifetimeMs = 5 * 60_000;

/** Requests a token (RFC 6749 section 4). The server's error goes to the log, never to a caller. */
export async function requestToken(
  { locate, client, ask }: TokenEndpoint,
  grant: NonNullable<HttpClientRequest["form"]>,
): Promise<IssuedToken> {
  const url = await locate();
  const { status, json } = await ask({ url, headers: client.headers, form: [...grant, ...client.fields] });
  const { access_token: accessToken, token_type: type, expires_in: seconds, error } = asObject(json) ?? {};
  if (status !== 200 || typeof accessToken !== "string" || accessToken === "") {
    throw noToken(`${url} answered ${status}: ${typeof error === "string" ? error : "no token"}`);
  }
  // RFC 6749 section 7.1: a token of an unknown type must not be used.
  if (typeof type === "string" && !/^(?:bearer|n_a)$/iu.test(type))
    throw noToken(`${url} issued a token of type ${type}`);
  const lifetime = Number(seconds);
  return { accessToken, lifetimeMs: lifetime > 0 ? lifetime * 1000 : assumedLifetimeMs };
}

function noToken(reason: string): GatewayError {
  const text = "the gateway could not obtain credentials for the upstream";
  return new GatewayError("upstream_unreachable", text, { cause: new Error(reason) });
}

/** How the gateway authenticates to an authorization server (RFC 6749 section 2.3). */
export interface ClientAuthentication {
  readonly headers: Readonly<Record<string, string>>;
  readonly fields: NonNullable<HttpClientRequest["form"]>;
}

/** The gateway as a registered OAuth client. */
export interface ClientIdentity {
  readonly clientId: string;
  readonly clientSecret?: string | undefined;
  /** Whether the secret is sent in the Authorization header or in the form. */
  readonly method: "basic" | "post";
}

/** Without a secret, only the client id is sent. */
export function createClientAuthentication(identity: ClientIdentity): ClientAuthentication {
  const { clientId, clientSecret, method } = identity;
  if (clientSecret === undefined) return { headers: {}, fields: [["client_id", clientId]] };
  if (method === "post") {
    return {
      headers: {},
      fields: [
        ["client_id", clientId],
        ["client_secret", clientSecret],
      ],
    };
  }
  // RFC 6749 section 2.3.1: both are form-encoded before they are joined.
  const pair = `${formEncoded(clientId)}:${formEncoded(clientSecret)}`;
  return { headers: { authorization: `Basic ${Buffer.from(pair).toString("base64")}` }, fields: [] };
}

function formEncoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}
