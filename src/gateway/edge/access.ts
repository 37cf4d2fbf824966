import type { IncomingMessage, ServerResponse } from "node:http";

import type { Config } from "../../config/config.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import { createTrustedNetworks, forwardedAddress, isLoopback, networkOf, plainAddress } from "../../lib/addresses.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";

/** Which Host and Origin headers are accepted. */
export interface AccessRules {
  /** Whether only this machine can connect; then only its own names are accepted as Host. */
  readonly isLoopback: boolean;
  /** Accepted hosts besides the loopback names, in lower case, with or without port; `*` for all. */
  readonly allowedHosts: readonly string[];
  /** Origins besides loopback ones; `*` for all. */
  readonly allowedOrigins: readonly string[];
}

/** The rules that a configuration asks for. */
export function accessRulesOf({ listen }: Config): AccessRules {
  const isOnLoopback = isLoopback(listen.host);
  const url = listen.publicUrl === undefined ? undefined : new URL(listen.publicUrl);
  return {
    isLoopback: listen.unixSocket !== undefined || isOnLoopback,
    // Its own address may be one of the others of this machine, such as 127.0.0.2.
    allowedHosts: [
      ...listen.allowedHosts,
      ...(isOnLoopback ? [listen.host, ...(url === undefined ? [] : [url.host])] : []),
    ],
    allowedOrigins: [...listen.allowedOrigins, ...(url === undefined ? [] : [url.origin])],
  };
}

/** The rules of the admin listener, which has a host of its own. */
export function adminAccessRulesOf({ listen, admin }: Config): AccessRules {
  const isOnLoopback = admin !== false && isLoopback(admin.host);
  const url = admin === false || admin.publicUrl === undefined ? undefined : new URL(admin.publicUrl);
  return {
    isLoopback: isOnLoopback,
    allowedHosts: isOnLoopback ? [...listen.allowedHosts, admin.host, ...(url === undefined ? [] : [url.host])] : [],
    allowedOrigins: url === undefined ? [] : [url.origin],
  };
}

/** The path prefix under which a proxy serves the gateway. */
export function publicPathOf({ listen }: Config): string {
  return listen.publicUrl === undefined ? "" : new URL(listen.publicUrl).pathname.replace(/\/$/u, "");
}

/** Why a request is refused, and the setting that would allow it. */
export interface AccessProblem {
  readonly code: "host_not_allowed" | "origin_not_allowed";
  /** For the caller, who sees the names of settings but no values. */
  readonly text: string;
  readonly setting: string;
}

/** Decides which requests are accepted at a path, and answers browsers (CORS). */
export interface AccessControl {
  /** Why a request with these headers is refused; undefined where it is accepted. */
  problem(host: string | undefined, origin: string | undefined): AccessProblem | undefined;
  /** Adds CORS headers to the response. True for a preflight, which is then answered. */
  handleCors(request: IncomingMessage, response: ServerResponse): boolean;
}

const hostProblem: AccessProblem = {
  code: "host_not_allowed",
  text: "the Host header names a host that is not allowed; add it to `listen.allowedHosts`, or set `listen.publicUrl`",
  setting: "listen.allowedHosts or listen.publicUrl",
};
const originProblem: AccessProblem = {
  code: "origin_not_allowed",
  text: "the Origin header names an origin that is not allowed; add it to `listen.allowedOrigins` or `cors.origins`",
  setting: "listen.allowedOrigins or cors.origins",
};

/** The response headers that a page may read. */
const exposedHeaders = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After";
const preflightSeconds = "86400";

const loopbackNames: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]", "::1"]);

/**
 * Creates the check before everything else: a foreign Host on a loopback listener is a rebinding attack, and a foreign
 * Origin a page that should not be calling (MCP, Streamable HTTP, Security Warning). Pages of `corsOrigins` may call
 * and read the answers.
 */
export function createAccessControl(rules: AccessRules, corsOrigins: readonly string[]): AccessControl {
  const hosts = lowerCaseSet(rules.allowedHosts);
  const readers = lowerCaseSet(corsOrigins);
  const callers = lowerCaseSet([...rules.allowedOrigins, ...corsOrigins]);
  const checksHost = !hosts.has("*") && (rules.isLoopback || hosts.size > 0);
  const isKnownHost = (host: string): boolean => {
    const name = host.toLowerCase();
    return hosts.has(name) || hosts.has(nameOf(name)) || loopbackNames.has(nameOf(name));
  };
  /** Clients send the same Host again and again. */
  let lastKnown: string | undefined;
  return {
    problem: (host, origin) => {
      if (checksHost && (host === undefined || host !== lastKnown)) {
        if (host === undefined || !isKnownHost(host)) return hostProblem;
        lastKnown = host;
      }
      // Only browsers send an Origin.
      if (origin === undefined || includesOrigin(callers, origin)) return undefined;
      return originProblem;
    },
    handleCors: (request, response) => {
      const { origin, "access-control-request-method": method } = request.headers;
      if (origin === undefined) return false;
      response.setHeader("vary", "Origin");
      if (!includesOrigin(readers, origin)) return false;
      response.setHeader("access-control-allow-origin", origin);
      response.setHeader("access-control-expose-headers", exposedHeaders);
      if (request.method !== "OPTIONS" || method === undefined) return false;
      response.writeHead(204, {
        "access-control-allow-methods": "GET, POST, DELETE",
        "access-control-allow-headers": request.headers["access-control-request-headers"] ?? "",
        "access-control-max-age": preflightSeconds,
      });
      response.end();
      return true;
    },
  };
}

function lowerCaseSet(texts: readonly string[]): ReadonlySet<string> {
  return new Set(texts.map((text) => text.toLowerCase()));
}

/** Pages served by this machine may always call. */
function includesOrigin(origins: ReadonlySet<string>, origin: string): boolean {
  if (origins.has("*") || origins.has(origin.toLowerCase())) return true;
  const url = URL.parse(origin);
  return url !== null && loopbackNames.has(url.hostname);
}

/** The name in a Host header without the port; all of it where it has another form. */
function nameOf(host: string): string {
  return /^(?<name>\[[^\]]*\]|[^:]*)(?::\d*)?$/u.exec(host)?.groups?.["name"] ?? host;
}

/** The IP address of a request's client; undefined on a Unix socket. */
export type ClientAddress = (request: IncomingMessage) => string | undefined;

/** Creates the function that finds a client's address. `X-Forwarded-For` is trusted from trusted proxies only. */
export function createClientAddress(trustedProxies: readonly string[]): ClientAddress {
  if (trustedProxies.length === 0) return ({ socket }) => plainAddress(socket.remoteAddress);
  const isTrusted = createTrustedNetworks(trustedProxies);
  return ({ socket, headers }) => {
    const direct = plainAddress(socket.remoteAddress);
    const named = headers["x-forwarded-for"];
    if (direct === undefined || named === undefined) return direct;
    return forwardedAddress(direct, typeof named === "string" ? named : named.join(","), isTrusted);
  };
}

const keptCallers = 1000;

/**
 * Creates the function that makes callers without credentials: one principal to rules and sessions, but counted by address,
 * so that one of them cannot use up the limits of all.
 */
export function createAnonymousCallers(): (address: string | undefined) => Principal {
  const callers = new BoundedMap<string, Principal>(keptCallers);
  return (address) => {
    if (address === undefined) return anonymous;
    const known = callers.get(address);
    if (known !== undefined) return known;
    const caller = { ...anonymous, limitKey: `${anonymous.id} ${networkOf(address)}` };
    callers.set(address, caller);
    return caller;
  };
}
