import type { IncomingMessage } from "node:http";
import { GatewayError } from "../../errors.ts";
import { SyncBodyRequest } from "./direct-request.ts";
import type { BodySink } from "./direct-request.ts";

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
