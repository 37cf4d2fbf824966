import { isObject } from "../../lib/is-object.ts";
import type { HeadersIn, HeadersOut, HttpRequestFacts, HttpResponseFacts } from "./contract.ts";

/** One header in the form of the Sideband API: an object with exactly one key (PA-036). */
export type SidebandHeader = Readonly<Record<string, string>>;

/** Header values by lower-case name, in order of appearance. */
export type HeaderMap = ReadonlyMap<string, readonly string[]>;

/** The headers of a message, or why they cannot be sent; `isIncomplete` if some may be missing. */
export function readHeaders({
  headers: given,
  headerLimit = Number.POSITIVE_INFINITY,
}: Pick<HttpRequestFacts | HttpResponseFacts, "headers" | "headerLimit">):
  | HeaderMap
  | { readonly problem: string; readonly isIncomplete: boolean } {
  const headers = toHeaderMap(given);
  if (headers === undefined)
    return { problem: "a header value is neither a string nor an array of strings", isIncomplete: false };
  const count = [...headers.values()].reduce((sum, values) => sum + values.length, 0);
  return count >= headerLimit ? { problem: "there are more headers than can be read", isIncomplete: true } : headers;
}

/** Lower-cases and joins header names; undefined if a value is not a string or an array of strings (PA-039). */
export function toHeaderMap(headers: HeadersIn): HeaderMap | undefined {
  const map = new Map<string, readonly string[]>();
  for (const [name, value] of Object.entries(headers)) {
    const values: readonly unknown[] = Array.isArray(value) ? value : [value];
    if (!values.every((entry) => typeof entry === "string")) return undefined;
    const key = name.toLowerCase();
    map.set(key, [...(map.get(key) ?? []), ...values]);
  }
  return map;
}

/** One entry for each value, in their order (PA-037, PA-038). */
export function toSidebandHeaders(headers: HeaderMap): SidebandHeader[] {
  return [...headers].flatMap(([name, values]) =>
    // A literal with the name `__proto__` would have no key.
    values.map((value) => Object.fromEntries([[name, value]])),
  );
}

/**
 * Parses headers in Sideband form (PA-040). Undefined if they are not an array of objects with string values, or if HTTP
 * could not carry a name or value (PA-208).
 */
export function fromSidebandHeaders(list: unknown): HeaderMap | undefined {
  if (!Array.isArray(list)) return undefined;
  const map = new Map<string, string[]>();
  for (const entry of list as readonly unknown[]) {
    if (!isObject(entry)) return undefined;
    for (const [name, value] of Object.entries(entry)) {
      if (typeof value !== "string" || !isHeaderName(name) || !isHeaderValue(value)) return undefined;
      const key = name.toLowerCase();
      map.set(key, [...(map.get(key) ?? []), value]);
    }
  }
  return map;
}

function isHeaderName(name: string): boolean {
  return /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u.test(name);
}

/** A line break or NUL could turn one value into several headers (RFC 9110, section 5.5). */
function isHeaderValue(value: string): boolean {
  return !/[\r\n\0]/u.test(value);
}

export function toHeadersOut(headers: HeaderMap): HeadersOut {
  return Object.fromEntries(headers);
}

/** Headers of one connection or computed from the body: a policy never sets or clears them (PX-06, PA-074). */
export const fixedHeaders: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "connection"]);

export function withoutConnectionHeaders(headers: HeaderMap): HeaderMap {
  return new Map([...headers].filter(([name]) => !fixedHeaders.has(name)));
}

/** PA-047. */
const maxQueryArguments = 100;

/** The URL for the payload. */
export interface ComposedUrl {
  readonly url: string;
  /** Query arguments beyond the limit, which are left out. */
  readonly omittedArguments: number;
}

/** Scheme, host, port (always written), path and query as one URL; undefined if the path is not UTF-8 (PA-045). */
export function composeUrl(facts: HttpRequestFacts): ComposedUrl | undefined {
  if (facts.path.includes("\uFFFD")) return undefined;
  const path = facts.path.startsWith("/") ? facts.path : `/${facts.path}`;
  const { query, omitted } = reencodeQuery(facts.query ?? "");
  const base = `${facts.scheme}://${facts.host}:${facts.port}${encodePath(path)}`;
  return { url: query === "" ? base : `${base}?${query}`, omittedArguments: omitted };
}

/** Percent-encodes characters that RFC 3986 does not allow in a path; `%` with two hex digits stays (PA-045). */
export function encodePath(path: string): string {
  return path.toWellFormed().replaceAll(/%(?![\dA-Fa-f]{2})|[^!$&'()*+,\-./:;=@\w~%[\]]/gu, encodeCharacter);
}

function encodeCharacter(character: string): string {
  return Buffer.from(character).toString("hex").replaceAll(/../gu, "%$&").toUpperCase();
}

/** Decodes and re-encodes the first hundred arguments, with their order and duplicates (PA-046). */
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

/** Byte by byte, so that text that is not UTF-8 stays as it is. */
function reencodeText(text: string): string {
  return text.toWellFormed().replaceAll(/%[\dA-Fa-f]{2}|[^\w\-.!~*'()]/gu, (part) => {
    if (part === "+") return "%20";
    if (part.length !== 3) return encodeCharacter(part);
    const character = String.fromCharCode(Number.parseInt(part.slice(1), 16));
    return /[\w\-.!~*'()]/u.test(character) ? character : part.toUpperCase();
  });
}

/** Percent-encodes characters that a request line cannot carry: Kong writes the query as it gets it. */
function encodeQuery(query: string): string {
  return query.toWellFormed().replaceAll(/[^!-~]/gu, encodeCharacter);
}

/** The parts of a URL that can be changed one by one, with the default port of its scheme (PA-079). */
export interface UrlParts {
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly query: string;
}

const urlForm = /^([a-z][\d+.a-z-]*):\/\/([^/?#]+)(\/[^?#]*)?(?:\?([^#]*))?(?:#[\s\S]*)?$/iu;
// Only what RFC 3986 allows in a host: credentials and backslashes could hide the real one, and line breaks or spaces in
// a Host header could begin another header.
const authorityForm = /^(\[[\d.:A-Fa-f]+\]|[\w!$%&'()*+,\-.;=~]+)(?::(\d*))?$/u;
const maxPort = 65_535;

/** Parses an absolute http or https URL without normalizing its path; undefined for any other text (PA-210). */
export function parseHttpUrl(text: string): UrlParts | undefined {
  const [, scheme = "", authority = "", path = "", query = ""] = urlForm.exec(text) ?? [];
  const [, host = "", port = ""] = authorityForm.exec(authority) ?? [];
  if (host === "" || !URL.canParse(text)) return undefined;
  const lowerScheme = scheme.toLowerCase();
  if (lowerScheme !== "http" && lowerScheme !== "https") return undefined;
  const number = port === "" ? (lowerScheme === "https" ? 443 : 80) : Number(port);
  if (number < 1 || number > maxPort) return undefined;
  return {
    scheme: lowerScheme,
    host: host.toLowerCase(),
    port: number,
    path: encodePath(path === "" ? "/" : path),
    query: encodeQuery(query),
  };
}
