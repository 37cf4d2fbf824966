import { GatewayError } from "../errors.ts";
import { jose } from "../lib/lazy-modules.ts";
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
import type { KeySet } from "./key-set.ts";
import { createTtlCache } from "../lib/ttl-cache.ts";
import { parseUnambiguous } from "./unambiguous-json.ts";
import { checkToken, isOtherKind, tokenPrincipal, type TokenRules, type VerifiedToken } from "./token-principal.ts";

export interface JwtOptions extends TokenRules {
  readonly keys: KeySet;
  /** Accepted signature algorithms; symmetric ones and `none` are never accepted. */
  readonly algorithms: readonly string[];
  /** Accepted values of the `typ` header, in lower case; `none` for a token without it. */
  readonly types: readonly string[];
  readonly clockSkewMs: number;
  readonly clock: Pick<Clock, "wall">;
  /** Maximum number of verified tokens in the cache. */
  readonly maxCached: number;
  /** Called with every newly verified token and its principal. */
  readonly onToken?: ((principal: Principal, token: string) => void) | undefined;
}

interface CachedToken {
  readonly held: VerifiedToken;
  readonly generation: number;
}

/**
 * Verifies JSON Web Tokens of one issuer (RFC 9068, RFC 8725). A verified token is cached by its hash until it expires or
 * its key is withdrawn.
 */
export function createJwtAuthenticator(options: JwtOptions): Authenticator {
  const { keys, clock, issuer } = options;
  const cache = createTtlCache<CachedToken>(options.maxCached, clock.wall);
  const verifying = new Map<string, Promise<VerifiedToken | Authentication>>();

  async function verify(token: string, digest: string): Promise<VerifiedToken | Authentication> {
    try {
      const generation = keys.generation();
      const held = await verifyToken(token, options);
      if (held === undefined) return authenticationFailure("invalid_token", "the token names no subject");
      options.onToken?.(held.principal, token);
      cache.set(digest, { held, generation }, (held.principal.expiresAt ?? 0) - clock.wall());
      return held;
    } catch (error) {
      return failureOf(error);
    } finally {
      verifying.delete(digest);
    }
  }

  return {
    authenticate: (credentials) => {
      const value = credentials.header("authorization");
      if (value === undefined) return missingCredentials;
      // The key is the hash of the whole header, so that a cached token needs no parsing.
      const digest = digestOf(value);
      const known = cache.get(digest);
      if (known !== undefined && known.generation === keys.generation())
        return checkToken(known.held, options, credentials);
      const bearer = readBearer(credentials);
      if (bearer.kind === "none") return missingCredentials;
      if (bearer.kind === "malformed") return malformedCredentials;
      const { token } = bearer;
      if (issuerOf(token) !== issuer) return foreign;
      const overload = credentials.mayWait?.();
      if (overload !== undefined) return Promise.reject(overload);
      let verification = verifying.get(digest);
      if (verification === undefined) {
        verification = verify(token, digest);
        verifying.set(digest, verification);
      }
      return verification.then((held) => checkToken(held, options, credentials));
    },
  };
}

const foreign: Authentication = authenticationFailure("invalid_token", "the issuer of the token is not trusted", {
  isForeign: true,
});

async function verifyToken(token: string, options: JwtOptions): Promise<VerifiedToken | undefined> {
  const { decodeProtectedHeader, errors, jwtVerify } = jose();
  // RFC 7519 section 4: another verifier of the same token may take the other of two claims.
  const parts = token.split(".", 2).map((part) => parseUnambiguous(Buffer.from(part, "base64url")));
  if (parts.includes(undefined)) throw new errors.JWTInvalid("a member of the token occurs twice");
  const { typ = "none" } = decodeProtectedHeader(token);
  if (!options.types.includes(typ.toLowerCase().replace(/^application\//u, "")))
    throw new errors.JWTInvalid("the type of the token is not accepted");
  const { payload } = await jwtVerify(token, options.keys.find, {
    issuer: options.issuer,
    algorithms: [...options.algorithms],
    clockTolerance: options.clockSkewMs / 1000,
    currentDate: new Date(options.clock.wall()),
    requiredClaims: ["exp"],
  });
  // The library has checked that the claim is a number, but not that it ever comes.
  const expiresAt = Number(payload.exp) * 1000 + options.clockSkewMs;
  if (!Number.isFinite(expiresAt)) throw new errors.JWTInvalid("the token never expires");
  if (isOtherKind(payload)) throw new errors.JWTInvalid("the token is no access token");
  return tokenPrincipal(payload, options, expiresAt);
}

/** The issuer that a token claims, unverified; undefined if it is not a JWT. */
function issuerOf(token: string): unknown {
  try {
    return jose().decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

function failureOf(error: unknown): Authentication {
  if (error instanceof GatewayError) {
    return authenticationFailure("unavailable", "the keys of the token's issuer are not available at the moment", {
      cause: error,
    });
  }
  const description = error instanceof jose().errors.JWTExpired ? "the token has expired" : "the token is not valid";
  return authenticationFailure("invalid_token", description, { cause: error });
}
