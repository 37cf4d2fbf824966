import { IncomingMessage } from "node:http";

import { GatewayError } from "../../errors.ts";

const empty = Buffer.alloc(0);

/** Reads a request's whole body; one over the limit is refused as soon as that is known. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    readBodyWithCallbacks(request, maxBytes, resolve, reject);
  });
}

/** The same for whoever is called back: of the two functions one is called, once. */
export function readBodyWithCallbacks(
  request: IncomingMessage,
  maxBytes: number,
  taken: (body: Buffer) => void,
  failed: (error: GatewayError) => void,
): void {
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > maxBytes) {
    // The rest is read and thrown away, so that the client gets to see the answer.
    request.resume();
    failed(tooLarge(announced, maxBytes));
    return;
  }
  const body = new BodyCollector(maxBytes, taken, failed);
  if (request instanceof SyncBodyRequest && request.deliverTo(body)) return;
  request.on("data", (chunk: Buffer) => {
    body.onChunk(chunk);
  });
  request.on("end", () => {
    body.onEnd();
  });
  // A connection that breaks is told as this; without a listener for errors of its own there are none.
  request.on("close", () => {
    if (!request.complete) body.onAbort();
  });
}

/** Calls back once a request's body has come as a whole, or will not. */
export function onBodyReceived(request: IncomingMessage, received: () => void): void {
  if (request instanceof SyncBodyRequest) request.onReceived(received);
  else request.on("close", received);
}

/** Puts the parts of a body together. */
class BodyCollector implements BodySink {
  readonly #maxBytes: number;
  readonly #taken: (body: Buffer) => void;
  readonly #failed: (error: GatewayError) => void;
  #first: Buffer = empty;
  #rest: Buffer[] | undefined;
  #size = 0;
  #isOver = false;

  constructor(maxBytes: number, taken: (body: Buffer) => void, failed: (error: GatewayError) => void) {
    this.#maxBytes = maxBytes;
    this.#taken = taken;
    this.#failed = failed;
  }

  onChunk(bytes: Buffer): void {
    this.#size += bytes.length;
    if (this.#isOver) return;
    if (this.#size > this.#maxBytes) {
      this.#fail(tooLarge(this.#size, this.#maxBytes));
    } else if (this.#first === empty) {
      this.#first = bytes;
    } else {
      (this.#rest ??= [this.#first]).push(bytes);
    }
  }

  onEnd(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#taken(this.#rest === undefined ? this.#first : Buffer.concat(this.#rest, this.#size));
  }

  onAbort(): void {
    if (!this.#isOver) this.#fail(new GatewayError("cancelled", "the client went away while sending"));
  }

  #fail(error: GatewayError): void {
    this.#isOver = true;
    this.#first = empty;
    this.#rest = undefined;
    this.#failed(error);
  }
}

function tooLarge(actual: number, allowed: number): GatewayError {
  return new GatewayError("too_large", `the body has ${actual} bytes; at most ${allowed} are allowed`, {
    details: { limit: { actual, allowed } },
  });
}

/** Takes a body as it comes. */
export interface BodySink {
  onChunk(bytes: Buffer): void;
  /** All of it has come. */
  onEnd(): void;
  /** The connection broke before. */
  onAbort(): void;
}

/**
 * A request that can hand over its body just as the parser finds it. Nearly every body comes together with its head; as
 * a stream it would take several turns and events, which cost more than reading the message in it. A body that nobody
 * takes is the stream that it always was.
 */
export class SyncBodyRequest extends IncomingMessage {
  #taker: BodySink | undefined;
  #received: (() => void) | undefined;
  /** Whether something of the body is in the stream already. */
  #isStreaming = false;
  #isTaken = false;

  static {
    // What the server asks before it lets go of a request; a body that was taken has ended without an event.
    const isEnded = inherited("readableEnded");
    Object.defineProperty(SyncBodyRequest.prototype, "readableEnded", {
      configurable: true,
      get(this: SyncBodyRequest): unknown {
        return this.#isTaken || isEnded.get?.call(this);
      },
    });
  }

  /** Hands the body to a taker, unless it is too late for that: then it must be read as a stream. */
  deliverTo(taker: BodySink): boolean {
    if (this.#isStreaming || this.destroyed) return false;
    this.#taker = taker;
    // As if the stream were read: the server then neither waits for a reader nor throws the body away itself.
    this._read(0);
    return true;
  }

  /** Calls back once the whole body has come, or will not. */
  onReceived(received: () => void): void {
    this.#received = received;
  }

  /** Called by the parser: with a part of the body, or nothing at its end. */
  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    const taker = this.#taker;
    if (taker === undefined) {
      this.#isStreaming = true;
      return super.push(chunk, encoding);
    }
    if (chunk !== null) {
      taker.onChunk(chunk);
    } else {
      this.#taker = undefined;
      this.#isTaken = true;
      this.#over();
      taker.onEnd();
    }
    return true;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const taker = this.#taker;
    this.#taker = undefined;
    this.#over();
    taker?.onAbort();
    super._destroy(error, done);
  }

  #over(): void {
    const received = this.#received;
    this.#received = undefined;
    received?.();
  }
}

function inherited(name: string): PropertyDescriptor {
  let holder: object | null = IncomingMessage.prototype;
  while (holder !== null) {
    const found = Object.getOwnPropertyDescriptor(holder, name);
    if (found !== undefined) return found;
    holder = Reflect.getPrototypeOf(holder);
  }
  return {};
}
