import { GatewayError } from "../errors.ts";
import type { Clock, Principal } from "../core/exchange.ts";
import {
  type Authentication,
  authenticationFailure,
  type Authenticator,
  type Credentials,
  digestOf,
  malformedCredentials,
  missingCredentials,
  readBearer,
} from "./authenticator.ts";
import type { ClientAuthentication } from "./token-endpoint.ts";
import { asObject, type HttpClient } from "./http-client.ts";
import { createTtlCache } from "../lib/ttl-cache.ts";
import { checkToken, tokenPrincipal, type TokenRules, type VerifiedToken } from "./token-principal.ts";

export interface IntrospectionOptions extends TokenRules {
  /** Where tokens are introspected. */
  readonly endpoint: () => Promise<string>;
  /** How the gateway says who it is there. */
  readonly client: ClientAuthentication;
  readonly ask: HttpClient;
  /** How long an answer is believed at most; it may have been revoked meanwhile. 0 asks every time. */
  readonly believeMs: number;
  readonly clockSkewMs: number;
  readonly clock: Pick<Clock, "wall">;
  readonly maxRemembered: number;
  /** Most questions that are open at once; whoever comes later is told to try again. */
  readonly maxOpen: number;
  /** Told of every token that was found good, with the principal it made. */
  readonly onToken?: ((principal: Principal, token: string) => void) | undefined;
}

/** How long the word that a token is no good is believed: long enough to stop a loop, short enough for a late one. */
const refusedMs = 5000;

const inactive: Authentication = authenticationFailure("invalid_token", "the token is not valid");

/** Asks the authorization server about every token (RFC 7662); what it said is believed for its terms. */
export function createIntrospection(options: IntrospectionOptions): Authenticator {
  const { clock, believeMs } = options;
  const remembered = createTtlCache<VerifiedToken | Authentication>(options.maxRemembered, clock.wall);
  const asking = new Map<string, Promise<VerifiedToken | Authentication>>();

  async function ask(token: string, digest: string): Promise<VerifiedToken | Authentication> {
    try {
      const { held, maxAgeMs } = await introspect(token, options);
      const now = clock.wall();
      const terms = Math.min(believeMs, maxAgeMs);
      if (held === undefined) {
        remembered.set(digest, inactive, now + Math.min(refusedMs, terms) - clock.wall());
        return inactive;
      }
      options.onToken?.(held.principal, token);
      const expiresAt = Math.min(now + terms, held.principal.expiresAt ?? Number.POSITIVE_INFINITY);
      remembered.set(digest, held, expiresAt - clock.wall());
      return held;
    } catch (error) {
      return authenticationFailure("unavailable", "the token cannot be checked at the moment", {
        cause: error,
      });
    } finally {
      asking.delete(digest);
    }
  }

  return {
    authenticate: (credentials) => {
      const bearer = readBearer(credentials);
      if (bearer.kind === "none") return missingCredentials;
      if (bearer.kind === "malformed") return malformedCredentials;
      const digest = digestOf(bearer.token);
      const known = remembered.get(digest);
      if (known !== undefined) return checkClaims(known, options, credentials);
      let answer = asking.get(digest);
      if (answer === undefined) {
        if (asking.size >= options.maxOpen)
          return authenticationFailure("unavailable", "too many tokens are being checked");
        answer = ask(bearer.token, digest);
        asking.set(digest, answer);
      }
      return answer.then((held) => checkClaims(held, options, credentials));
    },
  };
}

function checkClaims(
  held: VerifiedToken | Authentication,
  rules: TokenRules,
  credentials: Credentials,
): Authentication {
  return "ok" in held ? held : checkToken(held, rules, credentials);
}

async function introspect(
  token: string,
  options: IntrospectionOptions,
): Promise<{ readonly held: VerifiedToken | undefined; readonly maxAgeMs: number }> {
  const { endpoint, client, ask, clock, clockSkewMs } = options;
  const { status, json, header } = await ask({
    url: await endpoint(),
    headers: client.headers,
    form: [["token", token], ["token_type_hint", "access_token"], ...client.fields],
  });
  const claims = asObject(json);
  if (status !== 200 || typeof claims?.["active"] !== "boolean") {
    throw new GatewayError("upstream_invalid", `the introspection endpoint answered ${status} without a verdict`);
  }
  const maxAge = /(?:^|,)\s*max-age=(?<seconds>\d+)/iu.exec(header("cache-control") ?? "")?.groups?.["seconds"];
  const maxAgeMs = maxAge === undefined ? Number.POSITIVE_INFINITY : Number(maxAge) * 1000;
  return { held: isActive(claims, options) ? heldBy(claims) : undefined, maxAgeMs };

  function heldBy(facts: Readonly<Record<string, unknown>>): VerifiedToken | undefined {
    const { exp } = facts;
    const expiresAt = typeof exp === "number" ? exp * 1000 + clockSkewMs : undefined;
    return expiresAt !== undefined && expiresAt <= clock.wall() ? undefined : tokenPrincipal(facts, options, expiresAt);
  }
}

/** An answer that says `active` but names another issuer, or a time to come, does not hold here. */
function isActive(claims: Readonly<Record<string, unknown>>, options: IntrospectionOptions): boolean {
  const { active, iss, nbf } = claims;
  if (active !== true || (iss !== undefined && iss !== options.issuer)) return false;
  return typeof nbf !== "number" || nbf * 1000 <= options.clock.wall() + options.clockSkewMs;
}
