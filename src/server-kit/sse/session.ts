import type { AuthInfo, JSONRPCMessage, McpServer, RequestId, Transport } from "@modelcontextprotocol/server";

import type { Clock, Principal, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import { createSseStreamBody } from "./stream-body.ts";

/** Why a session ended. */
export type SseEndReason =
  | "client-gone"
  | "idle"
  | "slow-consumer"
  | "token-expired"
  | "shutdown"
  | "server"
  | "failed";

/** The current limits of a session. */
export interface SseSessionLimits {
  /** How long a session may go without a message or event, heartbeats aside; 0 for no limit. */
  readonly idleMs: number;
  readonly bufferBytes: number;
  readonly maxQueuedBytes: number;
}

export interface SseSessionDeps {
  readonly id: string;
  readonly principal: Principal;
  /** The path and query that standard MCP clients post to (KO-064). */
  readonly endpoint: string;
  readonly limits: () => SseSessionLimits;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly createServer: () => McpServer;
  readonly onWritten: (bytes: number) => void;
  /** Called once, after the session has ended. */
  readonly onEnd: (session: SseSession, reason: SseEndReason) => void;
  /** Called when the last running request was answered or cancelled. */
  readonly onDrained: () => void;
}

/** Node's timers hold 31 bits of milliseconds. */
const maxTimerMs = 2_147_483_647;

/** How long a client that has stopped reading may keep the last events. */
const lingerMs = 5000;

/**
 * One client of the HTTP+SSE profile. It begins and ends with its event stream (KO-073), and has its own server of the
 * SDK, which writes through one bounded queue.
 */
export class SseSession {
  readonly id: string;
  readonly log: Logger;
  readonly body: ReadableStream<Uint8Array>;
  /** Aborted when the session ends. */
  readonly signal: AbortSignal;
  /** Resolves when the session has ended and its stream is flushed or dropped. */
  readonly finished: Promise<void>;
  readonly #deps: SseSessionDeps;
  readonly #stream: ReturnType<typeof createSseStreamBody>;
  readonly #transport: ReturnType<typeof createSseTransport>;
  readonly #controller = new AbortController();
  #prepared: Promise<void> | undefined;
  #principal: Principal;
  #lastActivity: number;
  #endReason: SseEndReason | undefined;
  #stopIdleTimer: (() => void) | undefined;
  #stopExpiryTimer: (() => void) | undefined;

  constructor(deps: SseSessionDeps) {
    this.#deps = deps;
    const { id, principal, clock, limits, log } = deps;
    this.id = id;
    this.log = log;
    this.#principal = principal;
    this.#lastActivity = clock.now();
    this.#stream = createSseStreamBody({
      bufferBytes: () => limits().bufferBytes,
      maxQueuedBytes: () => limits().maxQueuedBytes,
      onGone: () => this.end("client-gone"),
      onOverflow: () => this.end("slow-consumer"),
    });
    ({ body: this.body, finished: this.finished } = this.#stream);
    ({ signal: this.signal } = this.#controller);
    this.#transport = createSseTransport({
      sessionId: id,
      write: (event) => this.#writeEvent(event),
      onClose: () => this.end("server"),
      onDrained: deps.onDrained,
    });
  }

  /** Writes the first events. */
  open(): void {
    const { id, endpoint, clock } = this.#deps;
    this.#watchIdle();
    this.#watchExpiry();
    // Standard clients expect `endpoint` first; everything from `connected` on is JSON (KO-064).
    this.#writeEvent(endpointEvent(endpoint));
    this.#writeEvent(jsonEvent("connected", { sessionId: id, timestamp: isoTime(clock) }));
  }

  /**
   * Creates the session's server once, before its first message, so that opening many streams at once stays cheap. The
   * session ends if that fails.
   */
  async prepare(): Promise<void> {
    this.#prepared ??= this.#connect();
    return this.#prepared;
  }

  get principal(): Principal {
    return this.#principal;
  }

  /** How many requests are running. */
  get running(): number {
    return this.#transport.running;
  }

  /** Why it ended; undefined while it is open. */
  get endReason(): SseEndReason | undefined {
    return this.#endReason;
  }

  /** Whether its credentials have expired. */
  get isExpired(): boolean {
    const { expiresAt } = this.#principal;
    return expiresAt !== undefined && expiresAt <= this.#deps.clock.wall();
  }

  isRunning(id: RequestId): boolean {
    return this.#transport.isRunning(id);
  }

  /** Replaces the credentials by newer ones of the same principal. */
  renew(principal: Principal): void {
    if (principal === this.#principal) return;
    this.#principal = principal;
    this.#watchExpiry();
  }

  /** Hands a message of the client to the prepared server. */
  receive(message: JSONRPCMessage, style: ReplyStyle, authInfo: AuthInfo): void {
    if (this.#endReason !== undefined) return;
    this.#lastActivity = this.#deps.clock.now();
    this.#transport.receive(message, style, authInfo);
  }

  /** Writes the error reply to a request that the server never gets (KO-085). */
  reject(id: RequestId, style: ReplyStyle, code: number, message: string): void {
    const reply = { jsonrpc: "2.0", id, error: { code, message } };
    this.#writeEvent(jsonEvent(style === "standard" ? "message" : "error", reply));
  }

  /** Writes a heartbeat; it does not count as activity (KO-076). */
  heartbeat(frame: Uint8Array): void {
    this.#write(frame);
  }

  /** Ends the session: cancels its calls and tells the client. */
  end(reason: SseEndReason): void {
    if (this.#endReason !== undefined) return;
    this.#endReason = reason;
    this.#stopIdleTimer?.();
    this.#stopExpiryTimer?.();
    this.#controller.abort(reason);
    this.#finishStream(reason);
    this.#transport.onclose?.();
    this.#deps.onEnd(this, reason);
  }

  async #connect(): Promise<void> {
    try {
      await this.#deps.createServer().connect(this.#transport);
    } catch (error) {
      this.end("failed");
      throw error;
    }
  }

  #finishStream(reason: SseEndReason): void {
    const { clock, setTimer } = this.#deps;
    if (reason === "failed") {
      this.#stream.abort(reason);
      return;
    }
    // Both do nothing if the client has gone.
    this.#write(jsonEvent("end", { timestamp: isoTime(clock) }));
    this.#stream.end();
    const stopLinger = setTimer(lingerMs, () => this.#stream.abort("the client did not read the end"));
    void this.#stream.finished.then(stopLinger);
  }

  #writeEvent(frame: Uint8Array): void {
    this.#lastActivity = this.#deps.clock.now();
    this.#write(frame);
  }

  #write(frame: Uint8Array): void {
    if (this.#stream.write(frame)) this.#deps.onWritten(frame.byteLength);
  }

  /** Checks again when the session could be idle at the earliest, rather than setting a timer for every message. */
  #watchIdle(): void {
    const { clock, setTimer, limits } = this.#deps;
    const { idleMs } = limits();
    // A reload may set a limit later.
    const lookAgainMs = idleMs > 0 ? idleMs : 60_000;
    const left = idleMs > 0 ? this.#lastActivity + idleMs - clock.now() : lookAgainMs;
    if (left <= 0 && this.running === 0) {
      this.end("idle");
      return;
    }
    const wait = Math.min(left > 0 ? left : lookAgainMs, maxTimerMs);
    this.#stopIdleTimer = setTimer(wait, () => this.#watchIdle());
  }

  /** Ends the session one idle time after its token has expired (KO-106). */
  #watchExpiry(): void {
    this.#stopExpiryTimer?.();
    this.#stopExpiryTimer = undefined;
    const { expiresAt } = this.#principal;
    if (expiresAt === undefined) return;
    const { clock, setTimer, limits } = this.#deps;
    const left = expiresAt + limits().idleMs - clock.wall();
    if (left <= 0) {
      this.end("token-expired");
      return;
    }
    this.#stopExpiryTimer = setTimer(Math.min(left, maxTimerMs), () => this.#watchExpiry());
  }
}

