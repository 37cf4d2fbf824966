import type { IncomingMessage } from "node:http";

/**
 * Why a request is known to come from a foreign page; undefined if it may come from ours or from a program. Pages on
 * other ports of this machine are same-site, so the cookie alone does not keep them out. `origins` are ours besides the
 * host of the request, which a proxy may have changed.
 */
export function pageProblem(
  { headers }: Pick<IncomingMessage, "headers">,
  origins: readonly string[] = [],
): string | undefined {
  const { origin, host } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin" && site !== "none") return "a page of another site is calling";
  if (origin !== undefined && URL.parse(origin)?.host !== host && !origins.includes(origin))
    return "a page of another origin is calling; if it is the console behind a proxy, let the proxy forward the Host header or set `admin.publicUrl`";
  return undefined;
}
