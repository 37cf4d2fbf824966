import type { Principal } from "../exchange.ts";
import { includesAudience, readAudience } from "./audience.ts";
import type { Authentication, Credentials } from "./authenticator.ts";
import { authenticationFailure } from "./bearer.ts";
import { matchesConfirmation } from "./confirmation.ts";
import { expandScopes, readScopes } from "./scopes.ts";
import type { ImpliedScopes } from "./scopes.ts";

/** How the claims of a token become a principal. */
export interface TokenRules {
  /** Makes ids of different issuers differ; an issuer identifier has neither `#` nor `?` (RFC 8414 section 2). */
  readonly issuer: string;
  readonly subjectClaim: string;
  readonly scopeClaim: string;
  readonly impliedScopes: ImpliedScopes;
  /** What tokens must be meant for, instead of the place that is called. */
  readonly audience: readonly string[] | undefined;
}

/** A token that holds, before it is known where it is shown. */
export interface VerifiedToken {
  readonly principal: Principal;
  readonly audience: ReadonlySet<string>;
}

/** Makes a principal of the claims of a token; undefined where they name nobody. */
export function tokenPrincipal(
  claims: Readonly<Record<string, unknown>>,
  rules: TokenRules,
  expiresAt: number | undefined,
): VerifiedToken | undefined {
  const subject = claims[rules.subjectClaim];
  const client = claims["client_id"];
  const id =
    typeof subject === "string" && subject !== ""
      ? `${rules.issuer}#${subject}`
      : typeof client === "string" && client !== ""
        ? `${rules.issuer}?client=${client}`
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

const wrongAudience: Authentication = authenticationFailure(
  "invalid_token",
  "the token was issued for another resource",
);
const unconfirmed: Authentication = authenticationFailure(
  "invalid_token",
  "the token is bound to another holder",
);

/** Whether a token that holds may be used at the place where it is shown. */
export function checkToken(held: VerifiedToken, rules: TokenRules, credentials: Credentials): Authentication {
  // MCP 2025-06-18 and later, Token Audience Binding: a token for anything else must not open this place.
  if (!includesAudience(held.audience, rules.audience ?? credentials.audience)) return wrongAudience;
  // Most tokens are bound to nobody, and then it does not matter who shows them.
  const confirmation = held.principal.claims["cnf"];
  if (confirmation !== undefined && !matchesConfirmation(confirmation, credentials.certificate))
    return unconfirmed;
  return { ok: true, principal: held.principal };
}
