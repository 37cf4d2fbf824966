import type { Path } from "./issues.ts";

/**
 * Renamed keys, by their previous path. A route's own settings are listed without `routes.<name>`, a name chosen by the
 * user is `*`, and a list index is left out. Old names are refused, and the error says the new one.
 */
export const renamedKeys: Readonly<Record<string, string>> = {
  "auth.authenticators.*.introspection.cache": "auth.authenticators.*.introspection.cacheMaxAge",
  "auth.authenticators.*.introspection.concurrent": "auth.authenticators.*.introspection.maxConcurrent",
  "auth.authenticators.*.introspection.remember": "auth.authenticators.*.introspection.cacheEntries",
  "auth.authenticators.*.jwt.remember": "auth.authenticators.*.jwt.cacheEntries",
  "limits.concurrentRequests": "limits.requests",
  "limits.parked": "limits.suspendedCalls",
  "limits.parkedPerPrincipal": "limits.suspendedCallsPerPrincipal",
  "limits.perPrincipalRequests": "limits.requestsPerPrincipal",
  "limits.rates": "rates",
  "listen.cors": "cors",
  "sessions.age": "sessions.maxAge",
  "sessions.idle": "sessions.idleTimeout",
  "policy.authzen.cache.seconds": "policy.authzen.cache.ttl",
  "policy.authzen.retryPause": "policy.authzen.retryBackoff",
  "policy.denialStatus": "policy.refusalStatus",
  "policy.pingAuthorize.maxRetries": "policy.pingAuthorize.retries",
  "record.retention.days": "record.retention.maxAge",
  "record.retention.bytes": "record.retention.maxBytes",
};

/** The new path of a key that was renamed; undefined for a key that never existed. */
export function newPathOf(path: Path, key: string, table = renamedKeys): string | undefined {
  const steps = path[0] === "routes" ? path.slice(2) : path;
  const written = [...steps.filter((step) => typeof step === "string"), key];
  const row = Object.entries(table).find(([old]) => matches(old.split("."), written));
  return row?.[1];
}

/** What to say about a renamed key: both paths where it moved, only the names where it did not. */
export function describeRename(path: Path, key: string, newPath: string): string {
  const parents = (steps: Path): string => steps.filter((step) => typeof step === "string").join(".");
  const own = parents(path[0] === "routes" ? path.slice(2) : path);
  const target = newPath.split(".");
  const newKey = target.pop() ?? "";
  return target.length === own.split(".").filter((step) => step !== "").length && newKey !== key
    ? `\`${key}\` is now called \`${newKey}\``
    : `\`${own}.${key}\` is now \`${newPath}\``;
}

function matches(old: readonly string[], written: readonly string[]): boolean {
  return old.length === written.length && old.every((step, index) => step === "*" || step === written[index]);
}
