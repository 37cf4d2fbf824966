import { isPromise } from "../../lib/is-promise.ts";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";

import { type ErrorCode, errorTable, GatewayError } from "../../errors.ts";
import { limitKeyOf } from "../../core/exchange.ts";
import type { OpenWorkEntry } from "../../core/open-work.ts";
import { onBodyReceived } from "../../transports/http/request-body.ts";
import type { GatewayContext } from "../context.ts";
import type { Concurrency } from "../route/guards/limits.ts";
import type { Route } from "../route/route.ts";
import type { TableRoute } from "../route/route-table.ts";
import {
  type AccessControl,
  type AccessRules,
  createAccessControl,
  createAnonymousCallers,
  createClientAddress,
} from "./access.ts";
import { shortenName } from "../../telemetry/log.ts";
import { refuseRequest, transportOf } from "./http-reply.ts";
import { requestHeadProblem, useOriginForm } from "./request-head.ts";
import { createPeerCheck, type ForwardedCaller, sayDistrust, sayLeaving, sayReceived } from "./peer-requests.ts";
import type { AuthenticationOutcome, HttpCaller, RouteAuthentication } from "./route-authentication.ts";
import { lateError } from "./shutdown.ts";

/** Serves one HTTP request of a known caller at a route. */
export type RouteHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  route: Route,
  caller: HttpCaller,
) => void | Promise<void>;

/** A route together with its authentication. */
export interface AuthenticatedRoute extends TableRoute {
  readonly authentication: RouteAuthentication;
}

/** Everything about routing that a reload may change. */
export interface RoutingTable {
  readonly access: AccessRules;
  /** Origins whose pages may read what is served outside routes. */
  readonly corsOrigins: readonly string[];
  /** Addresses and networks of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustedProxies: readonly string[];
  readonly routes: readonly AuthenticatedRoute[];
  /** Routes that are no longer configured: open sessions are served until they end, and no new ones start. */
  readonly draining: readonly AuthenticatedRoute[];
  /** Metadata documents by path, readable from any origin. */
  readonly wellKnown: ReadonlyMap<string, RequestListener>;
}

export interface HttpRouterDeps {
  readonly streamableHttp: RouteHandler;
  /** The two endpoints of HTTP+SSE (2024-11-05). */
  readonly sseStream: RouteHandler;
  readonly sseMessages: RouteHandler;
  /** Admin paths, where there is no separate admin listener. */
  readonly extra: (path: string) => RequestListener | undefined;
  /** Counts bodies that are being received; running requests are counted by their route. */
  readonly receiving: Concurrency;
  /** Whether responses are the last ones on their connection: at a shutdown, behind a listener that does not decide it. */
  readonly endsConnections: () => boolean;
}

interface RouteEndpoint {
  readonly route: Route;
  readonly serve: RouteHandler;
  readonly authentication: RouteAuthentication;
  readonly access: AccessControl;
  /** Served only to clients that already have a session. */
  readonly isDraining: boolean;
  /** Whether requests of running conversations are still served while the gateway shuts down. */
  readonly endsGently: boolean;
}

/** Takes every HTTP request to its endpoint. */
export interface HttpRouter {
  /** Checks Host and Origin, finds the endpoint, authenticates the caller and bounds the load. */
  readonly handle: RequestListener;
  /** Serves a request that another gateway has checked and forwarded. */
  readonly handlePeer: RequestListener;
  /** Uses a new table, starting with the next request. */
  use(table: RoutingTable): void;
}

