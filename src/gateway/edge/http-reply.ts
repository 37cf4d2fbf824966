import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

import type { TraceHeaders, TransportContext } from "../../core/exchange.ts";
import { countedFrom, type HeldBytes } from "../../core/byte-budget.ts";
import { type Challenge, noReply, type Reply } from "../../core/pipeline.ts";
import { rejectionReply } from "../../core/reply.ts";
import type { GatewayError } from "../../errors.ts";
import { plainAddress } from "../../lib/addresses.ts";
import { memberInteger } from "../../protocol/json/read.ts";
import { combineAnswers, type Message, messageBytes, type RequestId } from "../../protocol/message.ts";
import { type Era, revisions } from "../../protocol/revisions.ts";
import { encodeSseEvent, encodeSseMessage } from "../../protocol/sse/encoder.ts";
import type { Session } from "../../sessions/session.ts";
import { errorFields } from "../../telemetry/log.ts";
import { SseResponse, type SseResponseOptions } from "../../transports/http/sse-response.ts";
import type { GatewayContext } from "../context.ts";
import type { SessionStream, SessionStreams } from "../route/session-streams.ts";
import type { BatchReply, ClientReply } from "./conversation.ts";

/** The response to a POST, as its reply needs it. */
export interface HttpReplyTarget {
  readonly response: ServerResponse;
  readonly streamOptions: SseResponseOptions;
  /** Something new that the caller holds. */
  hold(): HeldBytes;
  /** Sets `WWW-Authenticate`. */
  setChallenge(challenge: Challenge): void;
}

/**
 * The reply to a modern request: JSON as long as nothing streams, else an event stream without ids that belongs to this
 * connection alone (MCP 2026-07-28).
 */
export class ModernReply implements ClientReply {
  readonly #target: HttpReplyTarget;
  #stream: SseResponse | undefined;

