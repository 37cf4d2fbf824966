import { Cancellation, type CancelReason } from "../../core/cancellation.ts";
import type { Exchange, ReplyStream, SetTimer, Tracking, TransportContext } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { cancelledError, type LinkEvents } from "../../transports/transport.ts";
import { CompactRequest } from "./compact-request.ts";
import {
  allowsInputRequests,
  declaredCapabilities,
  isInputRequestMethod,
  missingForInputRequest,
  PendingInputRequests,
} from "./input-requests.ts";
import type { UpstreamAttempt } from "./legacy-session.ts";
import { defaultServerInfo, serverInfoMeta, toModernResponse } from "./modern-result.ts";
import { BufferedNotifications, type BufferLimits, toClientNotification } from "./subscriptions.ts";

/** Bounds of one call. */
export interface BridgedCallLimits extends BufferLimits {
  /** How long the bridge waits for further requests of the server before it answers with `input_required`. */
  readonly gatherMs: number;
  /** Requests of the server that may be pending in one call. */
  readonly inputRequests: number;
}

/** How a call ended upstream: a response, a failure, or a reply made for the client request that is open by then. */
export type CallOutcome = Message | GatewayError | ((request: RequestMessage) => Reply);

/** Holds the calls that wait for their client's retry. */
export interface CallSuspender {
  readonly limits: BridgedCallLimits;
  readonly setTimer: SetTimer;
  /** Registers a call that waits for input; returns its `requestState`, or an error when there are too many. */
  suspend(call: BridgedCall, request: Exchange): string | GatewayError;
  /** Forgets a call that no longer waits; does nothing for one that is not suspended. */
  release(call: BridgedCall): void;
}

/** Leads from an exchange of the server back to the call it belongs to. */
export class CallTracking implements Tracking {
  entry: unknown;
  readonly call: BridgedCall;

  constructor(entry: unknown, call: BridgedCall) {
    this.entry = entry;
    this.call = call;
  }
}

/** The client's open request, and how to answer it. */
interface ClientLeg {
  readonly exchange: Exchange;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: GatewayError) => void;
}

/**
 * One call of a modern client to a legacy server, over all the requests that the client makes for it.
 *
 * The call is in one of three states. Attached: a request of the client is open (`#client`). Suspended: that request was
 * answered with `input_required`, the server works on, and what it sends is buffered until the client's retry. Over.
 */
export class BridgedCall implements ReplyStream {
  /** Ends the work upstream. */
  readonly cancellation: Cancellation = new Cancellation();
  /** The request that runs at the server now. */
  attempt: UpstreamAttempt | undefined;
  /** The server's `serverInfo` as JSON text, once known. */
  serverInfo: string = defaultServerInfo;
  readonly #suspender: CallSuspender;
  readonly #deliver: LinkEvents["message"];
  #client: ClientLeg | undefined;
  /** The client's last request. */
  #request: RequestMessage;
  #related: Exchange | undefined;
  #inputRequests: PendingInputRequests | undefined;
  #stopGathering: (() => void) | undefined;
  /** What came while no request of the client was open: notifications, and how the call ended. */
  #buffer: BufferedNotifications | undefined;
  #outcome: CallOutcome | undefined;
  #isReplaying = false;
  #isOver = false;

