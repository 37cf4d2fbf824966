import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";

import { anonymous, type HttpFacts, limitKeyOf, type Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import type { RestoredSession } from "../../sessions/registry.ts";
import { readBody } from "../../transports/http/request-body.ts";
import { sessionIdOf } from "../../transports/legacy-sse/client.ts";
import { createSseServer, type SseServer } from "../../transports/legacy-sse/server.ts";
import type { Channel } from "../../transports/transport.ts";
import type { ClusterMember, GatewayContext } from "../context.ts";
import { createConcurrency, type MessageCounters } from "../route/guards/limits.ts";
import type { Route } from "../route/route.ts";
import { serveChannel } from "./channel-client.ts";
import { hasRequestsIn } from "./conversation.ts";
import { type HandedRequest, handTo } from "./hand-over.ts";
import { httpFactsOfPost, refuseRequest, transportOf } from "./http-reply.ts";
import { foreignBody, isBodyOf, type RemotePeer } from "./peer-requests.ts";
import { type HttpCaller, longerOf, onExpiry } from "./route-authentication.ts";
import type { RouteHandler } from "./router.ts";
import { peerGone, peerWithServer, reachable } from "./session-peer.ts";
import { whileCounted } from "./waiting.ts";

/** The two endpoints of HTTP+SSE (MCP 2024-11-05) for all routes. */
export interface HttpSseHandlers {
  readonly stream: RouteHandler;
  readonly messages: RouteHandler;
  /** Ends the connections of a removed route. */
  forget(route: Route, reason: string): Promise<void>;
  close(reason: string): Promise<void>;
}

/** What the last POST of a connection has shown. */
interface Presented {
  readonly last: Principal;
  /** Of all credentials presented so far, those that expire last. */
  readonly longest: Principal;
  /** Whether it came after the gateway had begun to shut down. */
  readonly isLate: boolean;
  /** Messages are handled as they come, so it is the POST of the present message. */
  readonly post?: HttpFacts;
}

/** Serves HTTP+SSE clients: each connection is a channel with a session of its own. */
export function createHttpSseHandlers(
  gateway: GatewayContext,
  counters: MessageCounters,
  publicPath: () => string,
): HttpSseHandlers {
  const servers = new Map<Route, SseServer>();
  const callers = new WeakMap<IncomingMessage, HttpCaller>();
  const restored = new WeakMap<IncomingMessage, RestoredSession>();
  /** Each connection may become a session, so there are as many at most, with or without a handshake. */
  const { limits } = gateway.registry;
  const connections = createConcurrency({
    get total() {
      return limits.sessions;
    },
    get perPrincipal() {
      return limits.sessionsPerPrincipal;
    },
  });
  const presented = new WeakMap<Channel, Presented>();
  const principalOf = (request: IncomingMessage): Principal => callers.get(request)?.principal ?? anonymous;

  function serverOf(route: Route): SseServer {
    let server = servers.get(route);
    if (server === undefined) {
      server = createSseServer({
        stream: route.streamOptions,
        maxBytes: () => gateway.limits.parse.maxBytes,
        // Names the process that holds the connection, for other processes.
        newId: () => `${gateway.cluster?.node ?? ""}${randomBytes(24).toString("base64url")}`,
        setTimer: gateway.setTimer,
        principalOf,
        hold: (request) => gateway.bytes.hold(limitKeyOf(principalOf(request))),
        accept: (channel, request) => {
          const first = principalOf(request);
          const overload = connections.enter(limitKeyOf(first));
          if (overload !== undefined) {
            restored.get(request)?.session.end(overload.message, "shutdown");
            throw overload;
          }
          presented.set(channel, { last: first, longest: first, isLate: false });
          const longest = (): Principal => presented.get(channel)?.longest ?? first;
          const stop = onExpiry(longest, gateway, () => {
            void channel.close("the client's credentials have expired");
          });
          return serveChannel(gateway, channel, {
            route,
            get principal() {
              return presented.get(channel)?.last ?? first;
            },
            get isLate() {
              return presented.get(channel)?.isLate ?? false;
            },
            eras: "legacy",
            get transport() {
              const post = presented.get(channel)?.post;
              const context = { type: "sse", stream: channel.incarnation } as const;
              return post === undefined ? context : { ...context, post };
            },
            mayStillRead: false,
            mayResume: true,
            restored: restored.get(request),
            onGone: () => {
              stop();
              connections.leave(limitKeyOf(first));
            },
          });
        },
        renew: (channel, request) => {
          const last = principalOf(request);
          const longest = longerOf(presented.get(channel)?.longest ?? last, last);
          // Without the query, which holds the session id.
          const [path = ""] = (request.url ?? "").split("?", 1);
          const caller = callers.get(request);
          const post = httpFactsOfPost(request, path, route.forwardHeaders, caller?.address);
          presented.set(channel, { last, longest, isLate: caller?.isLate ?? false, post });
        },
        checkBody: (request, body) => {
          const forwarded = callers.get(request)?.forwarded;
          if (forwarded !== undefined && !isBodyOf(forwarded, body)) throw foreignBody();
        },
        publicPath,
        onRefused: ({ code, facts, message: reason }, request) => {
          const refused = { route: route.name, code, status: facts.http ?? 0, reason };
          gateway.noteRefusal({ ...refused, principal: principalOf(request), transport: transportOf(request) });
        },
      });
      servers.set(route, server);
    }
    return server;
  }

  return {
    stream: async (request, response, route, caller) => {
      callers.set(request, caller);
      if (await handedOver(gateway, counters, { request, response, route, caller }, peerForStream)) return;
      const sealedId = request.headers["last-event-id"];
      if (typeof sealedId === "string") {
        const find = async () => gateway.registry.restore(sealedId, route.name, caller.principal);
        const session = await whileCounted(counters, limitKeyOf(caller.principal), () => true, find);
        // A session that is open here already has its own connection.
        if (session?.isNew === true) restored.set(request, session);
      }
      serverOf(route).stream(request, response);
    },
    messages: async (request, response, route, caller) => {
      callers.set(request, caller);
      if (await handedOver(gateway, counters, { request, response, route, caller }, peerForMessage)) return;
      await serverOf(route).messages(request, response);
    },
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

type SseRequest = Omit<HandedRequest, "body">;
type PeerOf = (cluster: ClusterMember, handed: SseRequest) => MaybePromise<RemotePeer | undefined>;

/** A connection is opened where the server runs, if several clients share it. */
const peerForStream: PeerOf = (cluster, { route, caller }) =>
  peerWithServer(cluster, route, caller.principal, "legacy");

/** A message goes to the gateway that has the connection, which the session id names. */
const peerForMessage: PeerOf = (cluster, { request }) =>
  reachable(cluster, sessionIdOf(request.url ?? "")?.slice(0, cluster.node.length));

/** Hands a request to another gateway if that has to serve it. */
async function handedOver(
  gateway: GatewayContext,
  counters: MessageCounters,
  handed: SseRequest,
  peerOf: PeerOf,
): Promise<boolean> {
  const { request, response, route, caller } = handed;
  const { cluster } = gateway;
  if (cluster === undefined || caller.forwarded !== undefined) return false;
  const key = limitKeyOf(caller.principal);
  const limits = gateway.limits.parse;
  const held = gateway.bytes.hold(key);
  try {
    // What a POST holds is not known yet; until it is, it is counted by the router, too.
    const isStream = request.method !== "POST";
    const find = async (): Promise<RemotePeer | undefined> => peerOf(cluster, handed);
    const peer = await whileCounted(counters, key, () => isStream, find);
    if (peer === undefined) return false;
    const body = isStream ? undefined : await readBody(request, limits.maxBytes, held);
    const isRequest = (): boolean => body === undefined || hasRequestsIn(body, limits);
    const handing = () => handTo(gateway, cluster, peer, { ...handed, body });
    if ((await whileCounted(counters, key, isRequest, handing)) !== "answered") throw peerGone();
  } catch (error) {
    refuseRequest(gateway, route.name, response, error instanceof GatewayError ? error : peerGone());
  } finally {
    held.release();
  }
  return true;
}
