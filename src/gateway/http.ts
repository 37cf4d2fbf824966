import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { GatewayError } from "../errors.ts";
import { createAccessCheck, createCors } from "./access.ts";
import type { AccessRules } from "./access.ts";
import type { Concurrency } from "./concurrency.ts";
import type { GatewayContext } from "./context.ts";
import type { Route } from "./route.ts";

/** Serves one request at a route. */
export type Serve = (request: IncomingMessage, response: ServerResponse, route: Route) => Promise<void>;

export interface EdgeOptions {
  readonly access: AccessRules;
  /** The routes with what their paths begin with; nothing for the one that is served at `/mcp`. */
  readonly routes: readonly {
    readonly route: Route;
    readonly prefixes: readonly string[];
    /** Takes the place of Streamable HTTP on a route that only observes. */
    readonly serve?: Serve;
  }[];
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
}

/** Makes the function that takes every HTTP request: checks who calls from where, finds the route, bounds the load. */
export function createEdge(gateway: GatewayContext, options: EdgeOptions): RequestListener {
  const checkAccess = createAccessCheck(options.access);
  const cors = createCors(options.access.corsOrigins);
  const places = new Map<string, Place>();
  for (const { route, prefixes, serve = options.streamableHttp } of options.routes) {
    for (const prefix of prefixes) {
      places.set(`${prefix}/mcp`, { route, serve });
      places.set(`${prefix}/sse`, { route, serve: options.sseStream });
      places.set(`${prefix}/messages`, { route, serve: options.sseMessages });
    }
  }
  const { receiving } = options;

  /** Takes a place for a body to be read in; false when there is none and the request has been refused. */
  function admit(request: IncomingMessage, response: ServerResponse, route: Route): boolean {
    const principal = gateway.principalOf(request).id;
    const error = receiving.enter(principal);
    if (error !== undefined) {
      gateway.refused(route, response, error, undefined);
      return false;
    }
    request.once("close", () => {
      receiving.leave(principal);
    });
    return true;
  }

  return (request, response) => {
    const refusal = checkAccess(request.headers.host, request.headers.origin);
    if (refusal !== undefined) {
      plain(response, 403, refusal);
      return;
    }
    if (request.headers.origin !== undefined && cors(request, response)) return;
    const path = pathOf(request.url ?? "/");
    const place = places.get(path);
    if (place === undefined) {
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
    if (request.method === "POST" && !admit(request, response, place.route)) return;
    void place.serve(request, response, place.route);
  };

  function elsewhere(request: IncomingMessage, response: ServerResponse, path: string): void {
    const own = options.extra[path];
    if (own !== undefined) own(request, response);
    else if (path === "/healthz") plain(response, 200, "ok");
    else if (path === "/") plain(response, 200, `headgate: MCP endpoints are ${endpoints()}`);
    else plain(response, 404, `nothing is served here; MCP endpoints are ${endpoints()}`);
  }

  function endpoints(): string {
    return [...places.keys()].filter((path) => path.endsWith("/mcp")).join(", ");
  }
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
