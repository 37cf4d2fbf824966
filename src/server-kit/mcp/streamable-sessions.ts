import {
  type EventStore,
  isInitializeRequest,
  type RequestId,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";

import type { Clock } from "../../core/exchange.ts";
import { isObject } from "../../lib/is-object.ts";
import type { AdmitSession, SessionCounts } from "../http/contract.ts";
import { httpRefusal } from "../http/refusal.ts";
import type { KitCaller } from "../tools/tool-entry.ts";
import { toAuthInfo } from "./mcp-server.ts";
import type { StreamableHandlerDeps } from "./streamable-http.ts";

/** The sessions of 2025 clients on the base route. */
export interface StreamableSessions {
  /** Answers a request; `body` is its JSON, or undefined if the SDK has to read and refuse it. */
  handle(request: Request, body: unknown, caller: KitCaller, admit: AdmitSession): Promise<Response>;
  counts(): SessionCounts;
  close(): Promise<void>;
}

interface StreamableSession {
  readonly id: string;
  readonly transport: SessionTransport;
  readonly owner: string;
  readonly events: SessionEvents;
}

// How long a client waits before it reconnects to a stream that was closed on purpose.
const retryMs = 1000;
const minSweepMs = 1000;

/**
 * Creates the sessions; each ends by DELETE, after being idle, with `close`, or when a new one needs its place. Official
 * clients send no DELETE when they close, so sessions that nobody uses any more are the normal case.
 */
export function createStreamableSessions(deps: StreamableHandlerDeps): StreamableSessions {
  const { settings, clock, setTimer } = deps;
  const open = new Map<string, StreamableSession>();
  const memory = createEventMemory(() => {
    const { maxResumeBytes, maxResumeBytesTotal } = settings().transport;
    return { maxSessionBytes: maxResumeBytes, maxTotalBytes: maxResumeBytesTotal };
  });
  let stopSweeping: (() => void) | undefined;

  return {
    counts: () => {
      const inUse = [...open.values()].filter(({ transport }) => transport.isInUse).length;
      return { open: open.size, inUse, resumeBytes: memory.bytes };
    },
    handle: async (request, body, caller, admit) => {
      const id = request.headers.get("mcp-session-id");
      if (id === null) return begin(request, body, caller, admit);
      const session = open.get(id);
      // Another principal only learns that there is no such session.
      if (session === undefined || session.owner !== caller.principal.id) {
        return rpcError(404, -32_001, "Session not found");
      }
      return session.transport.handleRequest(request, { authInfo: toAuthInfo(caller), parsedBody: body });
    },
    close: async () => {
      stopSweeping?.();
      await Promise.all([...open.values()].map(async ({ transport }) => transport.close()));
    },
  };

  async function begin(request: Request, body: unknown, caller: KitCaller, admit: AdmitSession): Promise<Response> {
    const { maxConcurrentConnections: max, transport: limits } = settings();
    if (!isInitializeRequest(body)) return rpcError(400, -32_000, "Session id required");
    const refusal = admit();
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
          open.set(id, { id, transport, owner: caller.principal.id, events });
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
    if (stopSweeping !== undefined || idleMs <= 0) return;
    stopSweeping = setTimer(Math.max(minSweepMs, idleMs / 4), () => {
      stopSweeping = undefined;
      const oldest = clock.now() - idleMs;
      for (const { transport } of open.values()) {
        if (!transport.isRunning && transport.lastActiveAt <= oldest) void transport.close();
      }
      if (open.size > 0) sweepLater();
    });
  }
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

/** The events of all sessions, kept so that a client can resume a broken stream (MCP 2025-11-25). */
interface EventMemory {
  /** The memory of a new session. */
  openSession(): SessionEvents;
  readonly bytes: number;
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
export function createEventMemory(limits: () => EventMemoryLimits): EventMemory {
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
    get bytes() {
      return total;
    },
    openSession: () => {
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
