import type { AuthInfo, JSONRPCMessage, McpServer, RequestId } from "@modelcontextprotocol/server";

import type { Clock, Principal, SetTimer } from "../../core/exchange.ts";
import type { Logger } from "../../telemetry/log.ts";
import { createSseStreamBody } from "./stream-body.ts";
import {
  type createMessageEncoder,
  createSseTransport,
  endpointEvent,
  jsonEvent,
  type ReplyStyle,
} from "./sse-transport.ts";

/** Why a session is over. */
export type SseEndReason =
  | "client-gone"
  | "idle"
  | "slow-consumer"
  | "token-expired"
  | "shutdown"
  | "server"
  | "failed";

/** The limits of a session as they stand now. */
export interface SseSessionLimits {
  /** Milliseconds without a message or event other than a heartbeat; 0 for no limit. */
  readonly idleMs: number;
  readonly bufferBytes: number;
  readonly maxQueuedBytes: number;
}

/** What a session is made of. */
export interface SseSessionDeps {
  readonly id: string;
  readonly principal: Principal;
  /** Path that clients of standard MCP post to, with its query (KO-064). */
  readonly endpoint: string;
  readonly limits: () => SseSessionLimits;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly createServer: () => McpServer;
  /** Makes the frames of messages; shared by all sessions. */
  readonly frame: ReturnType<typeof createMessageEncoder>;
  readonly onWritten: (bytes: number) => void;
  /** Told once, after the session is over. */
  readonly onEnd: (session: SseSession, reason: SseEndReason) => void;
  /** Told whenever the last running request has its reply. */
  readonly onDrained: () => void;
}

/** Timers hold no more than 31 bits of milliseconds. */
const maxTimerMs = 2_147_483_647;

/** How long a reader that has stopped may keep the last frames before the stream is broken off. */
const lingerMs = 5000;

/**
 * One client on the document's profile: it begins with its stream and ends with it (KO-073). It has its own server of
 * the official SDK; what that writes goes through one bounded queue.
 */
export class SseSession {
  readonly id: string;
  readonly createdAt: number;
  readonly log: Logger;
  readonly #options: SseSessionDeps;
  readonly #stream: ReturnType<typeof createSseStreamBody>;
  readonly #transport: ReturnType<typeof createSseTransport>;
  readonly #controller = new AbortController();
  #prepared: Promise<void> | undefined;
  #principal: Principal;
  #lastActivity: number;
  #endReason: SseEndReason | undefined;
  #stopIdleTimer: (() => void) | undefined;
  #stopExpiryTimer: (() => void) | undefined;

