import {
  type AuthInfo,
  createMcpHandler,
  type EventStore,
  isInitializeRequest,
  isLegacyRequest,
  type JSONRPCMessage,
  type McpServer,
  type RequestId,
  type ServerNotifier,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

import { formatChallenge } from "../../auth/resource-server.ts";
import { toAuthInfo } from "./mcp-server.ts";
import type { ToolCatalog } from "../tools/tool-catalog.ts";
import type { KitCaller } from "../contract/contract.ts";
import { refuseRequest } from "../http/refusal.ts";
import { peekJsonBody } from "../http/json-body.ts";
import { isObject } from "../contract/row.ts";
import type { KitSettings } from "../contract/settings.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";

/** Streamable HTTP on the base route, for requests that have passed the door. */
export interface StreamableHandler {
  handle(request: Request, caller: KitCaller): Promise<Response>;
  /** Tells open subscriptions of modern clients of changes. */
  readonly notify: ServerNotifier;
  close(): Promise<void>;
}

/** What it is made from. */
export interface StreamableHandlerDeps {
  readonly settings: () => KitSettings;
  readonly catalogue: () => ToolCatalog;
  readonly sessions: StreamableSessions;
  readonly createServer: () => McpServer;
  readonly onError: (error: Error) => void;
}

/** Serves both eras by the SDK: modern requests by its handler, 2025 clients by sessions (KO-055). */
export function createStreamableHandler(parts: StreamableHandlerDeps): StreamableHandler {
  const maxRequestBodySize = parts.settings().transport.maxRequestBytes;
  const modern = createMcpHandler(parts.createServer, {
    legacy: "reject",
    maxRequestBodySize,
    keepAliveMs: parts.settings().transport.sseKeepAliveInterval,
    onerror: parts.onError,
  });
  return {
    handle: async (request, caller) => {
      const challenge = await challengeFor(request, caller);
      if (challenge !== undefined) return challenge;
      // The predicate reads a clone, so the request stays whole for whoever serves it.
      if (await isLegacyRequest(request, undefined, { maxRequestBodySize })) {
        return parts.sessions.handle(request, caller);
      }
      return modern.fetch(request, { authInfo: toAuthInfo(caller) });
    },
    notify: modern.notify,
    close: async () => {
      await Promise.all([modern.close(), parts.sessions.close()]);
    },
  };

  /** A call that needs a login is answered 401; the SDK knows challenges for scopes only (KO-098). */
  async function challengeFor(request: Request, caller: KitCaller): Promise<Response | undefined> {
    const isCandidate = request.method === "POST" && caller.principal.kind === "anonymous";
    if (!isCandidate || !parts.catalogue().requiresLogin) return undefined;
    const names = toolsCalledIn(await peekJsonBody(request, maxRequestBodySize));
    const isRefused = names.some((name) => parts.catalogue().authorize(caller, name).kind === "refused");
    if (!isRefused) return undefined;
    const metadataUrl = caller.resourceMetadataUrl;
    return refuseRequest("unauthorized", {
      headers: { "www-authenticate": formatChallenge(metadataUrl === undefined ? {} : { metadataUrl }) },
    });
  }
}

function toolsCalledIn(body: unknown): readonly string[] {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  return messages.flatMap((message) => {
    if (!isObject(message) || message["method"] !== "tools/call" || !isObject(message["params"])) return [];
    const { name } = message["params"];
    return typeof name === "string" ? [name] : [];
  });
}

interface StoredEvent {
  readonly id: string;
  readonly stream: string;
  readonly message: Parameters<EventStore["storeEvent"]>[1];
}

/** Keeps the last events of one session, so that a client can come back for what it missed (MCP 2025-11-25). */
function createSessionEventStore(maxEvents = 256): EventStore {
  const events: StoredEvent[] = [];
  let last = 0;
  return {
    storeEvent: async (stream, message) => {
      last++;
      const id = `${stream}_${last}`;
      events.push({ id, stream, message });
      if (events.length > maxEvents) events.shift();
      return id;
    },
    getStreamIdForEventId: async (eventId) => events.find(({ id }) => id === eventId)?.stream,
    replayEventsAfter: async (lastId, { send }) => {
      const at = events.findIndex(({ id }) => id === lastId);
      const known = events[at];
      if (known === undefined) throw new RangeError("the event is unknown or was let go");
      for (const { id, stream, message } of events.slice(at + 1)) {
        // The event that opens a stream carries an id and no message.
        if (stream === known.stream && "jsonrpc" in message) await send(id, message);
      }
      return known.stream;
    },
  };
}

/** Sessions of 2025 clients on the base route: the SDK speaks, this keeps count, owner and idle time. */
export interface StreamableSessions {
  handle(request: Request, caller: KitCaller): Promise<Response>;
  readonly size: number;
  close(): Promise<void>;
}

/** What the sessions are made from. */
export interface StreamableSessionsDeps {
  readonly settings: () => KitSettings;
  readonly createServer: (sessionId: string, log: Logger) => McpServer;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
}

interface StreamableSession {
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly owner: string;
  readonly running: Set<RequestId>;
  lastActivity: number;
}

// How long a client waits before it comes back for a stream that was closed on purpose.
const retryMs = 1000;
const minSweepMs = 1000;

/** Makes the sessions; they end by DELETE, after being idle, or with `close`. */
export function createStreamableSessions(parts: StreamableSessionsDeps): StreamableSessions {
  const { settings, clock, setTimer } = parts;
  const open = new Map<string, StreamableSession>();
  let stopSweeping: (() => void) | undefined;

  return {
    get size() {
      return open.size;
    },
    handle: async (request, caller) => {
      const id = request.headers.get("mcp-session-id");
      if (id === null) return begin(request, caller);
      const session = open.get(id);
      // Another principal learns no more than that there is no such session.
      if (session === undefined || session.owner !== caller.principal.id) {
        return rpcRefusal(404, -32_001, "Session not found");
      }
      session.lastActivity = clock.now();
      return session.transport.handleRequest(request, { authInfo: toAuthInfo(caller) });
    },
    close: async () => {
      stopSweeping?.();
      await Promise.all([...open.values()].map(async ({ transport }) => transport.close()));
    },
  };

  async function begin(request: Request, caller: KitCaller): Promise<Response> {
    const { maxConcurrentConnections, transport: rules } = settings();
    const body = request.method === "POST" ? await peekJsonBody(request, rules.maxRequestBytes) : undefined;
    if (!isInitializeRequest(body)) return rpcRefusal(400, -32_000, "Session id required");
    if (maxConcurrentConnections > 0 && open.size >= maxConcurrentConnections) {
      return refuseRequest("max_connections_exceeded");
    }
    const id = parts.newId();
    const session: StreamableSession = {
      transport: new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: () => id,
        eventStore: createSessionEventStore(),
        retryInterval: retryMs,
        maxRequestBodySize: rules.maxRequestBytes,
        keepAliveMs: rules.sseKeepAliveInterval,
        onsessioninitialized: () => {
          open.set(id, session);
          sweepLater();
        },
      }),
      owner: caller.principal.id,
      running: new Set(),
      lastActivity: clock.now(),
    };
    const log = caller.log.child({ session: id.slice(0, 8) });
    const server = parts.createServer(id, log);
    server.server.onclose = () => {
      open.delete(id);
      log.debug({}, "streamable session closed");
    };
    await server.connect(session.transport);
    watch(session);
    return session.transport.handleRequest(request, { authInfo: toAuthInfo(caller), parsedBody: body });
  }

  /** A running call and everything sent count as activity; keep-alive comments of the SDK do not pass here. */
  function watch(session: StreamableSession): void {
    const { transport, running } = session;
    const deliver = transport.onmessage;
    transport.onmessage = (message: JSONRPCMessage, extra?: { authInfo?: AuthInfo }) => {
      if ("method" in message && "id" in message) running.add(message.id);
      deliver?.(message, extra);
    };
    const send = transport.send.bind(transport);
    transport.send = async (message, options) => {
      session.lastActivity = clock.now();
      if (!("method" in message) && message.id !== undefined) running.delete(message.id);
      await send(message, options);
    };
  }

  function sweepLater(): void {
    const { sseConnectionTimeout: idleMs } = settings();
    if (stopSweeping !== undefined || idleMs <= 0) return;
    stopSweeping = setTimer(Math.max(minSweepMs, idleMs / 4), () => {
      stopSweeping = undefined;
      const oldest = clock.now() - idleMs;
      for (const { transport, running, lastActivity } of open.values()) {
        if (running.size === 0 && lastActivity <= oldest) void transport.close();
      }
      if (open.size > 0) sweepLater();
    });
  }
}

function rpcRefusal(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status });
}
