import { BlockList, isIP } from "node:net";

/** Whether a proxy address is trusted. */
export type IsTrustedAddress = (address: string) => boolean;

/** Trusts these addresses and CIDR networks. */
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

/** The client address behind a chain of proxies. `X-Forwarded-For` is read from its end, while each proxy is trusted. */
export function forwardedAddress(direct: string, named: string, isTrusted: IsTrustedAddress): string {
  let client = direct;
  for (const hop of named.split(",").toReversed()) {
    if (!isTrusted(client)) return client;
    const address = plainAddress(withoutPort(hop.trim()));
    // Entries before an invalid one cannot be trusted either.
    if (address === undefined || isIP(address) === 0) return client;
    client = address;
  }
  return client;
}

/** A dual-stack socket reports IPv4 addresses as IPv6 ones (RFC 4291, section 2.5.5.2). */
export function plainAddress(address: string | undefined): string | undefined {
  return address?.startsWith("::ffff:") === true && address.includes(".") ? address.slice(7) : address;
}

/** Some proxies add the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(hop: string): string {
  if (hop.startsWith("[")) return hop.slice(1, hop.indexOf("]"));
  const colon = hop.indexOf(":");
  return colon >= 0 && colon === hop.lastIndexOf(":") ? hop.slice(0, colon) : hop;
}
