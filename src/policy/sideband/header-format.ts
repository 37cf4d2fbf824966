import type { HeadersIn, HeadersOut } from "./contract.ts";

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
export const connectionHeaders: ReadonlySet<string> = new Set([
  "content-length",
  "transfer-encoding",
  "connection",
]);

/** The headers without those that a policy has no say about. */
export function withoutConnectionHeaders(headers: HeaderMap): HeaderMap {
  return new Map([...headers].filter(([name]) => !connectionHeaders.has(name)));
}
