import { isJsonContentType } from "@modelcontextprotocol/server";

import type { Authentication, AuthenticationFailure } from "../../auth/authenticator.ts";
import { formatChallenge, metadataPrefix, protectedResourceMetadata } from "../../auth/resource-server.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import type { HistogramChild } from "../../telemetry/metrics.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { SseSession } from "../sse/session.ts";
import type { SseSessions } from "../sse/sessions.ts";
import type { CapabilityTool } from "../tools/tool-catalog.ts";
import type { KitCaller } from "../tools/tool-entry.ts";
import type { InboundRequest, RequestChecks } from "./admission.ts";
import type { HttpEdgeDeps } from "./contract.ts";
import { type HttpRefusal, httpRefusal } from "./refusal.ts";
import { readSessionId, submit } from "./submission.ts";

type KitRouteHandler = (inbound: InboundRequest, rest: string) => Promise<Response>;

/** What answers each route, for requests that have passed the checks before authentication. */
export type KitRouteHandlers = Readonly<Record<Exclude<RouteKind, "health">, KitRouteHandler>>;

/** Creates the handlers of all routes; each authenticates its caller. */
export function createRouteHandlers(
  deps: HttpEdgeDeps,
  checks: RequestChecks,
  sessions: SseSessions,
  ackLatency: HistogramChild,
): KitRouteHandlers {
  const { core, clock, log, newId } = deps;
  const authenticate = createRequestAuthentication(deps);

  /** The principal, or the refusal of a caller that is not authenticated or over its rate limit. */
  async function admit(inbound: InboundRequest, calls = 1): Promise<Principal | HttpRefusal> {
    const authentication = await authenticate(inbound);
    if (authentication.ok) {
      const { principal } = authentication;
      return checks.takeCalls(principal, inbound.peer, calls) ?? principal;
    }
    if (authentication.hadCredentials) checks.recordAuthFailure(inbound);
    return authentication.response;
  }

  const withPrincipal =
    (handle: (inbound: InboundRequest, principal: Principal, rest: string) => Promise<Response>): KitRouteHandler =>
    async (inbound, rest) => {
      const principal = await admit(inbound);
      return principal instanceof Response ? principal : handle(inbound, principal, rest);
    };

  function callerOf(
    { request, resourceMetadataUrl }: InboundRequest,
    principal: Principal,
    via: KitCaller["via"],
    session?: SseSession,
  ): KitCaller {
    const requestId = newId();
    return {
      principal,
      via,
      signal: session?.signal ?? request.signal,
      sessionId: session?.id,
      requestId,
      log: (session?.log ?? log).child({ request: requestId, ...traceFields(request.headers) }),
      resourceMetadataUrl,
    };
  }

  const rpcPath = ({ peer }: InboundRequest): string => `${peer.prefix}${core.settings().httpSseRoute}/rpc`;

  const sse: KitRouteHandler = async (inbound) => {
    // Opening a stream has a limit of its own.
    const principal = await admit(inbound, 0);
    if (principal instanceof Response) return principal;
    const session = sessions.open({
      principal,
      log: log.child(traceFields(inbound.request.headers)),
      endpoint: (id) => `${rpcPath(inbound)}?sessionId=${id}&format=message`,
    });
    if (session === undefined) return httpRefusal("max_connections_exceeded");
    const isHttp1 = inbound.details.httpVersion?.startsWith("1") === true;
    return new Response(session.body, {
      headers: {
        "content-type": "text/event-stream",
        // No proxy may compress or buffer the stream (KO-058).
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
        "x-mcp-session": session.id,
        ...(isHttp1 ? { connection: "keep-alive" } : {}),
      },
    });
  };

  const rpc: KitRouteHandler = async (inbound) => {
    const startedAt = clock.now();
    const { request, url, peer } = inbound;
    const named = readSessionId(request.headers, url);
    const principal = await admit(inbound);
    if (principal instanceof Response) {
      // A caller whose credentials have expired loses its session (KO-106).
      const session = named.ok && principal.status === 401 ? sessions.get(named.id) : undefined;
      if (session?.isExpired === true) session.end("token-expired");
      return principal;
    }
    if (!named.ok) return named.response;
    const session = sessions.get(named.id);
    if (session === undefined) return httpRefusal("unknown_session", { reason: "session_unknown" });
    // A session id is not a credential.
    if (session.principal.id !== principal.id) return httpRefusal("session_principal_mismatch");
    session.renew(principal);
    const refusal = await submit({
      request,
      url,
      session,
      limits: core.settings().transport,
      takeMore: (calls) => checks.takeCalls(principal, peer, calls),
      authInfo: () => core.toAuthInfo(callerOf(inbound, principal, "http-sse", session)),
      onAck: () => ackLatency.observe((clock.now() - startedAt) / 1000),
    });
    if (refusal !== undefined) return refusal;
    return new Response(null, { status: 202, headers: { location: `${rpcPath(inbound)}?sessionId=${session.id}` } });
  };

  return {
    sse,
    rpc,
    capabilities: withPrincipal(async ({ peer }, principal) => {
      const document = describeCapabilities(core.settings(), peer.prefix, core.capabilityTools(principal));
      // The document depends on the caller.
      return Response.json(document, { headers: { "cache-control": "private, no-store" } });
    }),
    streamable: withPrincipal(async (inbound, principal) =>
      core.streamable(inbound.request, callerOf(inbound, principal, "streamable-http"), {
        open: () => checks.takeOpening(inbound.peer),
        takeMore: (calls) => checks.takeCalls(principal, inbound.peer, calls),
      }),
    ),
    rest: withPrincipal(async (inbound, principal, path) =>
      core.rest(inbound.request, callerOf(inbound, principal, "rest"), path),
    ),
    metadata: async ({ resource }) => {
      const { authorizationServers = [] } = deps;
      return Response.json(protectedResourceMetadata({ resource, authorizationServers, scopes: [] }));
    },
  };
}

