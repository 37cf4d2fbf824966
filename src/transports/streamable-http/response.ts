import type { Dispatcher } from "undici";

import { GatewayError } from "../../errors.ts";
import { parse } from "../../protocol/parse.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { newestLegacy, type Revision } from "../../protocol/revisions.ts";
import { createSseDecoder, type SseDecoder, type SseDecoderOptions } from "../../protocol/sse/decoder.ts";
import type { SseEvent, SseOverflow } from "../../protocol/sse/event.ts";
import type { TransportContext } from "../../core/exchange.ts";
import { insertMember, replaceMember } from "../../protocol/json/edit.ts";

/** What becomes of an upstream's HTTP answer. Exactly one of `ended` and `failed` is called, last. */
export interface ResponseHandler {
  /** The status and headers are there; the body follows. */
  onHeaders(status: number, headers: ResponseHeaders): void;
  /** One event of an event stream; the next one waits for the returned promise. */
  onEvent(event: SseEvent): void | Promise<void>;
  /** The stream says how long to wait before it is taken up again. */
  onRetry?(milliseconds: number): void;
  /** The whole body of an answer that is not an event stream, or nothing more to come of one that is, without headers. */
  onEnd(status: number, headers: ResponseHeaders, body: Buffer | undefined): void;
  onError(error: GatewayError): void;
}

/** Told of every event stream that begins, and of its end. */
export type StreamCounter = (change: 1 | -1) => void;

export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

const empty = Buffer.alloc(0);
const noHeaders: ResponseHeaders = {};
/** Events that may wait behind one that is being dealt with before the socket is paused. */
const waitingBeforePause = 16;

/** Takes undici's callbacks for one request: a bounded body for JSON, event by event for streams. */
export class ResponseReader implements Dispatcher.DispatchHandler, SseDecoderOptions {
  /** For a body as well. */
  readonly maxEventBytes: number;
  readonly #events: ResponseHandler;
  readonly #onStream: StreamCounter | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #aborted: GatewayError | undefined;
  #status = 0;
  #headers: ResponseHeaders = noHeaders;
  #decoder: SseDecoder | undefined;
  #first: Buffer = empty;
  #rest: Buffer[] | undefined;
  #size = 0;
  #waiting: SseEvent[] | undefined;
  #busy = false;
  #finished = false;
  #isDone = false;

  constructor(events: ResponseHandler, maxBytes: number, onStream?: StreamCounter) {
    this.#events = events;
    this.maxEventBytes = maxBytes;
    this.#onStream = onStream;
  }

  /** Whether any byte of an answer has come. */
  get hasStarted(): boolean {
    return this.#status !== 0;
  }

