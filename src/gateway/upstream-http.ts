import { Pool, ProxyAgent } from "undici";
import type { Dispatcher } from "undici";
import type { SetTimer } from "../exchange.ts";
import type { ParseLimits } from "../protocol/message.ts";
import type { HttpUpstream as HttpConfig } from "../config/config.ts";
import type { HttpUpstream } from "../transports/streamable-http/client.ts";
import type { StreamCount } from "../transports/streamable-http/response.ts";
import { readPem } from "./pem.ts";

/** What an upstream over HTTP needs besides its own configuration. */
export interface HttpUpstreamDeps {
  readonly forwardHeaders: readonly string[];
  readonly connectMs: number;
  readonly limits: ParseLimits;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly onStream: StreamCount;
  readonly credentials: HttpUpstream["credentials"];
}

/** An HTTP upstream with its connections; closing ends them. */
export interface OpenHttpUpstream {
  readonly upstream: HttpUpstream;
  readonly close: () => Promise<void>;
}

/** Opens the way to an HTTP upstream: connections are made when the first request goes out. */
export function openHttpUpstream(config: HttpConfig, deps: HttpUpstreamDeps): OpenHttpUpstream {
  const url = new URL(config.url);
  const make = (): Dispatcher => createDispatcher(url.origin, config, deps);
  const calls = make();
  const streams = make();
  return {
    upstream: {
      origin: url.origin,
      path: url.pathname + url.search,
      headers: config.headers,
      credentials: deps.credentials,
      forwardHeaders: deps.forwardHeaders,
      calls,
      streams,
      limits: deps.limits,
      setTimer: deps.setTimer,
      newId: deps.newId,
      onStream: deps.onStream,
    },
    close: async () => {
      await Promise.all([calls.destroy(), streams.destroy()]);
    },
  };
}

/**
 * The number of connections is not limited here: an answer that streams holds its connection, and calls behind it
 * would wait without any timeout. The gateway bounds running requests instead.
 */
function createDispatcher(origin: string, config: HttpConfig, deps: HttpUpstreamDeps): Dispatcher {
  const options = {
    pipelining: 1,
    keepAliveTimeout: config.idleReuse,
    keepAliveMaxTimeout: config.idleReuse,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: deps.connectMs, ...tlsOptions(config.tls) },
  };
  if (config.proxy === undefined) return new Pool(origin, { ...options, connections: null });
  // A tunnel for plain http is not needed, and a proxy that refuses one would be asked again without end.
  const proxyTunnel = origin.startsWith("https:");
  return new ProxyAgent({ uri: config.proxy, ...options, requestTls: options.connect, proxyTunnel });
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
