import type { Writable } from "node:stream";

import { type ErrorCode, GatewayError } from "../../errors.ts";
import { createLineReader, frameLine } from "../../protocol/line-framing.ts";
import { peekUnread } from "../../protocol/unread-message.ts";
import type { ChannelEvents } from "../transport.ts";

export interface MessageWriterOptions {
  /** Bytes that may be queued; a larger message is accepted while the queue is empty. */
  readonly maxQueueBytes: number;
  /** The reader, as error messages name it. */
  readonly reader: string;
  /** The error code of messages lost when the stream breaks. */
  readonly lost: ErrorCode;
}

/** Creates a writer. The owner of the stream handles its error events. */
export function createMessageWriter(stream: Writable, options: MessageWriterOptions) {
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
      reject(stopped ?? new GatewayError(lost, `${reader} no longer reads messages`, { cause }));
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

  // A destroyed stream does not call back for the line it was writing.
  stream.once("close", () => {
    for (const fail of waiters) fail(new Error("the stream was closed"));
    idle?.resolve();
  });

  return {
    /** See `Channel.send`. */
    send(message: Buffer): void | Promise<void> {
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
    /** From now on `send` rejects with this error; queued messages are still written. */
    stop(error: GatewayError): void {
      stopped ??= error;
    },
    /** Resolves when all messages are written, or the stream is closed. */
    async flushed(): Promise<void> {
      if (unwritten === 0 || stream.destroyed) return;
      idle ??= Promise.withResolvers<void>();
      await idle.promise;
    },
  };
}

function full(reader: string, waiting: number, limit: number): GatewayError {
  return new GatewayError("overloaded", `${reader} does not read its messages: ${waiting} bytes are queued`, {
    details: { limit, retryAfter: 1 },
  });
}

const empty = Buffer.alloc(0);
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const quote = 0x22;

/**
 * Reads one message per line (MCP 2025-11-25, stdio). A line that cannot be a message, such as log text, is reported as
 * malformed and skipped (SC-019). The parser checks the others.
 */
export function createMessageLines(maxLineBytes: number, events: Pick<ChannelEvents, "message" | "malformed">) {
  const reader = createLineReader({
    maxLineBytes,
    onLine(line) {
      if (looksLikeMessage(line)) events.message(line);
      else events.malformed(line, "the line is not a JSON object or batch");
    },
    onSkipped({ limit, size, start, end }) {
      const reason = `it has ${size} bytes, and limits.stdioLineBytes is ${limit}`;
      events.malformed(empty, reason, peekUnread(start, end));
    },
  });
  return {
    push: (chunk: Uint8Array) => reader.push(chunk),
    /** Ends the stream. A last line without a line end may be incomplete, so it is malformed. */
    end(): void {
      const last = reader.end();
      if (!last.complete) events.malformed(last.rest ?? empty, "the stream ended within a line");
    },
  };
}

/** Whether the first two tokens are those of an object, or of an array of objects. */
function looksLikeMessage(line: Buffer): boolean {
  const at = skipBlanks(line, 0);
  const next = line[skipBlanks(line, at + 1)];
  if (line[at] === openBrace) return next === quote || next === closeBrace;
  return line[at] === openBracket && (next === openBrace || next === closeBracket);
}

function skipBlanks(line: Buffer, from: number): number {
  let at = from;
  // CR is white space in JSON too (RFC 8259 section 2).
  while (line[at] === 0x20 || line[at] === 0x09 || line[at] === 0x0d) at += 1;
  return at;
}
