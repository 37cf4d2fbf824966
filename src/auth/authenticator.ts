import { hash } from "node:crypto";

import type { Principal } from "../core/exchange.ts";

/** What a caller brought to say who it is. */
export interface Credentials {
  /** The value of a header, by lower-case name; several of one name are one value joined by commas. */
  readonly header: (name: string) => string | undefined;
  /** The client's certificate in DER, where TLS verified one. */
  readonly certificate?: Uint8Array | undefined;
  /**
   * Under which names tokens are issued for the place that is called (RFC 8707). An authenticator that has been given
   * audiences of its own goes by those instead; one that has neither refuses every token.
   */
  readonly audience?: readonly string[] | undefined;
}

/** Why a caller is not let in; the words of RFC 6750 section 3.1 and what they mean to the challenge. */
export interface AuthenticationFailure {
  /** `missing`: no credentials at all, so the challenge carries no error code (RFC 6750 section 3). */
  readonly error: "missing" | "invalid_token" | "invalid_request" | "unavailable";
  /** Safe to show; never says which part of a credential was close. */
  readonly description: string;
  /** The credentials are of a kind, or of an issuer, that this authenticator does not know; another one may. */
  readonly isForeign?: true;
  /** For the log only. */
  readonly cause?: unknown;
}

/** Who it is, or why that is not known. */
export type Authentication =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly failure: AuthenticationFailure };

/**
 * Finds out who is calling. Answers at once where it can: a token that was verified before costs no promise.
 * Used by the gateway and by servers of the server kit alike.
 */
export interface Authenticator {
  authenticate(credentials: Credentials): Authentication | Promise<Authentication>;
  close?(): void | Promise<void>;
}

/** What the Authorization header holds: a bearer token, a broken attempt at one, or none. */
export type BearerReading =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "none" }
  | { readonly kind: "malformed" };

const none: BearerReading = { kind: "none" };
const scheme = "bearer ";
/** RFC 6750 section 2.1: `b64token`. */
const tokenForm = /^[\w\-.~+/]+=*$/u;

/** Reads the bearer token of a request; only the header counts, never the query (MCP 2025-06-18 and later). */
export function readBearer({ header }: Credentials): BearerReading {
  const value = header("authorization");
  if (value?.slice(0, scheme.length).toLowerCase() !== scheme) {
    return value?.trim().toLowerCase() === "bearer" ? { kind: "malformed" } : none;
  }
  const token = value.slice(scheme.length).trim();
  return tokenForm.test(token) ? { kind: "token", token } : { kind: "malformed" };
}

/** The name under which a token is remembered: from it nobody can make the token again. */
export function digestOf(secret: string): string {
  return hash("sha256", secret, "base64url");
}

/** Says that somebody is not let in. */
export function authenticationFailure(
  error: AuthenticationFailure["error"],
  description: string,
  extras: Pick<AuthenticationFailure, "cause" | "isForeign"> = {},
): Authentication {
  return { ok: false, failure: { error, description, ...extras } };
}

/** No credentials of this kind were sent. */
export const missingCredentials: Authentication = authenticationFailure("missing", "no credentials were sent");

/** RFC 6750 section 3.1: the request is malformed. */
export const malformedCredentials: Authentication = authenticationFailure(
  "invalid_request",
  "the Authorization header is not `Bearer` and one token",
);
