import { decodeJwt, decodeProtectedHeader, errors, jwtVerify } from "jose";
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
import type { KeySet } from "./key-set.ts";
import { createTtlCache } from "../lib/ttl-cache.ts";
import { checkToken, tokenPrincipal, type TokenRules, type VerifiedToken } from "./token-principal.ts";

export interface JwtOptions extends TokenRules {
  readonly keys: KeySet;
  /** Signature algorithms that are taken; symmetric ones and `none` never are. */
  readonly algorithms: readonly string[];
  /** Values of the `typ` header that are taken, in lower case; `none` stands for a token without one. */
  readonly types: readonly string[];
  readonly clockSkewMs: number;
  readonly clock: Pick<Clock, "wall">;
  /** Most tokens that are remembered as verified. */
  readonly maxRemembered: number;
  /** Told once of every token that was verified, with the principal it made. */
  readonly onToken?: ((principal: Principal, token: string) => void) | undefined;
}

interface CachedToken {
  readonly held: VerifiedToken;
  readonly generation: number;
}

/**
 * Verifies JSON Web Tokens of one issuer (RFC 9068, RFC 8725). A token that was verified is remembered by its hash until
 * it expires or its key is withdrawn, and then costs neither a promise nor a signature.
 */
export function createJwtAuthenticator(options: JwtOptions): Authenticator {
  const { keys, clock, issuer } = options;
  const remembered = createTtlCache<CachedToken>(options.maxRemembered, clock.wall);
  const verifying = new Map<string, Promise<VerifiedToken | Authentication>>();

  async function verify(token: string, digest: string): Promise<VerifiedToken | Authentication> {
    try {
      const generation = keys.generation();
      const held = await verifyToken(token, options);
      if (held === undefined) return authenticationFailure("invalid_token", "the token names no subject");
      options.onToken?.(held.principal, token);
      remembered.set(digest, { held, generation }, (held.principal.expiresAt ?? 0) - clock.wall());
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
      // What is remembered is the whole header, so that a known token is found before anything of it is looked at.
      const digest = digestOf(value);
      const known = remembered.get(digest);
      if (known !== undefined && known.generation === keys.generation())
        return checkToken(known.held, options, credentials);
      const bearer = readBearer(credentials);
      if (bearer.kind === "none") return missingCredentials;
      if (bearer.kind === "malformed") return malformedCredentials;
      const { token } = bearer;
      if (issuerOf(token) !== issuer) return foreign;
      let verdict = verifying.get(digest);
      if (verdict === undefined) {
        verdict = verify(token, digest);
        verifying.set(digest, verdict);
      }
      return verifyAndCheck(verdict, options, credentials);
    },
  };
}

const foreign: Authentication = authenticationFailure(
  "invalid_token",
  "the token is not one of an issuer that is trusted here",
  {
    isForeign: true,
  },
);

async function verifyAndCheck(
  verdict: Promise<VerifiedToken | Authentication>,
  rules: TokenRules,
  credentials: Credentials,
): Promise<Authentication> {
  const held = await verdict;
  return "ok" in held ? held : checkToken(held, rules, credentials);
}

async function verifyToken(token: string, options: JwtOptions): Promise<VerifiedToken | undefined> {
  const { typ = "none" } = decodeProtectedHeader(token);
  if (!options.types.includes(typ.toLowerCase().replace(/^application\//u, "")))
    throw new errors.JWTInvalid("the type of the token is not taken");
  const { payload } = await jwtVerify(token, options.keys.find, {
    issuer: options.issuer,
    algorithms: [...options.algorithms],
    clockTolerance: options.clockSkewMs / 1000,
    currentDate: new Date(options.clock.wall()),
    requiredClaims: ["exp"],
  });
  // The claim was just demanded, and the library checks that it is a number.
  const expiresAt = Number(payload.exp) * 1000 + options.clockSkewMs;
  return tokenPrincipal(payload, options, expiresAt);
}

/** The issuer that a token claims to be of, before anything of it is believed; undefined where it is no such token. */
function issuerOf(token: string): unknown {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

function failureOf(error: unknown): Authentication {
  if (error instanceof GatewayError) {
    return authenticationFailure("unavailable", "the keys of the token's issuer cannot be had at the moment", {
      cause: error,
    });
  }
  const description = error instanceof errors.JWTExpired ? "the token has expired" : "the token is not valid";
  return authenticationFailure("invalid_token", description, { cause: error });
}
