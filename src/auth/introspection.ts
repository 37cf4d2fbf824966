import { GatewayError } from "../errors.ts";
import type { Principal } from "../core/exchange.ts";
import type { Clock } from "../lib/clock.ts";
import {
  type Authentication,
  authenticationFailure,
  type Authenticator,
  digestOf,
  malformedCredentials,
  missingCredentials,
  readBearer,
} from "./authenticator.ts";
import type { ClientAuthentication } from "./token-source.ts";
import { asObject } from "../lib/is-object.ts";
import type { HttpClient } from "./http-client.ts";
import { createTtlCache } from "../lib/ttl-cache.ts";
import { checkToken, isOtherKind, tokenPrincipal, type TokenRules, type VerifiedToken } from "./token-principal.ts";

export interface IntrospectionOptions extends TokenRules {
  readonly endpoint: () => Promise<string>;
  readonly client: ClientAuthentication;
  readonly ask: HttpClient;
  /** The maximum time that a result is cached; a revoked token is accepted until then. 0 disables the cache. */
  readonly cacheMs: number;
  readonly clockSkewMs: number;
  readonly clock: Clock;
  readonly maxCached: number;
  /** The maximum number of concurrent requests; further tokens are refused as unavailable. */
  readonly maxOpen: number;
  /** Called with every newly verified token and its principal. */
  readonly onToken?: ((principal: Principal, token: string) => void) | undefined;
}

/** How long a negative result is cached. */
const inactiveMs = 5000;

const inactive: Authentication = authenticationFailure("invalid_token", "the token is not valid");

/** Asks the authorization server about every token (RFC 7662), with a cache. */
export function createIntrospection(options: IntrospectionOptions): Authenticator {
  const { clock, cacheMs } = options;
  const cache = createTtlCache<VerifiedToken | Authentication>(options.maxCached, clock.now);
  const verifying = new Map<string, Promise<VerifiedToken | Authentication>>();
  /** The clock may have been set ahead since. */
  const isOver = (held: VerifiedToken | Authentication): boolean =>
    "audience" in held && (held.principal.expiresAt ?? Number.POSITIVE_INFINITY) <= clock.wall();

  async function verify(token: string, digest: string): Promise<VerifiedToken | Authentication> {
    try {
      const { held, maxAgeMs } = await introspect(token, options);
      const ttlMs = Math.min(cacheMs, maxAgeMs);
      if (held === undefined) {
        cache.set(digest, inactive, Math.min(inactiveMs, ttlMs));
        return inactive;
      }
      options.onToken?.(held.principal, token);
      const { expiresAt = Number.POSITIVE_INFINITY } = held.principal;
      cache.set(digest, held, Math.min(ttlMs, expiresAt - clock.wall()));
      return held;
    } catch (error) {
      return authenticationFailure("unavailable", "the token cannot be checked at the moment", { cause: error });
    } finally {
      verifying.delete(digest);
    }
  }

  return {
    authenticate: (credentials) => {
      const bearer = readBearer(credentials);
      if (bearer.kind === "none") return missingCredentials;
      if (bearer.kind === "malformed") return malformedCredentials;
      const digest = digestOf(bearer.token);
      const known = cache.get(digest);
      if (known !== undefined && !isOver(known)) return checkToken(known, options, credentials);
      let answer = verifying.get(digest);
      if (answer === undefined && verifying.size >= options.maxOpen)
        return authenticationFailure("unavailable", "too many tokens are being checked");
      const overload = credentials.mayWait?.();
      if (overload !== undefined) return Promise.reject(overload);
      if (answer === undefined) {
        answer = verify(bearer.token, digest);
        verifying.set(digest, answer);
      }
      return answer.then((held) => checkToken(held, options, credentials));
    },
  };
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
    throw new GatewayError(
      "upstream_invalid",
      `the introspection endpoint answered ${status} without an "active" member`,
    );
  }
  const maxAge = /(?:^|,)\s*max-age=(?<seconds>\d+)/iu.exec(header("cache-control") ?? "")?.groups?.["seconds"];
  const maxAgeMs = maxAge === undefined ? Number.POSITIVE_INFINITY : Number(maxAge) * 1000;
  return { held: isActive(claims, options) ? heldBy(claims) : undefined, maxAgeMs };

  function heldBy(facts: Readonly<Record<string, unknown>>): VerifiedToken | undefined {
    const exp = readDate(facts["exp"]);
    const expiresAt = exp === undefined ? undefined : exp * 1000 + clockSkewMs;
    const isAlive = expiresAt === undefined || expiresAt > clock.wall();
    return isAlive ? tokenPrincipal(facts, options, expiresAt) : undefined;
  }
}

/** Whether the token is an active access token from the expected issuer and already valid. */
function isActive(claims: Readonly<Record<string, unknown>>, options: IntrospectionOptions): boolean {
  const { active, iss } = claims;
  if (active !== true || (iss !== undefined && iss !== options.issuer) || isOtherKind(claims)) return false;
  const nbf = readDate(claims["nbf"]) ?? Number.NEGATIVE_INFINITY;
  return nbf * 1000 <= options.clock.wall() + options.clockSkewMs;
}

/** A time in seconds (RFC 7662 section 2.2); NaN, which no time is before or after, where it has another form. */
function readDate(claim: unknown): number | undefined {
  if (claim === undefined) return undefined;
  return typeof claim === "number" && Number.isFinite(claim * 1000) ? claim : Number.NaN;
}
