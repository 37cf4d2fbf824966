import type { ServerResponse } from "node:http";
import type { KeepAlive } from "./keep-alive.ts";

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

  constructor(
    response: ServerResponse,
    options: SseResponseOptions,
    headers: Readonly<Record<string, string>> = {},
  ) {
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
    if (this.#isQuiet && this.isOpen && this.#response.writableLength === 0)
      this.#response.write(keepAliveComment);
    this.#isQuiet = true;
  }

  end(): void {
    this.#options.keepAlive.delete(this);
    if (this.isOpen) this.#response.end();
  }
}
