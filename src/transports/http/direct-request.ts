import { IncomingMessage } from "node:http";

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
