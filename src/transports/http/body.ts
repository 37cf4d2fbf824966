import type { IncomingMessage } from "node:http";
import { GatewayError } from "../../errors.ts";

const empty = Buffer.alloc(0);

/** Reads a request's whole body; one over the limit is refused as soon as that is known. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const announced = Number(request.headers["content-length"] ?? 0);
  if (announced > maxBytes) {
    // The rest is read and thrown away, so that the client gets to see the answer.
    request.resume();
    return Promise.reject(tooLarge(announced, maxBytes));
  }
  return new Promise((resolve, reject) => {
    let first: Buffer = empty;
    let rest: Buffer[] | undefined;
    let size = 0;
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) {
        rest = undefined;
        first = empty;
        reject(tooLarge(size, maxBytes));
      } else if (first === empty) {
        first = chunk;
      } else {
        (rest ??= [first]).push(chunk);
      }
    });
    request.on("end", () => {
      resolve(rest === undefined ? first : Buffer.concat(rest, size));
    });
    request.on("error", (error) => {
      reject(new GatewayError("cancelled", "the client went away while sending", { cause: error }));
    });
    request.on("close", () => {
      if (!request.complete) reject(new GatewayError("cancelled", "the client went away while sending"));
    });
  });
}

function tooLarge(actual: number, allowed: number): GatewayError {
  return new GatewayError("too_large", `the body has ${actual} bytes; at most ${allowed} are allowed`, {
    details: { limit: { actual, allowed } },
  });
}