/** Creates the router. */
export function createHttpRouter(gateway: GatewayContext, deps: HttpRouterDeps, first: RoutingTable): HttpRouter {
  let current = compile(first, deps);
  const anonymousAt = createAnonymousCallers();
  const { cluster, clock } = gateway;
  const checkPeer = cluster === undefined ? undefined : createPeerCheck(cluster, clock.wall);

  function handle(request: IncomingMessage, response: ServerResponse): void {
    if (deps.endsConnections()) response.shouldKeepAlive = false;
    const malformed = requestHeadProblem(request);
    if (malformed !== undefined) {
      // Where the next request begins is as doubtful.
      response.shouldKeepAlive = false;
      refuseText(gateway, response, "bad_request", malformed);
      return;
    }
    useOriginForm(request);
    const path = pathOf(request.url ?? "/");
    const endpoint = current.endpoints.get(path);
    const access = endpoint?.access ?? current.access;
    const { host, origin } = request.headers;
    const problem = access.problem(host, origin);
    if (problem !== undefined) {
      const document = current.wellKnown.get(path);
      if (document === undefined || access.problem(host, undefined) !== undefined)
        refuseText(gateway, response, problem.code, problem.text, { host, origin, setting: problem.setting });
      else document(request, response);
      return;
    }
    if (origin !== undefined && access.handleCors(request, response)) return;
    if (endpoint === undefined || (endpoint.isDraining && request.headers["mcp-session-id"] === undefined)) {
      serveOther(request, response, path);
      return;
    }
    const isLate = gateway.openWork.isClosed;
    // Later, a late request is refused with its id, while answers to questions and notifications pass.
    if (isLate && !endpoint.endsGently) {
      refuseRequest(gateway, endpoint.route.name, response, lateError());
      return;
    }
    const work = request.method === "GET" ? undefined : beginWork(gateway, response, endpoint.route.name, !isLate);
    const outcome = endpoint.authentication.authenticate(request);
    if (isPromise(outcome)) {
      void outcome.then((late) => {
        if (!request.destroyed) enter(request, response, endpoint, late, { work, isLate });
      });
    } else {
      enter(request, response, endpoint, outcome, { work, isLate });
    }
  }

  function enter(
    request: IncomingMessage,
    response: ServerResponse,
    { route, authentication, serve }: RouteEndpoint,
    outcome: AuthenticationOutcome,
    entry: Pick<HttpCaller, "work" | "isLate">,
  ): void {
    if (!outcome.ok) {
      const { error, challenge } = outcome;
      if (challenge !== undefined) response.setHeader("www-authenticate", challenge);
      refuseRequest(gateway, route.name, response, error);
      return;
    }
    const address = current.addressOf(request);
    const principal = outcome.principal.kind === "anonymous" ? anonymousAt(address) : outcome.principal;
    if (request.method === "POST") {
      const overload = countBody(request, limitKeyOf(principal));
      if (overload !== undefined) {
        refuseRequest(gateway, route.name, response, overload);
        return;
      }
    }
    run(gateway, serve, request, response, route, { ...entry, principal, authentication, address });
  }

  /** Counts a body until it has been received; an error where too many are. */
  function countBody(request: IncomingMessage, caller: string): GatewayError | undefined {
    const { receiving } = deps;
    const error = receiving.enter(caller);
    if (error === undefined)
      onBodyReceived(request, () => {
        receiving.leave(caller);
      });
    return error;
  }

  function serveOther(request: IncomingMessage, response: ServerResponse, path: string): void {
    const own = deps.extra(path) ?? current.wellKnown.get(path);
    if (own !== undefined) own(request, response);
    else if (path === "/healthz") respondText(response, 200, "ok");
    else void serveNames(request, response, path);
  }

  /** Lists the endpoints that the caller may use, at `/` and in the answer to unknown paths. */
  async function serveNames(request: IncomingMessage, response: ServerResponse, path: string): Promise<void> {
    const live = [...current.endpoints].filter(([name, { isDraining }]) => name.endsWith("/mcp") && !isDraining);
    const outcomes = new Map<RouteAuthentication, AuthenticationOutcome>();
    for (const authentication of new Set(live.map(([, endpoint]) => endpoint.authentication)))
      outcomes.set(authentication, await authentication.authenticate(request));
    if (response.destroyed) return;
    const known = live.filter(([, { authentication }]) => outcomes.get(authentication)?.ok === true);
    const names = known.map(([name]) => name).join(", ");
    if (path === "/") respondText(response, 200, names === "" ? "headgate" : `headgate: MCP endpoints are ${names}`);
    else
      refuseText(
        gateway,
        response,
        "not_found",
        `nothing is served here${names === "" ? "" : `; MCP endpoints are ${names}`}`,
      );
  }

  return {
    handle,
    handlePeer: (request, response) => {
      servePeer(gateway, checkPeer, current.endpoints.get(pathOf(request.url ?? "/")), request, response);
    },
    use: (table) => {
      current = compile(table, deps);
    },
  };
}

