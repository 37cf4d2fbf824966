import { GatewayError } from "../../errors.ts";
import type { CancelListener, CancelReason } from "../../core/cancellation.ts";
import type { Exchange } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import type { Message } from "../../protocol/message.ts";
import type { SseEvent } from "../../protocol/sse/event.ts";
import { cancelledError, type ReplyCallback, settleCallback } from "../transport.ts";
import { isEventStreamResponse, type ResponseHandler, type ResponseHeaders, type ResponseReader } from "./response.ts";

/** Who hears of an outcome: a promise's own function, which takes failures as a promise, or somebody without one. */
export type ReplyHandler = ((reply: Reply | Promise<Reply>) => void) | ReplyCallback;

/** An answer that came as one body. */
export interface BufferedResponse {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly body: Buffer;
}

/** Where an answer stream broke, and how long to wait before it is taken up. */
export interface ResumePoint {
  readonly lastEventId: string | undefined;
  readonly retryMs: number;
  readonly emptyTries: number;
}

/** What a message under way needs of the link it goes over. */
export interface PostOwner {
  readonly isClosed: boolean;
  opened(headers: ResponseHeaders): void;
  agreed(answer: Message | undefined): void;
  streamed(event: SseEvent, exchange: Exchange, call: ReplyCallback): void | Promise<void>;
  settle(exchange: Exchange, session: string | undefined, answer: BufferedResponse, call: ReplyCallback): void;
  resume(exchange: Exchange, from: ResumePoint, call: ReplyCallback): void;
  recover(exchange: Exchange, error: GatewayError): Promise<Reply>;
  forget(reader: ResponseReader): void;
  cancelled(exchange: Exchange, reason: CancelReason): void;
}

const defaultRetryMs = 1000;

/** One message on its way over HTTP until its outcome. A class, because one is made for every message. */
export class Post implements ResponseHandler, ReplyCallback, CancelListener {
  readonly #owner: PostOwner;
  readonly #exchange: Exchange;
  /** The upstream's session that the message names. */
  readonly #session: string | undefined;
  /** Whether the link may try again when it fails. */
  readonly #isRecoverable: boolean;
  readonly #outcome: ReplyHandler;
  #reader: ResponseReader | undefined = undefined;
  #lastEventId: string | undefined = undefined;
  #retryMs = defaultRetryMs;
  #isAnswered = false;

  constructor(
    owner: PostOwner,
    exchange: Exchange,
    session: string | undefined,
    isRecoverable: boolean,
    outcome: ReplyHandler,
  ) {
    this.#owner = owner;
    this.#exchange = exchange;
    this.#session = session;
    this.#isRecoverable = isRecoverable;
    this.#outcome = outcome;
  }

  /** From here on a cancel ends it. */
  begin(reader: ResponseReader): void {
    this.#reader = reader;
    this.#exchange.cancellation.follow(this);
  }

  cancelled(reason: CancelReason): void {
    this.#reader?.abort(cancelledError(reason));
    this.#owner.cancelled(this.#exchange, reason);
  }

  onHeaders(status: number, headers: ResponseHeaders): void {
    if (status !== 200) return;
    if (this.#exchange.message.method === "initialize") this.#owner.opened(headers);
    if (isEventStreamResponse(headers)) this.#exchange.reply?.open();
  }

  onEvent(event: SseEvent): void | Promise<void> {
    this.#lastEventId = event.id ?? this.#lastEventId;
    return this.#owner.streamed(event, this.#exchange, this);
  }

  onRetry(milliseconds: number): void {
    this.#retryMs = milliseconds;
  }

  onEnd(status: number, headers: ResponseHeaders, body: Buffer | undefined): void {
    this.#finish();
    const exchange = this.#exchange;
    if (body !== undefined) {
      this.#owner.settle(exchange, this.#session, { status, headers, body }, this);
    } else if (exchange.message.kind !== "request") {
      this.#resolve(noReply);
    } else if (!this.#isAnswered) {
      // Without an answer the stream is taken up where it broke.
      if (this.#lastEventId !== undefined) exchange.reply?.pause?.(this.#retryMs);
      this.#resume();
    }
  }

  onError(error: GatewayError): void {
    this.#finish();
    if (this.#isAnswered) return;
    const isWanted = !this.#exchange.cancellation.isCancelled && !this.#owner.isClosed;
    if (this.#lastEventId !== undefined && isWanted) {
      this.#resume();
      return;
    }
    const details = { answered: this.#reader?.hasStarted === true };
    this.reject(new GatewayError(error.code, error.message, { details, cause: error.cause }));
  }

  resolve(reply: Reply): void {
    this.#isAnswered = true;
    if (this.#exchange.message.method === "initialize") this.#owner.agreed(reply.message);
    this.#resolve(reply);
  }

  reject(failure: GatewayError): void {
    // A call that is over is not tried again.
    if (this.#isAnswered) return;
    this.#isAnswered = true;
    if (!this.#isRecoverable) {
      this.#resolve(Promise.reject(failure));
      return;
    }
    // Not from within this call: the dispatcher has to be done with the connection that broke.
    queueMicrotask(() => {
      this.#resolve(this.#owner.recover(this.#exchange, failure));
    });
  }

  #resolve(reply: Reply | Promise<Reply>): void {
    const outcome = this.#outcome;
    if (typeof outcome === "function") outcome(reply);
    else if (reply instanceof Promise) settleCallback(reply, outcome);
    else {
      // As late as a promise would say it: whoever reads the answer is done with it then.
      queueMicrotask(() => {
        outcome.resolve(reply);
      });
    }
  }

  #finish(): void {
    if (this.#reader !== undefined) this.#owner.forget(this.#reader);
    this.#exchange.cancellation.unfollow(this);
  }

  #resume(): void {
    const from = { lastEventId: this.#lastEventId, retryMs: this.#retryMs, emptyTries: 0 };
    this.#owner.resume(this.#exchange, from, this);
  }
}
