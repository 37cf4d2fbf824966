import type { ServerResponse } from "node:http";
import type { ReplyStream } from "../exchange.ts";
import type { Reply } from "../pipeline.ts";
import { messageBytes } from "../protocol/batch.ts";
import type { Message } from "../protocol/message.ts";
import { encodeSseEvent, encodeSseMessage } from "../protocol/sse-encoder.ts";
import { SseResponse } from "../transports/http/sse-response.ts";
import type { SseResponseOptions } from "../transports/http/sse-response.ts";
import type { SessionStream } from "./session-streams.ts";

/** The answer to one POST: plain JSON as long as nothing streams, an event stream from then on. */
export interface HttpReply extends ReplyStream {
  /** Writes the outcome; the stream, if there is one, ends with it. */
  finish(reply: Reply, status: number): void;
}

/** For modern requests: a stream without event ids that belongs to this connection alone (MCP 2026-07-28). */
export function createModernReply(response: ServerResponse, options: SseResponseOptions): HttpReply {
  let stream: SseResponse | undefined;
  const open = (): SseResponse => (stream ??= new SseResponse(response, options));
  return {
    open: () => {
      open();
    },
    write: (message) => open().write(encodeSseMessage(messageBytes(message))),
    writeRaw: (data, type) => {
      const event = encodeSseEvent({ event: type, data });
      return event.ok ? open().write(event.bytes) : undefined;
    },
    finish: (reply, status) => {
      if (stream === undefined) {
        writeJson(response, status, reply.message, retryHeaders(reply));
        return;
      }
      if (reply.message !== undefined) void stream.write(encodeSseMessage(messageBytes(reply.message)));
      stream.end();
    },
  };
}

/** What a legacy answer needs to know of its session. */
export interface LegacyReplyOptions extends SseResponseOptions {
  /** Headers of the answer: the session id on the one to `initialize`. */
  readonly headers: () => Readonly<Record<string, string>>;
  readonly openStream: () => SessionStream;
  /** Clients older than 2025-11-25 choke on events without data. */
  readonly isPrimed: () => boolean;
}

/** For requests of a legacy session: the stream outlives the connection, so that the client can resume it. */
export function createLegacyReply(response: ServerResponse, options: LegacyReplyOptions): HttpReply {
  let stream: SessionStream | undefined;
  const open = (): SessionStream => {
    if (stream === undefined) {
      stream = options.openStream();
      if (!response.headersSent && !response.destroyed) {
        stream.attach(new SseResponse(response, options, options.headers()));
      }
      if (options.isPrimed()) stream.prime();
    }
    return stream;
  };
  return {
    open: () => {
      open();
    },
    write: (message) => open().write(message),
    writeRaw: (data, type) => open().writeRaw(data, type),
    pause: (retryMs) => {
      if (options.isPrimed()) stream?.pause(retryMs);
    },
    finish: (reply, status) => {
      // A client that left before anything streamed may come back for the answer, which then is on a stream.
      if (stream === undefined && !response.destroyed) {
        writeJson(response, status, reply.message, { ...options.headers(), ...retryHeaders(reply) });
        return;
      }
      const answer = open();
      if (reply.message !== undefined) void answer.write(reply.message);
      answer.end();
    },
  };
}

const noHeaders: Readonly<Record<string, string>> = {};

function retryHeaders({ retryAfter }: Reply): Readonly<Record<string, string>> {
  return retryAfter === undefined ? noHeaders : { "retry-after": String(retryAfter) };
}

/** Writes a whole answer: a message as JSON, or nothing. */
export function writeJson(
  response: ServerResponse,
  status: number,
  message: Message | undefined,
  headers: Readonly<Record<string, string>>,
): void {
  if (response.headersSent || response.destroyed) return;
  if (message === undefined) {
    response.writeHead(status === 200 ? 202 : status, { ...headers, "content-length": 0 });
    response.end();
    return;
  }
  const body = messageBytes(message);
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    "content-length": body.length,
  });
  response.end(body);
}
