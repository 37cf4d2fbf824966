import { metadataPrefix } from "../../auth/resource-server.ts";
import type { Clock } from "../../exchange.ts";
import type { KitCore, PeerFacts } from "../contract.ts";
import type { Arrival } from "./door.ts";
import { checkOrigin } from "./origins.ts";
import { createReadPeer, type Peer, type ReadPeer } from "./peer.ts";
import { createRateLimit } from "./rate-limits.ts";
import { refuse, type Refused } from "./refusals.ts";
import type { RouteKind } from "./routes.ts";

/** What is checked before anybody asks who is calling. */
export interface Forecourt {
  /** Reads where a request comes from and what it asks for. */
  read(request: Request, facts: PeerFacts, url: URL, kind: RouteKind): Arrival;
  /** Host, origin, HTTPS and the limit on new streams, in this order. */
  check(arrival: Arrival, kind: RouteKind): Refused | undefined;
  /** Takes calls from a caller's share (KO-113). */
  take(key: string, calls: number): Refused | undefined;
  /** Notes credentials that were refused: an address may not try them without end. */
  noteFailure(arrival: Arrival): void;
}

/** Makes the checks; every setting is read anew with each request (KO-142). */
export function createForecourt(core: KitCore, clock: Clock): Forecourt {
  const opens = createRateLimit(() => ({ perMinute: core.settings().rateLimit.streamOpensPerMinute }), clock);
  const calls = createRateLimit(() => ({ perMinute: core.settings().rateLimit.callsPerMinute }), clock);
  let proxies: readonly string[] | undefined;
  let readPeer: ReadPeer = createReadPeer([]);

  function peerOf(request: Request, facts: PeerFacts): Peer {
    const { trustedProxies } = core.settings();
    if (trustedProxies !== proxies) {
      proxies = trustedProxies;
      readPeer = createReadPeer(trustedProxies);
    }
    return readPeer(request, facts);
  }

  const limited = (retryAfterSeconds: number | undefined): Refused | undefined =>
    retryAfterSeconds === undefined ? undefined : refuse("rate_limited", { retryAfterSeconds });

  return {
    read: (request, facts, url, kind) => {
      const peer = peerOf(request, facts);
      const { httpSseRoute, publicUrl } = core.settings();
      const resource = publicBase(peer, core) + httpSseRoute;
      // A Host header is what the client made of it: whoever has a token for another server could name that one. On
      // loopback it was checked.
      const isKnown = publicUrl !== undefined || peer.isLocal;
      return {
        request,
        facts,
        peer,
        url,
        mayUseQueryToken: kind === "sse",
        resource,
        audience: isKnown ? [resource] : undefined,
        resourceMetadataUrl: metadataUrl(peer, core),
      };
    },
    check: ({ request, peer }, kind) => {
      const settings = core.settings();
      const foreign = checkOrigin(
        { headers: request.headers, host: peer.host, isLocal: peer.isLocal },
        settings,
      );
      if (foreign !== undefined) return foreign;
      if (settings.requireHttps && !peer.isHttps) return refuse("https_required");
      if (!settings.enableRateLimiting) return undefined;
      const address = addressKey(peer);
      const isOpening = kind === "sse" && request.method === "GET";
      return limited(isOpening ? opens.take(address) : calls.peek(`failed ${address}`));
    },
    take: (key, count) => {
      if (!core.settings().enableRateLimiting) return undefined;
      for (let taken = 0; taken < count; taken += 1) {
        const wait = calls.take(key);
        if (wait !== undefined) return limited(wait);
      }
      return undefined;
    },
    noteFailure: ({ peer }) => {
      if (core.settings().enableRateLimiting) calls.take(`failed ${addressKey(peer)}`);
    },
  };
}

/** By what a caller's share is counted: its name, or its address where it has none (KO-113). */
export function shareKey(principal: { readonly id: string; readonly kind: string }, peer: Peer): string {
  return principal.kind === "anonymous" ? `address ${addressKey(peer)}` : `caller ${principal.id}`;
}

/** The address of this server as this client sees it, in front of the routes. */
function publicBase(peer: Peer, core: KitCore): string {
  const { publicUrl } = core.settings();
  if (publicUrl !== undefined) return publicUrl.replace(/\/+$/u, "");
  return `${peer.isHttps ? "https" : "http"}://${peer.host}${peer.prefix}`;
}

/**
 * Where the metadata of the base route is. RFC 9728 puts the well-known part in front of the whole path; behind a
 * prefix that belongs to the host, so it stands in front of our own path there and the challenge says so.
 */
function metadataUrl(peer: Peer, core: KitCore): string {
  return `${publicBase(peer, core)}${metadataPrefix}${core.settings().httpSseRoute}`;
}

function addressKey({ address }: Peer): string {
  return address ?? "unknown";
}