  constructor(options: SseSessionDeps) {
    this.#options = options;
    const { id, principal, clock, limits: rules, log } = options;
    this.id = id;
    this.log = log;
    this.createdAt = clock.wall();
    this.#principal = principal;
    this.#lastActivity = clock.now();
    this.#stream = createSseStreamBody({
      bufferBytes: () => rules().bufferBytes,
      maxQueuedBytes: () => rules().maxQueuedBytes,
      onGone: () => this.end("client-gone"),
      onOverflow: () => this.end("slow-consumer"),
    });
    this.#transport = createSseTransport({
      sessionId: id,
      write: (frame) => this.#writeEvent(frame),
      frame: options.frame,
      onClose: () => this.end("server"),
      onDrained: options.onDrained,
    });
  }

  /** Writes the first events. */
  open(): void {
    const { id, endpoint, clock } = this.#options;
    this.#watchIdle();
    this.#watchExpiry();
    // `endpoint` first: standard clients expect it so, and what follows `connected` is JSON throughout (KO-064).
    this.#writeEvent(endpointEvent(endpoint));
    this.#writeEvent(jsonEvent("connected", { sessionId: id, timestamp: isoTime(clock) }));
  }

  /**
   * Makes the session's server, once, before its first message: many streams opened at once then cost little, and
   * those that never send anything nothing at all. A session without a server is no use, so it ends where that fails.
   */
  async prepare(): Promise<void> {
    this.#prepared ??= this.#connect();
    return this.#prepared;
  }

  get body(): ReadableStream<Uint8Array> {
    return this.#stream.body;
  }

  /** Aborted when the session is over, whoever ended it. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get principal(): Principal {
    return this.#principal;
  }

  /** Monotonic milliseconds of the last message or event; heartbeats do not count (KO-076). */
  get lastActivity(): number {
    return this.#lastActivity;
  }

  /** Requests that wait for their reply. */
  get running(): number {
    return this.#transport.running;
  }

  /** Why it is over, once it is. */
  get endReason(): SseEndReason | undefined {
    return this.#endReason;
  }

  /** Resolves when the session is over and nothing of its stream is kept any more. */
  get finished(): Promise<void> {
    return this.#stream.finished;
  }

  /** Whether the credentials that opened or last renewed it have run out. */
  get isExpired(): boolean {
    const { expiresAt } = this.#principal;
    return expiresAt !== undefined && expiresAt <= this.#options.clock.wall();
  }

  isRunning(id: RequestId): boolean {
    return this.#transport.isRunning(id);
  }

  /** Takes the credentials that the same principal showed last: they may allow more and live longer. */
  renew(principal: Principal): void {
    if (principal === this.#principal) return;
    this.#principal = principal;
    this.#watchExpiry();
  }

  /** Hands a message of the client to the server, which has been prepared. */
  receive(message: JSONRPCMessage, style: ReplyStyle, authInfo: AuthInfo): void {
    if (this.#endReason !== undefined) return;
    this.#lastActivity = this.#options.clock.now();
    this.#transport.receive(message, style, authInfo);
  }

  /** Writes an error reply that the server does not make itself, because it never sees the request (KO-085). */
  reject(id: RequestId, style: ReplyStyle, code: number, message: string): void {
    const reply = { jsonrpc: "2.0", id, error: { code, message } };
    this.#writeEvent(jsonEvent(style === "standard" ? "message" : "error", reply));
  }

  /** Writes a heartbeat, which is no activity (KO-076). */
  heartbeat(frame: Uint8Array): void {
    this.#write(frame);
  }

  /** Ends the session once: its calls are cancelled, and the client is told where it still listens. */
  end(reason: SseEndReason): void {
    if (this.#endReason !== undefined) return;
    this.#endReason = reason;
    this.#stopIdleTimer?.();
    this.#stopExpiryTimer?.();
    this.#controller.abort(reason);
    this.#finishStream(reason);
    this.#transport.onclose?.();
    this.#options.onEnd(this, reason);
  }

  async #connect(): Promise<void> {
    try {
      await this.#options.createServer().connect(this.#transport);
    } catch (error) {
      this.end("failed");
      throw error;
    }
  }

  #finishStream(reason: SseEndReason): void {
    const { clock, setTimer } = this.#options;
    if (reason === "failed") {
      this.#stream.abort(reason);
      return;
    }
    // Neither does anything where the reader has gone or was given up.
    this.#write(jsonEvent("end", { timestamp: isoTime(clock) }));
    this.#stream.end();
    const stopLinger = setTimer(lingerMs, () => this.#stream.abort("the reader did not take the end"));
    void this.#stream.finished.then(stopLinger);
  }

  #writeEvent(frame: Uint8Array): void {
    this.#lastActivity = this.#options.clock.now();
    this.#write(frame);
  }

  #write(frame: Uint8Array): void {
    if (this.#stream.write(frame)) this.#options.onWritten(frame.byteLength);
  }

  /** Looks again when the session could be idle at the earliest, instead of setting a timer with every message. */
  #watchIdle(): void {
    const { clock, setTimer, limits: rules } = this.#options;
    const { idleMs } = rules();
    // With no limit now, a reload may set one later.
    const lookAgainMs = idleMs > 0 ? idleMs : 60_000;
    const left = idleMs > 0 ? this.#lastActivity + idleMs - clock.now() : lookAgainMs;
    if (left <= 0 && this.running === 0) {
      this.end("idle");
      return;
    }
    const wait = Math.min(left > 0 ? left : lookAgainMs, maxTimerMs);
    this.#stopIdleTimer = setTimer(wait, () => this.#watchIdle());
  }

  /** An expired token may not be used for longer than one idle time, whatever goes on (KO-106). */
  #watchExpiry(): void {
    this.#stopExpiryTimer?.();
    this.#stopExpiryTimer = undefined;
    const { expiresAt } = this.#principal;
    if (expiresAt === undefined) return;
    const { clock, setTimer, limits: rules } = this.#options;
    const left = expiresAt + rules().idleMs - clock.wall();
    if (left <= 0) {
      this.end("token-expired");
      return;
    }
    this.#stopExpiryTimer = setTimer(Math.min(left, maxTimerMs), () => this.#watchExpiry());
  }
}

/** Now, in ISO 8601 and UTC. */
export function isoTime(clock: Clock): string {
  return new Date(clock.wall()).toISOString();
}