  constructor(suspender: CallSuspender, deliver: LinkEvents["message"], request: RequestMessage) {
    this.#suspender = suspender;
    this.#deliver = deliver;
    this.#request = request;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** The client's last request. */
  get request(): RequestMessage {
    return this.#request;
  }

  /** The exchange that messages of the server relate to; stays valid while the call is suspended. */
  get relatedExchange(): Exchange {
    if (this.#related !== undefined) return this.#related;
    const exchange = this.#client?.exchange;
    if (exchange === undefined) throw new GatewayError("internal", "the call has lost its request");
    // This exchange may be held for as long as the client takes, so nothing in it may reference the connection.
    const request = CompactRequest.from(this.#request);
    this.#request = request;
    this.#related = {
      ...exchange,
      message: request,
      original: exchange.original === exchange.message ? request : exchange.original,
      cancellation: this.cancellation,
      tracking: new CallTracking(exchange.tracking.entry, this),
      reply: this,
    };
    return this.#related;
  }

  /** The exchange whose route, principal and transport a request upstream is made with. */
  get contextExchange(): Exchange {
    return this.#client?.exchange ?? this.relatedExchange;
  }

  /** Does nothing: a legacy server streams even a lone error, whose HTTP status a modern client has to see. */
  open(): void {}

  /** Writes to the client's open request; dropped while there is none. */
  write(message: Message, label?: string): void | Promise<void> {
    return this.#client?.exchange.reply?.write(message, label);
  }

  writeRaw(data: Buffer, event: string | undefined): void | Promise<void> {
    return this.#client?.exchange.reply?.writeRaw?.(data, event);
  }

  /** Attaches the client's first request; resolves with its reply. */
  start(exchange: Exchange): Promise<Reply> {
    return this.#attach(exchange);
  }

  /** Attaches a retry: buffered messages go out first, then the answers it brings go to the server. */
  resume(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    this.#suspender.release(this);
    this.#request = request;
    this.#related = undefined;
    const reply = this.#attach(exchange);
    if (this.#isOver) return reply;
    this.#replay();
    this.#inputRequests?.answer(request);
    this.#proceed();
    return reply;
  }

  /** Asks the client for what a request of the server wants; resolves with the answer that a retry brings. */
  requestInput(exchange: Exchange, request: RequestMessage): Promise<Reply> {
    const refusal = this.#refuseInputRequest(request);
    if (refusal !== undefined) return Promise.reject(refusal);
    this.#inputRequests ??= new PendingInputRequests();
    const answer = this.#inputRequests.add(exchange, request);
    this.#gather();
    return answer;
  }

  /** The server cancelled its request. */
  cancelInputRequest(id: RequestId): void {
    this.#inputRequests?.cancel(id);
  }

  /** Delivers a notification of the server that belongs to this call, now or with the client's retry. */
  notify(message: Message, context: TransportContext): void | Promise<void> {
    if (this.#isOver) return undefined;
    const notification = toClientNotification(this.#request, message);
    if (this.#client !== undefined && !this.#isReplaying)
      return notification === undefined ? undefined : this.#deliver(notification, this.relatedExchange, context);
    // Buffered as the server sent it: the retry may have another progress token.
    if (notification !== undefined) {
      this.#buffer ??= new BufferedNotifications(this.#suspender.limits);
      this.#buffer.add(message, context);
    }
    if (this.#client === undefined) CompactRequest.from(this.#request).compact();
    return undefined;
  }

  /** The call has ended upstream; a suspended call answers its retry with this. */
  settle(outcome: CallOutcome): void {
    if (this.#isOver) return;
    const client = this.#client;
    if (client === undefined || this.#isReplaying) {
      this.#outcome = outcome;
      return;
    }
    this.#finish();
    try {
      if (outcome instanceof GatewayError) client.reject(outcome);
      else client.resolve(this.#toReply(outcome));
    } catch (error) {
      client.reject(GatewayError.from(error));
    }
  }

  /** Ends the call without an answer: rejects the client's open request and cancels the work upstream. */
  cancel(reason: CancelReason, error: GatewayError = cancelledError(reason)): void {
    if (this.#isOver) return;
    const client = this.#client;
    this.#finish();
    // A modern client sends no notifications/cancelled, so the link has to tell the server.
    this.cancellation.cancel(reason === "cancelled" ? "client-gone" : reason);
    client?.reject(error);
  }

  #attach(exchange: Exchange): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      const client: ClientLeg = { exchange, resolve, reject };
      this.#client = client;
      exchange.cancellation.onCancel((reason) => {
        // Also cancels an exchange that already has its answer, which has no effect.
        if (this.#client === client) this.cancel(reason);
      });
    });
  }

  #toReply(outcome: Message | ((request: RequestMessage) => Reply)): Reply {
    if (typeof outcome === "function") return outcome(this.#request);
    return { message: toModernResponse(this.#request, outcome, this.serverInfo) };
  }

  #refuseInputRequest(request: RequestMessage): GatewayError | undefined {
    if (this.#isOver) return new GatewayError("cancelled", "the call has ended");
    if (!allowsInputRequests(this.#request))
      return new GatewayError("method_not_found", `${this.#request.method} cannot be answered with input requests`);
    if (!isInputRequestMethod(request))
      return new GatewayError("method_not_found", `${request.method} cannot be an input request`);
    const missing = missingForInputRequest(request, declaredCapabilities(this.#request));
    if (missing !== undefined) {
      const names = Object.keys(missing).join(", ");
      return new GatewayError("method_not_found", `the client did not declare the required capabilities: ${names}`);
    }
    const pending = this.#inputRequests?.size ?? 0;
    return pending < this.#suspender.limits.inputRequests
      ? undefined
      : new GatewayError("overloaded", "the call has too many pending input requests");
  }

  /** Waits a moment before suspending, so that requests sent together are asked in one round. */
  #gather(): void {
    if (this.#client === undefined || this.#isReplaying || (this.#inputRequests?.size ?? 0) === 0) return;
    this.#stopGathering ??= this.#suspender.setTimer(this.#suspender.limits.gatherMs, () => {
      this.#stopGathering = undefined;
      this.#suspend();
    });
  }

  /** Answers the client's request with the pending input requests; the call then waits for the retry. */
  #suspend(): void {
    const client = this.#client;
    const inputRequests = this.#inputRequests;
    if (client === undefined || inputRequests === undefined || inputRequests.size === 0) return;
    const state = this.#suspender.suspend(this, client.exchange);
    if (state instanceof GatewayError) {
      this.cancel("client-gone", state);
      return;
    }
    const result =
      `{"resultType":"input_required","inputRequests":${inputRequests.format()},` +
      `"requestState":${JSON.stringify(state)},"_meta":${serverInfoMeta(this.serverInfo)}}`;
    const { id } = this.#request;
    this.#detach(inputRequests);
    client.resolve({ message: resultMessage(id, result), hasCheckedInputRequests: true });
  }

  /** Releases the client's request and everything that can be recreated cheaply. */
  #detach(inputRequests: PendingInputRequests): void {
    this.relatedExchange.tracking.entry = undefined;
    CompactRequest.from(this.#request).compact();
    this.attempt?.request?.compact();
    inputRequests.compact();
    this.#client = undefined;
  }

  /** Settles or suspends the call, once a retry has received everything that was buffered. */
  #proceed(): void {
    if (this.#isReplaying) return;
    if (this.#outcome === undefined) this.#gather();
    else this.settle(this.#outcome);
  }

  /** Delivers the buffered notifications in order; those that come meanwhile queue behind them. */
  #replay(): void {
    const buffer = this.#buffer;
    if (buffer === undefined) return;
    this.#isReplaying = true;
    const deliver = async (): Promise<void> => {
      while (buffer.size > 0) {
        for (const { message, context } of buffer.take()) {
          const notification = toClientNotification(this.#request, message);
          if (notification !== undefined) await this.#deliver(notification, this.relatedExchange, context);
        }
      }
      this.#buffer = undefined;
    };
    const proceed = (): void => {
      this.#isReplaying = false;
      this.#proceed();
    };
    // A notification that cannot be delivered does not hold back the answer; the pipeline has logged it.
    deliver().then(proceed, proceed);
  }

  #finish(): void {
    this.#isOver = true;
    this.#stopGathering?.();
    this.#client = undefined;
    this.#outcome = undefined;
    this.#buffer = undefined;
    this.#suspender.release(this);
    this.#inputRequests?.failAll("the call has ended");
  }
}
