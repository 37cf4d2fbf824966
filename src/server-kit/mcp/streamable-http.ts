import {
  createMcpHandler,
  type EventStore,
  isInitializeRequest,
  isJsonContentType,
  isLegacyRequest,
  type McpServer,
  type RequestId,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

import type { Clock, SetTimer } from "../../core/exchange.ts";
import { isObject } from "../../lib/is-object.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { ConnectionContext, SessionCounts, StreamableAdmission } from "../http/contract.ts";
import { httpRefusal, refuseToolCall } from "../http/refusal.ts";
import { peekJsonBody } from "../http/submission.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { Executor } from "../tools/executor.ts";
import type { KitCaller, ToolRefusal } from "../tools/tool-entry.ts";
import type { ExtensionAccess } from "./extension-access.ts";
import { toAuthInfo } from "./mcp-server.ts";

export interface StreamableHandlerDeps {
  readonly settings: () => KitSettings;
  readonly executor: Executor;
  readonly extensionAccess: ExtensionAccess;
  readonly createServer: (connection: ConnectionContext) => McpServer;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
}

/** Serves both eras with the SDK: modern requests with its handler, 2025 clients with sessions (KO-055). */
export function createStreamableHandler(deps: StreamableHandlerDeps) {
  const { settings, executor, extensionAccess, log } = deps;
  const { maxRequestBytes: maxRequestBodySize, sseKeepAliveInterval } = settings().transport;
  const connection = { via: "streamable-http", sessionId: undefined, log, era: "modern" } as const;
  const modern = createMcpHandler(() => deps.createServer(connection), {
    legacy: "reject",
    maxRequestBodySize,
    keepAliveMs: sseKeepAliveInterval,
    onerror: (error) => log.debug({ reason: error.message }, "streamable request refused"),
    // `listening` has the limit, which a reload may change.
    maxSubscriptions: Number.MAX_SAFE_INTEGER,
  });
  const sessions = createStreamableSessions(deps);
  const listening = createHeldStreams(deps);
  return {
    handle: async (request: Request, caller: KitCaller, admit: StreamableAdmission): Promise<Response> => {
      const isPost = request.method === "POST";
      if (isPost && !isJsonContentType(request.headers.get("content-type"))) {
        return httpRefusal("unsupported_media_type");
      }
      const body = isPost ? await peekJsonBody(request, maxRequestBodySize) : undefined;
      const limited = Array.isArray(body) ? limitBatch(body, admit) : undefined;
      if (limited !== undefined) return limited;
      // The status goes out before the call runs, so a refusal has to be known here (KO-098).
      for (const message of Array.isArray(body) ? body : [body]) {
        const refusal = refusalOf(message, caller);
        if (refusal !== undefined) return refuseToolCall(refusal, caller.resourceMetadataUrl);
      }
      if (await isLegacyRequest(request, body, { maxRequestBodySize })) {
        return sessions.handle(request, body, caller, admit);
      }
      const isListen = isObject(body) && body["method"] === "subscriptions/listen";
      if (!isListen) return modern.fetch(request, { authInfo: toAuthInfo(caller), parsedBody: body });
      const refusal = admit.open() ?? listening.refuse();
      if (refusal !== undefined) return refusal;
      return listening.hold(await modern.fetch(request, { authInfo: toAuthInfo(caller), parsedBody: body }), caller);
    },
    /** Sends list changes to the open subscriptions of modern clients. */
    notify: modern.notify,
    /** The sessions of 2025 clients. */
    sessionCounts: (): SessionCounts => sessions.counts(),
    close: async (): Promise<void> => {
      await Promise.all([modern.close(), sessions.close()]);
    },
  };

  /** Bounds a batch, and counts its further requests against the caller's rate limit. */
  function limitBatch(batch: readonly unknown[], admit: StreamableAdmission): Response | undefined {
    const { maxBatchSize } = settings().transport;
    if (batch.length > maxBatchSize) {
      return rpcError(400, -32_600, `Invalid Request: Batch must not exceed ${maxBatchSize} messages`);
    }
    const further = requestIds(batch).length - 1;
    return further > 0 ? admit.takeMore(further) : undefined;
  }

  function refusalOf(message: unknown, caller: KitCaller): ToolRefusal | undefined {
    // Notifications and responses ask for nothing.
    if (!isObject(message) || message["id"] === undefined || message["method"] === undefined) return undefined;
    const { name } = isObject(message["params"]) ? message["params"] : {};
    const isCall = message["method"] === "tools/call" && typeof name === "string";
    const decision = isCall ? executor.authorize(name, caller) : ({ kind: "unknown" } as const);
    if (decision.kind === "refused") return decision.refusal;
    return decision.kind === "allowed" ? undefined : extensionAccess.check(message, caller);
  }
}

interface StreamableSession {
  readonly id: string;
  readonly transport: SessionTransport;
  readonly owner: string;
  readonly events: SessionEvents;
  /** When the credentials of its last request expire. */
  expiresAt: number | undefined;
}

// How long a client waits before it reconnects to a stream that was closed on purpose.
const retryMs = 1000;
const minSweepMs = 1000;
// Without an idle time only expired sessions are looked for.
const unboundedSweepMs = 60_000;
// Node's timers take no more.
const maxTimerMs = 2 ** 31 - 1;

/**
 * Creates the sessions; each ends by DELETE, after being idle, with `close`, or when a new one needs its place. Official
 * clients send no DELETE when they close, so abandoned sessions are the normal case.
 */
function createStreamableSessions(deps: StreamableHandlerDeps) {
  const { settings, clock, setTimer } = deps;
  const open = new Map<string, StreamableSession>();
  const memory = createEventMemory(() => {
    const { maxResumeBytes, maxResumeBytesTotal } = settings().transport;
    return { maxSessionBytes: maxResumeBytes, maxTotalBytes: maxResumeBytesTotal };
  });
  let stopSweeping: (() => void) | undefined;

  return {
    counts: (): SessionCounts => {
      const inUse = [...open.values()].filter(({ transport }) => transport.isInUse).length;
      return { open: open.size, inUse, resumeBytes: memory.bytes };
    },
    /** Answers a request; `body` is its JSON, or undefined if the SDK has to read and refuse it. */
    handle: async (
      request: Request,
      body: unknown,
      caller: KitCaller,
      admit: StreamableAdmission,
    ): Promise<Response> => {
      const id = request.headers.get("mcp-session-id");
      if (id === null) return begin(request, body, caller, admit);
      const session = open.get(id);
      // Another principal only learns that there is no such session.
      if (session === undefined || session.owner !== caller.principal.id) {
        return rpcError(404, -32_001, "Session not found");
      }
      session.expiresAt = caller.principal.expiresAt;
      return session.transport.handleRequest(request, { authInfo: toAuthInfo(caller), parsedBody: body });
    },
    close: async (): Promise<void> => {
      stopSweeping?.();
      await Promise.all([...open.values()].map(async ({ transport }) => transport.close()));
    },
  };

  async function begin(
    request: Request,
    body: unknown,
    caller: KitCaller,
    admit: StreamableAdmission,
  ): Promise<Response> {
    const { maxConcurrentConnections: max, transport: limits } = settings();
    if (!isInitializeRequest(body)) return rpcError(400, -32_000, "Session id required");
    const refusal = admit.open();
    if (refusal !== undefined) return refusal;
    if (max > 0 && open.size >= max && !(await evictIdle())) return httpRefusal("max_connections_exceeded");
    const id = deps.newId();
    const events = memory.openSession();
    const transport = new SessionTransport(
      {
        sessionIdGenerator: () => id,
        eventStore: events,
        retryInterval: retryMs,
        maxRequestBodySize: limits.maxRequestBytes,
        keepAliveMs: limits.sseKeepAliveInterval,
        onsessioninitialized: () => {
          const { id: owner, expiresAt } = caller.principal;
          open.set(id, { id, transport, owner, events, expiresAt });
          sweepLater();
        },
      },
      clock,
    );
    const log = caller.log.child({ session: id.slice(0, 8) });
    const server = deps.createServer({ via: "streamable-http", sessionId: id, log, era: "legacy" });
    server.server.onclose = () => {
      open.delete(id);
      events.clear();
      log.debug({}, "streamable session closed");
    };
    await server.connect(transport);
    return transport.handleRequest(request, { authInfo: toAuthInfo(caller), parsedBody: body });
  }

  /** Ends the longest idle session of the caller that holds most of them; false if every session is in use. */
  async function evictIdle(): Promise<boolean> {
    const idle = [...open.values()].filter(({ transport }) => !transport.isInUse);
    const held = Map.groupBy(idle, ({ owner }) => owner);
    const most = [...held.values()].toSorted((one, other) => other.length - one.length)[0] ?? [];
    const [oldest] = most.toSorted((one, other) => one.transport.lastActiveAt - other.transport.lastActiveAt);
    if (oldest === undefined) return false;
    deps.log.info({ session: oldest.id.slice(0, 8), sessions: open.size }, "idle session ended to make room");
    await oldest.transport.close();
    return true;
  }

  function sweepLater(): void {
    const { sseConnectionTimeout: idleMs } = settings();
    if (stopSweeping !== undefined) return;
    stopSweeping = setTimer(idleMs > 0 ? Math.max(minSweepMs, idleMs / 4) : unboundedSweepMs, () => {
      stopSweeping = undefined;
      const oldest = clock.now() - idleMs;
      for (const { transport, expiresAt } of open.values()) {
        const isIdle = idleMs > 0 && !transport.isRunning && transport.lastActiveAt <= oldest;
        if (isIdle || hasExpired(expiresAt, idleMs, clock)) void transport.close();
      }
      if (open.size > 0) sweepLater();
    });
  }
}

/** Whether credentials have expired for one idle time, as on the HTTP+SSE profile (KO-106). */
function hasExpired(expiresAt: number | undefined, idleMs: number, clock: Clock): boolean {
  return expiresAt !== undefined && expiresAt + idleMs <= clock.wall();
}

/** The streams on which modern clients listen: bounded in number (KO-033), and over when the caller's credentials are. */
function createHeldStreams({ settings, clock, setTimer }: StreamableHandlerDeps) {
  let held = 0;

  return {
    /** The refusal of a further stream, if there are too many. */
    refuse: (): Response | undefined => {
      const { maxConcurrentConnections: max } = settings();
      return max > 0 && held >= max ? httpRefusal("max_connections_exceeded") : undefined;
    },
    /** Counts the stream of a response until it ends. */
    hold: (response: Response, { principal: { expiresAt } }: KitCaller): Response => {
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
      if (!isStream || response.body === null) return response;
      const reader = response.body.getReader();
      held++;
      let stopTimer = watch();
      let isOver = false;
      const end = (): void => {
        if (isOver) return;
        isOver = true;
        held--;
        stopTimer?.();
      };

      function watch(): (() => void) | undefined {
        if (expiresAt === undefined) return undefined;
        const idleMs = settings().sseConnectionTimeout;
        if (!hasExpired(expiresAt, idleMs, clock)) {
          return setTimer(Math.min(expiresAt + idleMs - clock.wall(), maxTimerMs), () => {
            stopTimer = watch();
          });
        }
        // A read that waits ends now, and with it the stream.
        void reader.cancel().catch(() => {});
        return undefined;
      }

      const body = new ReadableStream<Uint8Array>({
        pull: async (controller) => {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          end();
          controller.close();
        },
        cancel: async (reason) => {
          end();
          await reader.cancel(reason);
        },
      });
      return new Response(body, response);
    },
  };
}

/** The SDK's transport, which also knows when it was last active and whether a client uses it. */
class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #clock: Clock;
  readonly #running = new Set<RequestId>();
  #openStreams = 0;
  /** When the last request came or the last message was sent. */
  lastActiveAt: number;

  constructor(options: ConstructorParameters<typeof WebStandardStreamableHTTPServerTransport>[0], clock: Clock) {
    super(options);
    this.#clock = clock;
    this.lastActiveAt = clock.now();
  }

  /** Whether a request still runs. */
  get isRunning(): boolean {
    return this.#running.size > 0;
  }

  /** Whether a request runs or the client holds a stream open. */
  get isInUse(): boolean {
    return this.isRunning || this.#openStreams > 0;
  }

  override async handleRequest(
    ...[request, options]: Parameters<WebStandardStreamableHTTPServerTransport["handleRequest"]>
  ): Promise<Response> {
    this.lastActiveAt = this.#clock.now();
    const requests = requestIds(options?.parsedBody);
    // The SDK would answer both on the stream of the second, and the first would wait forever.
    if (new Set(requests).size < requests.length || requests.some((id) => this.#running.has(id))) {
      return rpcError(400, -32_600, "Invalid Request: a request with this id is running");
    }
    for (const id of requests) this.#running.add(id);
    const response = await super.handleRequest(request, options);
    // A refused request never runs.
    if (!response.ok) for (const id of requests) this.#running.delete(id);
    // A cancelled request gets no reply (MCP 2025-11-25, Cancellation).
    else for (const id of cancelledIds(options?.parsedBody)) this.#running.delete(id);
    return request.method === "GET" && response.ok ? this.#countStream(response) : response;
  }

  override async send(
    ...[message, options]: Parameters<WebStandardStreamableHTTPServerTransport["send"]>
  ): Promise<void> {
    this.lastActiveAt = this.#clock.now();
    if (!("method" in message) && message.id !== undefined) this.#running.delete(message.id);
    await super.send(message, options);
  }

  #countStream(response: Response): Response {
    if (response.body === null) return response;
    this.#openStreams++;
    let isOpen = true;
    const ended = (): void => {
      if (isOpen) this.#openStreams--;
      isOpen = false;
    };
    const counted = new TransformStream<Uint8Array, Uint8Array>({ flush: ended, cancel: ended });
    return new Response(response.body.pipeThrough(counted), response);
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

function rpcError(status: number, code: number, message: string): Response {
  return Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status });
}