  constructor(target: HttpReplyTarget) {
    this.#target = target;
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

  finish(reply: Reply): void {
    const stream = this.#stream;
    if (stream === undefined) {
      writeReply(this.#target, "modern", reply, noHeaders);
      return;
    }
    if (reply.message !== undefined) void stream.write(encodeSseMessage(messageBytes(reply.message)));
    stream.end();
  }

  #open(): SseResponse {
    const { response, streamOptions } = this.#target;
    return (this.#stream ??= new SseResponse(response, streamOptions, noHeaders, this.#target.hold()));
  }
}

/** What the reply in a legacy session needs besides its response. */
export interface LegacyReplyOptions {
  readonly session: Session;
  readonly streams: () => SessionStreams;
  readonly request: RequestId | undefined;
  /** Makes the session id that the answer to `initialize` carries; absent for other answers. */
  readonly sealId: (() => string) | undefined;
}

/** The reply in a legacy session. Its stream outlives the connection, so that the client can resume it. */
export class LegacyReply implements ClientReply {
  readonly #target: HttpReplyTarget;
  readonly #options: LegacyReplyOptions;
  #stream: SessionStream | undefined;

  constructor(target: HttpReplyTarget, options: LegacyReplyOptions) {
    this.#target = target;
    this.#options = options;
  }

  open(): void {
    this.#open();
  }

  write(message: Message, label?: string): void | Promise<void> {
    return this.#open().write(message, label);
  }

  writeRaw(data: Buffer, type: string | undefined): void | Promise<void> {
    return this.#open().writeRaw(data, type);
  }

  pause(retryMs: number): void {
    if (this.#isPrimed()) this.#stream?.pause(retryMs);
  }

  finish(reply: Reply, label?: string): void {
    // A client that left before anything was streamed may come back for the answer, so the answer goes onto a stream.
    if (this.#stream === undefined && !this.#target.response.destroyed) {
      // A handshake that is refused opens no session.
      const isRefused = reply.message?.kind !== "result";
      writeReply(this.#target, "legacy", reply, isRefused ? noHeaders : this.#headers());
      return;
    }
    const stream = this.#open();
    if (reply.message !== undefined) void stream.write(reply.message, label);
    stream.end();
  }

  #open(): SessionStream {
    if (this.#stream === undefined) {
      const { response, streamOptions } = this.#target;
      const { request } = this.#options;
      this.#stream = this.#options.streams().open(request === undefined ? [] : [request]);
      if (!response.headersSent && !response.destroyed)
        this.#stream.attach(new SseResponse(response, streamOptions, this.#headers(), this.#target.hold()));
      if (this.#isPrimed()) this.#stream.prime();
    }
    return this.#stream;
  }

  #headers(): Readonly<Record<string, string>> {
    const { session, sealId } = this.#options;
    return sealId === undefined || session.isOver ? noHeaders : { "mcp-session-id": sealId() };
  }

  /** Clients older than 2025-11-25 fail on events without data. */
  #isPrimed(): boolean {
    const { session, sealId } = this.#options;
    return sealId === undefined && session.revision !== undefined && revisions[session.revision].primingEvent;
  }
}

/** The reply to a batch: one array, or a stream as soon as any member streams; 202 where there are no answers. */
export class HttpBatchReply implements BatchReply {
  readonly #target: HttpReplyTarget;
  readonly #openStream: () => SessionStream;
  readonly #answers: { readonly answer: Message; readonly label: string | undefined }[] = [];
  #stream: SessionStream | undefined;

  constructor(target: HttpReplyTarget, open: () => SessionStream) {
    this.#target = target;
    this.#openStream = open;
  }

  open(): void {
    this.#open();
  }

  write(message: Message, label?: string): void | Promise<void> {
    return this.#open().write(message, label);
  }

  add(answer: Message, label?: string): void {
    if (this.#stream === undefined) this.#answers.push({ answer, label });
    else void this.#stream.write(answer, label);
  }

  finish(refused: Reply = noReply): void {
    const { response } = this.#target;
    if (this.#stream !== undefined) {
      this.#stream.end();
      return;
    }
    const body = combineAnswers(
      this.#answers.map(({ answer }) => messageBytes(answer)),
      true,
    );
    if (body === undefined) writeReply(this.#target, "legacy", refused, noHeaders);
    else if (!response.destroyed) {
      holdUntilRead(this.#target, body.length);
      writeBody(response, 200, body, noHeaders);
    }
  }

  #open(): SessionStream {
    if (this.#stream === undefined) {
      const { response, streamOptions } = this.#target;
      this.#stream = this.#openStream();
      if (!response.destroyed)
        this.#stream.attach(new SseResponse(response, streamOptions, noHeaders, this.#target.hold()));
      for (const { answer, label } of this.#answers) void this.#stream.write(answer, label);
    }
    return this.#stream;
  }
}

const noHeaders: Readonly<Record<string, string>> = {};

/** Counts an answer until its client has read it. Whether there is room for it was asked before. */
function holdUntilRead(target: HttpReplyTarget, bytes: number): void {
  if (bytes < countedFrom) return;
  const held = target.hold();
  held.resize(bytes);
  target.response.on("close", () => {
    held.release();
  });
}

function writeReply(target: HttpReplyTarget, era: Era, reply: Reply, headers: Readonly<Record<string, string>>): void {
  const { message = reply.refusal, challenge, retryAfter } = reply;
  if (challenge !== undefined) target.setChallenge(challenge);
  const all = retryAfter === undefined ? headers : { ...headers, "retry-after": String(retryAfter) };
  if (message !== undefined) holdUntilRead(target, messageBytes(message).length);
  writeJson(target.response, replyStatus(era, reply), message, all);
}

/** Writes a whole response: a message as JSON, or no body. */
export function writeJson(
  response: ServerResponse,
  status: number,
  message: Message | undefined,
  headers: Readonly<Record<string, string>> = noHeaders,
): void {
  if (response.headersSent || response.destroyed) return;
  if (message === undefined) {
    response.writeHead(status === 200 ? 202 : status, { ...headers, "content-length": 0 });
    response.end();
  } else {
    writeBody(response, status, messageBytes(message), headers);
  }
}

function writeBody(
  response: ServerResponse,
  status: number,
  body: Buffer,
  headers: Readonly<Record<string, string>>,
): void {
  const { length } = body;
  response.writeHead(
    status,
    headers === noHeaders
      ? { "content-type": "application/json", "content-length": length }
      : { ...headers, "content-type": "application/json", "content-length": length },
  );
  // Needed by bench load: "150 B call, logs at warn". As a latin1 string, head and body leave in one write; a buffer costs a writev.
  if (length <= copiedUpTo) endBatched(response, body.toString("latin1"));
  else response.end(body);
}

/** Beyond this length copying costs more than gathering. */
const copiedUpTo = 16 * 1024;

/** The facts about a request that is refused before it is read. */
export function transportOf(request: IncomingMessage): TransportContext {
  const { method = "", url = "", socket } = request;
  const peer = plainAddress(socket.remoteAddress);
  // Without the query, which may hold a session id or a token.
  const [path = ""] = url.split("?", 1);
  return { type: "http", method, path, headers: {}, ...(peer === undefined ? {} : { peer }) };
}

/** Refuses an HTTP request with a gateway error, and notes it. */
export function refuseRequest(
  gateway: GatewayContext,
  route: string,
  response: ServerResponse,
  error: GatewayError,
): void {
  const { http = 0 } = error.facts;
  const transport = transportOf(response.req);
  gateway.noteRefusal({ route, code: error.code, status: http, reason: error.message, transport });
  // A bug of ours must be logged, whatever the caller gets.
  if (error.code === "internal") gateway.log.error({ route, ...errorFields(error) }, "request failed");
  writeRejection(response, rejectionReply(error, undefined));
}

/** Writes a rejection; one without an HTTP status closes the connection. */
export function writeRejection(response: ServerResponse, { message, status, retryAfter }: Reply): void {
  if (status === undefined) response.destroy();
  else
    writeJson(response, status, message, retryAfter === undefined ? noHeaders : { "retry-after": String(retryAfter) });
}

/** JSON-RPC errors that MCP 2026-07-28 ties to an HTTP status; all others are answered with 200. */
const modernStatus: Readonly<Record<number, number>> = {
  [-32700]: 400,
  [-32600]: 400,
  [-32601]: 404,
  [-32020]: 400,
  [-32021]: 400,
  [-32022]: 400,
};

/**
 * The HTTP status of an answer: the upstream's where it spoke HTTP, else what the era ties to the error. A legacy client
 * would take a 404 for the end of its session, so it never gets one here.
 */
function replyStatus(era: Era, { message, status }: Reply): number {
  if (message === undefined) return status ?? 202;
  if (message.kind !== "error") return 200;
  if (era === "legacy") return status === undefined || status === 404 ? 200 : status;
  if (status !== undefined && status !== 200) return status;
  const code = memberInteger(message, "error.code");
  return (code === undefined ? undefined : modernStatus[code]) ?? 200;
}

interface PendingResponse {
  readonly response: ServerResponse;
  /** Latin-1: one character per byte. */
  readonly body: string;
}

/** Responses to end in this turn of the event loop. */
let pending: PendingResponse[] = [];

/**
 * Ends a response together with all others of this turn of the event loop: several writes in a row wake their reader
 * once, and waking a process costs more than a write. Needed by bench load: "CPU a request, gateway / pass-through".
 */
export function endBatched(response: ServerResponse, body: string): void {
  if (pending.push({ response, body }) === 1) setImmediate(flush);
}

function flush(): void {
  const responses = pending;
  pending = [];
  for (const { response, body } of responses) {
    try {
      response.end(body, "latin1");
    } catch (error) {
      // The others must still be written.
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

type PostFacts = Extract<TransportContext, { readonly type: "http" }>;

const lastFacts = Symbol("facts of the last POST");

/** A client's connection, which keeps the facts of its last POST: those of the next are usually equal. */
interface ClientSocket extends Socket {
  [lastFacts]?: PostFacts;
}

/**
 * What is kept of the POST that brought a message. The path must not hold a session id. Sessions keep these facts, so
 * equal ones of a connection are one object: new ones would outlive the young generation each time.
 * Needed by bench load: "1,000 open sessions against 10".
 */
export function httpFactsOfPost(
  request: IncomingMessage,
  path: string,
  forwardHeaders: ReadonlySet<string>,
  peer: string | undefined,
): PostFacts {
  const socket: ClientSocket = request.socket;
  const last = socket[lastFacts];
  const trace = traceHeadersOf(request);
  const { host } = request.headers;
  const headers = forwardedHeaders(request, forwardHeaders);
  const isSame =
    last !== undefined &&
    last.path === path &&
    last.host === host &&
    last.headers === headers &&
    last.peer === peer &&
    last.trace === trace;
  if (isSame) return last;
  const isSecure = socket instanceof TLSSocket;
  const facts: PostFacts = {
    type: "http",
    method: "POST",
    path,
    host,
    isSecure,
    headers,
    ...(peer === undefined ? {} : { peer }),
    ...(trace === undefined ? {} : { trace }),
  };
  socket[lastFacts] = facts;
  return facts;
}

const letterP = 0x70;

/** The headers to forward: those of the route, and mirrored parameters. */
function forwardedHeaders(
  { headers }: IncomingMessage,
  forwardHeaders: ReadonlySet<string>,
): Readonly<Record<string, string>> {
  let kept: Record<string, string> | undefined;
  const forwardsNone = forwardHeaders.size === 0;
  for (const name in headers) {
    // The fifth letter alone rules out nearly all headers.
    const isParameter = name.charCodeAt(4) === letterP && name.startsWith("mcp-param-");
    if (!isParameter && (forwardsNone || !forwardHeaders.has(name))) continue;
    const value = textOf(headers[name]);
    if (value !== undefined) (kept ??= {})[name] = value;
  }
  return kept ?? noHeaders;
}

function traceHeadersOf({ headers }: IncomingMessage): TraceHeaders | undefined {
  const traceparent = textOf(headers["traceparent"]);
  if (traceparent === undefined) return undefined;
  const tracestate = textOf(headers["tracestate"]);
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}

function textOf(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.join(", ");
}
