import {
  createMcpHandler,
  type EventStore,
  isInitializeRequest,
  isJsonContentType,
  isLegacyRequest,
  type McpServer,
  type RequestId,
  type ServerNotifier,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

import type { Clock, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { KitCaller } from "../tools/tool-entry.ts";
import { isObject } from "../../lib/is-object.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { ConnectionContext } from "../http/contract.ts";
import { peekJsonBody } from "../http/submission.ts";
import { refuseRequest, refuseToolCall } from "../http/refusal.ts";
import type { Executor } from "../tools/executor.ts";
import { toAuthInfo } from "./mcp-server.ts";

/** Streamable HTTP on the base route, for requests that are authenticated already. */
export interface StreamableHandler {
  handle(request: Request, caller: KitCaller): Promise<Response>;
  /** Sends list changes to the open subscriptions of modern clients. */
  readonly notify: ServerNotifier;
  /** How many sessions of 2025 clients are open. */
  readonly sessions: number;
  close(): Promise<void>;
}

/** What the handler is made from. */
export interface StreamableHandlerDeps {
  readonly settings: () => KitSettings;
  readonly executor: Executor;
  readonly createServer: (connection: ConnectionContext) => McpServer;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
}

/** Serves both eras with the SDK: modern requests with its handler, 2025 clients with sessions (KO-055). */
export function createStreamableHandler(deps: StreamableHandlerDeps): StreamableHandler {
  const { settings, executor, log } = deps;
  const { maxRequestBytes: maxRequestBodySize, sseKeepAliveInterval } = settings().transport;
  const connection = { via: "streamable-http", sessionId: undefined, log, era: "modern" } as const;
  const modern = createMcpHandler(() => deps.createServer(connection), {
    legacy: "reject",
    maxRequestBodySize,
    keepAliveMs: sseKeepAliveInterval,
    onerror: (error) => log.debug({ reason: error.message }, "streamable request refused"),
  });
  const sessions = createStreamableSessions(deps);
  return {
    handle: async (request, caller) => {
      const isPost = request.method === "POST";
      if (isPost && !isJsonContentType(request.headers.get("content-type"))) {
        return refuseRequest("unsupported_media_type");
      }
      const body = isPost ? await peekJsonBody(request, maxRequestBodySize) : undefined;
      // The status goes out before the call runs, so a refusal has to be known here (KO-098).
      for (const name of calledTools(body)) {
        const decision = executor.authorize(name, caller);
        if (decision.kind === "refused") return refuseToolCall(decision.refusal, caller.resourceMetadataUrl);
      }
      if (await isLegacyRequest(request, body, { maxRequestBodySize })) return sessions.handle(request, body, caller);
      return modern.fetch(request, { authInfo: toAuthInfo(caller), parsedBody: body });
    },
    notify: modern.notify,
    get sessions() {
      return sessions.size;
    },
    close: async () => {
      await Promise.all([modern.close(), sessions.close()]);
    },
  };
}

function calledTools(body: unknown): readonly string[] {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  return messages.flatMap((message) => {
    if (!isObject(message) || message["method"] !== "tools/call" || !isObject(message["params"])) return [];
    const { name } = message["params"];
    return typeof name === "string" ? [name] : [];
  });
}

/** The sessions of 2025 clients on the base route. */
interface StreamableSessions {
  /** Answers a request; `body` is its JSON, or undefined if the SDK has to read and refuse it. */
  handle(request: Request, body: unknown, caller: KitCaller): Promise<Response>;
  readonly size: number;
  close(): Promise<void>;
}

interface StreamableSession {
  readonly transport: SessionTransport;
  readonly owner: string;
  lastRequestAt: number;
}

// How long a client waits before it reconnects to a stream that was closed on purpose.
const retryMs = 1000;
const minSweepMs = 1000;

/** Creates the sessions; each ends by DELETE, after being idle, or with `close`. */
function createStreamableSessions(deps: StreamableHandlerDeps): StreamableSessions {
  const { settings, clock, setTimer } = deps;
  const open = new Map<string, StreamableSession>();
  let stopSweeping: (() => void) | undefined;

  return {
    get size() {
      return open.size;
    },
    handle: async (request, body, caller) => {
      const id = request.headers.get("mcp-session-id");
      if (id === null) return begin(request, body, caller);
      const session = open.get(id);
      // Another principal only learns that there is no such session.
      if (session === undefined || session.owner !== caller.principal.id) {
        return rpcError(404, -32_001, "Session not found");
      }
      session.lastRequestAt = clock.now();
      return session.transport.handleRequest(request, { authInfo: toAuthInfo(caller), parsedBody: body });
    },
    close: async () => {
      stopSweeping?.();
      await Promise.all([...open.values()].map(async ({ transport }) => transport.close()));
    },
  };

  async function begin(request: Request, body: unknown, caller: KitCaller): Promise<Response> {
    const { maxConcurrentConnections, transport: limits } = settings();
    if (!isInitializeRequest(body)) return rpcError(400, -32_000, "Session id required");
    if (maxConcurrentConnections > 0 && open.size >= maxConcurrentConnections) {
      return refuseRequest("max_connections_exceeded");
    }
    const id = deps.newId();
    const transport = new SessionTransport(
      {
        sessionIdGenerator: () => id,
        eventStore: createSessionEventStore(),
        retryInterval: retryMs,
        maxRequestBodySize: limits.maxRequestBytes,
        keepAliveMs: limits.sseKeepAliveInterval,
        onsessioninitialized: () => {
          open.set(id, { transport, owner: caller.principal.id, lastRequestAt: clock.now() });
          sweepLater();
        },
      },
      clock,
    );
    const log = caller.log.child({ session: id.slice(0, 8) });
    const server = deps.createServer({ via: "streamable-http", sessionId: id, log, era: "legacy" });
    server.server.onclose = () => {
      open.delete(id);
      log.debug({}, "streamable session closed");
    };
    await server.connect(transport);
    return transport.handleRequest(request, { authInfo: toAuthInfo(caller), parsedBody: body });
  }

  function sweepLater(): void {
    const { sseConnectionTimeout: idleMs } = settings();
    if (stopSweeping !== undefined || idleMs <= 0) return;
    stopSweeping = setTimer(Math.max(minSweepMs, idleMs / 4), () => {
      stopSweeping = undefined;
      const oldest = clock.now() - idleMs;
      for (const { transport, lastRequestAt } of open.values()) {
        const isIdle = !transport.isRunning && Math.max(lastRequestAt, transport.lastSentAt) <= oldest;
        if (isIdle) void transport.close();
      }
      if (open.size > 0) sweepLater();
    });
  }
}

/** The SDK's transport, which also knows when it last sent a message and whether a request still runs. */
class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #clock: Clock;
  readonly #running = new Set<RequestId>();
  lastSentAt: number;

  constructor(options: ConstructorParameters<typeof WebStandardStreamableHTTPServerTransport>[0], clock: Clock) {
    super(options);
    this.#clock = clock;
    this.lastSentAt = clock.now();
  }

  get isRunning(): boolean {
    return this.#running.size > 0;
  }

  override async handleRequest(
    ...[request, options]: Parameters<WebStandardStreamableHTTPServerTransport["handleRequest"]>
  ): Promise<Response> {
    const requests = requestIds(options?.parsedBody);
    for (const id of requests) this.#running.add(id);
    const response = await super.handleRequest(request, options);
    // A refused request never runs.
    if (!response.ok) for (const id of requests) this.#running.delete(id);
    // A cancelled request gets no reply (MCP 2025-11-25, Cancellation).
    else for (const id of cancelledIds(options?.parsedBody)) this.#running.delete(id);
    return response;
  }

  override async send(
    ...[message, options]: Parameters<WebStandardStreamableHTTPServerTransport["send"]>
  ): Promise<void> {
    this.lastSentAt = this.#clock.now();
    if (!("method" in message) && message.id !== undefined) this.#running.delete(message.id);
    await super.send(message, options);
  }
}

/** The ids of the requests in a body. */
function requestIds(body: unknown): readonly RequestId[] {
  return messagesOf(body).flatMap((message) => ("method" in message ? asId(message["id"]) : []));
}

/** The ids of the requests that a body cancels. */
function cancelledIds(body: unknown): readonly RequestId[] {
  return messagesOf(body).flatMap(({ method, params }) =>
    method === "notifications/cancelled" && isObject(params) ? asId(params["requestId"]) : [],
  );
}

function messagesOf(body: unknown): readonly Readonly<Record<string, unknown>>[] {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  return messages.filter(isObject);
}

function asId(id: unknown): readonly RequestId[] {
  return typeof id === "string" || typeof id === "number" ? [id] : [];
}

interface StoredEvent {
  readonly id: string;
  readonly stream: string;
  readonly message: Parameters<EventStore["storeEvent"]>[1];
}

/** Keeps the last events of one session, so that a client can resume a broken stream (MCP 2025-11-25). */
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
      if (known === undefined) throw new RangeError("the event is unknown or no longer kept");
      for (const { id, stream, message } of events.slice(at + 1)) {
        // The event that opens a stream carries an id and no message.
        if (stream === known.stream && "jsonrpc" in message) await send(id, message);
      }
      return known.stream;
    },
  };
}

function rpcError(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status });
}
