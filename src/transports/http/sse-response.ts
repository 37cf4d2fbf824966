import type { ServerResponse } from "node:http";

import type { SetTimer } from "../../core/exchange.ts";

/** What an event stream to a client needs besides its response. */
export interface SseResponseOptions {
  /** A reader that lets more than this pile up is cut off. */
  readonly queueBytes: number;
  readonly keepAlive: KeepAlive;
  /** Told once for every stream that begins, and once when it is over. */
  readonly onOpen?: () => void;
  readonly onClose?: () => void;
  /** The reader was too slow and has been cut off. */
  readonly onEvicted?: () => void;
}

const keepAliveComment = Buffer.from(": keep-alive\n\n");

const streamHeaders = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  // Keeps nginx from collecting the stream.
  "x-accel-buffering": "no",
};

/** An event stream on a client's HTTP response: written event by event, flushed at once, bounded. */
export class SseResponse {
  readonly #response: ServerResponse;
  readonly #options: SseResponseOptions;
  #drained: Promise<void> | undefined;
  #isQuiet = true;

  constructor(response: ServerResponse, options: SseResponseOptions, headers: Readonly<Record<string, string>> = {}) {
    this.#response = response;
    this.#options = options;
    response.writeHead(200, { ...streamHeaders, ...headers });
    // Node would otherwise wait for the first write: clients must see the stream open at once.
    response.flushHeaders();
    options.keepAlive.add(this);
    options.onOpen?.();
    response.on("close", () => {
      options.keepAlive.delete(this);
      options.onClose?.();
    });
  }

  get isOpen(): boolean {
    return !this.#response.writableEnded && !this.#response.destroyed;
  }

  /** Writes whole events. The promise, where there is one, resolves when the reader has caught up or gone. */
  write(block: Buffer): void | Promise<void> {
    const response = this.#response;
    if (!this.isOpen) return undefined;
    this.#isQuiet = false;
    if (response.write(block)) return undefined;
    if (response.writableLength > this.#options.queueBytes + block.length) {
      // Waiting would hold up everybody who shares the source, and keeping would fill the memory.
      this.#options.onEvicted?.();
      response.destroy();
      return undefined;
    }
    this.#drained ??= new Promise((resolve) => {
      const done = () => {
        response.off("drain", done);
        response.off("close", done);
        this.#drained = undefined;
        resolve();
      };
      response.on("drain", done);
      response.on("close", done);
    });
    return this.#drained;
  }

  /** Writes a comment if nothing was written since the last call, so that idle connections are not cut on the way. */
  keepAlive(): void {
    if (this.#isQuiet && this.isOpen && this.#response.writableLength === 0) this.#response.write(keepAliveComment);
    this.#isQuiet = true;
  }

  end(): void {
    this.#options.keepAlive.delete(this);
    if (this.isOpen) this.#response.end();
  }
}

/** Something that wants to be reminded now and then that it has been quiet. */
export interface KeepAliveTarget {
  keepAlive(): void;
}

/** One timer for all open streams. */
export interface KeepAlive {
  add(stream: KeepAliveTarget): void;
  delete(stream: KeepAliveTarget): void;
  /** Beats at another interval, from the next beat on. */
  setInterval(intervalMs: number): void;
  close(): void;
}

/** Calls every stream's `beat` each interval; runs no timer while there are none. */
export function createKeepAlive(startMs: number, setTimer: SetTimer): KeepAlive {
  const streams = new Set<KeepAliveTarget>();
  let intervalMs = startMs;
  let stop: (() => void) | undefined;
  function tick(): void {
    stop = streams.size === 0 ? undefined : setTimer(intervalMs, tick);
    for (const stream of streams) stream.keepAlive();
  }
  return {
    add: (stream) => {
      streams.add(stream);
      stop ??= setTimer(intervalMs, tick);
    },
    delete: (stream) => {
      streams.delete(stream);
    },
    setInterval: (nextMs) => {
      intervalMs = nextMs;
    },
    close: () => {
      stop?.();
      streams.clear();
    },
  };
}
