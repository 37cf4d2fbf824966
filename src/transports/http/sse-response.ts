import type { ServerResponse } from "node:http";

import type { HeldBytes } from "../../core/byte-budget.ts";
import type { SetTimer } from "../../lib/clock.ts";

/** How an event stream to a client is written. */
export interface SseResponseOptions {
  /** A client with more unread bytes than this on one stream is disconnected. */
  readonly queueBytes: number;
  readonly keepAlive: KeepAlive;
  readonly onOpen?: () => void;
  readonly onClose?: () => void;
  /** The client was too slow and has been disconnected. */
  readonly onEvicted?: () => void;
}

const keepAliveComment = Buffer.from(": keep-alive\n\n");

const streamHeaders = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  // Keeps nginx from buffering the stream.
  "x-accel-buffering": "no",
};

/** An event stream to a client: flushed with every event, with a bounded queue. */
export class SseResponse {
  readonly #response: ServerResponse;
  readonly #options: SseResponseOptions;
  readonly #held: HeldBytes | undefined;
  #drained: Promise<void> | undefined;
  #isQuiet = true;

  /** What the client has not read is `held`. */
  constructor(
    response: ServerResponse,
    options: SseResponseOptions,
    headers: Readonly<Record<string, string>> = {},
    held?: HeldBytes,
  ) {
    this.#response = response;
    this.#options = options;
    this.#held = held;
    response.writeHead(200, { ...streamHeaders, ...headers });
    // Clients must see that the stream is open before its first event.
    response.flushHeaders();
    options.keepAlive.add(this);
    options.onOpen?.();
    response.on("close", () => {
      options.keepAlive.delete(this);
      held?.release();
      options.onClose?.();
    });
  }

  get isOpen(): boolean {
    return !this.#response.writableEnded && !this.#response.destroyed;
  }

  /** Writes whole events. The promise, if there is one, resolves when the client has caught up or gone. */
  write(block: Buffer): void | Promise<void> {
    const response = this.#response;
    if (!this.isOpen) return undefined;
    this.#isQuiet = false;
    if (response.write(block)) return undefined;
    const unread = response.writableLength;
    if (unread > this.#options.queueBytes + block.length || this.#held?.resize(unread) !== undefined) {
      // Waiting would hold up other clients of the same source, and buffering would exhaust memory.
      this.#options.onEvicted?.();
      response.destroy();
      return undefined;
    }
    this.#drained ??= new Promise((resolve) => {
      const done = () => {
        response.off("drain", done);
        response.off("close", done);
        this.#drained = undefined;
        // All has been handed to the system.
        this.#held?.release();
        resolve();
      };
      response.on("drain", done);
      response.on("close", done);
    });
    return this.#drained;
  }

  /** Writes a comment if nothing was written since the last call, so that proxies keep the connection open. */
  keepAlive(): void {
    if (this.#isQuiet && this.isOpen && this.#response.writableLength === 0) this.#response.write(keepAliveComment);
    this.#isQuiet = true;
  }

  end(): void {
    this.#options.keepAlive.delete(this);
    if (this.isOpen) this.#response.end();
  }
}

/** A stream that is kept alive. */
export interface KeepAliveTarget {
  keepAlive(): void;
}

/** One timer for all open streams. */
type KeepAlive = ReturnType<typeof createKeepAlive>;

/** Calls `keepAlive` of every stream each interval; runs no timer while there are none. */
export function createKeepAlive(startMs: number, setTimer: SetTimer) {
  const streams = new Set<KeepAliveTarget>();
  let intervalMs = startMs;
  let stop: (() => void) | undefined;
  function tick(): void {
    stop = streams.size === 0 ? undefined : setTimer(intervalMs, tick);
    for (const stream of streams) stream.keepAlive();
  }
  return {
    add: (stream: KeepAliveTarget): void => {
      streams.add(stream);
      stop ??= setTimer(intervalMs, tick);
    },
    delete: (stream: KeepAliveTarget) => streams.delete(stream),
    /** Takes effect after the next tick. */
    setInterval: (nextMs: number): void => {
      intervalMs = nextMs;
    },
    close: (): void => {
      stop?.();
      streams.clear();
    },
  };
}
