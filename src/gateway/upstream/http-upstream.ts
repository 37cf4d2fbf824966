import { ProxyAgent } from "undici";
import type { SetTimer } from "../../core/exchange.ts";
import type { ParseLimits } from "../../protocol/message.ts";
import type { HttpUpstreamConfig as HttpConfig } from "../../config/config.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import { ConnectionPool } from "../../transports/streamable-http/connection-pool.ts";
import type { StreamCounter } from "../../transports/streamable-http/response.ts";
import { readPem } from "../../lib/pem.ts";

/** What an HTTP upstream needs besides its configuration. */
export interface HttpUpstreamDeps {
  readonly forwardHeaders: readonly string[];
  readonly connectMs: number;
  readonly limits: ParseLimits;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly onStream: StreamCounter;
  readonly credentials: HttpEndpoint["credentials"];
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
      newId: deps.newId,
      onStreamCount: deps.onStream,
    },
    close: () => dispatcher.destroy(),
  };
}

/** Calls beyond `connections` wait in the pool, within their own timeouts; a proxy's connections are not bounded. */
function createDispatcher(origin: string, config: HttpConfig, deps: HttpUpstreamDeps): ConnectionPool | ProxyAgent {
  const { connectMs } = deps;
  const { idleReuse: idleMs, proxy, connections: maxCalls } = config;
  const tls = tlsOptions(config.tls);
  if (proxy === undefined) return new ConnectionPool(origin, { connectMs, idleMs, tls, maxCalls });
  const connect = { timeout: connectMs, ...tls };
  return new ProxyAgent({
    uri: proxy,
    pipelining: 1,
    keepAliveTimeout: idleMs,
    keepAliveMaxTimeout: idleMs,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect,
    requestTls: connect,
    // Plain http needs no tunnel, and undici would retry a proxy that refuses one without end.
    proxyTunnel: origin.startsWith("https:"),
  });
}

function tlsOptions(tls: HttpConfig["tls"]): Record<string, unknown> {
  if (tls === undefined) return {};
  return {
    ...(tls.caFile === undefined ? {} : { ca: readPem(tls.caFile) }),
    ...(tls.certFile === undefined ? {} : { cert: readPem(tls.certFile) }),
    ...(tls.keyFile === undefined ? {} : { key: readPem(tls.keyFile) }),
    ...(tls.insecure ? { rejectUnauthorized: false } : {}),
  };
}
