import type { IncomingMessage } from "node:http";
import type { HeldBytes } from "../../core/byte-budget.ts";
import { GatewayError } from "../../errors.ts";
import { nodeHttp } from "../../lib/lazy-modules.ts";
import { notePart } from "../large-parts.ts";

const empty = Buffer.alloc(0);

/** Reads a request's whole body; rejects as soon as it exceeds the limit, or what its sender may hold. It is held until released. */
export function readBody(request: IncomingMessage, maxBytes: number, held?: HeldBytes): Promise<Buffer> {
  return new Promise((resolve, reject) => readBodyWithCallbacks(request, maxBytes, resolve, reject, held));
}

/**
 * Reads a request's whole body and calls one of the two functions, once. What arrives is `held`; if it arrives whole, its
 * receiver releases that when it no longer needs it.
 */
export function readBodyWithCallbacks(
  request: IncomingMessage,
  maxBytes: number,
  done: (body: Buffer) => void,
  failed: (error: GatewayError) => void,
  held?: HeldBytes,
): void {
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > maxBytes) {
    // The rest is read and discarded, so that the client gets to see the answer.
    request.resume();
    failed(tooLarge(announced, maxBytes));
    return;
  }
  const body = new BodyCollector(maxBytes, done, failed, held);
  if (request instanceof SyncBodyRequest && request.deliverTo(body)) return;
  request.on("data", (chunk: Buffer) => body.onChunk(chunk));
  request.on("end", () => body.onEnd());
  // A broken connection closes the request; without an "error" listener there are no error events.
  request.on("close", () => {
    if (!request.complete) body.onAbort();
  });
}

/** Calls back once a request's body has been received, or will never be. */
export function onBodyReceived(request: IncomingMessage, received: () => void): void {
  if (request instanceof SyncBodyRequest) request.onReceived(received);
  else request.on("close", received);
}

/** Joins the chunks of a body. */
class BodyCollector {
  readonly #maxBytes: number;
  readonly #done: (body: Buffer) => void;
  readonly #failed: (error: GatewayError) => void;
  readonly #held: HeldBytes | undefined;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  #isOver = false;

  constructor(
    maxBytes: number,
    done: (body: Buffer) => void,
    failed: (error: GatewayError) => void,
    held: HeldBytes | undefined,
  ) {
    this.#maxBytes = maxBytes;
    this.#done = done;
    this.#failed = failed;
    this.#held = held;
  }

  onChunk(bytes: Buffer): void {
    this.#size += bytes.length;
    if (this.#isOver) return;
    if (this.#size > this.#maxBytes) {
      this.#fail(tooLarge(this.#size, this.#maxBytes));
      return;
    }
    const refusal = this.#held?.resize(this.#size);
    if (refusal === undefined) this.#chunks.push(bytes);
    else this.#fail(refusal);
  }

  onEnd(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const [first = empty] = this.#chunks;
    const body = this.#chunks.length <= 1 ? first : Buffer.concat(this.#chunks, this.#size);
    this.#chunks.length = 0;
    // Not with each chunk: those of a message that is being received would survive, and then need a full collection.
    notePart(this.#size);
    this.#done(body);
  }

  onAbort(): void {
    if (!this.#isOver) this.#fail(new GatewayError("cancelled", "the client disconnected while sending"));
  }

  #fail(error: GatewayError): void {
    this.#isOver = true;
    this.#chunks.length = 0;
    this.#held?.release();
    this.#failed(error);
  }
}

/**
 * A request that delivers its body as soon as the parser has it. As a stream, the body of nearly every request would
 * take several events and ticks more, which cost more than parsing the message. A body that is not read with
 * `readBody` is an ordinary stream. Needed by bench load: "CPU a request, gateway / pass-through".
 */
export class SyncBodyRequest extends nodeHttp.IncomingMessage {
  #collector: BodyCollector | undefined;
  #received: (() => void) | undefined;
  /** Whether a part of the body is in the stream already. */
  #isStreaming = false;
  #isDelivered = false;

  static {
    // Node's server asks for this before it reuses the connection; a delivered body has ended without an "end" event.
    Object.defineProperty(SyncBodyRequest.prototype, "readableEnded", {
      configurable: true,
      get(this: SyncBodyRequest): unknown {
        return this.#isDelivered || Reflect.get(nodeHttp.IncomingMessage.prototype, "readableEnded", this);
      },
    });
  }

  /** Delivers the body to a collector; false if it is too late and the body must be read as a stream. */
  deliverTo(collector: BodyCollector): boolean {
    if (this.#isStreaming || this.destroyed) return false;
    this.#collector = collector;
    // As if the stream were read: the server then neither waits for a reader nor discards the body.
    this._read(0);
    return true;
  }

  /** Calls back once the body has been received, or will never be. */
  onReceived(received: () => void): void {
    this.#received = received;
  }

  /** Called by Node's parser with each chunk, and with null at the end. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const collector = this.#collector;
    if (collector === undefined) {
      this.#isStreaming = true;
      return super.push(chunk, encoding);
    }
    if (chunk !== null) {
      collector.onChunk(chunk);
    } else {
      this.#collector = undefined;
      this.#isDelivered = true;
      this.#notifyReceived();
      collector.onEnd();
    }
    return true;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const collector = this.#collector;
    this.#collector = undefined;
    this.#notifyReceived();
    collector?.onAbort();
    super._destroy(error, done);
  }

  #notifyReceived(): void {
    const received = this.#received;
    this.#received = undefined;
    received?.();
  }
}

function tooLarge(actual: number, allowed: number): GatewayError {
  return new GatewayError("too_large", `the body has ${actual} bytes; at most ${allowed} are allowed`, {
    details: { limit: { actual, allowed } },
  });
}
