import type { Authentication, Authenticator } from "../../auth/authenticator.ts";
import { createClientAuthentication } from "../../auth/token-endpoint.ts";
import { createHttpClient, type HttpClient } from "../../auth/http-client.ts";
import { createIntrospection } from "../../auth/introspection.ts";
import { createIssuer } from "../../auth/issuer.ts";
import { createJwtAuthenticator } from "../../auth/jwt.ts";
import { createKeySet } from "../../auth/key-set.ts";
import { readScopes } from "../../auth/scopes.ts";
import { GatewayError } from "../../errors.ts";
import { systemClock, systemTimer, type Clock, type Principal } from "../../core/exchange.ts";

/** What all verifiers of tokens need to know. */
interface VerifierOptions {
  /** The identifier of the authorization server, an https URL. */
  readonly issuer: string;
  /** What tokens must be issued for (RFC 8707); the base route below `publicUrl` unless said otherwise. */
  readonly audience?: string | readonly string[];
  readonly clock?: Clock;
  /** Asks the authorization server; over the network unless said otherwise. */
  readonly ask?: HttpClient;
}

/** How JSON Web Tokens are verified. */
export interface JwtVerifierOptions extends VerifierOptions {
  /** Where the keys are; found by discovery unless said otherwise. */
  readonly jwksUri?: string;
  /** ES256, EdDSA, PS256 and RS256 unless said otherwise. */
  readonly algorithms?: readonly string[];
}

/** How opaque tokens are verified. */
export interface IntrospectionVerifierOptions extends VerifierOptions {
  readonly clientId: string;
  readonly clientSecret: string;
  /** Where tokens are introspected; found by discovery unless said otherwise. */
  readonly endpoint?: string;
}

const clockSkewMs = 30_000;
const maxRemembered = 10_000;
const rulesOf = ({ issuer, audience }: VerifierOptions) => ({
  issuer,
  audience: typeof audience === "string" ? [audience] : audience,
  subjectClaim: "sub",
  scopeClaim: "scope",
  impliedScopes: {},
  clockSkewMs,
  maxRemembered,
});

/** Verifies JSON Web Tokens of an authorization server: signature, issuer, audience, expiry (KO-094). */
export function jwtVerifier(options: JwtVerifierOptions): Authenticator {
  const { jwksUri, algorithms = ["ES256", "EdDSA", "PS256", "RS256"], clock = systemClock } = options;
  const ask = options.ask ?? networkAsk();
  const issuer = createIssuer(options.issuer, ask, clock);
  const locate = async (): Promise<string> =>
    jwksUri ?? requireMetadata(options.issuer, "keys", (await issuer.metadata()).jwksUri);
  return withBothScopeClaims(
    createJwtAuthenticator({
      ...rulesOf(options),
      keys: createKeySet({ locate, ask, clock }),
      algorithms,
      types: ["at+jwt", "jwt", "none"],
      clock,
    }),
  );
}

/** Asks the authorization server about each token, and believes the answer for a minute at most (RFC 7662, KO-094). */
export function introspectionVerifier(options: IntrospectionVerifierOptions): Authenticator {
  const { clientId, clientSecret, clock = systemClock } = options;
  const ask = options.ask ?? networkAsk();
  const issuer = createIssuer(options.issuer, ask, clock);
  return withBothScopeClaims(
    createIntrospection({
      ...rulesOf(options),
      endpoint: async () =>
        options.endpoint ??
        requireMetadata(options.issuer, "introspection endpoint", (await issuer.metadata()).introspectionEndpoint),
      client: createClientAuthentication({ clientId, clientSecret, method: "basic" }),
      ask,
      believeMs: 60_000,
      maxOpen: 100,
      clock,
    }),
  );
}

/** Reads scopes from `scp` too, where an authorization server puts them there: a text, or a list (KO-105). */
function withBothScopeClaims(inner: Authenticator): Authenticator {
  // The same principal each time, so that nobody takes it for a new one.
  const widened = new WeakMap<Principal, Principal>();
  function widen(answer: Authentication): Authentication {
    if (!answer.ok || answer.principal.claims["scp"] === undefined) return answer;
    const { principal } = answer;
    let wide = widened.get(principal);
    if (wide === undefined) {
      wide = { ...principal, scopes: new Set([...principal.scopes, ...readScopes(principal.claims["scp"])]) };
      widened.set(principal, wide);
    }
    return { ok: true, principal: wide };
  }
  return {
    authenticate: (credentials) => {
      const answer = inner.authenticate(credentials);
      return answer instanceof Promise ? answer.then(widen) : widen(answer);
    },
  };
}

function networkAsk(): HttpClient {
  return createHttpClient({ timeoutMs: 5000, maxBytes: 1_048_576, setTimer: systemTimer });
}

function requireMetadata(issuer: string, what: string, url: string | undefined): string {
  if (url !== undefined) return url;
  throw new GatewayError("upstream_invalid", `the metadata of ${issuer} name no ${what}`);
}
