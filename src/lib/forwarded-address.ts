import { BlockList, isIP } from "node:net";

/** Whether an address is one of those that are believed. */
export type IsTrustedAddress = (address: string) => boolean;

/** Trusts addresses and networks in CIDR form, and nothing else. */
export function createTrustedNetworks(networks: readonly string[]): IsTrustedAddress {
  const trusted = new BlockList();
  for (const network of networks) {
    const [address = "", prefix] = network.split("/");
    const family = isIP(address) === 6 ? "ipv6" : "ipv4";
    if (prefix === undefined) trusted.addAddress(address, family);
    else trusted.addSubnet(address, Number(prefix), family);
  }
  return (address) => isIP(address) !== 0 && trusted.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

/**
 * The address that a chain of proxies vouches for. `X-Forwarded-For` is a claim of whoever wrote it: it is read from
 * the end, and only as far as each address that vouches for the next one is trusted.
 */
export function forwardedAddress(direct: string, named: string, isTrusted: IsTrustedAddress): string {
  let client = direct;
  for (const hop of named.split(",").toReversed()) {
    if (!isTrusted(client)) return client;
    const address = plainAddress(withoutPort(hop.trim()));
    // Whatever stands before a hop that is no address cannot be believed either.
    if (address === undefined || isIP(address) === 0) return client;
    client = address;
  }
  return client;
}

/** IPv4 addresses come as parts of IPv6 ones where one socket listens for both (RFC 4291, section 2.5.5.2). */
export function plainAddress(address: string | undefined): string | undefined {
  return address?.startsWith("::ffff:") === true && address.includes(".") ? address.slice(7) : address;
}

/** Some proxies name the port too: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(hop: string): string {
  if (hop.startsWith("[")) return hop.slice(1, hop.indexOf("]"));
  const colon = hop.indexOf(":");
  return colon >= 0 && colon === hop.lastIndexOf(":") ? hop.slice(0, colon) : hop;
}
