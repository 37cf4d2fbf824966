import { protectedResourceMetadata } from "../../auth/resource-server.ts";
import type { Principal } from "../../core/exchange.ts";
import type { HistogramChild } from "../../telemetry/metrics.ts";
import type { CapabilityTool, HttpEdgeDeps, KitCaller } from "../contract/contract.ts";
import { rateLimitKey, type RequestChecks } from "./admission.ts";
import { createRequestAuthentication, type InboundRequest } from "./authentication.ts";
import { type HttpRefusal, refuseRequest } from "./refusal.ts";
import type { RouteKind } from "./routes.ts";
import { readSessionId, submit } from "./submission.ts";
import type { SseSession } from "../sse/session.ts";
import type { SseSessions } from "../sse/sessions.ts";
import type { KitSettings } from "../contract/settings.ts";

type KitRouteHandler = (arrival: InboundRequest, rest: string) => Promise<Response>;

/** What every route answers once its request has passed the first checks. */
export type KitRouteHandlers = Readonly<Record<Exclude<RouteKind, "health">, KitRouteHandler>>;

/** Makes the answers of all routes; who is calling is found out here. */
export function createRouteHandlers(
  options: HttpEdgeDeps,
  forecourt: RequestChecks,
  sessions: SseSessions,
  ackLatency: HistogramChild,
): KitRouteHandlers {
  const { core, clock, log, newId } = options;
  const door = createRequestAuthentication(options);

  /** Who it is, if that is enough and the share is not used up. */
  async function admit(arrival: InboundRequest, kind: RouteKind): Promise<Principal | HttpRefusal> {
    const admission = await door(arrival);
    if (!admission.ok) {
      if (admission.hadCredentials) forecourt.recordAuthFailure(arrival);
      return admission.response;
    }
    const { principal } = admission;
    const isCounted = kind !== "sse";
    return (isCounted ? forecourt.takeCalls(rateLimitKey(principal, arrival.peer), 1) : undefined) ?? principal;
  }

  function callerOf(
    arrival: InboundRequest,
    principal: Principal,
    via: KitCaller["via"],
    session: SseSession | undefined,
  ): KitCaller {
    const requestId = newId();
    const trace = readTraceparent(arrival.request.headers);
    return {
      principal,
      via,
      signal: session?.signal ?? arrival.request.signal,
      sessionId: session?.id,
      requestId,
      log: (session?.log ?? log).child({
        request: requestId,
        ...(trace === undefined ? {} : { traceparent: trace }),
      }),
      resourceMetadataUrl: arrival.resourceMetadataUrl,
    };
  }

  const sse: KitRouteHandler = async (arrival) => {
    const principal = await admit(arrival, "sse");
    if (principal instanceof Response) return principal;
    const trace = readTraceparent(arrival.request.headers);
    const session = sessions.open({
      principal,
      log: trace === undefined ? log : log.child({ traceparent: trace }),
      endpoint: (id) => `${rpcPath(arrival)}?sessionId=${id}&format=message`,
    });
    if (session === undefined) return refuseRequest("max_connections_exceeded");
    const isHttp1 = arrival.details.httpVersion?.startsWith("1") === true;
    return new Response(session.body, {
      headers: {
        "content-type": "text/event-stream",
        // Nobody on the way may compress or keep it (KO-058).
        "cache-control": "no-cache, no-transform",
        "x-accel-buffering": "no",
        "x-mcp-session": session.id,
        ...(isHttp1 ? { connection: "keep-alive" } : {}),
      },
    });
  };

  const rpc: KitRouteHandler = async (arrival) => {
    const startedAt = clock.now();
    const { request, url, peer } = arrival;
    const named = readSessionId(request.headers, url);
    const principal = await admit(arrival, "rpc");
    if (principal instanceof Response) {
      // Whoever comes with credentials that have run out has used the session for the last time (KO-106).
      const stale = named.ok && principal.status === 401 ? sessions.get(named.id) : undefined;
      if (stale?.isExpired === true) stale.end("token-expired");
      return principal;
    }
    if (!named.ok) return named.response;
    const session = sessions.get(named.id);
    if (session === undefined) return refuseRequest("unknown_session", { reason: "session_unknown" });
    // A session id is no credential (A12).
    if (session.principal.id !== principal.id) return refuseRequest("session_principal_mismatch");
    session.renew(principal);
    const refused = await submit({
      request,
      url,
      session,
      rules: core.settings().transport,
      takeMore: (calls) => forecourt.takeCalls(rateLimitKey(principal, peer), calls),
      authInfo: () => core.toAuthInfo(callerOf(arrival, principal, "http-sse", session)),
      onAck: () => ackLatency.observe((clock.now() - startedAt) / 1000),
    });
    if (refused !== undefined) return refused;
    return new Response(null, {
      status: 202,
      headers: { location: `${rpcPath(arrival)}?sessionId=${session.id}` },
    });
  };

  const capabilities: KitRouteHandler = async (arrival) => {
    const principal = await admit(arrival, "capabilities");
    if (principal instanceof Response) return principal;
    const document = describeCapabilities(core.settings(), arrival.peer.prefix, core.capabilityTools(principal));
    // It differs by caller, so nobody on the way may keep it.
    return Response.json(document, { headers: { "cache-control": "private, no-store" } });
  };

  const streamable: KitRouteHandler = async (arrival) => {
    const principal = await admit(arrival, "streamable");
    if (principal instanceof Response) return principal;
    return core.streamable(arrival.request, callerOf(arrival, principal, "streamable-http", undefined));
  };

  const rest: KitRouteHandler = async (arrival, path) => {
    const principal = await admit(arrival, "rest");
    if (principal instanceof Response) return principal;
    return core.rest(arrival.request, callerOf(arrival, principal, "rest", undefined), path);
  };

  const metadata: KitRouteHandler = (arrival) =>
    Promise.resolve(
      Response.json(
        protectedResourceMetadata({
          resource: arrival.resource,
          authorizationServers: options.authorizationServers ?? [],
          scopes: [],
        }),
      ),
    );

  function rpcPath({ peer }: InboundRequest): string {
    return `${peer.prefix}${core.settings().httpSseRoute}/rpc`;
  }

  return { sse, rpc, capabilities, streamable, rest, metadata };
}

