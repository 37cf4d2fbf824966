/** Reads an audience claim: one text, or a list of them (RFC 7519 section 4.1.3). */
export function readAudience(claim: unknown): ReadonlySet<string> {
  if (typeof claim === "string") return new Set([canonicalResource(claim)]);
  if (!Array.isArray(claim)) return new Set();
  return new Set(claim.flatMap((entry) => (typeof entry === "string" ? [canonicalResource(entry)] : [])));
}

/** Whether a token is meant for one of these places. Nothing is meant for a place without names. */
export function includesAudience(
  audience: ReadonlySet<string>,
  wanted: readonly string[] | undefined,
): boolean {
  if (wanted === undefined) return false;
  for (const name of wanted) if (audience.has(name)) return true;
  return false;
}

/**
 * The canonical form of a resource identifier: scheme and host in lower case, no trailing slash (MCP 2025-06-18 and
 * later, Canonical Server URI). What is no URL stays as it is.
 */
export function canonicalResource(resource: string): string {
  const url = /^https?:/iu.test(resource) ? URL.parse(resource) : null;
  if (url === null || url.hash !== "") return resource;
  let { pathname } = url;
  while (pathname.endsWith("/")) pathname = pathname.slice(0, -1);
  return `${url.origin}${pathname}${url.search}`;
}
