import { isPromise } from "../../lib/is-promise.ts";
import { createApiKeys, isApiKeyHash } from "../../auth/api-key.ts";
import type { Authentication, Authenticator } from "../../auth/authenticator.ts";
import { createHttpClient, type HttpClient } from "../../auth/http-client.ts";
import { createIntrospection } from "../../auth/introspection.ts";
import { createIssuer } from "../../auth/issuer.ts";
import { createJwtAuthenticator } from "../../auth/jwt.ts";
import { createKeySet } from "../../auth/key-set.ts";
import { readScopes } from "../../auth/token-principal.ts";
import { createClientAuthentication } from "../../auth/token-source.ts";
import { type Clock, type Principal, systemClock, systemTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";

/** What all token verifiers need. */
export interface VerifierOptions {
  /** The identifier of the authorization server, an https URL. */
  readonly issuer: string;
  /** The audience that tokens must have (RFC 8707). Default: the base route below `publicUrl`. */
  readonly audience?: string | readonly string[];
}

/** The options of `jwtVerifier`. */
export interface JwtVerifierOptions extends VerifierOptions {
  /** The URL of the keys. Default: from the metadata of the issuer. */
  readonly jwksUri?: string;
  /** Default: ES256, EdDSA, PS256 and RS256. */
  readonly algorithms?: readonly string[];
}

/** The options of `introspectionVerifier`. */
export interface IntrospectionVerifierOptions extends VerifierOptions {
  readonly clientId: string;
  readonly clientSecret: string;
  /** The introspection endpoint. Default: from the metadata of the issuer. */
  readonly endpoint?: string;
}

/** A key that callers may use; only its hash is known. */
export interface ApiKey {
  /** The hash that `headgate key` prints: `sha256:` and 43 characters. */
  readonly hash: string;
  readonly scopes?: readonly string[];
  /** Facts about the owner, as claims of the principal. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly expiresAt?: Date;
}

/** The options of `apiKeyVerifier`. */
export interface ApiKeyVerifierOptions {
  /** By the name of the caller; its principal is `key:kit/<name>`. */
  readonly keys: Readonly<Record<string, ApiKey>>;
  /** The header that carries the key. Default: `Authorization: Bearer`. */
  readonly header?: string;
}

/**
 * Verifies API keys that `headgate key` has made.
 *
 * @example
 * const auth = { authenticator: apiKeyVerifier({ keys: { ci: { hash: process.env.CI_KEY_HASH ?? "", scopes: ["notes"] } } }) };
 */
export function apiKeyVerifier({ keys, header }: ApiKeyVerifierOptions): Authenticator {
  const entries = Object.entries(keys).map(([name, { hash, scopes = [], labels = {}, expiresAt }]) => {
    if (isApiKeyHash(hash)) return [name, { hash, scopes, labels, expiresAt: expiresAt?.getTime() }] as const;
    throw new GatewayError(
      "config_invalid",
      `apiKeyVerifier: the hash of ${name} is not sha256: and 43 characters; make a key and its hash with: headgate key`,
    );
  });
  return createApiKeys({
    name: "kit",
    header: header?.toLowerCase(),
    keys: Object.fromEntries(entries),
    impliedScopes: {},
    wall: () => systemClock.wall(),
  });
}

/** What tests replace. */
export interface VerifierDeps {
  readonly clock: Clock;
  readonly client: HttpClient;
}

/**
 * Verifies JSON Web Tokens: signature, issuer, audience and expiry (KO-094).
 *
 * @example
 * const auth = { authenticator: jwtVerifier({ issuer: "https://login.example.com" }) };
 */
export function jwtVerifier(options: JwtVerifierOptions): Authenticator {
  return createJwtVerifier(options, networkDeps());
}

/** Verifies JSON Web Tokens, with the given clock and HTTP client. */
export function createJwtVerifier(options: JwtVerifierOptions, { clock, client }: VerifierDeps): Authenticator {
  const { jwksUri, algorithms = ["ES256", "EdDSA", "PS256", "RS256"] } = options;
  const issuer = createIssuer(options.issuer, client, clock);
  const locate = async (): Promise<string> =>
    jwksUri ?? requireMetadata(options.issuer, "jwks_uri", (await issuer.metadata()).jwksUri);
  return withBothScopeClaims(
    createJwtAuthenticator({
      ...tokenRules(options),
      keys: createKeySet({ locate, ask: client, clock }),
      algorithms,
      types: ["at+jwt", "jwt", "none"],
      clock,
    }),
  );
}

/**
 * Asks the authorization server about each token, and caches the answer for at most a minute (RFC 7662, KO-094).
 *
 * @example
 * const auth = { authenticator: introspectionVerifier({ issuer, clientId: "kit", clientSecret }) };
 */
export function introspectionVerifier(options: IntrospectionVerifierOptions): Authenticator {
  return createIntrospectionVerifier(options, networkDeps());
}

/** Introspects tokens, with the given clock and HTTP client. */
export function createIntrospectionVerifier(
  options: IntrospectionVerifierOptions,
  { clock, client }: VerifierDeps,
): Authenticator {
  const { clientId, clientSecret } = options;
  const issuer = createIssuer(options.issuer, client, clock);
  const locate = async (): Promise<string> =>
    options.endpoint ??
    requireMetadata(options.issuer, "introspection_endpoint", (await issuer.metadata()).introspectionEndpoint);
  return withBothScopeClaims(
    createIntrospection({
      ...tokenRules(options),
      endpoint: locate,
      client: createClientAuthentication({ clientId, clientSecret, method: "basic" }),
      ask: client,
      cacheMs: 60_000,
      maxOpen: 100,
      clock,
    }),
  );
}

function tokenRules({ issuer, audience }: VerifierOptions) {
  return {
    issuer,
    audience: typeof audience === "string" ? [audience] : audience,
    subjectClaim: "sub",
    allowClients: false,
    scopeClaim: "scope",
    impliedScopes: {},
    clockSkewMs: 30_000,
    maxCached: 10_000,
  };
}

/** Also reads the scopes of the claim `scp`, which some authorization servers use (KO-105). */
function withBothScopeClaims(inner: Authenticator): Authenticator {
  // Maps to the same principal each time, so that sessions do not take it for a renewed one.
  const widened = new WeakMap<Principal, Principal>();
  function widen(answer: Authentication): Authentication {
    if (!answer.ok || answer.principal.claims["scp"] === undefined) return answer;
    const { principal } = answer;
    const scopes = new Set([...principal.scopes, ...readScopes(principal.claims["scp"])]);
    const wide = widened.get(principal) ?? { ...principal, scopes };
    widened.set(principal, wide);
    return { ok: true, principal: wide };
  }
  return {
    authenticate: (credentials) => {
      const answer = inner.authenticate(credentials);
      return isPromise(answer) ? answer.then(widen) : widen(answer);
    },
  };
}

function networkDeps(): VerifierDeps {
  const client = createHttpClient({ timeoutMs: 5000, maxBytes: 1_048_576, setTimer: systemTimer });
  return { clock: systemClock, client };
}

function requireMetadata(issuer: string, field: string, url: string | undefined): string {
  if (url !== undefined) return url;
  throw new GatewayError("upstream_invalid", `the metadata of ${issuer} lacks ${field}`);
}
