import { isDeepStrictEqual } from "node:util";
import { createApiKeys } from "../../auth/api-key.ts";
import type { Authenticator } from "../../auth/authenticator.ts";
import { createCertificates } from "../../auth/certificate.ts";
import { createClientAuthentication } from "../../auth/token-source.ts";
import type { HttpClient } from "../../auth/http-client.ts";
import { createIntrospection } from "../../auth/introspection.ts";
import { createIssuer, type Issuer } from "../../auth/issuer.ts";
import { createJwtAuthenticator } from "../../auth/jwt.ts";
import { createKeySet } from "../../auth/key-set.ts";
import { expandScopes } from "../../auth/token-principal.ts";
import type { SubjectTokens } from "../../auth/upstream-credentials.ts";
import { type Config, serversOf } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Clock, Principal } from "../../core/exchange.ts";
import { errorFields, type Logger } from "../../telemetry/log.ts";

/** What authenticators need besides their configuration. */
export interface AuthenticatorDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly ask: HttpClient;
  readonly subjectTokens: SubjectTokens;
}

/** A configured authenticator, and what routes need to know about it. */
export interface OpenAuthenticator {
  readonly name: string;
  readonly authenticator: Authenticator;
  /** The issuer of its tokens, if it accepts tokens of one. */
  readonly issuer: Issuer | undefined;
  /** Lower-case name of the header with its credentials, if there is one. */
  readonly header: string | undefined;
  /** Its configuration; if that is unchanged, a reload keeps the authenticator. */
  readonly madeOf: unknown;
}

type AuthenticatorConfig = Config["auth"]["authenticators"][string];

/** Opens the configured authenticators. Unchanged ones keep their keys and caches. */
export function openAuthenticators(
  config: Config,
  before: readonly OpenAuthenticator[],
  deps: AuthenticatorDeps,
): readonly OpenAuthenticator[] {
  const { authenticators, impliedScopes } = config.auth;
  // Tokens are kept only where they will be exchanged.
  const servers = Object.values(config.routes).flatMap(({ upstream }) => serversOf(upstream));
  const keepsTokens = servers.some(
    ({ server }) => server.type === "http" && server.credentials?.tokenExchange !== undefined,
  );
  return Object.entries(authenticators).map(([name, written]) => {
    const madeOf = { name, written, impliedScopes, keepsTokens };
    const same = before.find((other) => isDeepStrictEqual(other.madeOf, madeOf));
    return same ?? { ...open(name, written, impliedScopes, keepsTokens, deps), name, madeOf };
  });
}

function open(
  name: string,
  { jwt, introspection, apiKeys, certificate }: AuthenticatorConfig,
  impliedScopes: Config["auth"]["impliedScopes"],
  keepsTokens: boolean,
  deps: AuthenticatorDeps,
): Pick<OpenAuthenticator, "authenticator" | "issuer" | "header"> {
  const { clock, ask } = deps;
  const onToken = keepsTokens
    ? (principal: Principal, token: string) => {
        deps.subjectTokens.set(principal, token);
      }
    : undefined;
  if (jwt !== undefined) {
    const issuer = createIssuer(jwt.issuer, ask, clock);
    const keys = createKeySet({
      locate: async () => jwt.jwksUri ?? located(issuer, "keys", (await issuer.metadata()).jwksUri),
      ask,
      clock,
      onError: (error) => {
        deps.log.warn({ authenticator: name, ...errorFields(error) }, "cannot load the keys of an issuer");
      },
    });
    const authenticator = createJwtAuthenticator({
      ...jwt,
      audience: jwt.audience,
      keys,
      clockSkewMs: jwt.clockSkew,
      impliedScopes,
      clock,
      maxCached: jwt.cacheEntries,
      onToken,
    });
    return { authenticator, issuer, header: "authorization" };
  }
  if (introspection !== undefined) {
    const issuer = createIssuer(introspection.issuer, ask, clock);
    const { clientId, clientSecret, clientAuthentication } = introspection;
    const authenticator = createIntrospection({
      ...introspection,
      audience: introspection.audience,
      endpoint: async () =>
        introspection.endpoint ??
        located(issuer, "introspection endpoint", (await issuer.metadata()).introspectionEndpoint),
      client: createClientAuthentication({ clientId, clientSecret, method: clientAuthentication }),
      ask,
      cacheMs: introspection.cacheMaxAge,
      clockSkewMs: introspection.clockSkew,
      impliedScopes,
      clock,
      maxCached: introspection.cacheEntries,
      maxOpen: introspection.maxConcurrent,
      onToken,
    });
    return { authenticator, issuer, header: "authorization" };
  }
  if (apiKeys !== undefined) {
    const keys = Object.fromEntries(
      Object.entries(apiKeys.keys).map(([id, { expires, ...entry }]) => [
        id,
        { ...entry, expiresAt: expires === undefined ? undefined : Date.parse(expires) },
      ]),
    );
    const { header } = apiKeys;
    const authenticator = createApiKeys({ name, header, keys, impliedScopes, wall: clock.wall });
    return { authenticator, issuer: undefined, header: header ?? "authorization" };
  }
  const { identity = "subject", scopes = [] } = certificate ?? {};
  const authenticator = createCertificates({
    name,
    identity,
    scopes: expandScopes(scopes, impliedScopes),
    wall: clock.wall,
  });
  return { authenticator, issuer: undefined, header: undefined };
}

function located(issuer: Issuer, what: string, url: string | undefined): string {
  if (url !== undefined) return url;
  throw new GatewayError("upstream_invalid", `the metadata of ${issuer.url} has no ${what}`);
}
