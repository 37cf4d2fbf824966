import type { HttpRequestFacts } from "./contract.ts";

/** Most query arguments in a payload (PA-047). */
const maxQueryArguments = 100;

/** The URL for the payload. */
export interface ComposedUrl {
  readonly url: string;
  /** Query arguments that the decision point does not get to see. */
  readonly omittedArguments: number;
}

/** Scheme, host, port (always written), path and query as one URL; undefined when the path was not UTF-8 (PA-045). */
export function composeUrl(facts: HttpRequestFacts): ComposedUrl | undefined {
  if (facts.path.includes("\uFFFD")) return undefined;
  const path = facts.path.startsWith("/") ? facts.path : `/${facts.path}`;
  const { query, omitted } = reencodeQuery(facts.query ?? "");
  const base = `${facts.scheme}://${facts.host}:${facts.port}${encodePath(path)}`;
  return { url: query === "" ? base : `${base}?${query}`, omittedArguments: omitted };
}

/** Percent-encodes what RFC 3986 does not let stand in a path; `%` and two hexadecimal digits stay (PA-045). */
export function encodePath(path: string): string {
  return path.toWellFormed().replaceAll(/%(?![\dA-Fa-f]{2})|[^!$&'()*+,\-./:;=@\w~%[\]]/gu, encodeCharacter);
}

function encodeCharacter(character: string): string {
  return Buffer.from(character).toString("hex").replaceAll(/../gu, "%$&").toUpperCase();
}

/** Decodes and encodes again the first hundred arguments, keeping their order and duplicates (PA-046). */
export function reencodeQuery(raw: string): { readonly query: string; readonly omitted: number } {
  const segments = raw.split("&").filter((segment) => segment !== "");
  const query = segments.slice(0, maxQueryArguments).map(reencodeArgument).join("&");
  return { query, omitted: Math.max(0, segments.length - maxQueryArguments) };
}

function reencodeArgument(segment: string): string {
  const at = segment.indexOf("=");
  if (at < 0) return reencodeText(segment);
  return `${reencodeText(segment.slice(0, at))}=${reencodeText(segment.slice(at + 1))}`;
}

/** Byte by byte, so that what is no UTF-8 comes out as it went in. */
function reencodeText(text: string): string {
  return text.toWellFormed().replaceAll(/%[\dA-Fa-f]{2}|[^\w\-.!~*'()]/gu, (part) => {
    if (part === "+") return "%20";
    if (part.length !== 3) return encodeCharacter(part);
    const character = String.fromCharCode(Number.parseInt(part.slice(1), 16));
    return /[\w\-.!~*'()]/u.test(character) ? character : part.toUpperCase();
  });
}

/** A URL in the parts that can be changed one by one, with the default port where none is written (PA-079). */
export interface UrlParts {
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly query: string;
}

const urlForm = /^([a-z][\d+.a-z-]*):\/\/([^/?#]+)(\/[^?#]*)?(?:\?([^#]*))?(?:#.*)?$/iu;
// User information, and the backslash that browsers read as a slash, could name another host than it seems.
const authorityForm = /^(\[[^\]@\\]*\]|[^:@\\]*)(?::(\d*))?$/u;

/** Takes an absolute http or https URL apart without normalising its path; undefined when it is none (PA-210). */
export function parseHttpUrl(text: string): UrlParts | undefined {
  const [, scheme = "", authority = "", path = "", query = ""] = urlForm.exec(text) ?? [];
  const [, host = "", port = ""] = authorityForm.exec(authority) ?? [];
  if (host === "" || !URL.canParse(text)) return undefined;
  const lowerScheme = scheme.toLowerCase();
  if (lowerScheme !== "http" && lowerScheme !== "https") return undefined;
  return {
    scheme: lowerScheme,
    host: host.toLowerCase(),
    port: port === "" ? (lowerScheme === "https" ? 443 : 80) : Number(port),
    path: encodePath(path === "" ? "/" : path),
    query,
  };
}
