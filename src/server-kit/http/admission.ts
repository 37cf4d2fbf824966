import { metadataPrefix } from "../../auth/resource-server.ts";
import type { Clock } from "../../core/exchange.ts";
import type { KitCore, PeerDetails } from "../contract/contract.ts";
import type { InboundRequest } from "./authentication.ts";
import { checkOrigin } from "./origins.ts";
import { createPeerReader, type Peer, type PeerReader } from "../contract/peer.ts";
import { type HttpRefusal, refuseRequest } from "./refusal.ts";
import type { RouteKind } from "./routes.ts";

/** What is checked before anybody asks who is calling. */
export interface RequestChecks {
  /** Reads where a request comes from and what it asks for. */
  read(request: Request, facts: PeerDetails, url: URL, kind: RouteKind): InboundRequest;
  /** Host, origin, HTTPS and the limit on new streams, in this order. */
  check(arrival: InboundRequest, kind: RouteKind): HttpRefusal | undefined;
  /** Takes calls from a caller's share (KO-113). */
  takeCalls(key: string, calls: number): HttpRefusal | undefined;
  /** Notes credentials that were refused: an address may not try them without end. */
  recordAuthFailure(arrival: InboundRequest): void;
}

/** Makes the checks; every setting is read anew with each request (KO-142). */
export function createRequestChecks(core: KitCore, clock: Clock): RequestChecks {
  const opens = createKeyedRateLimit(() => ({ perMinute: core.settings().rateLimit.streamOpensPerMinute }), clock);
  const calls = createKeyedRateLimit(() => ({ perMinute: core.settings().rateLimit.callsPerMinute }), clock);
  let proxies: readonly string[] | undefined;
  let readPeer: PeerReader = createPeerReader([]);

  function peerOf(request: Request, facts: PeerDetails): Peer {
    const { trustedProxies } = core.settings();
    if (trustedProxies !== proxies) {
      proxies = trustedProxies;
      readPeer = createPeerReader(trustedProxies);
    }
    return readPeer(request, facts);
  }

  const limited = (retryAfterSeconds: number | undefined): HttpRefusal | undefined =>
    retryAfterSeconds === undefined ? undefined : refuseRequest("rate_limited", { retryAfterSeconds });

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
        details: facts,
        peer,
        url,
        allowsQueryToken: kind === "sse",
        resource,
        audience: isKnown ? [resource] : undefined,
        resourceMetadataUrl: metadataUrl(peer, core),
      };
    },
    check: ({ request, peer }, kind) => {
      const settings = core.settings();
      const foreign = checkOrigin({ headers: request.headers, host: peer.host, isLocal: peer.isLocal }, settings);
      if (foreign !== undefined) return foreign;
      if (settings.requireHttps && !peer.isHttps) return refuseRequest("https_required");
      if (!settings.enableRateLimiting) return undefined;
      const address = addressKey(peer);
      const isOpening = kind === "sse" && request.method === "GET";
      return limited(isOpening ? opens.take(address) : calls.peek(`failed ${address}`));
    },
    takeCalls: (key, count) => {
      if (!core.settings().enableRateLimiting) return undefined;
      for (let taken = 0; taken < count; taken += 1) {
        const wait = calls.take(key);
        if (wait !== undefined) return limited(wait);
      }
      return undefined;
    },
    recordAuthFailure: ({ peer }) => {
      if (core.settings().enableRateLimiting) calls.take(`failed ${addressKey(peer)}`);
    },
  };
}

/** By what a caller's share is counted: its name, or its address where it has none (KO-113). */
export function rateLimitKey(principal: { readonly id: string; readonly kind: string }, peer: Peer): string {
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

/** How many of something one key may have: all at once or spread, but no more than this in a minute. */
export interface MinuteRate {
  readonly perMinute: number;
}

/** Counts what keys take. */
export interface KeyedRateLimit {
  /** Takes one; answers with the seconds to wait where there is none left. */
  take(key: string): number | undefined;
  /** The seconds to wait if one were taken now, without taking it. */
  peek(key: string): number | undefined;
  /** Keys that are remembered. */
  readonly size: number;
}

interface Bucket {
  tokens: number;
  filledAt: number;
}

/** A bound on what strangers can make us remember. */
const maxBuckets = 10_000;
const sweepAtOnce = 2;

/**
 * Token buckets, one for each key. The rate is asked for at each use, so that a changed setting holds at once (KO-142).
 * A full bucket says no more than none, so those are dropped, a few with every new one.
 */
export function createKeyedRateLimit(rate: () => MinuteRate, clock: Clock): KeyedRateLimit {
  const buckets = new Map<string, Bucket>();

  function fill(bucket: Bucket, now: number): Bucket {
    const { perMinute } = rate();
    bucket.tokens = Math.min(perMinute, bucket.tokens + ((now - bucket.filledAt) * perMinute) / 60_000);
    bucket.filledAt = now;
    return bucket;
  }

  function sweep(now: number): void {
    let looked = 0;
    for (const [key, bucket] of buckets) {
      if (looked++ === sweepAtOnce) break;
      buckets.delete(key);
      if (fill(bucket, now).tokens < rate().perMinute && buckets.size < maxBuckets - 1) buckets.set(key, bucket);
    }
  }

  const waitOf = ({ tokens }: Bucket): number | undefined =>
    tokens >= 1 ? undefined : ((1 - tokens) * 60) / rate().perMinute;

  function bucketOf(key: string): Bucket {
    const now = clock.now();
    const known = buckets.get(key);
    if (known !== undefined) return fill(known, now);
    sweep(now);
    const made = { tokens: rate().perMinute, filledAt: now };
    buckets.set(key, made);
    return made;
  }

  return {
    take: (key) => {
      const bucket = bucketOf(key);
      const wait = waitOf(bucket);
      if (wait === undefined) bucket.tokens -= 1;
      return wait;
    },
    peek: (key) => {
      const known = buckets.get(key);
      return known === undefined ? undefined : waitOf(fill(known, clock.now()));
    },
    get size() {
      return buckets.size;
    },
  };
}
