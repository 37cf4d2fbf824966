import type { HeadersIn, HeadersOut, HttpRequestFacts } from "./contract.ts";

/** One header in the form of the Sideband API: an object with exactly one key (PA-036). */
export type SidebandHeader = Readonly<Record<string, string>>;

/** Header values by lower-case name, in order of appearance. */
export type HeaderMap = ReadonlyMap<string, readonly string[]>;

/**
 * The headers as a map with lower-case names; undefined when a value is neither a string nor a list of strings
 * (PA-039). Names that differ only in case are one.
 */
export function toHeaderMap(headers: HeadersIn): HeaderMap | undefined {
  const map = new Map<string, readonly string[]>();
  for (const [name, value] of Object.entries(headers)) {
    const values = toValues(value);
    if (values === undefined) return undefined;
    const key = name.toLowerCase();
    map.set(key, [...(map.get(key) ?? []), ...values]);
  }
  return map;
}

function toValues(value: unknown): readonly string[] | undefined {
  if (typeof value === "string") return [value];
  if (!Array.isArray(value) || !value.every((entry) => typeof entry === "string")) return undefined;
  return value;
}

/** One entry for each value, in their order (PA-037, PA-038). */
export function toSidebandHeaders(headers: HeaderMap): SidebandHeader[] {
  const list: SidebandHeader[] = [];
  for (const [name, values] of headers) {
    // fromEntries, because a literal with the name `__proto__` would have no key at all.
    for (const value of values) list.push(Object.fromEntries([[name, value]]));
  }
  return list;
}

/**
 * The map behind a list in Sideband form: lower-case names, equal ones collected in order of appearance (PA-040).
 * Undefined when it is no list of objects with string values, or when HTTP could not carry a name or value (PA-208).
 */
export function fromSidebandHeaders(list: unknown): HeaderMap | undefined {
  if (!Array.isArray(list)) return undefined;
  const map = new Map<string, string[]>();
  for (const entry of list as readonly unknown[]) {
    if (typeof entry !== "object" || entry === null || Array.isArray(entry)) return undefined;
    for (const [name, value] of Object.entries(entry)) {
      if (typeof value !== "string" || !isHeaderName(name) || !isHeaderValue(value)) return undefined;
      const key = name.toLowerCase();
      const values = map.get(key);
      if (values === undefined) map.set(key, [value]);
      else values.push(value);
    }
  }
  return map;
}

function isHeaderName(name: string): boolean {
  return /^[!#$%&'*+.^_`|~\dA-Za-z-]+$/u.test(name);
}

/** A line end or a NUL would let a value become more than one header (RFC 9110, section 5.5). */
function isHeaderValue(value: string): boolean {
  return !/[\r\n\0]/u.test(value);
}

/** A plain object of a header map. */
export function toHeadersOut(headers: HeaderMap): HeadersOut {
  return Object.fromEntries(headers);
}

/** How many values there are in all. */
export function countValues(headers: HeaderMap): number {
  let count = 0;
  for (const values of headers.values()) count += values.length;
  return count;
}

/** Headers that belong to one connection or are computed from the body: never set or cleared by a policy (PX-06, PA-074). */
export const connectionHeaders: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "connection"]);

/** The headers without those that a policy has no say about. */
export function withoutConnectionHeaders(headers: HeaderMap): HeaderMap {
  return new Map([...headers].filter(([name]) => !connectionHeaders.has(name)));
}

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
