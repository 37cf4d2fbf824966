import { hash } from "node:crypto";

import { anonymous, type Principal } from "../core/exchange.ts";
import type { GatewayError } from "../errors.ts";
import { andThen, type MaybePromise } from "../lib/is-promise.ts";

/** What a caller sent to authenticate itself. */
export interface Credentials {
  /** The value of a header by lower-case name; repeated headers are joined by commas. */
  readonly header: (name: string) => string | undefined;
  /** The client's certificate in DER, if TLS verified one. */
  readonly certificate?: Uint8Array | undefined;
  /**
   * The resource identifiers of the route that is called (RFC 8707). The configured audiences of an authenticator replace
   * them; without either, every token is refused.
   */
  readonly audience?: readonly string[] | undefined;
  /**
   * Called before something is awaited for these credentials, such as the keys of an issuer. With an error, too many callers
   * wait already, and the authenticator rejects with it. Absent where nothing bounds them.
   */
  mayWait?(): GatewayError | undefined;
}

/** Why authentication failed, with the error codes of RFC 6750 section 3.1. */
export interface AuthenticationFailure {
  /** `missing`: no credentials, so the challenge has no error code (RFC 6750 section 3). */
  readonly error: "missing" | "invalid_token" | "invalid_request" | "unavailable";
  /** Safe to show: never says which part of a credential was wrong. */
  readonly description: string;
  /** The credentials are of a kind or issuer unknown to this authenticator; another one may accept them. */
  readonly isForeign?: true;
  /** For the log only. */
  readonly cause?: unknown;
}

/** The principal, or why authentication failed. */
export type Authentication =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly failure: AuthenticationFailure };

/**
 * Authenticates callers, of the gateway and of the server kit. Returns no promise for credentials verified before. Rejects
 * only if too many callers wait.
 */
export interface Authenticator {
  authenticate(credentials: Credentials): Authentication | Promise<Authentication>;
  close?(): void | Promise<void>;
}

/** The bearer token of an Authorization header, if any. */
export type BearerReading =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "none" }
  | { readonly kind: "malformed" };

const none: BearerReading = { kind: "none" };
const scheme = "bearer ";
/** RFC 6750 section 2.1: `b64token`. */
const tokenForm = /^[\w\-.~+/]+=*$/u;

/** Reads the bearer token from the header, never from the query (MCP 2025-06-18 and later). */
export function readBearer({ header }: Credentials): BearerReading {
  const value = header("authorization");
  if (value?.slice(0, scheme.length).toLowerCase() !== scheme) {
    return value?.trim().toLowerCase() === "bearer" ? { kind: "malformed" } : none;
  }
  const token = value.slice(scheme.length).trim();
  return tokenForm.test(token) ? { kind: "token", token } : { kind: "malformed" };
}

/** The key under which a token is cached; it does not reveal the token. */
export function digestOf(secret: string): string {
  return hash("sha256", secret, "base64url");
}

export function authenticationFailure(
  error: AuthenticationFailure["error"],
  description: string,
  extras: Pick<AuthenticationFailure, "cause" | "isForeign"> = {},
): Authentication {
  return { ok: false, failure: { error, description, ...extras } };
}

export const missingCredentials: Authentication = authenticationFailure("missing", "no credentials were sent");

export const malformedCredentials: Authentication = authenticationFailure(
  "invalid_request",
  "the Authorization header is not `Bearer` followed by a token",
);

/**
 * Tries authenticators in order; the first that knows the credentials decides. Callers without credentials are anonymous
 * if that is allowed; unknown credentials are refused even then.
 */
export function createCompositeAuthenticator(
  authenticators: readonly Authenticator[],
  options: { readonly allowsAnonymous: boolean },
): Authenticator {
  function notRecognized(credentials: Credentials, foreign: Authentication | undefined): Authentication {
    if (foreign !== undefined) return foreign;
    if (credentials.header("authorization") !== undefined) return unknownKind;
    return options.allowsAnonymous ? anonymousResult : credentialsMissing;
  }

  function authenticateFrom(
    index: number,
    credentials: Credentials,
    foreign: Authentication | undefined,
  ): MaybePromise<Authentication> {
    const authenticator = authenticators[index];
    if (authenticator === undefined) return notRecognized(credentials, foreign);
    return andThen(authenticator.authenticate(credentials), (result) => next(result, index, credentials, foreign));
  }

  function next(
    result: Authentication,
    index: number,
    credentials: Credentials,
    foreign: Authentication | undefined,
  ): MaybePromise<Authentication> {
    if (result.ok) return result;
    if (result.failure.error === "missing") return authenticateFrom(index + 1, credentials, foreign);
    if (result.failure.isForeign === true) return authenticateFrom(index + 1, credentials, result);
    return result;
  }

  return { authenticate: (credentials) => authenticateFrom(0, credentials, undefined) };
}

const anonymousResult: Authentication = { ok: true, principal: anonymous };
const credentialsMissing: Authentication = authenticationFailure("missing", "credentials are required");
const unknownKind: Authentication = authenticationFailure("invalid_token", "this kind of credentials is not accepted");
