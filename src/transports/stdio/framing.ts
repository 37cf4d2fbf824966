import type { Writable } from "node:stream";

import { type ErrorCode, GatewayError } from "../../errors.ts";
import { createLineReader, frameLine } from "../../protocol/line-framing.ts";
import type { ChannelEvents } from "../transport.ts";

/** Writes messages to a stream, one a line, and bounds what waits for a reader. */
export interface MessageWriter {
  /** As `Channel.send`: at once where the stream can take more, else a promise. */
  send(message: Buffer): void | Promise<void>;
  /** From now on `send` rejects with this error; what is queued still goes out. */
  stop(error: GatewayError): void;
  /** Resolves when all that was sent has gone out, or never will because the stream broke. */
  flushed(): Promise<void>;
}

/** How a writer is bounded and what it says of its reader. */
export interface MessageWriterOptions {
  /** Bytes that may wait; a single larger message is taken when nothing else waits. */
  readonly maxQueueBytes: number;
  /** Who reads or fails to, as errors name it. */
  readonly reader: string;
  /** The code of the error for messages that were under way when the stream broke. */
  readonly lost: ErrorCode;
}

/** Makes a writer on a stream, whose errors stay with whoever owns the stream. */
export function createMessageWriter(stream: Writable, options: MessageWriterOptions): MessageWriter {
  const { maxQueueBytes, reader, lost } = options;
  let stopped: GatewayError | undefined;
  let unwritten = 0;
  let idle: PromiseWithResolvers<void> | undefined;
  const waiters = new Set<(error: Error) => void>();

  function settle(): void {
    unwritten -= 1;
    if (unwritten === 0) idle?.resolve();
  }

  async function writeAndWait(line: Buffer): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const fail = (cause: Error): void => {
      reject(stopped ?? new GatewayError(lost, `${reader} no longer takes messages`, { cause }));
    };
    waiters.add(fail);
    stream.write(line, (error) => {
      waiters.delete(fail);
      settle();
      if (error === null || error === undefined) resolve();
      else fail(error);
    });
    await promise;
  }

  // A destroyed stream owes no answer for the line that it was just writing.
  stream.once("close", () => {
    for (const fail of waiters) fail(new Error("the stream was closed"));
    idle?.resolve();
  });

  return {
    send(message) {
      if (stopped !== undefined) return Promise.reject(stopped);
      const waiting = stream.writableLength;
      if (waiting > 0 && waiting + message.length + 1 > maxQueueBytes) {
        return Promise.reject(full(reader, waiting, maxQueueBytes));
      }
      const line = frameLine(message);
      unwritten += 1;
      if (waiting + line.length >= stream.writableHighWaterMark) return writeAndWait(line);
      stream.write(line, settle);
      return undefined;
    },
    stop(error) {
      stopped ??= error;
    },
    async flushed() {
      if (unwritten === 0 || stream.destroyed) return;
      idle ??= Promise.withResolvers<void>();
      await idle.promise;
    },
  };
}

function full(reader: string, waiting: number, limit: number): GatewayError {
  return new GatewayError("overloaded", `${reader} does not read its messages: ${waiting} bytes wait for it`, {
    details: { limit, retryAfter: 1 },
  });
}

/** Takes the bytes of a stream as they come. */
export interface MessageLines {
  push(chunk: Uint8Array): void;
  /** Ends the stream: a last line without its line end is rubbish, for nothing says that it is whole. */
  end(): void;
}

const nothing = Buffer.alloc(0);
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const quote = 0x22;

/**
 * Reads one message a line (MCP 2025-11-25, stdio). What cannot be a message, such as stray log text, is reported as
 * rubbish and the stream goes on (SC-019); whether the rest is one is for the parser to say.
 */
export function createMessageLines(
  maxLineBytes: number,
  events: Pick<ChannelEvents, "message" | "malformed">,
): MessageLines {
  const reader = createLineReader({
    maxLineBytes,
    onLine(line) {
      if (looksLikeMessage(line)) events.message(line);
      else events.malformed(line, "the line is no JSON object or batch");
    },
    onOverflow({ limit }) {
      events.malformed(nothing, `a line of more than ${limit} bytes was left out`);
    },
  });
  return {
    push: (chunk) => reader.push(chunk),
    end() {
      const last = reader.end();
      if (!last.complete) events.malformed(last.rest ?? nothing, "the stream ended within a line");
    },
  };
}

/** Tells messages from chatter by the first two tokens: an object with a name or none, an array of objects or none. */
function looksLikeMessage(line: Buffer): boolean {
  const at = skipBlanks(line, 0);
  const next = line[skipBlanks(line, at + 1)];
  if (line[at] === openBrace) return next === quote || next === closeBrace;
  return line[at] === openBracket && (next === openBrace || next === closeBracket);
}

function skipBlanks(line: Buffer, from: number): number {
  let at = from;
  // A lone CR is blank to JSON too (RFC 8259 section 2).
  while (line[at] === 0x20 || line[at] === 0x09 || line[at] === 0x0d) at += 1;
  return at;
}
