import { BlockList, isIP, isIPv6 } from "node:net";

/** Whether a host is loopback. */
export function isLoopback(host: string): boolean {
  const name = withoutBrackets(host).toLowerCase();
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  return (
    name === "::1" || (isIP(name) === 4 && name.startsWith("127.")) || /^::ffff:(?:127\.|7f[\da-f]{2}:)/u.test(name)
  );
}

/** Whether a string is an IP address or a network in CIDR notation. */
export function isNetwork(text: string): boolean {
  const [address = "", prefix, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return prefix === undefined || (/^\d{1,3}$/u.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128));
}

/** Whether a string is a host name or IP address without a port. */
export function isAddress(text: string): boolean {
  return isIP(withoutBrackets(text)) !== 0 || (isHost(text) && !text.includes(":"));
}

/** Whether a string is a host name or IP address with an optional port, as in a Host header. */
export function isHost(text: string): boolean {
  if (text === "" || /[\s/@?#\\"'\u2018-\u201F]/u.test(text)) return false;
  const parsed = parseUrl(`http://${isIPv6(text) ? `[${text}]` : text}`);
  return parsed !== undefined && parsed.hostname !== "";
}

/** Whether a string is a browser origin: scheme, host and port only. */
export function isOrigin(text: string): boolean {
  const parsed = parseUrl(text);
  if (parsed === undefined || parsed.hostname === "") return false;
  return text.toLowerCase() === `${parsed.protocol}//${parsed.host}` || text.toLowerCase() === parsed.origin;
}

/** Parses a URL; undefined if it is invalid. */
export function parseUrl(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

function withoutBrackets(host: string): string {
  return host.startsWith("[") && host.endsWith("]") ? host.slice(1, -1) : host;
}

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

/** The network that one customer has: an IPv4 address, or 64 bits of an IPv6 one, within which addresses cost nothing. */
export function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
  const [plain = ""] = address.split("%");
  const [head = "", tail] = plain.split("::");
  const groups = head === "" ? [] : head.split(":");
  const rest = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = Array<string>(8 - groups.length - rest.length).fill("0");
  const first = [...groups, ...zeros, ...rest].slice(0, 4);
  return `${first.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}
