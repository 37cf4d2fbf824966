import { hash } from "node:crypto";

import type { Principal } from "../core/exchange.ts";
import { type Authentication, authenticationFailure, type Credentials } from "./authenticator.ts";
import { asObject } from "../lib/is-object.ts";

/** How the claims of a token map to a principal. */
export interface TokenRules {
  /** Part of the principal's id; an issuer identifier contains neither `#` nor `?` (RFC 8414 section 2). */
  readonly issuer: string;
  readonly subjectClaim: string;
  /** Whether a token without a subject stands for the client that it names. */
  readonly allowClients: boolean;
  readonly scopeClaim: string;
  readonly impliedScopes: ImpliedScopes;
  /** Accepted audiences instead of the route's own. */
  readonly audience: readonly string[] | undefined;
}

/** A valid token, before its audience is checked. */
export interface VerifiedToken {
  readonly principal: Principal;
  readonly audience: ReadonlySet<string>;
}

/** Maps the claims of a token to a principal; undefined if they name no subject and no client. */
export function tokenPrincipal(
  claims: Readonly<Record<string, unknown>>,
  rules: TokenRules,
  expiresAt: number | undefined,
): VerifiedToken | undefined {
  const subject = claims[rules.subjectClaim];
  // Otherwise, if the issuer omits the claim, all users of one client would count as one caller.
  const client = rules.allowClients ? claims["client_id"] : undefined;
  const id =
    typeof subject === "string" && subject !== ""
      ? `${tokenIdPrefix(rules.issuer, "subject")}${subject}`
      : typeof client === "string" && client !== ""
        ? `${tokenIdPrefix(rules.issuer, "client")}${client}`
        : undefined;
  if (id === undefined) return undefined;
  return {
    principal: {
      id,
      kind: "token",
      scopes: expandScopes(readScopes(claims[rules.scopeClaim]), rules.impliedScopes),
      claims,
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
    audience: readAudience(claims["aud"]),
  };
}

/**
 * Whether the claims are those of another kind of token. Identity, refresh and logout tokens are not meant for resource
 * servers, so a client that presents one here misuses it. Issuers name the kind in different claims; RFC 9068 names it in the
 * header.
 */
export function isOtherKind(claims: Readonly<Record<string, unknown>>): boolean {
  // RFC 8417 section 2.2: a security event, such as a logout.
  if (claims["events"] !== undefined) return true;
  return kindClaims.some((name) => {
    const kind = claims[name];
    return kind !== undefined && (typeof kind !== "string" || otherKind.test(kind));
  });
}

/** `typ` of Keycloak, `token_use` of Cognito and Hydra, `token_type` of introspection (RFC 7662 section 2.2). */
const kindClaims = ["typ", "token_use", "token_type"] as const;
const otherKind = /^(?:application\/)?(?:id|identity|refresh|offline|logout|registration|initial)/iu;

/** The prefixes of the principal ids of an issuer's users and clients. */
export function tokenIdPrefix(issuer: string, holder: "subject" | "client"): string {
  return holder === "subject" ? `${issuer}#` : `${issuer}?client=`;
}

const wrongAudience: Authentication = authenticationFailure(
  "invalid_token",
  "the token was issued for another resource",
);
const unconfirmed: Authentication = authenticationFailure("invalid_token", "the token is bound to another holder");

/** Checks that a valid token may be used for this route by this caller; a failed verification stays as it is. */
export function checkToken(
  held: VerifiedToken | Authentication,
  rules: TokenRules,
  credentials: Credentials,
): Authentication {
  if ("ok" in held) return held;
  // MCP 2025-06-18 and later, Token Audience Binding: a token for another resource must be refused.
  if (!includesAudience(held.audience, rules.audience ?? credentials.audience)) return wrongAudience;
  if (!matchesConfirmation(held.principal.claims["cnf"], credentials.certificate)) return unconfirmed;
  return { ok: true, principal: held.principal };
}

/** Reads an audience claim: a string or an array of strings (RFC 7519 section 4.1.3). */
export function readAudience(claim: unknown): ReadonlySet<string> {
  if (typeof claim === "string") return new Set([canonicalResource(claim)]);
  if (!Array.isArray(claim)) return new Set();
  return new Set(claim.flatMap((entry) => (typeof entry === "string" ? [canonicalResource(entry)] : [])));
}

/** Whether a token has one of the wanted audiences; false if none is wanted. */
export function includesAudience(audience: ReadonlySet<string>, wanted: readonly string[] | undefined): boolean {
  if (wanted === undefined) return false;
  for (const name of wanted) if (audience.has(name)) return true;
  return false;
}

/**
 * The canonical form of a resource identifier: scheme and host in lower case, no trailing slash (MCP 2025-06-18 and
 * later, Canonical Server URI). Anything else that URL parsing would change, such as dot segments, stays as it is: an
 * audience is compared exactly (RFC 7519 section 4.1.3).
 */
export function canonicalResource(resource: string): string {
  const [, origin = "", path = "", query = ""] = /^(https?:\/\/[^/?#\\]+)([^?#\\]*)(\?[^#]*)?$/iu.exec(resource) ?? [];
  const url = URL.parse(resource);
  if (url === null || origin.toLowerCase() !== url.origin || (path || "/") !== url.pathname || query !== url.search)
    return resource;
  return `${url.origin}${path.replace(/\/+$/u, "")}${query}`;
}

/**
 * Whether a token is unbound or its sender is the holder: the certificate of the connection must be the one in `cnf`
 * (RFC 8705 section 3). Bindings that are not supported, such as DPoP, are refused.
 */
function matchesConfirmation(confirmation: unknown, certificate: Uint8Array | undefined): boolean {
  if (confirmation === undefined) return true;
  const { "x5t#S256": thumbprint, ...others } = asObject(confirmation) ?? {};
  if (typeof thumbprint !== "string" || Object.keys(others).length > 0 || certificate === undefined) return false;
  return hash("sha256", certificate, "base64url") === thumbprint;
}

/** Which scopes imply others, such as `admin` implies `read`. */
export type ImpliedScopes = Readonly<Record<string, readonly string[]>>;

/** Adds all implied scopes, transitively (MCP 2026-07-28: hierarchies are accounted for). */
export function expandScopes(scopes: Iterable<string>, implied: ImpliedScopes): ReadonlySet<string> {
  const all = new Set<string>();
  const add = (scope: string): void => {
    if (all.has(scope)) return;
    all.add(scope);
    if (Object.hasOwn(implied, scope)) for (const lesser of implied[scope] ?? []) add(lesser);
  };
  for (const scope of scopes) add(scope);
  return all;
}

/** Reads a scope claim: a string with spaces (RFC 8693 section 4.2), or an array. */
export function readScopes(claim: unknown): readonly string[] {
  if (typeof claim === "string") return claim.split(" ").filter((scope) => scope !== "");
  return Array.isArray(claim) ? claim.filter((scope): scope is string => typeof scope === "string") : [];
}
