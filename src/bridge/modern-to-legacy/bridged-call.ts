import { GatewayError } from "../../errors.ts";
import type { CancelReason } from "../../core/cancellation.ts";
import { Cancellation } from "../../core/cancellation.ts";
import {
  type Exchange,
  type ReplyStream,
  type SetTimer,
  type Tracking,
  type TransportContext,
} from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { resultMessage } from "../../core/reply.ts";
import { cancelledError, type LinkEvents, type ReplyCallback } from "../../transports/transport.ts";
import {
  allowsInputRequests,
  declaredCapabilities,
  isInputRequestMethod,
  missingForInputRequest,
} from "./input-requests.ts";
import { CompactRequest } from "./compact-request.ts";
import { BufferedNotifications, type BufferLimits, toClientNotification } from "./notifications.ts";
import type { LegacySession } from "./legacy-session.ts";
import type { LegacyRequest } from "./legacy-request.ts";
import { defaultServerInfo, serverInfoMeta, toModernResponse } from "./modern-result.ts";
import { PendingInputRequests } from "./pending-input-requests.ts";

/** Bounds of one call. */
export interface BridgedCallLimits extends BufferLimits {
  /** How long a round waits for further questions once there is one. */
  readonly gatherMs: number;
  /** Questions that may be open in one call. */
  readonly inputRequests: number;
}

/** How a call ended upstream: the server's answer, a failure, or what is made for whichever request waits then. */
export type CallOutcome = Message | GatewayError | ((request: RequestMessage) => Reply);

/** Who keeps the calls that wait for their client. */
export interface CallSuspender {
  readonly limits: BridgedCallLimits;
  readonly setTimer: SetTimer;
  /** Takes a call in that waits for input: the state for its retry, or why there is no room. */
  suspend(call: BridgedCall, request: Exchange): string | GatewayError;
  /** The call waits no longer. */
  release(call: BridgedCall): void;
}

/** Who sent a call upstream, and hears how that ended. Not the call's own, so that many can have the same. */
export interface CallObserver {
  answered(call: BridgedCall, reply: Reply): void;
  failed(call: BridgedCall, error: GatewayError): void;
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
type MutableExchange = { -readonly [Name in keyof Exchange]: Exchange[Name] };

/**
 * One call of a modern client at a legacy server, over all the requests that the client makes for it. While no request
 * of the client is open the call is parked: upstream it goes on, and what comes meanwhile is kept within bounds.
 */
export class BridgedCall implements ReplyStream, ReplyCallback {
  /** Ends the work upstream, whichever request of the client started it. */
  readonly cancellation: Cancellation = new Cancellation();
  /** What the server said of itself, once that is known. */
  serverInfo: string | undefined;
  /** What the server was sent last; it waits as long as the call does. */
  upstreamRequest: LegacyRequest | undefined;
  /** The session it runs on; none while it waits for one. */
  session: LegacySession | undefined;
  /** Who hears of the server's answer. */
  observer: CallObserver | undefined;
  /** Questions that the bridge asks in the server's place, by id. */
  gatewayRequests: Map<string, (answer: Message) => void> | undefined;
  /** Where it stands among the calls that run. */
  place = -1;
  /** What its keeper knows it by while it is parked. */
  suspension: unknown;
  readonly #keeper: CallSuspender;
  readonly #deliver: LinkEvents["message"];
  #questions: PendingInputRequests | undefined;
  #kept: BufferedNotifications | undefined;
  /** The client's last request, by which messages are judged that come while it is away. */
  #request: RequestMessage;
  /** The exchange of the client's open request; none while the call is parked. */
  #exchange: Exchange | undefined;
  #resolve: ((reply: Reply) => void) | undefined;
  #reject: ((error: GatewayError) => void) | undefined;
  #related: MutableExchange | undefined;
  #outcome: CallOutcome | undefined;
  #isDelivering = false;
  #stopGathering: (() => void) | undefined;
  #isOver = false;

