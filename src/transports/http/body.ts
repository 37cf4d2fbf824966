import type { IncomingMessage } from "node:http";
import { GatewayError } from "../../errors.ts";

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
  let first: Buffer = empty;
  let rest: Buffer[] | undefined;
  let size = 0;
  let isOver = false;
  request.on("data", (chunk: Buffer) => {
    size += chunk.length;
    if (isOver) return;
    if (size > maxBytes) {
      isOver = true;
      rest = undefined;
      first = empty;
      failed(tooLarge(size, maxBytes));
    } else if (first === empty) {
      first = chunk;
    } else {
      (rest ??= [first]).push(chunk);
    }
  });
  request.on("end", () => {
    if (isOver) return;
    isOver = true;
    taken(rest === undefined ? first : Buffer.concat(rest, size));
  });
  // A connection that breaks is told as this; without a listener for errors of its own there are none.
  request.on("close", () => {
    if (isOver || request.complete) return;
    isOver = true;
    failed(new GatewayError("cancelled", "the client went away while sending"));
  });
}

function tooLarge(actual: number, allowed: number): GatewayError {
  return new GatewayError("too_large", `the body has ${actual} bytes; at most ${allowed} are allowed`, {
    details: { limit: { actual, allowed } },
  });
}
