import { isIP } from "node:net";

import { createTrustedNetworks, forwardedAddress, plainAddress } from "../../lib/forwarded-address.ts";
import type { PeerDetails } from "./contract.ts";

/** Where a request really comes from, as far as that can be believed. */
export interface Peer {
  readonly address: string | undefined;
  readonly isHttps: boolean;
  /** Host and port by which the client knows us, without credentials or path. */
  readonly host: string;
  /** Path in front of our routes as the client sees them, without a slash at its end (KO-052). */
  readonly prefix: string;
  /** Whether it came to a loopback address from somebody who is no trusted proxy. */
  readonly isLocal: boolean;
}

/** Finds out where a request comes from. */
export type PeerReader = (request: Request, facts: PeerDetails) => Peer;

/**
 * Makes the function that reads forwarded headers. They are claims of whoever wrote them, so they count only when the
 * connection comes from a trusted proxy (KO-100).
 */
export function createPeerReader(trustedProxies: readonly string[]): PeerReader {
  const isTrusted = createTrustedNetworks(trustedProxies);
  return (request, facts) => {
    const direct = plainAddress(facts.address);
    const url = new URL(request.url);
    const own: Peer = {
      address: direct,
      isHttps: facts.encrypted ?? url.protocol === "https:",
      host: request.headers.get("host") ?? url.host,
      prefix: (facts.prefix ?? "").replace(/\/$/u, ""),
      isLocal: isLoopback(plainAddress(facts.localAddress)),
    };
    if (direct === undefined || !isTrusted(direct)) return own;
    const { headers } = request;
    const scheme = lastListValue(headers.get("x-forwarded-proto"));
    return {
      address: forwardedAddress(direct, headers.get("x-forwarded-for") ?? "", isTrusted),
      isHttps: scheme === undefined ? own.isHttps : scheme.toLowerCase() === "https",
      host: lastListValue(headers.get("x-forwarded-host")) ?? own.host,
      prefix: cleanPrefix(lastListValue(headers.get("x-forwarded-prefix"))) + own.prefix,
      isLocal: false,
    };
  };
}

/** Whether a text is an IP address or a network in CIDR form, as `trustedProxies` has them. */
export function isIpNetwork(text: string): boolean {
  const [address = "", prefix, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return prefix === undefined || (/^\d{1,3}$/u.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128));
}

/** The value that the nearest proxy wrote: proxies append. */
function lastListValue(list: string | null): string | undefined {
  const last = list?.split(",").at(-1)?.trim();
  return last === undefined || last === "" ? undefined : last;
}

/** A prefix goes into URLs, so only a plain path is taken. */
function cleanPrefix(prefix: string | undefined): string {
  return prefix !== undefined && /^(?:\/[\w.~-]+)+\/?$/u.test(prefix) ? prefix.replace(/\/$/u, "") : "";
}

function isLoopback(address: string | undefined): boolean {
  return address === "::1" || address?.startsWith("127.") === true;
}
