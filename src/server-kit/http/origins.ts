import { localhostAllowedHostnames, validateHostHeader } from "@modelcontextprotocol/server";

import { refuseRequest, type HttpRefusal } from "./refusal.ts";
import { routeMethods, type RouteKind } from "./routes.ts";

/** The settings that say which pages may call. */
export interface OriginSettings {
  readonly enableCors: boolean;
  readonly allowedOrigins: readonly string[];
}

/** What the check of a request's origin needs to know about the request. */
export interface OriginCheck {
  readonly headers: Headers;
  /** Host and port by which the client knows us. */
  readonly host: string;
  /** Whether the request came to a loopback address from somebody who is no trusted proxy. */
  readonly isLocal: boolean;
}

const profileHeaders = ["Authorization", "Content-Type", "X-Mcp-Session"];
// What clients of Streamable HTTP send (MCP 2025-11-25 and 2026-07-28, Transports).
const streamableHeaders = [
  "Accept",
  "Last-Event-ID",
  "Mcp-Session-Id",
  "Mcp-Protocol-Version",
  "Mcp-Method",
  "Mcp-Name",
];
const extraHeaders: Readonly<Partial<Record<RouteKind, readonly string[]>>> = {
  streamable: streamableHeaders,
  rest: ["If-Match"],
};
const exposedHeaders = "X-Mcp-Session, Mcp-Session-Id, WWW-Authenticate, Retry-After";

/**
 * Refuses what a page of a foreign origin sends, and on loopback what was sent to a foreign name: a browser sends
 * `Origin` by itself, so this holds whether or not CORS is on (KO-112; MCP 2025-11-25, Streamable HTTP, Security).
 */
export function checkOrigin(
  { headers, host, isLocal }: OriginCheck,
  { allowedOrigins }: OriginSettings,
): HttpRefusal | undefined {
  if (isLocal && !isKnownHost(host, allowedOrigins)) return refuseRequest("host_refused");
  const origin = headers.get("origin");
  if (origin === null || origin === "") return undefined;
  if (isAllowed(origin, allowedOrigins) || isOwnOrigin(origin, host)) return undefined;
  return refuseRequest("origin_refused");
}

/** The CORS headers for an answer to this origin; none where CORS is off or the origin is not listed (KO-111). */
export function corsHeaders(
  origin: string | null,
  { enableCors, allowedOrigins }: OriginSettings,
): Readonly<Record<string, string>> {
  if (!enableCors) return {};
  if (origin === null || !isAllowed(origin, allowedOrigins)) return { vary: "Origin" };
  return {
    "access-control-allow-origin": origin,
    "access-control-allow-credentials": "true",
    "access-control-expose-headers": exposedHeaders,
    vary: "Origin",
  };
}

/** The answer to a preflight: what an allowed origin may send, and nothing for any other (KO-109, KO-110). */
export function preflight(headers: Headers, kind: RouteKind, allow: string, settings: OriginSettings): Response {
  const granted = corsHeaders(headers.get("origin"), settings);
  const isGranted = "access-control-allow-origin" in granted;
  return new Response(null, {
    status: 204,
    headers: {
      allow,
      ...granted,
      ...(isGranted
        ? {
            "access-control-allow-methods": corsMethods(kind),
            "access-control-allow-headers": [
              ...profileHeaders,
              ...(extraHeaders[kind] ?? []),
              ...(kind === "streamable" ? requestedParamHeaders(headers) : []),
            ].join(", "),
            "access-control-max-age": "600",
          }
        : {}),
    },
  });
}

/** The document names GET, POST and OPTIONS for its three routes, whichever of them it is. */
function corsMethods(kind: RouteKind): string {
  return [...new Set(["GET", "POST", ...routeMethods[kind], "OPTIONS"])].join(", ");
}

/** Headers of MCP 2026-07-28 whose names come from the tools' own schemas: those that the page asks for. */
function requestedParamHeaders(headers: Headers): readonly string[] {
  const asked = (headers.get("access-control-request-headers") ?? "").split(",").map((name) => name.trim());
  return asked.filter((name) => /^mcp-param-[\w-]{1,100}$/iu.test(name)).slice(0, 50);
}

function isAllowed(origin: string, allowedOrigins: readonly string[]): boolean {
  return allowedOrigins.includes(origin);
}

function isOwnOrigin(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false;
  const page = new URL(origin);
  // With the page's scheme a default port is left out on both sides; TLS may have ended before us.
  const own = `${page.protocol}//${host}`;
  return page.host !== "" && URL.canParse(own) && new URL(own).host === page.host;
}

function isKnownHost(host: string, allowedOrigins: readonly string[]): boolean {
  const names = allowedOrigins.flatMap((origin) => (URL.canParse(origin) ? [new URL(origin).hostname] : []));
  const check = validateHostHeader(host, [...localhostAllowedHostnames(), ...names]);
  if (check.ok) return true;
  return URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname.endsWith(".localhost");
}
