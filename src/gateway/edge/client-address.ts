import type { IncomingMessage } from "node:http";
import { createTrustedNetworks, forwardedAddress, plainAddress } from "../../lib/forwarded-address.ts";

/** Says from which address a request comes, as far as that can be believed; undefined on a Unix socket. */
export type ClientAddress = (request: IncomingMessage) => string | undefined;

/** Makes the function that finds a client's address; forwarded ones count as far as proxies are trusted. */
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
