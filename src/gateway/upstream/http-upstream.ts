import type { HttpClient } from "../../auth/http-client.ts";
import { createIssuer } from "../../auth/issuer.ts";
import { createClientAuthentication, type TokenEndpoint } from "../../auth/token-source.ts";
import {
  createClientCredentials,
  createStaticCredentials,
  createTokenExchange,
  type SubjectTokens,
} from "../../auth/upstream-credentials.ts";
import type { HttpUpstreamConfig, HttpUpstreamConfig as HttpConfig } from "../../config/config.ts";
import type { Clock, CredentialProvider, SetTimer } from "../../core/exchange.ts";
import { type ErrorCode, GatewayError } from "../../errors.ts";
import { readTls } from "../../lib/keys/pem.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { ConnectionPool, ProxyConnections } from "../../transports/streamable-http/connection-pool.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import type { StreamCounter } from "../../transports/streamable-http/response.ts";
import { ProxyAgent } from "../../transports/streamable-http/undici.ts";

/** What an HTTP upstream needs besides its configuration. */
export interface HttpUpstreamDeps {
  readonly forwardHeaders: readonly string[];
  readonly connectMs: number;
  readonly quickMs: number;
  readonly limits: ParseLimits;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly onStream: StreamCounter;
  readonly credentials: HttpEndpoint["credentials"];
  readonly bytes: HttpEndpoint["bytes"];
}

/** An HTTP upstream and its connections. */
export interface OpenHttpUpstream {
  readonly upstream: HttpEndpoint;
  readonly close: () => Promise<void>;
}

/** Opens an HTTP upstream. Connections are made with the first request. */
export function openHttpUpstream(config: HttpConfig, deps: HttpUpstreamDeps): OpenHttpUpstream {
  const url = new URL(config.url);
  const dispatcher = createDispatcher(url.origin, config, deps);
  return {
    upstream: {
      origin: url.origin,
      path: url.pathname + url.search,
      headers: config.headers,
      credentials: deps.credentials,
      forwardHeaders: deps.forwardHeaders,
      dispatcher,
      limits: deps.limits,
      setTimer: deps.setTimer,
      quickMs: deps.quickMs,
      newId: deps.newId,
      onStreamCount: deps.onStream,
      bytes: deps.bytes,
    },
    close: () => dispatcher.destroy(),
  };
}

/** Calls beyond `connections` wait, within their own timeouts. */
function createDispatcher(
  origin: string,
  config: HttpConfig,
  deps: HttpUpstreamDeps,
): ConnectionPool | ProxyConnections {
  const { connectMs } = deps;
  const { idleReuse: idleMs, proxy, connections: maxCalls } = config;
  const tls = { ...readTls(config.tls), ...(config.tls?.insecure === true ? { rejectUnauthorized: false } : {}) };
  if (proxy === undefined) return new ConnectionPool(origin, { connectMs, idleMs, tls, maxCalls });
  const connect = { timeout: connectMs, ...tls };
  const agent = new ProxyAgent({
    uri: proxy,
    pipelining: 1,
    keepAliveTimeout: idleMs,
    keepAliveMaxTimeout: idleMs,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect,
    requestTls: connect,
    // Plain http needs no tunnel, and undici would endlessly retry a proxy that refuses one.
    proxyTunnel: origin.startsWith("https:"),
  });
  return new ProxyConnections(agent, maxCalls);
}

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

/** The health of a route's upstream, as its requests have shown it. */
export interface UpstreamHealth {
  /** A request was answered, successfully or with an error of the server. */
  answered(answer: Message | undefined): void;
  /** A request was not answered. */
  failed(error: GatewayError): void;
  /** `not tried yet`, `ok`, or `failing: … since …`, for display. */
  readonly state: string;
}

type Outcome = "ok" | "error" | "unreachable" | "invalid" | "timeout" | "cancelled" | "failed";

/** Failures that are the upstream's fault; all others say nothing about it. */
const faults: Readonly<Partial<Record<ErrorCode, Outcome>>> = {
  upstream_unreachable: "unreachable",
  upstream_invalid: "invalid",
  upstream_timeout: "timeout",
};

/** The state of an upstream that nobody has called. */
export const untried = "not tried yet";

/** Tracks and counts the health of an upstream from its calls. Sends nothing itself. */
export function createUpstreamHealth(route: string, { metrics }: Metrics, clock: Clock): UpstreamHealth {
  const counter = (outcome: Outcome) => metrics.upstreamRequests.labels({ route, outcome });
  const counters: Readonly<Record<Outcome, ReturnType<typeof counter>>> = {
    ok: counter("ok"),
    error: counter("error"),
    unreachable: counter("unreachable"),
    invalid: counter("invalid"),
    timeout: counter("timeout"),
    cancelled: counter("cancelled"),
    failed: counter("failed"),
  };
  let hasAnswered = false;
  let failure: { readonly reason: string; readonly since: number } | undefined;
  return {
    answered: (answer) => {
      hasAnswered = true;
      failure = undefined;
      counters[answer?.kind === "error" ? "error" : "ok"].inc();
    },
    failed: (error) => {
      const fault = faults[error.code];
      counters[fault ?? (error.code === "cancelled" ? "cancelled" : "failed")].inc();
      if (fault !== undefined) failure = { reason: error.message, since: failure?.since ?? clock.wall() };
    },
    get state() {
      if (failure !== undefined) return `failing: ${failure.reason}, since ${new Date(failure.since).toISOString()}`;
      return hasAnswered ? "ok" : untried;
    },
  };
}
