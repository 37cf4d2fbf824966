import { GatewayError } from "../../errors.ts";
import { Cancellation } from "../../exchange.ts";
import type {
  CancelReason,
  Exchange,
  ReplyStream,
  SetTimer,
  Tracking,
  TransportContext,
} from "../../exchange.ts";
import type { Reply } from "../../pipeline.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { resultMessage } from "../../reply.ts";
import { cancelledError } from "../../transports/cancel.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import { declaredBy, isAskable, mayBeAsked, missingToAsk } from "./input-requests.ts";
import { CompactRequest } from "./compact-message.ts";
import { KeptNotices } from "./kept-notices.ts";
import type { KeptLimits } from "./kept-notices.ts";
import { metaOf } from "./modern-result.ts";
import { OpenQuestions } from "./open-questions.ts";
import { noticeFor } from "./request-notices.ts";

/** Bounds of one call. */
export interface CallLimits extends KeptLimits {
  /** How long a round waits for further questions once there is one. */
  readonly gatherMs: number;
  /** Questions that may be open in one call. */
  readonly questions: number;
}

/** How a call ended upstream: made into an answer for whichever request of the client waits then, or a failure. */
export type CallOutcome = GatewayError | ((request: RequestMessage) => Reply);

/** Who keeps the calls that wait for their client. */
export interface CallKeeper {
  readonly limits: CallLimits;
  readonly setTimer: SetTimer;
  /** Takes a call in that waits for input: the state for its retry, or why there is no room. */
  park(call: BridgedCall, request: Exchange): string | GatewayError;
  /** The call waits no longer. */
  unpark(call: BridgedCall): void;
}

interface Waiter {
  readonly exchange: Exchange;
  readonly request: RequestMessage;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: GatewayError) => void;
}

/** Questions find their call by this. */
export class CallTracking implements Tracking {
  entry: unknown;
  readonly call: BridgedCall;

  constructor(entry: unknown, call: BridgedCall) {
    this.entry = entry;
    this.call = call;
  }
}

/** Ours alone, so it may change while nobody looks. */
type Related = { -readonly [Name in keyof Exchange]: Exchange[Name] };

/**
 * One call of a modern client at a legacy server, over all the requests that the client makes for it. While no request
 * of the client is open the call is parked: upstream it goes on, and what comes meanwhile is kept within bounds.
 */
export class BridgedCall implements ReplyStream {
  /** Ends the work upstream, whichever request of the client started it. */
  readonly cancellation: Cancellation = new Cancellation();
  /** What the server said of itself, once that is known. */
  serverInfo: string | undefined;
  /** What the server was sent last; it waits as long as the call does. */
  upstreamRequest: CompactRequest | undefined;
  /** Takes an answer of the client to who asked. */
  onAnswer: ((answer: Message) => Promise<void>) | undefined;
  readonly #keeper: CallKeeper;
  readonly #deliver: LinkEvents["message"];
  readonly #questions = new OpenQuestions();
  #kept: KeptNotices | undefined;
  readonly #capabilities: string;
  #waiter: Waiter | undefined;
  /** The client's last request, by which messages are judged that come while it is away. */
  #request: RequestMessage;
  #related: Related;
  #outcome: CallOutcome | undefined;
  #isDelivering = false;
  #stopGathering: (() => void) | undefined;
  #isOver = false;

  constructor(
    keeper: CallKeeper,
    deliver: LinkEvents["message"],
    exchange: Exchange,
    request: RequestMessage,
  ) {
    this.#keeper = keeper;
    this.#deliver = deliver;
    this.#capabilities = declaredBy(request);
    this.#request = request;
    this.#related = this.#relatedTo(exchange);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * The upstream has begun to stream. Legacy servers do so even for a lone error, whose HTTP status a modern client
   * must see, so the client's stream begins with the first message that needs one.
   */
  open(): void {}

  /** Writes to the client's request that is open; without one, nobody would read it. */
  write(message: Message): void | Promise<void> {
    return this.#waiter?.exchange.reply?.write(message);
  }

  writeRaw(data: Buffer, event: string | undefined): void | Promise<void> {
    return this.#waiter?.exchange.reply?.writeRaw?.(data, event);
  }

  /** The client's last request. */
  get request(): RequestMessage {
    return this.#request;
  }

  /** The exchange of the client's last request, without what it holds open: what the server says is related to it. */
  get related(): Exchange {
    return this.#related;
  }

  /** Waits for the answer to the client's first request, or for the questions of a round. */
  begin(exchange: Exchange): Promise<Reply> {
    return this.#wait(exchange, this.#request);
  }

  /** Goes on with a retry: the answers that it brings go to who asked, and it waits for what comes next. */
  resume(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    this.#keeper.unpark(this);
    this.#request = request;
    this.#related = this.#relatedTo(exchange);
    const reply = this.#wait(exchange, request);
    if (this.#isOver) return reply;
    this.#deliverKept();
    this.#questions.answer(request);
    this.#goOn();
    return reply;
  }

  /** Puts a question of the server to the client; resolves with the answer that a retry brings. */
  ask(exchange: Exchange, question: RequestMessage): Promise<Reply> {
    const refusal = this.#refusal(question);
    if (refusal !== undefined) return Promise.reject(refusal);
    const answer = this.#questions.add(exchange, question);
    this.#gather();
    return answer;
  }

  /** The server no longer wants an answer to its question. */
  withdraw(id: RequestId): void {
    this.#questions.withdraw(id);
  }

  /** Takes a notification that belongs to this call to the client, now or with its retry. */
  notify(message: Message, context: TransportContext): void | Promise<void> {
    const request = this.#request;
    if (this.#isOver) return undefined;
    // What was kept goes first.
    if (this.#waiter === undefined || this.#isDelivering) {
      if (noticeFor(request, message) !== undefined) this.#keep(message, context);
      return undefined;
    }
    return this.#tell(request, message, context);
  }

  /** The call has ended upstream. A client that is away learns it with its retry. */
  settle(outcome: CallOutcome): void {
    if (this.#isOver) return;
    const waiter = this.#waiter;
    if (waiter === undefined || this.#isDelivering) {
      this.#outcome = outcome;
      return;
    }
    this.#finish();
    if (outcome instanceof GatewayError) waiter.reject(outcome);
    else waiter.resolve(outcome(waiter.request));
  }

  /** Ends the call without an answer: whoever waits is told why, and the server to stop. */
  end(reason: CancelReason, error: GatewayError = cancelledError(reason)): void {
    if (this.#isOver) return;
    const waiter = this.#waiter;
    this.#finish();
    // A modern client tells nobody upstream that it has cancelled, so the link has to.
    this.cancellation.cancel(reason === "cancelled" ? "client-gone" : reason);
    waiter?.reject(error);
  }

  #relatedTo(exchange: Exchange): Related {
    // Its own note of the entry, which is forgotten while the call is parked: the entry holds on to the connection.
    const tracking = new CallTracking(exchange.tracking.entry, this);
    return { ...exchange, tracking, reply: this };
  }

  #wait(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      let off = (): void => {};
      this.#waiter = {
        exchange,
        request,
        resolve: (reply) => {
          off();
          resolve(reply);
        },
        reject: (error) => {
          off();
          reject(error);
        },
      };
      off = exchange.cancellation.onCancel((reason) => {
        this.end(reason);
      });
    });
  }

