import type { IncomingMessage } from "node:http";
import { GatewayError } from "../../errors.ts";
import { DirectRequest } from "./direct-request.ts";
import type { BodyTaker } from "./direct-request.ts";

const empty = Buffer.alloc(0);

/** Reads a request's whole body; one over the limit is refused as soon as that is known. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    takeBody(request, maxBytes, resolve, reject);
  });
}

/** The same for whoever is called back: of the two functions one is called, once. */
export function takeBody(
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
  const body = new Body(maxBytes, taken, failed);
  if (request instanceof DirectRequest && request.giveTo(body)) return;
  request.on("data", (chunk: Buffer) => {
    body.chunk(chunk);
  });
  request.on("end", () => {
    body.end();
  });
  // A connection that breaks is told as this; without a listener for errors of its own there are none.
  request.on("close", () => {
    if (!request.complete) body.broken();
  });
}

/** Calls back once a request's body has come as a whole, or will not. */
export function whenReceived(request: IncomingMessage, received: () => void): void {
  if (request instanceof DirectRequest) request.whenReceived(received);
  else request.on("close", received);
}

/** Puts the parts of a body together. */
class Body implements BodyTaker {
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

  chunk(bytes: Buffer): void {
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

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#taken(this.#rest === undefined ? this.#first : Buffer.concat(this.#rest, this.#size));
  }

  broken(): void {
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
