import { isInitializeRequest, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import type { AuthInfo, JSONRPCMessage, McpServer, RequestId } from "@modelcontextprotocol/server";

import type { Clock, SetTimer } from "../exchange.ts";
import type { Logger } from "../telemetry/log.ts";
import { toAuthInfo } from "./caller.ts";
import type { KitCaller } from "./contract.ts";
import { refuseRequest } from "./http/refusals.ts";
import { peekJsonBody } from "./request-json.ts";
import type { KitSettings } from "./settings.ts";
import { createSessionEventStore } from "./stream-events.ts";

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
