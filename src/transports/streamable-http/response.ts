import type { Dispatcher } from "undici";

import type { HeldBytes } from "../../core/byte-budget.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { thrownCode } from "../../lib/thrown-message.ts";
import { notePart } from "../large-parts.ts";
import type { ConnectionPlace, UpstreamResponseHandler } from "./connection-pool.ts";
import { parse, type ParseContext, parseSingle } from "../../protocol/parse.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { memberString } from "../../protocol/json/read.ts";
import { parseRevision, type Revision } from "../../protocol/revisions.ts";
import { createSseDecoder, type SseDecoder, type SseDecoderOptions } from "../../protocol/sse/decoder.ts";
import type { SseEvent, SseOverflow } from "../../protocol/sse/event.ts";
import { isEventStreamContentType } from "../../protocol/sse/final-response.ts";
import { synthesizeMessage } from "../../core/synthesize.ts";
import { insertMember, replaceMember } from "../../protocol/json/edit.ts";

/** Receives an upstream's HTTP response. Exactly one of `onEnd` and `onError` is called, last. */
export interface ResponseHandler {
  onHeaders(status: number, headers: ResponseHeaders): void;
  /** One event of an event stream; the next one waits for the returned promise. */
  onEvent(event: SseEvent): void | Promise<void>;
  /** The reconnection time that the stream asks for. */
  onRetry?(milliseconds: number): void;
  /** The response is complete. An event stream has no body here, and no headers. */
  onEnd(status: number, headers: ResponseHeaders, body: Buffer | undefined): void;
  onError(error: GatewayError): void;
}

/** Counts event streams: +1 when one begins, -1 when it ends. */
export type StreamCounter = (change: 1 | -1) => void;

export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

const empty = Buffer.alloc(0);
const noHeaders: ResponseHeaders = {};
/** Events that may queue behind one being handled before the socket is paused. */
const queuedBeforePause = 16;

/** Handles undici's callbacks for one request: collects a bounded JSON body, or decodes an event stream. */
export class ResponseReader implements UpstreamResponseHandler, SseDecoderOptions {
  /** Also the limit of a body. */
  readonly maxEventBytes: number;
  /** The place of the call among the connections to the upstream. */
  place: ConnectionPlace | undefined = undefined;
  readonly #handler: ResponseHandler;
  readonly #onStreamCount: StreamCounter | undefined;
  readonly #held: HeldBytes | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #aborted: GatewayError | undefined;
  #status = 0;
  #headers: ResponseHeaders = noHeaders;
  #decoder: SseDecoder | undefined;
  #chunks: Buffer[] | undefined;
  #size = 0;
  #queued: SseEvent[] | undefined;
  #isBusy = false;
  #isFinished = false;
  #isDone = false;

  /** What has arrived of a body is `held` until its end. */
  constructor(handler: ResponseHandler, maxBytes: number, onStreamCount?: StreamCounter, held?: HeldBytes) {
    this.#held = held;
    this.#handler = handler;
    this.maxEventBytes = maxBytes;
    this.#onStreamCount = onStreamCount;
  }

  /** Whether any part of the response has been received. */
  get hasStarted(): boolean {
    return this.#status !== 0;
  }

