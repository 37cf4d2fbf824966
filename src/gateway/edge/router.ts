import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { GatewayError } from "../../errors.ts";
import { onBodyReceived } from "../../transports/http/request-body.ts";
import { type AccessRules, createAccessCheck, createCors } from "./access.ts";
import type { Concurrency } from "../route/limits.ts";
import type { GatewayContext } from "../context.ts";
import type { AuthenticationOutcome, HttpCaller, RouteAuthentication } from "./route-authentication.ts";
import type { Route } from "../route/route.ts";

/** Serves one request of a known caller at a route. */
export type RouteHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  route: Route,
  caller: HttpCaller,
) => void | Promise<void>;

/** A route and where it is found. */
export interface ServedRoute {
  readonly route: Route;
  /** What its paths begin with; nothing for the one that is served at `/mcp`. */
  readonly prefixes: readonly string[];
  /** Takes the place of Streamable HTTP on a route that only observes. */
  readonly serve?: RouteHandler | undefined;
}

/** A route with the door by which its callers come in. */
export interface AuthenticatedRoute extends ServedRoute {
  readonly authentication: RouteAuthentication;
}

/** What may be another after a reload: who is let in, and what is where. */
export interface RoutingTable {
  readonly access: AccessRules;
  readonly routes: readonly AuthenticatedRoute[];
  /** Routes that are being left: open sessions are served to their end, and nothing new begins. */
  readonly draining: readonly AuthenticatedRoute[];
  /** Documents for clients, by their paths; pages of any origin may read them. */
  readonly wellKnown: ReadonlyMap<string, RequestListener>;
}

export interface HttpRouterDeps {
  readonly streamableHttp: RouteHandler;
  /** The two endpoints of HTTP+SSE (2024-11-05). */
  readonly sseStream: RouteHandler;
  readonly sseMessages: RouteHandler;
  /** More paths of the gateway's own; used when there is no separate admin listener. */
  readonly extra: Readonly<Record<string, RequestListener>>;
  /** Counts the messages that are being received; what runs is counted where it runs. */
  readonly receiving: Concurrency;
  readonly isShuttingDown: () => boolean;
}

/** Another instance, or this one after a restart, takes work again within a few seconds. */
const shutdownSeconds = 5;

interface RouteEndpoint {
  readonly route: Route;
  readonly serve: RouteHandler;
  readonly authentication: RouteAuthentication;
  /** Served only to those who have a session already. */
  readonly isDraining: boolean;
}

/** Where HTTP requests come in. */
export interface HttpRouter {
  /** Takes every HTTP request: checks who calls from where, finds the route, bounds the load. */
  readonly handle: RequestListener;
  /** Takes another table for every request from now on. */
  use(table: RoutingTable): void;
}

/** Makes the edge. */
export function createHttpRouter(gateway: GatewayContext, options: HttpRouterDeps, first: RoutingTable): HttpRouter {
  let current = read(first);
  const { receiving } = options;

  function read({ access, routes, draining: leaving, wellKnown }: RoutingTable) {
    const places = new Map<string, RouteEndpoint>();
    const add = (
      isLeaving: boolean,
      { route, prefixes, authentication: door, serve = options.streamableHttp }: AuthenticatedRoute,
    ): void => {
      for (const prefix of prefixes) {
        places.set(`${prefix}/mcp`, { route, authentication: door, serve, isDraining: isLeaving });
        if (!isLeaving)
          places.set(`${prefix}/sse`, {
            route,
            authentication: door,
            serve: options.sseStream,
            isDraining: isLeaving,
          });
        places.set(`${prefix}/messages`, {
          route,
          authentication: door,
          serve: options.sseMessages,
          isDraining: false,
        });
      }
    };
    // A path that has been given to another route is that route's.
    for (const route of leaving) add(true, route);
    for (const route of routes) add(false, route);
    return {
      checkAccess: createAccessCheck(access),
      cors: createCors(access.corsOrigins),
      places,
      wellKnown,
    };
  }

  /** Takes a place for a body to be read in; false when there is none and the request has been refused. */
  function makeRoom(request: IncomingMessage, response: ServerResponse, route: Route, principal: string): boolean {
    const error = receiving.enter(principal);
    if (error !== undefined) {
      gateway.refuse(route, response, error, undefined);
      return false;
    }
    onBodyReceived(request, () => {
      receiving.leave(principal);
    });
    return true;
  }

  function handle(request: IncomingMessage, response: ServerResponse): void {
    const { checkAccess, cors, places, wellKnown } = current;
    const path = pathOf(request.url ?? "/");
    const refusal = checkAccess(request.headers.host, request.headers.origin);
    if (refusal !== undefined) {
      const document = wellKnown.get(path);
      if (document === undefined || checkAccess(request.headers.host, undefined) !== undefined) {
        respondText(response, 403, refusal);
      } else {
        document(request, response);
      }
      return;
    }
    if (request.headers.origin !== undefined && cors(request, response)) return;
    const place = places.get(path);
    if (place === undefined || (place.isDraining && request.headers["mcp-session-id"] === undefined)) {
      elsewhere(request, response, path);
      return;
    }
    if (options.isShuttingDown()) {
      gateway.refuse(
        place.route,
        response,
        new GatewayError("shutting_down", "the gateway is shutting down", {
          details: { retryAfter: shutdownSeconds },
        }),
        undefined,
      );
      return;
    }
    const admission = place.authentication.authenticate(request);
    if (admission instanceof Promise) {
      void admission.then((known) => {
        // A client that left meanwhile waits for nothing.
        if (!request.destroyed) enter(request, response, place, known);
      });
    } else {
      enter(request, response, place, admission);
    }
  }

  function enter(
    request: IncomingMessage,
    response: ServerResponse,
    { route, authentication: door, serve }: RouteEndpoint,
    admission: AuthenticationOutcome,
  ): void {
    if (!admission.ok) {
      const { error, challenge } = admission;
      if (challenge !== undefined) response.setHeader("www-authenticate", challenge);
      gateway.refuse(route, response, error, undefined);
      return;
    }
    const { principal } = admission;
    if (request.method === "POST" && !makeRoom(request, response, route, principal.id)) return;
    void serve(request, response, route, { principal, authentication: door });
  }

  function elsewhere(request: IncomingMessage, response: ServerResponse, path: string): void {
    const own = options.extra[path] ?? current.wellKnown.get(path);
    if (own !== undefined) own(request, response);
    else if (path === "/healthz") respondText(response, 200, "ok");
    else if (path === "/") respondText(response, 200, `headgate: MCP endpoints are ${endpoints()}`);
    else respondText(response, 404, `nothing is served here; MCP endpoints are ${endpoints()}`);
  }

  function endpoints(): string {
    return [...current.places]
      .flatMap(([path, { isDraining: isLeaving }]) => (path.endsWith("/mcp") && !isLeaving ? [path] : []))
      .join(", ");
  }

  return {
    handle,
    use: (table) => {
      current = read(table);
    },
  };
}

/** A short answer for people. */
export function respondText(response: ServerResponse, status: number, text: string): void {
  const body = Buffer.from(`${text}\n`);
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", "content-length": body.length });
  response.end(body);
}

function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}
