import { hash } from "node:crypto";
import type { Authentication, AuthenticationFailure, Credentials } from "./authenticator.ts";

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
export const missingCredentials: Authentication = authenticationFailure(
  "missing",
  "no credentials were sent",
);

/** RFC 6750 section 3.1: the request is malformed. */
export const malformedCredentials: Authentication = authenticationFailure(
  "invalid_request",
  "the Authorization header is not `Bearer` and one token",
);