/** The current time in ISO 8601. */
export function isoTime(clock: Clock): string {
  return new Date(clock.wall()).toISOString();
}

/** The event name of replies: `result` and `error`, or always `message` for standard MCP clients. */
export type ReplyStyle = "document" | "standard";

/** What the transport writes to. */
interface SseTransportDeps {
  readonly sessionId: string;
  readonly write: (event: Uint8Array) => void;
  /** Called when the server closes the connection. */
  readonly onClose: () => void;
  /** Called when the last running request was answered or cancelled. */
  readonly onDrained: () => void;
}

/** A transport of the SDK that sends its messages as events of one stream. */
interface SseTransport extends Transport {
  /** Acknowledges a request, and hands any message to the server. */
  receive(message: JSONRPCMessage, style: ReplyStyle, authInfo: AuthInfo): void;
  /** Whether a request with this id is running. */
  isRunning(id: RequestId): boolean;
  /** How many requests are running. */
  readonly running: number;
}

/**
 * Creates the transport of a session. The ack is written before the server gets the request, so it precedes the reply
 * (KO-066). Replies are sent as they are ready (KO-079), in the style of their request's URL (KO-064).
 */
function createSseTransport({ sessionId, write, onClose, onDrained }: SseTransportDeps): SseTransport {
  // The number 1 and the string "1" are different ids (KO-070).
  const styles = new Map<RequestId, ReplyStyle>();

  function settle(id: RequestId | undefined): void {
    if (id !== undefined && styles.delete(id) && styles.size === 0) onDrained();
  }

  const transport: SseTransport = {
    sessionId,
    start: () => Promise.resolve(),
    send: (message) => {
      write(jsonEvent(eventNameOf(message, styles), message));
      if (!("method" in message)) settle(message.id);
      return Promise.resolve();
    },
    close: () => {
      onClose();
      return Promise.resolve();
    },
    receive: (message, style, authInfo) => {
      if ("method" in message && "id" in message) {
        styles.set(message.id, style);
        write(jsonEvent("ack", { id: message.id }));
      }
      transport.onmessage?.(message, { authInfo });
      // A cancelled request gets no reply (MCP 2025-11-25, Cancellation).
      const cancelled = cancelledIdOf(message);
      if (cancelled !== undefined) settle(cancelled);
    },
    isRunning: (id) => styles.has(id),
    get running() {
      return styles.size;
    },
  };
  return transport;
}

function eventNameOf(
  message: JSONRPCMessage,
  styles: ReadonlyMap<RequestId, ReplyStyle>,
): "message" | "result" | "error" {
  if ("method" in message) return "message";
  if (message.id !== undefined && styles.get(message.id) === "standard") return "message";
  return "error" in message ? "error" : "result";
}

function cancelledIdOf(message: JSONRPCMessage): RequestId | undefined {
  if (!("method" in message) || message.method !== "notifications/cancelled") return undefined;
  const id = message.params?.["requestId"];
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

/** The events of a stream of the HTTP+SSE profile. */
type SseEventName = "endpoint" | "connected" | "ack" | "result" | "error" | "message" | "heartbeat" | "end";

type JsonEventName = Exclude<SseEventName, "endpoint">;

/** An event with JSON data, without an `id:` line (KO-059). JSON has no raw line breaks, so the data is one line. */
export function jsonEvent(name: JsonEventName, data: unknown): Uint8Array {
  return Buffer.from(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** The event that tells standard clients where to post (MCP 2024-11-05, HTTP with SSE). */
export function endpointEvent(uri: string): Uint8Array {
  return Buffer.from(`event: endpoint\ndata: ${uri}\n\n`);
}