  #refusal(question: RequestMessage): GatewayError | undefined {
    if (this.#isOver) return new GatewayError("cancelled", "the call that asks is over");
    if (!mayBeAsked(this.#request))
      return new GatewayError("method_not_found", "nothing can be asked in answer to this request");
    if (!isAskable(question)) return new GatewayError("method_not_found", "the client cannot be asked this");
    const missing = missingToAsk(question, this.#capabilities);
    if (missing !== undefined) {
      const names = Object.keys(missing).join(", ");
      return new GatewayError("method_not_found", `the client did not declare what this needs: ${names}`);
    }
    return this.#questions.size < this.#keeper.limits.questions
      ? undefined
      : new GatewayError("overloaded", "the call has too many open questions");
  }

  /** Several questions that come together go in one round. */
  #gather(): void {
    if (this.#waiter === undefined || this.#isDelivering || this.#questions.size === 0) return;
    this.#stopGathering ??= this.#keeper.setTimer(this.#keeper.limits.gatherMs, () => {
      this.#stopGathering = undefined;
      this.#park();
    });
  }

  /** Answers the client's request with the open questions; the call waits for its retry. */
  #park(): void {
    const waiter = this.#waiter;
    if (waiter === undefined || this.#questions.size === 0) return;
    const state = this.#keeper.park(this, waiter.exchange);
    if (state instanceof GatewayError) {
      this.end("client-gone", state);
      return;
    }
    const meta = this.serverInfo === undefined ? "" : `,"_meta":${metaOf(this.serverInfo)}`;
    const result = `{"resultType":"input_required","inputRequests":${this.#questions.text},"requestState":${JSON.stringify(state)}${meta}}`;
    this.#waiter = undefined;
    this.#shrink();
    waiter.resolve({ message: resultMessage(waiter.request.id, result), hasJudgedQuestions: true });
  }

  /** Lets go of what a call does not need while it is parked, which may be long. */
  #shrink(): void {
    const related = this.#related;
    const request = CompactRequest.of(this.#request);
    if (related.original === related.message) related.original = request;
    related.message = request;
    related.tracking.entry = undefined;
    this.#request = request;
    this.upstreamRequest?.shrink();
  }

  /** What follows once a retry has all that was kept for it: the outcome if it is there, or the next round. */
  #goOn(): void {
    if (this.#isDelivering) return;
    const outcome = this.#outcome;
    if (outcome === undefined) this.#gather();
    else this.settle(outcome);
  }

  /** Delivers what was kept, one after the other in the order in which it came. */
  #deliverKept(): void {
    const request = this.#request;
    const kept = this.#kept;
    if (kept === undefined) return;
    this.#isDelivering = true;
    const deliver = async (): Promise<void> => {
      while (kept.size > 0) {
        for (const { message, context } of kept.take()) await this.#tell(request, message, context);
      }
      this.#kept = undefined;
    };
    const over = (): void => {
      this.#isDelivering = false;
      this.#goOn();
    };
    // A notification that nobody can take does not keep the answer back; the pipeline has logged it.
    deliver().then(over, over);
  }

  #keep(message: Message, context: TransportContext): void {
    this.#kept ??= new KeptNotices(this.#keeper.limits);
    this.#kept.add(message, context);
  }

  #tell(request: RequestMessage, message: Message, context: TransportContext): void | Promise<void> {
    const notice = noticeFor(request, message);
    return notice === undefined ? undefined : this.#deliver(notice, this.#related, context);
  }

  #finish(): void {
    this.#isOver = true;
    this.#stopGathering?.();
    this.#waiter = undefined;
    this.#outcome = undefined;
    this.#kept = undefined;
    this.#keeper.unpark(this);
    this.#questions.giveUp("the call that asked is over");
  }
}