/** Serves a request that another gateway has checked and forwarded. */
function servePeer(
  gateway: GatewayContext,
  checkPeer: ((request: IncomingMessage) => ForwardedCaller) | undefined,
  endpoint: RouteEndpoint | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  if (checkPeer === undefined) {
    respondText(response, 404, "nothing is served here");
    return;
  }
  let forwarded: ForwardedCaller;
  try {
    forwarded = checkPeer(request);
  } catch (error) {
    sayDistrust(response);
    const refusal = GatewayError.from(error);
    if (endpoint === undefined) refuseText(gateway, response, "unauthenticated", refusal.message);
    else refuseRequest(gateway, endpoint.route.name, response, refusal);
    return;
  }
  sayReceived(response, forwarded);
  if (endpoint === undefined) {
    // The configurations differ, perhaps while they are replaced: with 404, the client would give up its session.
    response.setHeader("retry-after", "2");
    respondText(response, 503, "the gateway that serves this session has no such route; compare the configurations");
    return;
  }
  const { route, authentication, serve } = endpoint;
  try {
    const isLate = gateway.openWork.isClosed;
    if (isLate) sayLeaving(response);
    const work = request.method === "GET" ? undefined : beginWork(gateway, response, route.name, !isLate);
    const { principal, address } = forwarded;
    run(gateway, serve, request, response, route, {
      work,
      isLate,
      principal,
      authentication,
      address,
      forwarded,
    });
  } catch (error) {
    refuseRequest(gateway, route.name, response, GatewayError.from(error));
  }
}

/** Serves a request at its endpoint. Whatever fails there ends this request, never the process. */
function run(
  gateway: GatewayContext,
  serve: RouteHandler,
  request: IncomingMessage,
  response: ServerResponse,
  route: Route,
  caller: HttpCaller,
): void {
  const fail = (error: unknown): void => {
    if (response.headersSent) response.destroy();
    refuseRequest(gateway, route.name, response, GatewayError.from(error));
  };
  try {
    const served = serve(request, response, route, caller);
    if (isPromise(served)) served.catch(fail);
  } catch (error) {
    fail(error);
  }
}

/** Counts a request until the last byte of its response is written. */
function beginWork(
  gateway: GatewayContext,
  response: ServerResponse,
  route: string,
  isCounted: boolean,
): OpenWorkEntry {
  const abandon = (): void => {
    // If a message was read, its answer is already on its way.
    if (!response.headersSent) refuseRequest(gateway, route, response, lateError());
  };
  const work = gateway.openWork.begin({ abandon }, isCounted);
  response.on("close", () => {
    work.end();
  });
  return work;
}

/** Prepares a table for lookups by path. */
function compile(table: RoutingTable, { streamableHttp, sseStream, sseMessages }: HttpRouterDeps) {
  const endpoints = new Map<string, RouteEndpoint>();
  const add = (isDraining: boolean, { route, prefixes, authentication, cors, passThrough }: AuthenticatedRoute) => {
    const access = createAccessControl(table.access, cors.origins);
    const common = { route, authentication, access };
    const serve: RouteHandler =
      passThrough === undefined
        ? streamableHttp
        : (request, response, { retainUpstream }, { principal }) => {
            const { credentialHeaders } = authentication;
            return passThrough(request, response, { principal, credentialHeaders, retainUpstream });
          };
    for (const prefix of prefixes) {
      const endsGently = passThrough === undefined;
      endpoints.set(`${prefix}/mcp`, { ...common, serve, isDraining, endsGently });
      if (!isDraining) endpoints.set(`${prefix}/sse`, { ...common, serve: sseStream, isDraining, endsGently: false });
      endpoints.set(`${prefix}/messages`, { ...common, serve: sseMessages, isDraining: false, endsGently: true });
    }
  };
  // A configured route takes over the paths of a draining one.
  for (const route of table.draining) add(true, route);
  for (const route of table.routes) add(false, route);
  return {
    endpoints,
    access: createAccessControl(table.access, table.corsOrigins),
    addressOf: createClientAddress(table.trustedProxies),
    wellKnown: table.wellKnown,
  };
}

/** Refuses a request that matches no route. */
export function refuseText(
  gateway: Pick<GatewayContext, "noteRefusal">,
  response: ServerResponse,
  code: ErrorCode,
  reason: string,
  fields: Readonly<Record<string, string | undefined>> = {},
): void {
  const status = errorTable[code].http ?? 400;
  const shown = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, shortenName(value)]));
  gateway.noteRefusal({
    route: undefined,
    code,
    status,
    reason,
    transport: transportOf(response.req),
    fields: shown,
  });
  respondText(response, status, reason);
}

/** Answers with a line of text. */
export function respondText(response: ServerResponse, status: number, text: string): void {
  const body = Buffer.from(`${text}\n`);
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", "content-length": body.length });
  response.end(body);
}

function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}