  endIfAborted(): boolean {
    if (this.#aborted === undefined) return false;
    this.#fail(this.#aborted);
    return true;
  }

  /** Closes the connection; `onError` receives this error. */
  abort(error: GatewayError): void {
    if (this.#isDone) return;
    this.#aborted ??= error;
    if (this.#controller === undefined) return;
    this.#controller.abort(error);
    this.#fail(error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#aborted !== undefined) controller.abort(this.#aborted);
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    this.#status = status;
    const encoding = headers["content-encoding"];
    if (encoding !== undefined && encoding !== "identity") {
      this.abort(new GatewayError("upstream_invalid", "the upstream sent a compressed response that was not accepted"));
      return;
    }
    if (status === 200 && isEventStreamResponse(headers)) {
      // A stream may be open for long, and these are six buffers that are not read again.
      controller.rawHeaders = null;
      // For the same reason the decoder calls the reader itself, which keeps no headers.
      this.#decoder = createSseDecoder(this);
      this.#onStreamCount?.(1);
      // It may stay open for as long as the call runs, so it must not keep others waiting.
      this.place?.leave();
    } else {
      this.#headers = headers;
    }
    this.place = undefined;
    this.#handler.onHeaders(status, headers);
  }

  onEvent(event: SseEvent): void {
    this.#take(event);
  }

  onRetry(milliseconds: number): void {
    this.#handler.onRetry?.(milliseconds);
  }

  onOverflow({ limit }: SseOverflow): void {
    this.abort(new GatewayError("upstream_invalid", `the upstream sent an event of more than ${limit} bytes`));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#decoder !== undefined) {
      notePart(chunk.length);
      this.#decoder.push(chunk);
      return;
    }
    this.#size += chunk.length;
    if (this.#size > this.maxEventBytes) {
      this.abort(
        new GatewayError("upstream_invalid", `the upstream sent a response of more than ${this.maxEventBytes} bytes`),
      );
      return;
    }
    const refusal = this.#held?.resize(this.#size);
    if (refusal !== undefined) {
      this.abort(refusal);
      return;
    }
    (this.#chunks ??= []).push(chunk);
  }

  onResponseEnd(): void {
    this.#isFinished = true;
    if (!this.#isBusy) this.#end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(this.#aborted ?? connectionError(error));
  }

  /** Delivers events one after the other; pauses the socket if many are queued. */
  #take(event: SseEvent): void {
    if (this.#isDone) return;
    if (this.#isBusy) {
      const queued = (this.#queued ??= []);
      queued.push(event);
      if (queued.length === queuedBeforePause) this.#controller?.pause();
      return;
    }
    const pending = this.#handler.onEvent(event);
    if (pending === undefined) return;
    this.#isBusy = true;
    pending.then(
      () => this.#next(),
      (error: unknown) => this.abort(GatewayError.from(error)),
    );
  }

  #next(): void {
    this.#isBusy = false;
    while (!this.#isBusy && this.#queued !== undefined) {
      const event = this.#queued.shift();
      if (this.#queued.length === 0) this.#queued = undefined;
      if (event !== undefined) this.#take(event);
    }
    if (this.#isBusy) return;
    if (this.#isFinished) this.#end();
    else if (this.#controller?.paused === true) this.#controller.resume();
  }

  #end(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    if (this.#decoder !== undefined) this.#onStreamCount?.(-1);
    const body = this.#decoder === undefined ? joined(this.#chunks) : undefined;
    this.#chunks = undefined;
    if (body !== undefined) notePart(body.length);
    this.#held?.release();
    this.#handler.onEnd(this.#status, this.#headers, body);
  }

  #fail(error: GatewayError): void {
    if (this.#isDone) return;
    this.#isDone = true;
    if (this.#decoder !== undefined) this.#onStreamCount?.(-1);
    this.#chunks = undefined;
    this.#held?.release();
    this.#handler.onError(error);
  }
}

/** Whether the response is an event stream, by its content type alone (SC-040). */
export function isEventStreamResponse(headers: ResponseHeaders): boolean {
  const type = headers["content-type"];
  return isEventStreamContentType(typeof type === "string" ? type : type?.[0]);
}

/** Whether some bytes are JSON of any kind. */
export function isJsonText(bytes: Buffer): boolean {
  const outcome = parse(bytes, { revision: "unknown", mode: "observe" });
  return outcome.ok || outcome.failure.code !== -32700;
}

function joined(chunks: readonly Buffer[] = []): Buffer {
  const [first = empty] = chunks;
  return chunks.length <= 1 ? first : Buffer.concat(chunks);
}

/** Parses one message of an upstream; undefined if the bytes are not a message. */
export function readUpstreamMessage(bytes: Buffer, revision: Revision, limits: ParseLimits): Message | undefined {
  return parseSingle(bytes, upstreamParsing(revision, limits));
}

/** How what upstreams send is parsed. */
export function upstreamParsing(revision: Revision, limits: ParseLimits): ParseContext {
  return { revision, mode: "enforce", limits };
}

function connectionError(error: Error): GatewayError {
  const reason = thrownCode(error) ?? error.message;
  return new GatewayError("upstream_unreachable", `the upstream could not be reached (${reason})`, { cause: error });
}

/** Whether a message is the response to a request: it has the same id, or is an error without one. */
export function isResponseTo(response: Message, request: Message): boolean {
  if (response.kind !== "result" && response.kind !== "error") return false;
  return response.id === undefined ? response.kind === "error" : response.id.key === request.id?.key;
}

/** Adds the request id to an error response without one; it answers the request on whose connection it arrived. */
export function withIdOf(request: Message, response: Message): Message {
  if (response.id !== undefined || request.id === undefined) return response;
  // Some servers write null.
  return synthesizeMessage(
    replaceMember(response, "id", request.id.json) ??
      insertMember(response.bytes, response.outline, response.outline, "id", request.id.json),
  );
}

/**
 * The reply that a message is to a request; undefined if it answers something else. With 401 or 403 it is none either: the
 * gateway's own credentials were refused.
 */
export function replyOf(
  response: Message,
  request: Message,
  status: number,
  headers: ResponseHeaders,
): Reply | undefined {
  if (!isResponseTo(response, request) || status === 401 || status === 403) return undefined;
  const retryAfter = status === 200 ? undefined : retryAfterOf(headers);
  const reply = { message: withIdOf(request, response), status };
  return retryAfter === undefined ? reply : { ...reply, retryAfter };
}

/** The revision that the response to `initialize` names; undefined if it names none that is known. */
export function agreedRevision(response: Message | undefined): Revision | undefined {
  const named = response === undefined ? undefined : memberString(response, "result.protocolVersion");
  const parsed = named === undefined ? undefined : parseRevision(named);
  return parsed?.ok === true ? parsed.revision : undefined;
}

/** The session id that the upstream assigned with its response to `initialize`. */
export function sessionHeader(headers: ResponseHeaders): string | undefined {
  const value = headers["mcp-session-id"];
  return typeof value === "string" ? value : undefined;
}

/** The seconds that `Retry-After` asks for, as a number or a date (RFC 9110, section 10.2.3). */
function retryAfterOf(headers: ResponseHeaders, now: () => number = Date.now): number | undefined {
  const value = headers["retry-after"];
  if (typeof value !== "string") return undefined;
  if (/^\d{1,9}$/u.test(value)) return Number(value);
  const at = /^[A-Z][a-z]+, /u.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - now()) / 1000));
}

/** An upstream that is busy says so to the client too, with the time to wait. */
function upstreamBusyError(status: 429 | 503, headers: ResponseHeaders): GatewayError {
  const retryAfter = retryAfterOf(headers);
  const wait = retryAfter === undefined ? "try again later" : `retry in ${retryAfter} s`;
  const details = { upstreamStatus: status, ...(retryAfter === undefined ? {} : { retryAfter }) };
  return status === 429
    ? new GatewayError("rate_limited", `the upstream accepts no more requests at the moment; ${wait}`, { details })
    : new GatewayError("overloaded", `the upstream is unavailable; ${wait}`, { details });
}

/** The error for an unexpected status; it contains no text of the upstream. */
export function upstreamStatusError(status: number, headers: ResponseHeaders = {}): GatewayError {
  const details = { upstreamStatus: status };
  if (status === 401 || status === 403) {
    return new GatewayError("upstream_unreachable", "the upstream rejected the gateway's credentials", { details });
  }
  if (status === 429 || status === 503) return upstreamBusyError(status, headers);
  const isRedirect = status >= 300 && status < 400 && headers["location"] !== undefined;
  const where = isRedirect ? "; redirects are not followed" : "";
  return new GatewayError("upstream_invalid", `the upstream answered with status ${status}${where}`, { details });
}
