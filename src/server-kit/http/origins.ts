import { localhostAllowedHostnames, validateHostHeader } from "@modelcontextprotocol/server";

import { httpRefusal, type HttpRefusal } from "./refusal.ts";
import { routeMethods, type RouteKind } from "./route-handlers.ts";

/** The settings about browser origins. */
export interface OriginSettings {
  readonly enableCors: boolean;
  readonly allowedOrigins: readonly string[];
}

/** What is checked of a request. */
export interface OriginCheck {
  readonly headers: Headers;
  /** Host and port by which the client knows the server. */
  readonly host: string;
  /** Whether the request came to a loopback address without a trusted proxy. */
  readonly isLocal: boolean;
}

const profileHeaders = ["Authorization", "Content-Type", "X-Mcp-Session"];
// Headers of Streamable HTTP clients (MCP 2025-11-25 and 2026-07-28, Transports).
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
 * Refuses requests of other origins, whether or not CORS is enabled, and on loopback requests for another host name
 * (KO-112; MCP 2025-11-25, Streamable HTTP, Security).
 */
export function checkOrigin(
  { headers, host, isLocal }: OriginCheck,
  { allowedOrigins }: OriginSettings,
): HttpRefusal | undefined {
  if (isLocal && !isKnownHost(host, allowedOrigins)) return httpRefusal("host_refused");
  const origin = headers.get("origin");
  if (origin === null || origin === "") return undefined;
  if (isAllowed(origin, allowedOrigins) || isOwnOrigin(origin, host)) return undefined;
  return httpRefusal("origin_refused");
}

/** The CORS headers of a response to this origin; none if CORS is disabled or the origin is not listed (KO-111). */
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

/** The response to a preflight request (KO-109, KO-110). */
export function answerPreflight(headers: Headers, kind: RouteKind, allow: string, settings: OriginSettings): Response {
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

/** The HTTP+SSE profile allows GET, POST and OPTIONS on all of its routes. */
function corsMethods(kind: RouteKind): string {
  return [...new Set(["GET", "POST", ...routeMethods[kind], "OPTIONS"])].join(", ");
}

/** The requested `Mcp-Param-*` headers, whose names come from the tools' schemas (MCP 2026-07-28). */
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
  // Uses the page's scheme, because TLS may have ended at a proxy; default ports are omitted on both sides.
  const own = `${page.protocol}//${host}`;
  return page.host !== "" && URL.canParse(own) && new URL(own).host === page.host;
}

function isKnownHost(host: string, allowedOrigins: readonly string[]): boolean {
  const names = allowedOrigins.flatMap((origin) => (URL.canParse(origin) ? [new URL(origin).hostname] : []));
  const check = validateHostHeader(host, [...localhostAllowedHostnames(), ...names]);
  if (check.ok) return true;
  return URL.canParse(`http://${host}`) && new URL(`http://${host}`).hostname.endsWith(".localhost");
}
