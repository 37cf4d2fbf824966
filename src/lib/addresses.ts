import { isIP, isIPv6 } from "node:net";

/** Whether a host is loopback. */
export function isLoopback(host: string): boolean {
  const name = withoutBrackets(host).toLowerCase();
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  return name === "::1" || (isIP(name) === 4 && name.startsWith("127.")) || name.startsWith("::ffff:127.");
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
  if (text === "" || /[\s/@?#\\]/u.test(text)) return false;
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