  /** Closes the connection; the failure is reported as this error. */
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
      this.abort(
        new GatewayError("upstream_invalid", "the upstream sent an encoded answer, although none was accepted"),
      );
      return;
    }
    if (status === 200 && isEventStreamResponse(headers)) {
      // A stream may be open for long, and these are six buffers that nobody reads any more.
      controller.rawHeaders = null;
      // For the same reason the reader itself is what the decoder calls, and keeps no headers.
      this.#decoder = createSseDecoder(this);
      this.#onStream?.(1);
    } else {
      this.#headers = headers;
    }
    this.#events.onHeaders(status, headers);
  }

  onEvent(event: SseEvent): void {
    this.#take(event);
  }

  onRetry(milliseconds: number): void {
    this.#events.onRetry?.(milliseconds);
  }

  onOverflow({ limit }: SseOverflow): void {
    this.abort(new GatewayError("upstream_invalid", `the upstream sent an event of more than ${limit} bytes`));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#decoder !== undefined) {
      this.#decoder.push(chunk);
      return;
    }
    this.#size += chunk.length;
    if (this.#size > this.maxEventBytes) {
      this.abort(
        new GatewayError("upstream_invalid", `the upstream sent an answer of more than ${this.maxEventBytes} bytes`),
      );
      return;
    }
    if (this.#first === empty) this.#first = chunk;
    else (this.#rest ??= [this.#first]).push(chunk);
  }

  onResponseEnd(): void {
    this.#finished = true;
    if (!this.#busy) this.#end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(this.#aborted ?? connectionError(error));
  }

  /** Hands events on one after the other; when many wait, the socket is paused. */
  #take(event: SseEvent): void {
    if (this.#isDone) return;
    if (this.#busy) {
      const waiting = (this.#waiting ??= []);
      waiting.push(event);
      if (waiting.length === waitingBeforePause) this.#controller?.pause();
      return;
    }
    const pending = this.#events.onEvent(event);
    if (pending === undefined) return;
    this.#busy = true;
    pending.then(
      () => {
        this.#next();
      },
      (error: unknown) => {
        this.abort(GatewayError.from(error));
      },
    );
  }

  #next(): void {
    this.#busy = false;
    while (!this.#busy && this.#waiting !== undefined) {
      const event = this.#waiting.shift();
      if (this.#waiting.length === 0) this.#waiting = undefined;
      if (event !== undefined) this.#take(event);
    }
    if (this.#busy) return;
    if (this.#finished) this.#end();
    else if (this.#controller?.paused === true) this.#controller.resume();
  }

  #end(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    if (this.#decoder !== undefined) this.#onStream?.(-1);
    const body =
      this.#decoder !== undefined ? undefined : this.#rest === undefined ? this.#first : Buffer.concat(this.#rest);
    this.#events.onEnd(this.#status, this.#headers, body);
  }

  #fail(error: GatewayError): void {
    if (this.#isDone) return;
    this.#isDone = true;
    if (this.#decoder !== undefined) this.#onStream?.(-1);
    this.#events.onError(error);
  }
}

/** Whether the answer is an event stream, decided by its content type alone (SC-040). */
export function isEventStreamResponse(headers: ResponseHeaders): boolean {
  return mediaType(headers["content-type"]) === "text/event-stream";
}

/** Whether some bytes are JSON of any kind. */
export function isJsonText(bytes: Buffer): boolean {
  const outcome = parse(bytes, { revision: "unknown", mode: "observe" });
  return outcome.ok || outcome.failure.code !== -32700;
}

function mediaType(value: string | string[] | undefined): string {
  const text = typeof value === "string" ? value : (value?.[0] ?? "");
  const end = text.indexOf(";");
  return (end < 0 ? text : text.slice(0, end)).trim().toLowerCase();
}

/** One message from an upstream, or undefined when the bytes are none. */
export function readUpstreamMessage(bytes: Buffer, revision: Revision, limits: ParseLimits): Message | undefined {
  const outcome = parse(bytes, { revision, mode: "enforce", limits });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

function connectionError(error: Error): GatewayError {
  const code: unknown = Reflect.get(error, "code");
  const reason = typeof code === "string" ? code : error.message;
  return new GatewayError("upstream_unreachable", `the upstream could not be reached (${reason})`, {
    cause: error,
  });
}

/** Whether a message answers a request: it carries the same id, or is an error that could not name one. */
export function isResponseTo(answer: Message, request: Message): boolean {
  if (answer.kind !== "result" && answer.kind !== "error") return false;
  return answer.id === undefined ? answer.kind === "error" : answer.id.key === request.id?.key;
}

/** An error that came without an id answers the request it came back on; the client needs to be told which. */
export function withIdOf(request: Message, answer: Message): Message {
  if (answer.id !== undefined || request.id === undefined) return answer;
  // Servers also write null where they mean none.
  const bytes =
    replaceMember(answer, "id", request.id.json) ??
    insertMember(answer.bytes, answer.outline, answer.outline, "id", request.id.json);
  return readUpstreamMessage(bytes, newestLegacy, { maxBytes: bytes.length, maxDepth: 1000, maxBatch: 1 }) ?? answer;
}

/** The session id that an upstream gave with its answer to `initialize`. */
export function sessionHeader(headers: ResponseHeaders): string | undefined {
  const value = headers["mcp-session-id"];
  return typeof value === "string" ? value : undefined;
}

/** What is told of an event of a stream besides its message. */
export type SseContext = Extract<TransportContext, { readonly type: "sse" }>;

/** Where an event of a stream came from. */
export function sseContext(stream: string, event: SseEvent): SseContext {
  return {
    type: "sse",
    stream,
    ...(event.id === undefined ? {} : { eventId: event.id }),
    ...(event.event === undefined ? {} : { event: event.event }),
    ...(event.retry === undefined ? {} : { retry: event.retry }),
  };
}

/** What a status that is no answer to the request means; nothing of the upstream's own words is in it. */
export function upstreamStatusError(status: number, headers: ResponseHeaders = {}): GatewayError {
  const details = { upstreamStatus: status };
  if (status === 401 || status === 403) {
    return new GatewayError("upstream_unreachable", "the upstream refuses the gateway's credentials", {
      details,
    });
  }
  if (status >= 300 && status < 400) {
    const where = headers["location"] === undefined ? "" : "; redirects are not followed";
    return new GatewayError("upstream_invalid", `the upstream answered with status ${status}${where}`, {
      details,
    });
  }
  return new GatewayError("upstream_invalid", `the upstream answered with status ${status}`, { details });
}