  constructor(keeper: CallSuspender, deliver: LinkEvents["message"], exchange: Exchange, request: RequestMessage) {
    this.#keeper = keeper;
    this.#deliver = deliver;
    this.#request = request;
    this.#exchange = exchange;
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
    return this.#exchange?.reply?.write(message);
  }

  writeRaw(data: Buffer, event: string | undefined): void | Promise<void> {
    return this.#exchange?.reply?.writeRaw?.(data, event);
  }

  /** The server has answered. */
  resolve(reply: Reply): void {
    this.observer?.answered(this, reply);
  }

  /** The server could not be asked, or gave no answer. */
  reject(error: GatewayError): void {
    this.observer?.failed(this, error);
  }

  /** The client's last request. */
  get request(): RequestMessage {
    return this.#request;
  }

  /** The exchange of the client's last request, without what it holds open: what the server says is related to it. */
  get relatedExchange(): Exchange {
    return this.#relate();
  }

  /** The exchange to take the circumstances of a request upstream from. */
  get contextExchange(): Exchange {
    return this.#exchange ?? this.#relate();
  }

  /** Waits for the answer to the client's first request, or for the questions of a round. */
  start(exchange: Exchange): Promise<Reply> {
    return this.#wait(exchange);
  }

  /** Goes on with a retry: the answers that it brings go to who asked, and it waits for what comes next. */
  resume(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    this.#keeper.release(this);
    this.#request = request;
    this.#related = undefined;
    const reply = this.#wait(exchange);
    if (this.#isOver) return reply;
    this.#deliverKept();
    this.#questions?.answer(request);
    this.#goOn();
    return reply;
  }

  /** Puts a question of the server to the client; resolves with the answer that a retry brings. */
  requestInput(exchange: Exchange, question: RequestMessage): Promise<Reply> {
    const refusal = this.#refusal(question);
    if (refusal !== undefined) return Promise.reject(refusal);
    this.#questions ??= new PendingInputRequests();
    const answer = this.#questions.add(exchange, question);
    this.#gather();
    return answer;
  }

  /** The server no longer wants an answer to its question. */
  cancelInputRequest(id: RequestId): void {
    this.#questions?.cancel(id);
  }

  /** Takes a notification that belongs to this call to the client, now or with its retry. */
  notify(message: Message, context: TransportContext): void | Promise<void> {
    const request = this.#request;
    if (this.#isOver) return undefined;
    // What was kept goes first.
    if (this.#exchange === undefined || this.#isDelivering) {
      if (toClientNotification(request, message) !== undefined) this.#keep(message, context);
      return undefined;
    }
    return this.#tell(request, message, context);
  }

  /** The call has ended upstream. A client that is away learns it with its retry. */
  settle(outcome: CallOutcome): void {
    if (this.#isOver) return;
    if (this.#exchange === undefined || this.#isDelivering) {
      if (outcome instanceof Error) readStacks(outcome);
      this.#outcome = outcome;
      return;
    }
    const [resolve, reject] = [this.#resolve, this.#reject];
    this.#finish();
    try {
      if (outcome instanceof GatewayError) reject?.(outcome);
      else resolve?.(this.#replyOf(outcome));
    } catch (error) {
      reject?.(GatewayError.from(error));
    }
  }

  /** Ends the call without an answer: whoever waits is told why, and the server to stop. */
  cancel(reason: CancelReason, error: GatewayError = cancelledError(reason)): void {
    if (this.#isOver) return;
    const reject = this.#reject;
    this.#finish();
    // A modern client tells nobody upstream that it has cancelled, so the link has to.
    this.cancellation.cancel(reason === "cancelled" ? "client-gone" : reason);
    reject?.(error);
  }

  #replyOf(outcome: Message | ((request: RequestMessage) => Reply)): Reply {
    if (typeof outcome === "function") return outcome(this.#request);
    return { message: toModernResponse(this.#request, outcome, this.serverInfo ?? defaultServerInfo) };
  }

  #relate(): MutableExchange {
    if (this.#related !== undefined) return this.#related;
    const exchange = this.#exchange;
    if (exchange === undefined) throw new GatewayError("internal", "the call has lost its request");
    // Its own note of the entry, which is forgotten while the call is parked: the entry holds on to the connection.
    const tracking = new CallTracking(exchange.tracking.entry, this);
    this.#related = { ...exchange, tracking, reply: this };
    return this.#related;
  }

  #wait(exchange: Exchange): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      this.#exchange = exchange;
      this.#resolve = resolve;
      this.#reject = reject;
      exchange.cancellation.onCancel((reason) => {
        // The end of a request that has its answer is no cancel.
        if (this.#exchange === exchange) this.cancel(reason);
      });
    });
  }

  #refusal(question: RequestMessage): GatewayError | undefined {
    if (this.#isOver) return new GatewayError("cancelled", "the call that asks is over");
    if (!allowsInputRequests(this.#request))
      return new GatewayError("method_not_found", "nothing can be asked in answer to this request");
    if (!isInputRequestMethod(question)) return new GatewayError("method_not_found", "the client cannot be asked this");
    const missing = missingForInputRequest(question, declaredCapabilities(this.#request));
    if (missing !== undefined) {
      const names = Object.keys(missing).join(", ");
      return new GatewayError("method_not_found", `the client did not declare what this needs: ${names}`);
    }
    return this.#openQuestions < this.#keeper.limits.inputRequests
      ? undefined
      : new GatewayError("overloaded", "the call has too many open questions");
  }

  get #openQuestions(): number {
    return this.#questions?.size ?? 0;
  }

  /** Several questions that come together go in one round. */
  #gather(): void {
    if (this.#exchange === undefined || this.#isDelivering || this.#openQuestions === 0) return;
    this.#stopGathering ??= this.#keeper.setTimer(this.#keeper.limits.gatherMs, () => {
      this.#stopGathering = undefined;
      this.#park();
    });
  }

  /** Answers the client's request with the open questions; the call waits for its retry. */
  #park(): void {
    const [exchange, questions] = [this.#exchange, this.#questions];
    if (exchange === undefined || questions === undefined || questions.size === 0) return;
    const state = this.#keeper.suspend(this, exchange);
    if (state instanceof GatewayError) {
      this.cancel("client-gone", state);
      return;
    }
    const meta = this.serverInfo === undefined ? "" : `,"_meta":${serverInfoMeta(this.serverInfo)}`;
    const result = `{"resultType":"input_required","inputRequests":${questions.text},"requestState":${JSON.stringify(state)}${meta}}`;
    const [resolve, { id }] = [this.#resolve, this.#request];
    this.#shrink();
    resolve?.({ message: resultMessage(id, result), hasJudgedQuestions: true });
  }

  /** Lets go of what a call does not need while it is parked, which may be long. */
  #shrink(): void {
    const related = this.#relate();
    const request = CompactRequest.of(this.#request);
    this.upstreamRequest?.restOn(this.#request, request);
    if (related.original === related.message) related.original = request;
    related.message = request;
    related.tracking.entry = undefined;
    // That of the request holds on to the connection too.
    related.cancellation = this.cancellation;
    this.#request = request;
    this.#exchange = undefined;
    this.#resolve = undefined;
    this.#reject = undefined;
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
    this.#kept ??= new BufferedNotifications(this.#keeper.limits);
    this.#kept.add(message, context);
  }

  #tell(request: RequestMessage, message: Message, context: TransportContext): void | Promise<void> {
    const notice = toClientNotification(request, message);
    return notice === undefined ? undefined : this.#deliver(notice, this.#relate(), context);
  }

  #finish(): void {
    this.#isOver = true;
    this.#stopGathering?.();
    this.#exchange = undefined;
    this.#resolve = undefined;
    this.#reject = undefined;
    this.#outcome = undefined;
    this.#kept = undefined;
    if (this.suspension !== undefined) this.#keeper.release(this);
    this.#questions?.failAll("the call that asked is over");
  }
}

/**
 * Until somebody reads a stack, V8 keeps what each of its functions was called on: for the error of a connection that broke
 * that is all of the connection, and the error may be kept for as long as a client is away.
 */
function readStacks(error: Error): void {
  for (let each: unknown = error; each instanceof Error; each = each.cause) String(each.stack);
}