/** The trace that a request belongs to, if it says so in the form of W3C Trace Context. */
function readTraceparent(headers: Headers): string | undefined {
  const value = headers.get("traceparent");
  return value !== null && /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/u.test(value) ? value : undefined;
}

/** One way to reach the server, as the capability document describes it (KO-115). */
export type CapabilityTransport =
  | {
      readonly kind: "http+sse";
      readonly streamEndpoint: string;
      readonly submitEndpoint: string;
      readonly capabilityEndpoint: string | null;
      readonly requireAuthentication: boolean;
    }
  | {
      readonly kind: "streamable-http";
      readonly endpoint: string;
      readonly capabilityEndpoint: string | null;
      readonly requireAuthentication: boolean;
    };

/** What `GET <base>/capabilities` returns; the version is that of this document's form. */
export interface CapabilityDocument {
  readonly version: "2.0";
  readonly transports: readonly CapabilityTransport[];
  readonly tools: readonly CapabilityTool[];
}

/** Describes the server to a caller: how to reach it, and the tools that this caller may call (KO-114 to KO-118). */
function describeCapabilities(
  settings: KitSettings,
  prefix: string,
  tools: readonly CapabilityTool[],
): CapabilityDocument {
  const base = prefix + settings.httpSseRoute;
  const { requireAuthentication, publishCapabilityEndpoint } = settings;
  const shared = {
    capabilityEndpoint: publishCapabilityEndpoint ? `${base}/capabilities` : null,
    requireAuthentication,
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