/** The trace of a request, if it has a valid W3C Trace Context header. */
function traceFields(headers: Headers): { readonly traceparent?: string } {
  const value = headers.get("traceparent");
  const isValid = value !== null && /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/u.test(value);
  return isValid ? { traceparent: value } : {};
}

/** One way to reach the server, in the capability document (KO-115). */
type CapabilityTransport = { readonly capabilityEndpoint: string | null; readonly requireAuthentication: boolean } & (
  | { readonly kind: "http+sse"; readonly streamEndpoint: string; readonly submitEndpoint: string }
  | { readonly kind: "streamable-http"; readonly endpoint: string }
);

/** The response of `GET <base>/capabilities`; `version` is that of the document's format. */
interface CapabilityDocument {
  readonly version: "2.0";
  readonly transports: readonly CapabilityTransport[];
  readonly tools: readonly CapabilityTool[];
}

/** Describes the transports, and the tools that a caller may call (KO-114 to KO-118). */
function describeCapabilities(
  settings: KitSettings,
  prefix: string,
  tools: readonly CapabilityTool[],
): CapabilityDocument {
  const base = prefix + settings.httpSseRoute;
  const shared = {
    capabilityEndpoint: settings.publishCapabilityEndpoint ? `${base}/capabilities` : null,
    requireAuthentication: settings.requireAuthentication,
  };
  return {
    version: "2.0",
    transports: [
      { kind: "http+sse", streamEndpoint: `${base}/sse`, submitEndpoint: `${base}/rpc`, ...shared },
      ...(settings.enableStreamableHttp ? [{ kind: "streamable-http" as const, endpoint: base, ...shared }] : []),
    ],
    tools,
  };
}

/** The kinds of routes. */
export type RouteKind = "sse" | "rpc" | "capabilities" | "health" | "streamable" | "rest" | "metadata";

/** A route of the kit. */
export interface KitRoute {
  readonly kind: RouteKind;
  /** The path after the REST route; empty for other kinds. */
  readonly rest: string;
}

/** The methods of each route. */
export const routeMethods = {
  sse: ["GET"],
  rpc: ["POST"],
  capabilities: ["GET"],
  health: ["GET", "HEAD"],
  streamable: ["GET", "POST", "DELETE"],
  rest: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
  metadata: ["GET"],
} as const satisfies Record<RouteKind, readonly string[]>;

/** The `Allow` header of a route. */
export function allowHeader(kind: RouteKind): string {
  return [...routeMethods[kind], "OPTIONS"].join(", ");
}

/** The route of a path; undefined if it is not the kit's or is disabled (KO-030). */
export function findRoute(path: string, settings: KitSettings): KitRoute | undefined {
  const { httpSseRoute: base, restRoute, enableHttpSseTransport, enableStreamableHttp, enableRest } = settings;
  const isOn = enableHttpSseTransport || enableStreamableHttp;
  if (isOn && (path === metadataPrefix || path === metadataPrefix + base)) return { kind: "metadata", rest: "" };
  if (path === base || path === `${base}/`) return enableStreamableHttp ? { kind: "streamable", rest: "" } : undefined;
  if (path.startsWith(`${base}/`)) return sseProfileRoute(path.slice(base.length + 1), settings, isOn);
  if (enableRest && (path === restRoute || path.startsWith(`${restRoute}/`))) {
    return { kind: "rest", rest: path.slice(restRoute.length) };
  }
  return undefined;
}

function sseProfileRoute(name: string, settings: KitSettings, isOn: boolean): KitRoute | undefined {
  if (name === "health") return isOn ? { kind: "health", rest: "" } : undefined;
  if (!settings.enableHttpSseTransport) return undefined;
  if (name === "sse" || name === "rpc") return { kind: name, rest: "" };
  return name === "capabilities" && settings.publishCapabilityEndpoint ? { kind: name, rest: "" } : undefined;
}

