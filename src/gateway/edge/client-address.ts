import type { IncomingMessage } from "node:http";
import { createTrustedNetworks, forwardedAddress, plainAddress } from "../../lib/forwarded-address.ts";

/** The IP address of a request's client; undefined on a Unix socket. */
export type ClientAddress = (request: IncomingMessage) => string | undefined;

/** Creates the function that finds a client's address. `X-Forwarded-For` is believed from trusted proxies. */
export function createClientAddress(trustedProxies: readonly string[]): ClientAddress {
  if (trustedProxies.length === 0) return ({ socket }) => plainAddress(socket.remoteAddress);
  const isTrusted = createTrustedNetworks(trustedProxies);
  return ({ socket, headers }) => {
    const direct = plainAddress(socket.remoteAddress);
    const named = headers["x-forwarded-for"];
    if (direct === undefined || named === undefined) return direct;
    return forwardedAddress(direct, typeof named === "string" ? named : named.join(","), isTrusted);
  };
}
