import { randomBytes } from "node:crypto";
import { createSseServer } from "../transports/legacy-sse/server.ts";
import type { SseServer } from "../transports/legacy-sse/server.ts";
import { serveChannel } from "./client-channel.ts";
import type { GatewayContext } from "./context.ts";
import type { Serve } from "./http.ts";
import type { Route } from "./route.ts";

/** The two endpoints of HTTP+SSE (MCP 2024-11-05) for all routes. */
export interface SseEndpoints {
  readonly stream: Serve;
  readonly messages: Serve;
  /** Ends the connections of a route that is no more. */
  forget(route: Route, reason: string): Promise<void>;
  close(reason: string): Promise<void>;
}

/** Serves HTTP+SSE clients: each connection is a channel with a session of its own. */
export function createSseEndpoints(gateway: GatewayContext, publicPath: () => string): SseEndpoints {
  const servers = new Map<Route, SseServer>();

  function serverOf(route: Route): SseServer {
    let server = servers.get(route);
    if (server === undefined) {
      server = createSseServer({
        stream: gateway.streamOptions(route),
        maxBytes: () => gateway.limits.parse.maxBytes,
        newId: () => randomBytes(24).toString("base64url"),
        setTimer: gateway.setTimer,
        principalOf: gateway.principalOf,
        accept: (channel, request) =>
          serveChannel(gateway, channel, {
            route,
            principal: gateway.principalOf(request),
            eras: "legacy",
            context: { type: "sse", stream: channel.incarnation },
            mayStillRead: false,
          }),
        publicPath,
        onRefused: (error) => {
          gateway.counted(route, error.code);
        },
      });
      servers.set(route, server);
    }
    return server;
  }

  return {
    stream: async (request, response, route) => {
      serverOf(route).stream(request, response);
    },
    messages: (request, response, route) => serverOf(route).messages(request, response),
    forget: async (route, reason) => {
      const server = servers.get(route);
      servers.delete(route);
      await server?.close(reason);
    },
    close: async (reason) => {
      await Promise.all([...servers.values()].map((server) => server.close(reason)));
    },
  };
}
