import type { ServerResponse } from "node:http";

import type { ReplyStream } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import {
  combineAnswers,
  type Message,
  messageBytes,
  type ParseOutcome,
  type RequestId,
} from "../../protocol/message.ts";
import { type Era, revisions } from "../../protocol/revisions.ts";
import { encodeSseEvent, encodeSseMessage } from "../../protocol/sse/encoder.ts";
import type { Session } from "../../sessions/session.ts";
import { endBatched } from "../../transports/http/batched-end.ts";
import { SseResponse, type SseResponseOptions } from "../../transports/http/sse-response.ts";
import type { SessionStream, SessionStreams } from "../route/session-streams.ts";
import { parseFailureResponse } from "../../protocol/error-response.ts";
import { refusalReply } from "../../core/reply.ts";
import type { GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import { memberInteger } from "../../protocol/json/read.ts";

/** The answer to one POST: plain JSON as long as nothing streams, an event stream from then on. */
export interface HttpReply extends ReplyStream {
  /** Writes the outcome; the stream, if there is one, ends with it. */
  finish(reply: Reply, status: number): void;
}

/** For modern requests: a stream without event ids that belongs to this connection alone (MCP 2026-07-28). */
export function createModernReply(response: ServerResponse, options: SseResponseOptions): HttpReply {
  return new ModernReply(response, options);
}

/** A class for the same reason as that of legacy answers. */
class ModernReply implements HttpReply {
  readonly #response: ServerResponse;
  readonly #options: SseResponseOptions;
  #stream: SseResponse | undefined;

  constructor(response: ServerResponse, options: SseResponseOptions) {
    this.#response = response;
    this.#options = options;
  }

  open(): void {
    this.#open();
  }

  write(message: Message): void | Promise<void> {
    return this.#open().write(encodeSseMessage(messageBytes(message)));
  }

  writeRaw(data: Buffer, type: string | undefined): void | Promise<void> {
    const event = encodeSseEvent({ event: type, data });
    return event.ok ? this.#open().write(event.bytes) : undefined;
  }

  finish(reply: Reply, status: number): void {
    const stream = this.#stream;
    if (stream === undefined) {
      writeJson(this.#response, status, reply.message, retryHeaders(reply));
      return;
    }
    if (reply.message !== undefined) void stream.write(encodeSseMessage(messageBytes(reply.message)));
    stream.end();
  }

  #open(): SseResponse {
    return (this.#stream ??= new SseResponse(this.#response, this.#options));
  }
}

/** What a legacy answer needs to know of its session. */
export interface LegacyReplyOptions {
  readonly stream: SseResponseOptions;
  readonly streams: () => SessionStreams;
  readonly session: Session;
  readonly request: RequestId | undefined;
  /** The answer to `initialize` names the session, and its client cannot know priming events yet. */
  readonly isHandshake: boolean;
}

/** For requests of a legacy session: the stream outlives the connection, so that the client can resume it. */
export function createLegacyReply(response: ServerResponse, options: LegacyReplyOptions): HttpReply {
  return new LegacyReply(response, options);
}

/** A class, because one is made for every request and most never need more than `finish`. */
class LegacyReply implements HttpReply {
  readonly #response: ServerResponse;
  readonly #options: LegacyReplyOptions;
  #stream: SessionStream | undefined;

  constructor(response: ServerResponse, options: LegacyReplyOptions) {
    this.#response = response;
    this.#options = options;
  }

  open(): void {
    this.#open();
  }

  write(message: Message): void | Promise<void> {
    return this.#open().write(message);
  }

  writeRaw(data: Buffer, type: string | undefined): void | Promise<void> {
    return this.#open().writeRaw(data, type);
  }

  pause(retryMs: number): void {
    if (this.#isPrimed()) this.#stream?.pause(retryMs);
  }

  finish(reply: Reply, status: number): void {
    // A client that left before anything streamed may come back for the answer, which then is on a stream.
    if (this.#stream === undefined && !this.#response.destroyed) {
      const own = this.#headers();
      const headers = reply.retryAfter === undefined ? own : { ...own, ...retryHeaders(reply) };
      writeJson(this.#response, status, reply.message, headers);
      return;
    }
    const answer = this.#open();
    if (reply.message !== undefined) void answer.write(reply.message);
    answer.end();
  }

  #open(): SessionStream {
    if (this.#stream === undefined) {
      const { stream, streams, request } = this.#options;
      this.#stream = streams().open(request);
      const response = this.#response;
      if (!response.headersSent && !response.destroyed) {
        this.#stream.attach(new SseResponse(response, stream, this.#headers()));
      }
      if (this.#isPrimed()) this.#stream.prime();
    }
    return this.#stream;
  }

  #headers(): Readonly<Record<string, string>> {
    const { session, isHandshake } = this.#options;
    return isHandshake && !session.isOver ? { "mcp-session-id": session.id } : noHeaders;
  }

  /** Clients older than 2025-11-25 choke on events without data. */
  #isPrimed(): boolean {
    const { session, isHandshake } = this.#options;
    return !isHandshake && session.revision !== undefined && revisions[session.revision].primingEvent;
  }
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
  const length = body.length;
  response.writeHead(
    status,
    headers === noHeaders
      ? { "content-type": "application/json", "content-length": length }
      : { ...headers, "content-type": "application/json", "content-length": length },
  );
  // As text of single bytes, head and body leave in one write; with a buffer Node gathers them, which costs more.
  if (length <= gatheredFrom) endBatched(response, body.toString("latin1"));
  else response.end(body);
}

/** Beyond this length copying costs more than gathering. */
const gatheredFrom = 16 * 1024;

/**
 * Answers a batch (MCP 2025-03-26): each member goes its own way; the answers come back as one array, or on a stream
 * as soon as any of them streams. A batch without requests is answered 202.
 */
export async function answerBatch(
  gateway: GatewayContext,
  visit: { readonly response: ServerResponse; readonly route: Route },
  outcome: ParseOutcome & { ok: true },
  session: Session,
  run: (message: Message, reply: ReplyStream) => Promise<Reply>,
): Promise<void> {
  if (outcome.form !== "batch") return;
  const { response, route } = visit;
  let stream: SessionStream | undefined;
  const early: Message[] = [];
  const open = (): SessionStream => {
    if (stream === undefined) {
      stream = route.streamsOf(session).open(undefined);
      if (!response.destroyed) stream.attach(new SseResponse(response, gateway.streamOptions(route)));
      for (const message of early) void stream.write(message);
      early.length = 0;
    }
    return stream;
  };
  const answered = (message: Message): void => {
    if (stream === undefined) early.push(message);
    else void stream.write(message);
  };
  const reply: ReplyStream = {
    open: () => {
      open();
    },
    write: (message) => open().write(message),
  };
  await Promise.all(
    outcome.members.map(async (member) => {
      if (!member.ok) {
        const refusal = refusalReply(parseFailureResponse(member.failure)).message;
        if (refusal !== undefined) answered(refusal);
        return;
      }
      const { message } = member;
      if (message.kind === "result" || message.kind === "error") {
        session.deliverResponse(message);
        return;
      }
      const answer = await run(message, reply);
      if (answer.message !== undefined) answered(answer.message);
    }),
  );
  if (stream !== undefined) {
    stream.end();
    return;
  }
  const body = combineAnswers(early.map(messageBytes), true);
  if (response.destroyed) return;
  if (body === undefined) {
    response.writeHead(202, { "content-length": 0 });
    response.end();
    return;
  }
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
}

/** Errors that MCP 2026-07-28 ties to an HTTP status; all others go in band. */
const modernStatus: Readonly<Record<number, number>> = {
  [-32700]: 400,
  [-32600]: 400,
  [-32601]: 404,
  [-32020]: 400,
  [-32021]: 400,
  [-32022]: 400,
};

/**
 * The HTTP status of an answer: the upstream's own where it spoke HTTP, else what the era ties to the error.
 * A legacy client would take a 404 for the end of its session, so it never gets one this way.
 */
export function replyStatus(era: Era, reply: Reply): number {
  const { message, status } = reply;
  if (message === undefined) return status ?? 202;
  if (message.kind !== "error") return 200;
  if (era === "legacy") return status === undefined || status === 404 ? 200 : status;
  if (status !== undefined && status !== 200) return status;
  const code = memberInteger(message, "error.code");
  return (code === undefined ? undefined : modernStatus[code]) ?? 200;
}
