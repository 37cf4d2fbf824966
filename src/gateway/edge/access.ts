import type { IncomingMessage, ServerResponse } from "node:http";

/** Which Host and Origin headers are let in, and which origins may read the answers. */
export interface AccessRules {
  /** Whether only this machine can connect; then only names of this machine are believable as Host. */
  readonly isLoopback: boolean;
  /** Hosts besides the loopback names, lower-case, with or without port; `*` for all. */
  readonly allowedHosts: readonly string[];
  /** Origins besides loopback ones; `*` for all. */
  readonly allowedOrigins: readonly string[];
  /** Origins whose pages may read the answers; they are allowed too. */
  readonly corsOrigins: readonly string[];
}

/** What a browser's page may see of an answer besides its body. */
const exposedHeaders = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After";
const preflightSeconds = "86400";

const loopbackNames: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]", "::1"]);

/**
 * Makes the check that stands before everything else: a foreign Host on a loopback listener is a rebinding attack, and
 * a foreign Origin a page that should not be calling (MCP, Streamable HTTP, Security Warning). Answers why not, or
 * nothing.
 */
export function createAccessCheck(
  rules: AccessRules,
): (host: string | undefined, origin: string | undefined) => string | undefined {
  const hosts = new Set(rules.allowedHosts.map((host) => host.toLowerCase()));
  const origins = new Set([...rules.allowedOrigins, ...rules.corsOrigins].map((origin) => origin.toLowerCase()));
  const checksHost = !hosts.has("*") && (rules.isLoopback || hosts.size > 0);
  const isKnownHost = (host: string): boolean => {
    const name = host.toLowerCase();
    return hosts.has(name) || hosts.has(nameOf(name)) || loopbackNames.has(nameOf(name));
  };
  /** Clients say the same again and again. */
  let lastKnown: string | undefined;
  return (host, origin) => {
    if (checksHost && (host === undefined || host !== lastKnown)) {
      if (host === undefined || !isKnownHost(host)) return "the Host header names another host";
      lastKnown = host;
    }
    // Only browsers send an Origin; clients without one are not pages.
    if (origin === undefined || origins.has("*") || origins.has(origin.toLowerCase())) return undefined;
    const url = URL.parse(origin);
    if (url !== null && loopbackNames.has(url.hostname)) return undefined;
    return "the Origin header names an origin that is not allowed";
  };
}

/** Answers to browsers (CORS): adds the headers to an answer, and answers preflights itself. */
export function createCors(
  corsOrigins: readonly string[],
): (request: IncomingMessage, response: ServerResponse) => boolean {
  const origins = new Set(corsOrigins.map((origin) => origin.toLowerCase()));
  return (request, response) => {
    const { origin } = request.headers;
    if (origin === undefined) return false;
    response.setHeader("vary", "Origin");
    const url = URL.parse(origin);
    const isAllowed =
      origins.has("*") || origins.has(origin.toLowerCase()) || (url !== null && loopbackNames.has(url.hostname));
    if (!isAllowed) return false;
    response.setHeader("access-control-allow-origin", origin);
    response.setHeader("access-control-expose-headers", exposedHeaders);
    if (request.method !== "OPTIONS" || request.headers["access-control-request-method"] === undefined) return false;
    response.setHeader("access-control-allow-methods", "GET, POST, DELETE");
    response.setHeader("access-control-allow-headers", request.headers["access-control-request-headers"] ?? "");
    response.setHeader("access-control-max-age", preflightSeconds);
    response.writeHead(204);
    response.end();
    return true;
  };
}

/** Whether an address is reachable from this machine only. */
export function isLoopbackHost(host: string): boolean {
  return loopbackNames.has(host) || host.startsWith("127.");
}

function nameOf(host: string): string {
  if (host.startsWith("[")) return host.slice(0, host.indexOf("]") + 1);
  const colon = host.indexOf(":");
  return colon < 0 ? host : host.slice(0, colon);
}