/** The principal of a request, or the response that refuses it. */
type CallerAuthentication =
  | { readonly ok: true; readonly principal: Principal }
  | { readonly ok: false; readonly response: HttpRefusal; readonly hadCredentials: boolean };

/** Authenticates a request. */
type AuthenticateRequest = (inbound: InboundRequest) => Promise<CallerAuthentication>;

/** Authenticates by bearer token, else by the host's login, else as anonymous (KO-094 to KO-096, KO-140). */
function createRequestAuthentication(deps: HttpEdgeDeps): AuthenticateRequest {
  const { core, authenticator, identify, log, clock } = deps;

  async function verify({ request, audience }: InboundRequest, token: string | undefined) {
    const { headers } = request;
    const authorization = token === undefined ? (headers.get("authorization") ?? undefined) : `Bearer ${token}`;
    return authenticator?.authenticate({
      header: (name) => (name === "authorization" ? authorization : (headers.get(name) ?? undefined)),
      audience,
    });
  }

  /** The token in the query, and whether it may be used. */
  function readQueryToken({ request, url, peer, allowsQueryToken }: InboundRequest) {
    const token = url.searchParams.get("access_token");
    if (!allowsQueryToken || token === null || token === "" || request.headers.has("authorization")) return undefined;
    const { allowQueryToken, deployed, enableRateLimiting } = core.settings();
    // URLs end up in logs and histories, so a token in the query needs more protection than one in a header (KO-103).
    const isSafe = !deployed || (peer.isHttps && enableRateLimiting);
    return { token, isAllowed: allowQueryToken !== false && isSafe };
  }

  function accept(inbound: InboundRequest, principal: Principal): CallerAuthentication {
    const isExpired = principal.expiresAt !== undefined && principal.expiresAt <= clock.wall();
    if (!isExpired) return { ok: true, principal };
    return challenge(inbound, { error: "invalid_token", description: "The credentials have expired." });
  }

  function reject(inbound: InboundRequest, failure: AuthenticationFailure): CallerAuthentication {
    log.info({ error: failure.error, path: inbound.url.pathname }, "authentication failed");
    if (failure.error !== "unavailable") return challenge(inbound, failure);
    return { ok: false, hadCredentials: true, response: httpRefusal("authentication_unavailable") };
  }

  return async (inbound) => {
    const inQuery = readQueryToken(inbound);
    if (inQuery?.isAllowed === false) return challenge(inbound, undefined, "query_token_refused");
    const verified: Authentication | undefined = await verify(inbound, inQuery?.token);
    if (verified?.ok === true) return accept(inbound, verified.principal);
    if (verified !== undefined && verified.failure.error !== "missing") return reject(inbound, verified.failure);
    const user = await identify?.(inbound.request, inbound.details);
    if (user !== undefined && user.kind !== "anonymous") {
      const forgery = checkCookieRequest(inbound);
      return forgery === undefined ? accept(inbound, user) : { ok: false, response: forgery, hadCredentials: true };
    }
    if (core.settings().requireAuthentication && !core.allowsAnonymous()) return challenge(inbound);
    return { ok: true, principal: anonymous };
  };
}

/** The 401 response, with the challenge that tells clients where to log in. */
function challenge(inbound: InboundRequest, failure?: AuthenticationFailure, reason?: string): CallerAuthentication {
  const { resourceMetadataUrl: metadataUrl } = inbound;
  const header =
    failure === undefined
      ? formatChallenge({ metadataUrl })
      : formatChallenge({
          error: failure.error === "invalid_request" ? "invalid_request" : "invalid_token",
          description: failure.description,
          metadataUrl,
        });
  return {
    ok: false,
    hadCredentials: failure !== undefined,
    response: httpRefusal("unauthorized", {
      ...(failure === undefined ? {} : { message: failure.description }),
      ...(reason === undefined ? {} : { reason }),
      headers: { "www-authenticate": header },
    }),
  };
}

/**
 * Guards against cross-site request forgery: a browser adds cookies to what any page sends, so a change authenticated
 * by cookie must have an Origin, which was checked before (KO-140).
 */
function checkCookieRequest({ request: { method, headers } }: InboundRequest): HttpRefusal | undefined {
  const isChange = method !== "GET" && method !== "HEAD";
  if (!isChange || !headers.has("cookie") || headers.has("authorization")) return undefined;
  if ((headers.get("origin") ?? "") === "") return httpRefusal("origin_refused", { reason: "origin_required" });
  // An HTML form can send other content types without a preflight.
  if (method === "DELETE" || isJsonContentType(headers.get("content-type"))) return undefined;
  return httpRefusal("unsupported_media_type");
}
