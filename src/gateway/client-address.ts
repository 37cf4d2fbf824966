import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";

/** Says from which address a request comes, as far as that can be believed; undefined on a Unix socket. */
export type ClientAddress = (request: IncomingMessage) => string | undefined;

/**
 * Makes the function that finds a client's address. `X-Forwarded-For` is a claim of whoever wrote it: it is read from
 * the end, and only as far as each address that vouches for the next one is a trusted proxy.
 */
export function createClientAddress(trustedProxies: readonly string[]): ClientAddress {
  if (trustedProxies.length === 0) return ({ socket }) => plainAddress(socket.remoteAddress);
  const trusted = new BlockList();
  for (const network of trustedProxies) {
    const [address = "", prefix] = network.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (prefix === undefined) trusted.addAddress(address, family);
    else trusted.addSubnet(address, Number(prefix), family);
  }
  const isTrusted = (address: string): boolean =>
    trusted.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");

  return ({ socket, headers }) => {
    let client = plainAddress(socket.remoteAddress);
    const named = headers["x-forwarded-for"];
    if (client === undefined || named === undefined) return client;
    const hops = (typeof named === "string" ? named : named.join(",")).split(",");
    for (const hop of hops.toReversed()) {
      if (!isTrusted(client)) return client;
      const address = plainAddress(withoutPort(hop.trim()));
      // Whatever stands before a hop that is no address cannot be believed either.
      if (address === undefined || isIP(address) === 0) return client;
      client = address;
    }
    return client;
  };
}

/** IPv4 addresses come as parts of IPv6 ones where one socket listens for both (RFC 4291, section 2.5.5.2). */
function plainAddress(address: string | undefined): string | undefined {
  return address?.startsWith("::ffff:") === true && address.includes(".") ? address.slice(7) : address;
}

/** Some proxies name the port too: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(hop: string): string {
  if (hop.startsWith("[")) return hop.slice(1, hop.indexOf("]"));
  const colon = hop.indexOf(":");
  return colon >= 0 && colon === hop.lastIndexOf(":") ? hop.slice(0, colon) : hop;
}
