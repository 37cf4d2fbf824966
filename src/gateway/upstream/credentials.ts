import { createClientAuthentication, type TokenEndpoint } from "../../auth/token-endpoint.ts";
import {
  createClientCredentials,
  createStaticCredentials,
  createTokenExchange,
  type SubjectTokens,
} from "../../auth/upstream-credentials.ts";
import type { CredentialProvider } from "../../core/credentials.ts";
import type { HttpClient } from "../../auth/http-client.ts";
import { createIssuer } from "../../auth/issuer.ts";
import type { HttpUpstreamConfig } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import type { Clock } from "../../core/exchange.ts";

/** What obtaining credentials needs. */
export interface CredentialDeps {
  readonly clock: Clock;
  readonly ask: HttpClient;
  readonly subjectTokens: SubjectTokens;
}

type CredentialsConfig = NonNullable<HttpUpstreamConfig["credentials"]>;
type TokenConfig = NonNullable<CredentialsConfig["clientCredentials"]>;

/** How many callers of one upstream have their exchanged token kept. */
const maxExchanged = 10_000;

/** Creates the configured credentials for an upstream. */
export function openCredentials(
  { header, clientCredentials, tokenExchange }: CredentialsConfig,
  deps: CredentialDeps,
): CredentialProvider | undefined {
  const { clock, subjectTokens } = deps;
  if (header !== undefined) return createStaticCredentials(header.name, header.value);
  if (clientCredentials !== undefined) {
    return createClientCredentials(endpointOf(clientCredentials, deps), tokenRequestOf(clientCredentials), clock);
  }
  if (tokenExchange === undefined) return undefined;
  return createTokenExchange({
    endpoint: endpointOf(tokenExchange, deps),
    request: tokenRequestOf(tokenExchange),
    subjectTokens,
    clock,
    maxCached: maxExchanged,
  });
}

function endpointOf(config: TokenConfig, { ask, clock }: CredentialDeps): TokenEndpoint {
  const { issuer, tokenEndpoint, clientId, clientSecret, clientAuthentication } = config;
  const server = issuer === undefined ? undefined : createIssuer(issuer, ask, clock);
  return {
    locate: async () => {
      const url = tokenEndpoint ?? (await server?.metadata())?.tokenEndpoint;
      if (url !== undefined) return url;
      throw new GatewayError("upstream_unreachable", "the gateway could not obtain credentials for the upstream", {
        cause: new Error(`the metadata of ${issuer} has no token endpoint`),
      });
    },
    client: createClientAuthentication({ clientId, clientSecret, method: clientAuthentication }),
    ask,
  };
}

function tokenRequestOf({ scopes, resource, audience }: TokenConfig) {
  return { scopes, resource, audience };
}