/** How much may be kept for clients that resume a broken stream. */
interface EventMemoryLimits {
  readonly maxSessionBytes: number;
  readonly maxTotalBytes: number;
}

/** The events of one session. */
export interface SessionEvents extends EventStore {
  /** Forgets everything; nothing is kept from then on. */
  clear(): void;
}

interface KeptEvent {
  readonly id: string;
  readonly stream: string;
  readonly text: string;
  readonly bytes: number;
  readonly owner: KeptSession;
}

interface KeptSession {
  readonly events: KeptEvent[];
  bytes: number;
  isClosed: boolean;
}

const maxSessionEvents = 256;

/** Keeps the newest events within the limits; over the total, the oldest event of all sessions goes first. */
export function createEventMemory(limits: () => EventMemoryLimits) {
  const oldestFirst = new Set<KeptEvent>();
  let total = 0;

  function dropOldest({ owner }: KeptEvent): void {
    const event = owner.events.shift();
    if (event === undefined) return;
    oldestFirst.delete(event);
    owner.bytes -= event.bytes;
    total -= event.bytes;
  }

  function keep(event: KeptEvent): void {
    const { owner } = event;
    const { maxSessionBytes, maxTotalBytes } = limits();
    owner.events.push(event);
    oldestFirst.add(event);
    owner.bytes += event.bytes;
    total += event.bytes;
    while (owner.events.length > maxSessionEvents || owner.bytes > maxSessionBytes) dropOldest(event);
    for (const oldest of oldestFirst) {
      if (total <= maxTotalBytes) return;
      dropOldest(oldest);
    }
  }

  return {
    get bytes(): number {
      return total;
    },
    /** The memory of a new session. */
    openSession: (): SessionEvents => {
      const session: KeptSession = { events: [], bytes: 0, isClosed: false };
      const { events } = session;
      let last = 0;
      return {
        storeEvent: async (stream, message) => {
          last++;
          const id = `${stream}_${last}`;
          const text = JSON.stringify(message);
          if (!session.isClosed) keep({ id, stream, text, bytes: Buffer.byteLength(text), owner: session });
          return id;
        },
        getStreamIdForEventId: async (eventId) => events.find(({ id }) => id === eventId)?.stream,
        replayEventsAfter: async (lastId, { send }) => {
          const at = events.findIndex(({ id }) => id === lastId);
          const known = events[at];
          if (known === undefined) throw new RangeError("the event is unknown or no longer kept");
          for (const { id, stream, text } of events.slice(at + 1)) {
            if (stream !== known.stream) continue;
            // storeEvent wrote it from such a message.
            const message = JSON.parse(text) as Parameters<EventStore["storeEvent"]>[1];
            // The event that opens a stream carries an id and no message.
            if ("jsonrpc" in message) await send(id, message);
          }
          return known.stream;
        },
        clear: () => {
          session.isClosed = true;
          for (const event of events) oldestFirst.delete(event);
          total -= session.bytes;
          session.bytes = 0;
          events.length = 0;
        },
      };
    },
  };
}
