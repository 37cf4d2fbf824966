import { GatewayError } from "../../errors.ts";
import type { CancelListener, CancelReason, Exchange } from "../../exchange.ts";
import { noReply } from "../../pipeline.ts";
import type { Reply } from "../../pipeline.ts";
import type { Message } from "../../protocol/message.ts";
import type { SseEvent } from "../../protocol/sse-event.ts";
import { cancelledError } from "../cancel.ts";
import { tellOutcome } from "../transport.ts";
import type { PendingCall } from "../transport.ts";
import { isEventStream } from "./response.ts";
import type { ResponseEvents, ResponseHeaders, ResponseReader } from "./response.ts";

/** Who hears of an outcome: a promise's own function, which takes failures as a promise, or somebody without one. */
export type Outcome = ((reply: Reply | Promise<Reply>) => void) | PendingCall;

/** An answer that came as one body. */
export interface WholeAnswer {
  readonly status: number;
  readonly headers: ResponseHeaders;
  readonly body: Buffer;
}

/** Where an answer stream broke, and how long to wait before it is taken up. */
export interface BrokenStream {
  readonly lastEventId: string | undefined;
  readonly retryMs: number;
  readonly emptyTries: number;
}

/** What a message under way needs of the link it goes over. */
export interface PostOwner {
  readonly isClosed: boolean;
  opened(headers: ResponseHeaders): void;
  agreed(answer: Message | undefined): void;
  streamed(event: SseEvent, exchange: Exchange, call: PendingCall): void | Promise<void>;
  settle(exchange: Exchange, session: string | undefined, answer: WholeAnswer, call: PendingCall): void;
  resume(exchange: Exchange, from: BrokenStream, call: PendingCall): void;
  recover(exchange: Exchange, error: GatewayError): Promise<Reply>;
  forget(reader: ResponseReader): void;
  cancelled(exchange: Exchange, reason: CancelReason): void;
}

const defaultRetryMs = 1000;

/** One message on its way over HTTP until its outcome. A class, because one is made for every message. */
export class Post implements ResponseEvents, PendingCall, CancelListener {
  readonly #owner: PostOwner;
  readonly #exchange: Exchange;
  /** The upstream's session that the message names. */
  readonly #session: string | undefined;
  /** Whether the link may try again when it fails. */
  readonly #isRecoverable: boolean;
  readonly #outcome: Outcome;
  #reader: ResponseReader | undefined = undefined;
  #lastEventId: string | undefined = undefined;
  #retryMs = defaultRetryMs;
  #isAnswered = false;

  constructor(
    owner: PostOwner,
    exchange: Exchange,
    session: string | undefined,
    isRecoverable: boolean,
    outcome: Outcome,
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

  started(status: number, headers: ResponseHeaders): void {
    if (status !== 200) return;
    if (this.#exchange.message.method === "initialize") this.#owner.opened(headers);
    if (isEventStream(headers)) this.#exchange.reply?.open();
  }

  event(event: SseEvent): void | Promise<void> {
    this.#lastEventId = event.id ?? this.#lastEventId;
    return this.#owner.streamed(event, this.#exchange, this);
  }

  retry(milliseconds: number): void {
    this.#retryMs = milliseconds;
  }

  ended(status: number, headers: ResponseHeaders, body: Buffer | undefined): void {
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

  failed(error: GatewayError): void {
    this.#finish();
    if (this.#isAnswered) return;
    const isWanted = !this.#exchange.cancellation.isCancelled && !this.#owner.isClosed;
    if (this.#lastEventId !== undefined && isWanted) {
      this.#resume();
      return;
    }
    const details = { answered: this.#reader?.hasStarted === true };
    this.fail(new GatewayError(error.code, error.message, { details, cause: error.cause }));
  }

  answer(reply: Reply): void {
    this.#isAnswered = true;
    if (this.#exchange.message.method === "initialize") this.#owner.agreed(reply.message);
    this.#resolve(reply);
  }

  fail(failure: GatewayError): void {
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
    else if (reply instanceof Promise) tellOutcome(reply, outcome);
    else {
      // As late as a promise would say it: whoever reads the answer is done with it then.
      queueMicrotask(() => {
        outcome.answer(reply);
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
