import { localhostAllowedHostnames, validateHostHeader } from "@modelcontextprotocol/server";

import { metadataPrefix } from "../../auth/resource-server.ts";
import type { Clock, Principal } from "../../core/exchange.ts";
import { createTrustedNetworks, forwardedAddress, isLoopback, networkOf, plainAddress } from "../../lib/addresses.ts";
import { createTokenBuckets } from "../../lib/token-bucket.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { KitCore, PeerDetails } from "./contract.ts";
import { type HttpRefusal, httpRefusal } from "./refusal.ts";
import { type RouteKind, routeMethods } from "./route-handlers.ts";

/** The client of a request, and how it addresses the server. */
export interface ClientPeer {
  readonly address: string | undefined;
  readonly isHttps: boolean;
  /** Host and port by which the client knows the server. */
  readonly host: string;
  /** The path in front of the kit's routes as the client sees them, without a trailing slash (KO-052). */
  readonly prefix: string;
  /** Whether the request came to a loopback address without a trusted proxy. */
  readonly isLocal: boolean;
}

/** A request on one of the kit's routes. */
export interface InboundRequest {
  readonly request: Request;
  readonly details: PeerDetails;
  readonly peer: ClientPeer;
  readonly url: URL;
  /** Whether a token in the query is accepted: only where a browser cannot send a header (KO-102). */
  readonly allowsQueryToken: boolean;
  /** The URL of the base route as the client knows it. */
  readonly resource: string;
  /** The audience that tokens must have (RFC 8707); undefined if only the client's Host header names the server. */
  readonly audience: readonly string[] | undefined;
  /** Where a challenge sends clients that want to log in (RFC 9728). */
  readonly resourceMetadataUrl: string;
}

/** The checks before authentication, and the rate limits. */
export type RequestChecks = ReturnType<typeof createRequestChecks>;

/** Creates the checks; settings are read at each request (KO-142). */
export function createRequestChecks(core: KitCore, clock: Clock) {
  const opens = createMinuteLimit(() => core.settings().rateLimit.streamOpensPerMinute, clock);
  const calls = createMinuteLimit(() => core.settings().rateLimit.callsPerMinute, clock);
  let proxies: readonly string[] | undefined;
  let readPeer = createPeerReader([]);

  function peerOf(request: Request, details: PeerDetails): ClientPeer {
    const { trustedProxies } = core.settings();
    if (trustedProxies !== proxies) {
      proxies = trustedProxies;
      readPeer = createPeerReader(trustedProxies);
    }
    return readPeer(request, details);
  }

  const refusalAfter = (retryAfterSeconds: number | undefined): HttpRefusal | undefined =>
    retryAfterSeconds === undefined ? undefined : httpRefusal("rate_limited", { retryAfterSeconds });

  return {
    read: (request: Request, details: PeerDetails, url: URL, kind: RouteKind): InboundRequest => {
      const settings = core.settings();
      const peer = peerOf(request, details);
      const base = publicBase(peer, settings);
      const resource = base + settings.httpSseRoute;
      return {
        request,
        details,
        peer,
        url,
        allowsQueryToken: kind === "sse",
        resource,
        // A client with a token for another server could send that server's name as Host; on loopback Host is checked.
        audience: settings.publicUrl !== undefined || peer.isLocal ? [resource] : undefined,
        // RFC 9728 puts the well-known part in front of the whole path, but a prefix belongs to the host.
        resourceMetadataUrl: base + metadataPrefix + settings.httpSseRoute,
      };
    },
    /** Checks host, origin, HTTPS and the limit on new streams, in this order. */
    check: ({ request, peer }: InboundRequest, kind: RouteKind): HttpRefusal | undefined => {
      const settings = core.settings();
      const refusal = checkOrigin({ headers: request.headers, host: peer.host, isLocal: peer.isLocal }, settings);
      if (refusal !== undefined) return refusal;
      if (settings.requireHttps && !peer.isHttps) return httpRefusal("https_required");
      if (!settings.enableRateLimiting) return undefined;
      const isOpening = kind === "sse" && request.method === "GET";
      return refusalAfter(isOpening ? opens.take(addressKey(peer)) : calls.peek(failureKey(peer)));
    },
    /** Counts a new session against the limit on new streams of its address. */
    takeOpening: (peer: ClientPeer): HttpRefusal | undefined => {
      return core.settings().enableRateLimiting ? refusalAfter(opens.take(addressKey(peer))) : undefined;
    },
    /** Counts calls against the caller's rate limit (KO-113). */
    takeCalls: (principal: Principal, peer: ClientPeer, count: number): HttpRefusal | undefined => {
      if (!core.settings().enableRateLimiting) return undefined;
      const key = principal.kind === "anonymous" ? `address ${addressKey(peer)}` : `caller ${principal.id}`;
      for (let taken = 0; taken < count; taken += 1) {
        const wait = calls.take(key);
        if (wait !== undefined) return refusalAfter(wait);
      }
      return undefined;
    },
    /** Counts rejected credentials against the rate limit of the address. */
    recordAuthFailure: ({ peer }: InboundRequest): void => {
      if (core.settings().enableRateLimiting) calls.take(failureKey(peer));
    },
  };
}

