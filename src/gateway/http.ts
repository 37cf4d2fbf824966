import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { GatewayError } from "../errors.ts";
import { whenReceived } from "../transports/http/body.ts";
import { createAccessCheck, createCors } from "./access.ts";
import type { AccessRules } from "./access.ts";
import type { Concurrency } from "./concurrency.ts";
import type { GatewayContext } from "./context.ts";
import type { Admission, Caller, Door } from "./door.ts";
import type { Route } from "./route.ts";

/** Serves one request of a known caller at a route. */
export type Serve = (
  request: IncomingMessage,
  response: ServerResponse,
  route: Route,
  caller: Caller,
) => void | Promise<void>;

/** A route and where it is found. */
export interface EdgeRoute {
  readonly route: Route;
  /** What its paths begin with; nothing for the one that is served at `/mcp`. */
  readonly prefixes: readonly string[];
  /** Takes the place of Streamable HTTP on a route that only observes. */
  readonly serve?: Serve | undefined;
}

/** A route with the door by which its callers come in. */
export interface GuardedRoute extends EdgeRoute {
  readonly door: Door;
}

/** What may be another after a reload: who is let in, and what is where. */
export interface EdgeTable {
  readonly access: AccessRules;
  readonly routes: readonly GuardedRoute[];
  /** Routes that are being left: open sessions are served to their end, and nothing new begins. */
  readonly leaving: readonly GuardedRoute[];
  /** Documents for clients, by their paths; pages of any origin may read them. */
  readonly wellKnown: ReadonlyMap<string, RequestListener>;
}

export interface EdgeOptions {
  readonly streamableHttp: Serve;
  /** The two endpoints of HTTP+SSE (2024-11-05). */
  readonly sseStream: Serve;
  readonly sseMessages: Serve;
  /** More paths of the gateway's own; used when there is no separate admin listener. */
  readonly extra: Readonly<Record<string, RequestListener>>;
  /** Counts the messages that are being received; what runs is counted where it runs. */
  readonly receiving: Concurrency;
  readonly isShuttingDown: () => boolean;
}

/** Another instance, or this one after a restart, takes work again within a few seconds. */
const shutdownSeconds = 5;

interface Place {
  readonly route: Route;
  readonly serve: Serve;
  readonly door: Door;
  /** Served only to those who have a session already. */
  readonly isLeaving: boolean;
}

/** Where HTTP requests come in. */
export interface Edge {
  /** Takes every HTTP request: checks who calls from where, finds the route, bounds the load. */
  readonly handle: RequestListener;
  /** Takes another table for every request from now on. */
  use(table: EdgeTable): void;
}

/** Makes the edge. */
export function createEdge(gateway: GatewayContext, options: EdgeOptions, first: EdgeTable): Edge {
  let current = read(first);
  const { receiving } = options;

  function read({ access, routes, leaving, wellKnown }: EdgeTable) {
    const places = new Map<string, Place>();
    const add = (
      isLeaving: boolean,
      { route, prefixes, door, serve = options.streamableHttp }: GuardedRoute,
    ): void => {
      for (const prefix of prefixes) {
        places.set(`${prefix}/mcp`, { route, door, serve, isLeaving });
        if (!isLeaving) places.set(`${prefix}/sse`, { route, door, serve: options.sseStream, isLeaving });
        places.set(`${prefix}/messages`, { route, door, serve: options.sseMessages, isLeaving: false });
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
  function makeRoom(
    request: IncomingMessage,
    response: ServerResponse,
    route: Route,
    principal: string,
  ): boolean {
    const error = receiving.enter(principal);
    if (error !== undefined) {
      gateway.refused(route, response, error, undefined);
      return false;
    }
    whenReceived(request, () => {
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
        plain(response, 403, refusal);
      } else {
        document(request, response);
      }
      return;
    }
    if (request.headers.origin !== undefined && cors(request, response)) return;
    const place = places.get(path);
    if (place === undefined || (place.isLeaving && request.headers["mcp-session-id"] === undefined)) {
      elsewhere(request, response, path);
      return;
    }
    if (options.isShuttingDown()) {
      gateway.refused(
        place.route,
        response,
        new GatewayError("shutting_down", "the gateway is shutting down", {
          details: { retryAfter: shutdownSeconds },
        }),
        undefined,
      );
      return;
    }
    const admission = place.door.admit(request);
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
    { route, door, serve }: Place,
    admission: Admission,
  ): void {
    if (!admission.ok) {
      const { error, challenge } = admission;
      if (challenge !== undefined) response.setHeader("www-authenticate", challenge);
      gateway.refused(route, response, error, undefined);
      return;
    }
    const { principal } = admission;
    if (request.method === "POST" && !makeRoom(request, response, route, principal.id)) return;
    void serve(request, response, route, { principal, door });
  }

  function elsewhere(request: IncomingMessage, response: ServerResponse, path: string): void {
    const own = options.extra[path] ?? current.wellKnown.get(path);
    if (own !== undefined) own(request, response);
    else if (path === "/healthz") plain(response, 200, "ok");
    else if (path === "/") plain(response, 200, `headgate: MCP endpoints are ${endpoints()}`);
    else plain(response, 404, `nothing is served here; MCP endpoints are ${endpoints()}`);
  }

  function endpoints(): string {
    return [...current.places]
      .flatMap(([path, { isLeaving }]) => (path.endsWith("/mcp") && !isLeaving ? [path] : []))
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
export function plain(response: ServerResponse, status: number, text: string): void {
  const body = Buffer.from(`${text}\n`);
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", "content-length": body.length });
  response.end(body);
}

function pathOf(url: string): string {
  const query = url.indexOf("?");
  return query < 0 ? url : url.slice(0, query);
}
