/** Which scopes imply others, such as `admin` implies `read`. */
export type ImpliedScopes = Readonly<Record<string, readonly string[]>>;

/** Adds all implied scopes, transitively (MCP 2026-07-28: hierarchies are accounted for). */
export function expandScopes(scopes: Iterable<string>, implied: ImpliedScopes): ReadonlySet<string> {
  const all = new Set<string>();
  const add = (scope: string): void => {
    if (all.has(scope)) return;
    all.add(scope);
    if (Object.hasOwn(implied, scope)) for (const lesser of implied[scope] ?? []) add(lesser);
  };
  for (const scope of scopes) add(scope);
  return all;
}

/** Reads a scope claim: a string with spaces (RFC 8693 section 4.2), or an array. */
export function readScopes(claim: unknown): readonly string[] {
  if (typeof claim === "string") return claim.split(" ").filter((scope) => scope !== "");
  return Array.isArray(claim) ? claim.filter((scope): scope is string => typeof scope === "string") : [];
}
