import { GatewayError } from "../errors.ts";
import type { Clock, Principal } from "../core/exchange.ts";
import { digestOf } from "./authenticator.ts";
import { requestToken, type TokenEndpoint } from "./token-endpoint.ts";
import { createTokenSource, type TokenSource } from "./token-source.ts";

/**
 * What the gateway shows to an upstream, which never is what the caller showed to the gateway. It may depend on the
 * caller and may have to be obtained first; whatever else it takes to obtain it, such as a person's consent, is the
 * business of the implementation.
 */
export interface UpstreamCredentials {
  /** The headers for a request on behalf of a principal. Rejects with a GatewayError where there are none to be had. */
  headersFor(principal: Principal): CredentialHeaders | Promise<CredentialHeaders>;
  /** The upstream answered 401 to a request with these headers. Answers whether asking again may give better ones. */
  invalidate(principal: Principal, headers: CredentialHeaders): boolean;
}

/** Headers by lower-case name. */
export type CredentialHeaders = Readonly<Record<string, string>>;

/** A fixed header, from a secret of the configuration. */
export function createStaticCredentials(name: string, value: string): UpstreamCredentials {
  const headers = { [name]: value };
  return { headersFor: () => headers, invalidate: () => false };
}

/** What a token is asked for. */
export interface TokenRequestOptions {
  readonly scopes: readonly string[];
  readonly resource: string | undefined;
  readonly audience: string | undefined;
}

/** A token of the gateway's own (RFC 6749 section 4.4), the same for all callers. */
export function createClientCredentials(
  endpoint: TokenEndpoint,
  wish: TokenRequestOptions,
  clock: Pick<Clock, "now">,
): UpstreamCredentials {
  const grant = [["grant_type", "client_credentials"] as const, ...tokenRequestFields(wish)];
  const source = createTokenSource(() => requestToken(endpoint, grant), clock);
  return {
    headersFor: () => bearerOf(source.get()),
    invalidate: (_principal, headers) => source.refused(tokenIn(headers)),
  };
}

export interface TokenExchangeOptions {
  readonly endpoint: TokenEndpoint;
  readonly wish: TokenRequestOptions;
  readonly subjectTokens: SubjectTokens;
  readonly clock: Pick<Clock, "now">;
  /** Most callers whose tokens are kept; the one who came first is forgotten first. */
  readonly maxKept: number;
}

const exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange";
const accessTokenType = "urn:ietf:params:oauth:token-type:access_token";

/** A token for each caller, for which its own is exchanged (RFC 8693). Callers without a token are refused. */
export function createTokenExchange(options: TokenExchangeOptions): UpstreamCredentials {
  const { endpoint, wish, subjectTokens, clock, maxKept } = options;
  const sources = new Map<string, TokenSource>();

  function sourceFor(token: string): TokenSource {
    const key = digestOf(token);
    const known = sources.get(key);
    if (known !== undefined) return known;
    const [oldest] = sources.keys();
    if (sources.size >= maxKept && oldest !== undefined) sources.delete(oldest);
    const source = createTokenSource(
      () =>
        requestToken(endpoint, [
          ["grant_type", exchangeGrant],
          ["subject_token", token],
          ["subject_token_type", accessTokenType],
          ["requested_token_type", accessTokenType],
          ...tokenRequestFields(wish),
        ]),
      clock,
    );
    sources.set(key, source);
    return source;
  }

  return {
    headersFor: (principal) => {
      const token = subjectTokens.of(principal);
      if (token !== undefined) return bearerOf(sourceFor(token).get());
      return Promise.reject(
        new GatewayError(
          "upstream_unreachable",
          "this server is called on behalf of users, and the caller has no token of its own",
        ),
      );
    },
    invalidate: (principal, headers) => {
      const token = subjectTokens.of(principal);
      return token !== undefined && sourceFor(token).refused(tokenIn(headers));
    },
  };
}

const scheme = "Bearer ";

function bearerOf(token: string | Promise<string>): CredentialHeaders | Promise<CredentialHeaders> {
  return typeof token === "string" ? { authorization: scheme + token } : token.then(headersWith);
}

function headersWith(token: string): CredentialHeaders {
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

/**
 * The tokens by which callers became known, for exchanging them (RFC 8693) and nothing else. They stand apart from the
 * principals themselves, so that no log, record or policy gets to see one, and are forgotten together with them.
 */
export interface SubjectTokens {
  keep(principal: Principal, token: string): void;
  of(principal: Principal): string | undefined;
}

/** Makes an empty store of tokens. */
export function createSubjectTokens(): SubjectTokens {
  const tokens = new WeakMap<Principal, string>();
  return {
    keep: (principal, token) => {
      tokens.set(principal, token);
    },
    of: (principal) => tokens.get(principal),
  };
}
