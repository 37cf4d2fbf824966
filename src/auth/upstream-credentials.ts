import type { CredentialHeaders, CredentialProvider, Principal } from "../core/exchange.ts";
import { GatewayError } from "../errors.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import type { Clock } from "../lib/clock.ts";
import { andThen } from "../lib/is-promise.ts";
import { digestOf } from "./authenticator.ts";
import { createTokenSource, requestToken, type TokenEndpoint, type TokenSource } from "./token-source.ts";

/** A fixed header, from a secret of the configuration. */
export function createStaticCredentials(name: string, value: string): CredentialProvider {
  const headers = { [name]: value };
  return { headersFor: () => headers, invalidate: () => false };
}

/** What a token is requested for. */
export interface TokenRequestOptions {
  readonly scopes: readonly string[];
  readonly resource: string | undefined;
  readonly audience: string | undefined;
}

/** The gateway's own token (RFC 6749 section 4.4), the same for all callers. */
export function createClientCredentials(
  endpoint: TokenEndpoint,
  options: TokenRequestOptions,
  clock: Pick<Clock, "now">,
): CredentialProvider {
  const grant = [["grant_type", "client_credentials"] as const, ...tokenRequestFields(options)];
  const source = createTokenSource(() => requestToken(endpoint, grant), clock);
  return {
    headersFor: () => andThen(source.get(), bearerHeaders),
    invalidate: (_principal, headers) => source.invalidate(tokenIn(headers)),
  };
}

/**
 * The tokens that callers authenticated with, only to be exchanged (RFC 8693). They are kept apart from the principals,
 * so that no log, record or policy sees one, and are dropped together with them.
 */
export type SubjectTokens = WeakMap<Principal, string>;

export interface TokenExchangeOptions {
  readonly endpoint: TokenEndpoint;
  readonly request: TokenRequestOptions;
  readonly subjectTokens: SubjectTokens;
  readonly clock: Pick<Clock, "now">;
  /** Maximum number of callers whose tokens are cached. */
  readonly maxCached: number;
}

const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange";
const accessTokenType = "urn:ietf:params:oauth:token-type:access_token";

/** A token for each caller, in exchange for the caller's own (RFC 8693). Callers without a token are refused. */
export function createTokenExchange(options: TokenExchangeOptions): CredentialProvider {
  const { endpoint, request, subjectTokens, clock, maxCached } = options;
  const sources = new BoundedMap<string, TokenSource>(maxCached);

  function sourceFor(token: string): TokenSource {
    const key = digestOf(token);
    const cached = sources.get(key);
    if (cached !== undefined) return cached;
    const grant = [
      ["grant_type", exchangeGrant] as const,
      ["subject_token", token] as const,
      ["subject_token_type", accessTokenType] as const,
      ["requested_token_type", accessTokenType] as const,
      ...tokenRequestFields(request),
    ];
    const source = createTokenSource(() => requestToken(endpoint, grant), clock);
    sources.set(key, source);
    return source;
  }

  return {
    headersFor: (principal) => {
      const token = subjectTokens.get(principal);
      if (token !== undefined) return andThen(sourceFor(token).get(), bearerHeaders);
      const text = "this server is called on behalf of users, and the caller did not authenticate with a token";
      return Promise.reject(new GatewayError("upstream_unreachable", text));
    },
    invalidate: (principal, headers) => {
      const token = subjectTokens.get(principal);
      return token !== undefined && sourceFor(token).invalidate(tokenIn(headers));
    },
  };
}

const scheme = "Bearer ";

function bearerHeaders(token: string): CredentialHeaders {
  return { authorization: scheme + token };
}

function tokenIn(headers: CredentialHeaders): string {
  return headers["authorization"]?.slice(scheme.length) ?? "";
}

function tokenRequestFields({ scopes, resource, audience }: TokenRequestOptions): (readonly [string, string])[] {
  return [
    ...(scopes.length === 0 ? [] : [["scope", scopes.join(" ")] as const]),
    ...(resource === undefined ? [] : [["resource", resource] as const]),
    ...(audience === undefined ? [] : [["audience", audience] as const]),
  ];
}