/** The base URL of the server as the client sees it. */
function publicBase(peer: ClientPeer, { publicUrl }: KitSettings): string {
  if (publicUrl !== undefined) return publicUrl.replace(/\/+$/u, "");
  return `${peer.isHttps ? "https" : "http"}://${peer.host}${peer.prefix}`;
}

function addressKey({ address }: ClientPeer): string {
  return address === undefined ? "unknown" : networkOf(address);
}

function failureKey(peer: ClientPeer): string {
  return `failed ${addressKey(peer)}`;
}

/** Creates the function that reads the peer of a request. Forwarded headers count only from a trusted proxy (KO-100). */
export function createPeerReader(
  trustedProxies: readonly string[],
): (request: Request, details: PeerDetails) => ClientPeer {
  const isTrusted = createTrustedNetworks(trustedProxies);
  return (request, details) => {
    const address = plainAddress(details.address);
    const localAddress = plainAddress(details.localAddress);
    const url = new URL(request.url);
    const { headers } = request;
    const own: ClientPeer = {
      address,
      isHttps: details.encrypted ?? url.protocol === "https:",
      host: headers.get("host") ?? url.host,
      prefix: (details.prefix ?? "").replace(/\/$/u, ""),
      isLocal: localAddress !== undefined && isLoopback(localAddress),
    };
    if (address === undefined || !isTrusted(address)) return own;
    const scheme = lastListValue(headers.get("x-forwarded-proto"));
    return {
      address: forwardedAddress(address, headers.get("x-forwarded-for") ?? "", isTrusted),
      isHttps: scheme === undefined ? own.isHttps : scheme.toLowerCase() === "https",
      host: lastListValue(headers.get("x-forwarded-host")) ?? own.host,
      prefix: cleanPrefix(lastListValue(headers.get("x-forwarded-prefix"))) + own.prefix,
      isLocal: false,
    };
  };
}

/** The value of the nearest proxy: proxies append. */
function lastListValue(list: string | null): string | undefined {
  const last = list?.split(",").at(-1)?.trim();
  return last === "" ? undefined : last;
}

/** The prefix becomes part of URLs, so it must be a plain path. */
function cleanPrefix(prefix: string | undefined): string {
  return prefix !== undefined && /^(?:\/[\w.~-]+)+\/?$/u.test(prefix) ? prefix.replace(/\/$/u, "") : "";
}

/** A rate limit per key, as a token bucket that refills in a minute. */
export interface MinuteLimit {
  /** Takes a token; returns the seconds to wait if there is none. */
  take(key: string): number | undefined;
  /** The seconds to wait for a token, without taking it. */
  peek(key: string): number | undefined;
}

/** Creates a rate limit; it starts over when the rate changes (KO-142). */
export function createMinuteLimit(perMinute: () => number, clock: Clock): MinuteLimit {
  const create = (burst: number) => createTokenBuckets({ perSecond: burst / 60, burst }, () => clock.now());
  let rate = perMinute();
  let buckets = create(rate);

  function use(key: string, tokens: number): number | undefined {
    if (perMinute() !== rate) {
      rate = perMinute();
      buckets = create(rate);
    }
    const bucket = buckets.get(key);
    if (bucket.tokens < 1) return buckets.waitMs(bucket) / 1000;
    bucket.tokens -= tokens;
    return undefined;
  }

  return { take: (key) => use(key, 1), peek: (key) => use(key, 0) };
}

/** The settings about browser origins. */
export type OriginSettings = Pick<KitSettings, "enableCors" | "allowedOrigins">;

const profileHeaders = ["Authorization", "Content-Type", "X-Mcp-Session"];
const extraHeaders: Readonly<Partial<Record<RouteKind, readonly string[]>>> = {
  // MCP 2025-11-25 and 2026-07-28, Transports.
  streamable: ["Accept", "Last-Event-ID", "Mcp-Session-Id", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"],
  rest: ["If-Match"],
};
const exposedHeaders = "X-Mcp-Session, Mcp-Session-Id, WWW-Authenticate, Retry-After";

/**
 * Refuses requests of other origins, whether or not CORS is enabled, and on loopback requests for another host name
 * (KO-112; MCP 2025-11-25, Streamable HTTP, Security).
 */
export function checkOrigin(
  { headers, host, isLocal }: Pick<ClientPeer, "host" | "isLocal"> & { readonly headers: Headers },
  { allowedOrigins }: OriginSettings,
): HttpRefusal | undefined {
  if (isLocal && !isKnownHost(host, allowedOrigins)) return httpRefusal("host_refused");
  const origin = headers.get("origin");
  if (origin === null || origin === "") return undefined;
  if (allowedOrigins.includes(origin) || isOwnOrigin(origin, host)) return undefined;
  return httpRefusal("origin_refused");
}

/** The CORS headers of a response to this origin; none if CORS is disabled or the origin is not listed (KO-111). */
export function corsHeaders(
  origin: string | null,
  { enableCors, allowedOrigins }: OriginSettings,
): Readonly<Record<string, string>> {
  if (!enableCors) return {};
  if (origin === null || !allowedOrigins.includes(origin)) return { vary: "Origin" };
  return {
    "access-control-allow-origin": origin,
    "access-control-allow-credentials": "true",
    "access-control-expose-headers": exposedHeaders,
    vary: "Origin",
  };
}

/** The response to a preflight request (KO-109, KO-110). */
export function answerPreflight(headers: Headers, kind: RouteKind, allow: string, settings: OriginSettings): Response {
  const granted = corsHeaders(headers.get("origin"), settings);
  const isGranted = "access-control-allow-origin" in granted;
  return new Response(null, {
    status: 204,
    headers: {
      allow,
      ...granted,
      ...(isGranted
        ? {
            "access-control-allow-methods": corsMethods(kind),
            "access-control-allow-headers": [
              ...profileHeaders,
              ...(extraHeaders[kind] ?? []),
              ...(kind === "streamable" ? requestedParamHeaders(headers) : []),
            ].join(", "),
            "access-control-max-age": "600",
          }
        : {}),
    },
  });
}

/** The HTTP+SSE profile allows GET, POST and OPTIONS on all of its routes. */
function corsMethods(kind: RouteKind): string {
  return [...new Set(["GET", "POST", ...routeMethods[kind], "OPTIONS"])].join(", ");
}

/** The requested `Mcp-Param-*` headers, whose names come from the tools' schemas (MCP 2026-07-28). */
function requestedParamHeaders(headers: Headers): readonly string[] {
  const asked = (headers.get("access-control-request-headers") ?? "").split(",").map((name) => name.trim());
  return asked.filter((name) => /^mcp-param-[\w-]{1,100}$/iu.test(name)).slice(0, 50);
}

function isOwnOrigin(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false;
  const page = new URL(origin);
  // Uses the page's scheme, because TLS may have ended at a proxy; default ports are omitted on both sides.
  const own = `${page.protocol}//${host}`;
  return page.host !== "" && URL.canParse(own) && new URL(own).host === page.host;
}

function isKnownHost(host: string, allowedOrigins: readonly string[]): boolean {
  const names = allowedOrigins.flatMap((origin) => (URL.canParse(origin) ? [new URL(origin).hostname] : []));
  const check = validateHostHeader(host, [...localhostAllowedHostnames(), ...names]);
  if (check.ok) return true;
  return URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname.endsWith(".localhost");
}
