import { Cancellation, type CancelListener, type CancelReason } from "../../core/cancellation.ts";
import { createExchange, type Exchange, limitKeyOf, type TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { type ListItem, UnorderedList } from "../../lib/bounded-map.ts";
import { messageBytes } from "../../protocol/message.ts";
import { type Era, newestLegacy, revisions } from "../../protocol/revisions.ts";
import type { SseEvent } from "../../protocol/sse/event.ts";
import { describeInvalid } from "../invalid-message.ts";
import {
  cancelledError,
  cancelledNotification,
  type LinkEvents,
  type ReplyCallback,
  type ResumedSession,
  sendWithCredentials,
  settleCallback,
  untilCancelled,
  type UpstreamLink,
} from "../transport.ts";
import {
  deleteSession,
  type HttpEndpoint,
  type HttpSessionState,
  notAccepted,
  requestHeaders,
  UnacceptedCount,
} from "./endpoint.ts";
import {
  agreedRevision,
  isEventStreamResponse,
  isJsonText,
  isResponseTo,
  readUpstreamMessage,
  replyOf,
  type ResponseHandler,
  type ResponseHeaders,
  ResponseReader,
  sessionHeader,
  upstreamParsing,
  upstreamStatusError,
  withIdOf,
} from "./response.ts";
import { isRetryable, ReplayableRequest, SessionLostError } from "./retry.ts";
import { openServerStream, reconnectMs, type ServerStream } from "./server-stream.ts";

/** How often a broken response stream is resumed without receiving anything new. */
const maxEmptyResumes = 5;
const defaultRetryMs = 1000;
/** How long a server may keep the stream of a call open after its answer. */
const lingerMs = 5000;

/**
 * All messages on their way. One list for all links: a thousand lists are in no cache.
 * Needed by bench load: "1,000 open sessions against 10".
 */
const posts = new UnorderedList<PostRequest>();

/** Creates a link to an upstream for one legacy session, or for the modern requests of one scope. */
export function createHttpLink(endpoint: HttpEndpoint, era: Era, events: LinkEvents): UpstreamLink {
  return new HttpLink(endpoint, era, events);
}

/** Owns the upstream session: handshake, renewal, the server's own stream, and the requests under way. */
class HttpLink implements UpstreamLink {
  readonly incarnation: string;
  /** Every response has its own connection, which is not read while its client is slow. */
  readonly hasBackpressure = true;
  readonly endpoint: HttpEndpoint;
  readonly events: LinkEvents;
  readonly state: HttpSessionState;
  readonly unaccepted = new UnacceptedCount();
  isClosed = false;
  #handshake: ReplayableRequest | undefined;
  #initialized: ReplayableRequest | undefined;
  #isResumed = false;
  #renewal: Promise<void> | undefined;
  /** Pending while a new session's own stream is being opened. */
  #opening: Promise<void> | undefined;
  #stream: ServerStream | undefined;

  constructor(endpoint: HttpEndpoint, era: Era, events: LinkEvents) {
    this.endpoint = endpoint;
    this.events = events;
    this.state = { era, session: undefined, revision: undefined, principal: undefined };
    this.incarnation = endpoint.newId();
  }

  get upstreamSession(): string | undefined {
    return this.state.session;
  }

  request(exchange: Exchange): Promise<Reply> {
    return new Promise((resolve, reject) => this.requestWithCallback(exchange, { resolve, reject }));
  }

  requestWithCallback(exchange: Exchange, callback: ReplyCallback): void {
    if (exchange.message.method === "initialize") this.#handshake = new ReplayableRequest(exchange);
    const isWaiting = this.#renewal !== undefined || this.#opening !== undefined;
    const isReady = !isWaiting && this.endpoint.credentials === undefined;
    if (isReady) this.#post(exchange, undefined, callback, true);
    else settleCallback(this.#requestWhenReady(exchange), callback);
  }

  async #requestWhenReady(exchange: Exchange): Promise<Reply> {
    try {
      if (this.#opening !== undefined) await untilCancelled(exchange.cancellation, this.#opening);
      // There is no session to name while a new one is being opened.
      if (this.#renewal !== undefined) await untilCancelled(exchange.cancellation, this.#renewal);
      return await this.#send(exchange);
    } catch (error) {
      return this.recover(exchange, error);
    }
  }

  /** Sends a request once more if that is safe, else throws the error. */
  async recover(exchange: Exchange, error: unknown): Promise<Reply> {
    if (error instanceof SessionLostError && !this.isClosed) {
      // The upstream does not know the session, so the request was not carried out: safe to repeat.
      await untilCancelled(exchange.cancellation, this.#renew(error.session));
      return this.#send(exchange);
    }
    const failure = GatewayError.from(error);
    const isUnanswered = failure.code === "upstream_unreachable" && failure.details?.["answered"] === false;
    if (isUnanswered && !exchange.cancellation.isCancelled && isRetryable(exchange.message, failure)) {
      return this.#send(exchange);
    }
    throw failure;
  }

  send(exchange: Exchange): Promise<Reply> {
    if (exchange.message.method !== "notifications/initialized") return this.#deliver(exchange);
    this.#initialized = new ReplayableRequest(exchange);
    const delivered = this.#deliver(exchange);
    // A bridge opens the stream itself, when somebody subscribes.
    // Where another process has opened the session, it has the stream, or the client opens it.
    if (exchange.session !== undefined && !this.#isResumed) this.#openStreamAfter(delivered);
    return delivered;
  }

  /**
   * Opens the server's own stream as soon as the session begins, and lets requests wait for it: what a server asks or
   * tells before it has accepted the stream is lost, and clients open theirs only while they already send requests.
   */
  #openStreamAfter(initialized: Promise<Reply>): void {
    const opening = initialized
      .then(
        () => this.listen(),
        () => {},
      )
      .finally(() => {
        if (this.#opening === opening) this.#opening = undefined;
      });
    this.#opening = opening;
  }

  async #deliver(exchange: Exchange): Promise<Reply> {
    try {
      await this.#send(exchange);
    } catch (error) {
      // A notification for a lost session has no receiver.
      if (!(error instanceof SessionLostError)) throw GatewayError.from(error);
    }
    return noReply;
  }

  listen(): Promise<void> | undefined {
    const { revision, era } = this.state;
    if (this.#stream !== undefined) return this.#stream.opened;
    if (this.isClosed || era === "modern") return undefined;
    if (revision !== undefined && !revisions[revision].getStream) return undefined;
    this.#stream = openServerStream(this.endpoint, this.state, (event) => this.#receive(event));
    return this.#stream.opened;
  }

  resume({ session, revision, initialize, initialized }: ResumedSession): boolean {
    this.#isResumed = true;
    this.state.session = session;
    this.state.revision = revision;
    this.state.principal = initialize.principal;
    this.#handshake = new ReplayableRequest(initialize);
    this.#initialized = new ReplayableRequest(initialized);
    return true;
  }

  async close(reason: string, isKept = false): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#stream?.close();
    for (const post of posts.items.filter(({ link }) => link === this))
      post.abort(new GatewayError("cancelled", reason));
    if (this.state.session !== undefined && !isKept) await deleteSession(this.endpoint, this.state);
  }

  /** Sends one message and resolves with its response, or when the upstream has accepted it. */
  #send(exchange: Exchange): Promise<Reply> {
    const { credentials } = this.endpoint;
    const post = (credentialHeaders?: Readonly<Record<string, string>>) =>
      new Promise<Reply>((resolve, reject) => this.#post(exchange, credentialHeaders, { resolve, reject }, false));
    if (credentials === undefined) return post();
    this.state.principal = exchange.principal;
    // Obtaining them takes as long as the authorization server likes.
    return untilCancelled(exchange.cancellation, sendWithCredentials(credentials, exchange.principal, post));
  }

  #post(
    exchange: Exchange,
    credentialHeaders: Readonly<Record<string, string>> | undefined,
    callback: ReplyCallback,
    mayRecover: boolean,
  ): void {
    const post = new PostRequest(this, exchange, callback, mayRecover);
    if (this.isClosed) {
      post.reject(new GatewayError("upstream_unreachable", "the connection has been closed"));
      return;
    }
    try {
      post.start(requestHeaders(this.endpoint, this.state, exchange, credentialHeaders));
    } catch (error) {
      post.reject(GatewayError.from(error));
    }
  }

  /** Handles an event of the server's own stream. */
  #receive(event: SseEvent): void | Promise<void> {
    if (event.kind === "empty") return undefined;
    const revision = this.state.revision ?? newestLegacy;
    const message = readUpstreamMessage(event.data, revision, this.endpoint.limits);
    if (message !== undefined) return this.events.message(message, undefined, this.contextOf(event));
    const { reason } = describeInvalid(event.data, upstreamParsing(revision, this.endpoint.limits));
    this.events.malformed(event.data, reason, undefined, this.contextOf(event));
    return undefined;
  }

  /** The transport context of a message that arrived as an event. */
  contextOf(event: SseEvent): TransportContext {
    return {
      type: "sse",
      stream: this.incarnation,
      ...(event.id === undefined ? {} : { eventId: event.id }),
      ...(event.event === undefined ? {} : { event: event.event }),
      ...(event.retry === undefined ? {} : { retry: event.retry }),
    };
  }

  /** Tells a legacy upstream to stop working on a request. */
  sendCancelled(exchange: Exchange): void {
    const message = cancelledNotification(exchange);
    if (message === undefined || this.isClosed) return;
    const cancellation = new Cancellation();
    const notification = createExchange({ ...exchange, message, cancellation, reply: undefined });
    this.#send(notification).catch((error: unknown) => this.events.error(GatewayError.from(error)));
  }

  /** Repeats the handshake after the upstream lost the session; requests that arrive meanwhile wait for it. */
  async #renew(lost: string): Promise<void> {
    if (this.#renewal === undefined && this.state.session !== lost) return;
    this.#renewal ??= this.#repeatHandshake()
      .catch((error: unknown) => {
        // The next request finds the session lost again, and tries again.
        this.state.session = lost;
        throw error;
      })
      .finally(() => {
        this.#renewal = undefined;
      });
    await this.#renewal;
  }

  async #repeatHandshake(): Promise<void> {
    const handshake = this.#handshake;
    if (handshake === undefined) throw new GatewayError("upstream_unreachable", "the upstream has lost the session");
    const wasListening = this.#stream !== undefined;
    this.#stream?.close();
    this.#stream = undefined;
    this.state.session = undefined;
    const repeated = handshake.toExchange();
    const stop = this.endpoint.setTimer(this.endpoint.quickMs, () => repeated.cancellation.cancel("timeout"));
    const reply = await this.#send(repeated).finally(stop);
    if (reply.message?.kind !== "result") {
      throw new GatewayError("upstream_unreachable", "the upstream has lost the session and refuses a new one");
    }
    if (this.#initialized !== undefined) await this.#send(this.#initialized.toExchange());
    if (wasListening) await this.listen();
  }
}

/**
 * One message on its way over HTTP, from POST to response. A class and not closures: a call may wait for minutes.
 * Needed by bench bridge: "parked call over HTTP".
 */
class PostRequest implements ResponseHandler, ReplyCallback, CancelListener, ListItem {
  listIndex = -1;
  readonly link: HttpLink;
  readonly #exchange: Exchange;
  readonly #callback: ReplyCallback;
  /** Whether the link may send it again if it fails. */
  readonly #mayRecover: boolean;
  /** The upstream session that it names. */
  readonly #session: string | undefined;
  #reader: ResponseReader | undefined = undefined;
  #resumed: ServerStream | undefined = undefined;
  #lastEventId: string | undefined = undefined;
  #retryMs = defaultRetryMs;
  #isSettled = false;
  #stopTimer: (() => void) | undefined = undefined;

  constructor(link: HttpLink, exchange: Exchange, callback: ReplyCallback, mayRecover: boolean) {
    this.link = link;
    this.#exchange = exchange;
    this.#callback = callback;
    this.#mayRecover = mayRecover;
    this.#session = link.state.session;
  }

  start(headers: Readonly<Record<string, string>>): void {
    this.#exchange.cancellation.follow(this);
    if (this.#isSettled) return;
    const { endpoint } = this.link;
    const { origin, path, dispatcher, limits, onStreamCount, setTimer, quickMs, bytes } = endpoint;
    const { message, principal } = this.#exchange;
    this.#reader = new ResponseReader(this, limits.maxBytes, onStreamCount, bytes?.hold(limitKeyOf(principal)));
    const isRequest = message.kind === "request";
    if (!isRequest) this.link.unaccepted.enter();
    posts.add(this);
    const post = { origin, path, method: "POST", headers, body: messageBytes(message) } as const;
    // A request has the timeout of its method.
    if (!isRequest) this.#stopTimer = setTimer(quickMs, () => this.abort(notAccepted()));
    // Answers and cancels never wait behind calls: those may be waiting for them.
    dispatcher.dispatch(isRequest ? { ...post, caller: limitKeyOf(principal) } : post, this.#reader);
  }

  cancelled(reason: CancelReason): void {
    const wasSent = this.#reader !== undefined;
    this.abort(cancelledError(reason));
    const isLegacyRequest = this.link.state.era === "legacy" && this.#exchange.message.kind === "request";
    // A legacy upstream does not see a closed stream as a cancel; a cancel of the client's own was forwarded to it.
    if (wasSent && isLegacyRequest && reason !== "cancelled") this.link.sendCancelled(this.#exchange);
  }

  abort(error: GatewayError): void {
    this.#resumed?.close();
    this.#reader?.abort(error);
    this.reject(error);
  }

  onHeaders(status: number, headers: ResponseHeaders): void {
    if (status !== 200) return;
    if (this.#exchange.message.method === "initialize") this.link.state.session = sessionHeader(headers);
    if (isEventStreamResponse(headers)) this.#exchange.reply?.open();
  }

  onEvent(event: SseEvent): void | Promise<void> {
    this.#lastEventId = event.id ?? this.#lastEventId;
    return this.#receive(event);
  }

  onRetry(milliseconds: number): void {
    this.#retryMs = milliseconds;
  }

  onEnd(status: number, headers: ResponseHeaders, body: Buffer | undefined): void {
    this.#release();
    const { message, reply } = this.#exchange;
    if (body !== undefined) this.#receiveBody(status, headers, body);
    else if (message.kind !== "request") this.resolve(noReply);
    else if (!this.#isSettled) {
      if (this.#lastEventId !== undefined) reply?.pause?.(reconnectMs(this.#retryMs));
      this.#resume(0);
    }
  }

  onError(error: GatewayError): void {
    this.#release();
    if (this.#isSettled) return;
    const isWanted = !this.#exchange.cancellation.isCancelled && !this.link.isClosed;
    if (this.#lastEventId !== undefined && isWanted) {
      this.#resume(0);
      return;
    }
    const details = { answered: this.#reader?.hasStarted === true };
    this.reject(new GatewayError(error.code, error.message, { details, cause: error.cause }));
  }

  resolve(reply: Reply): void {
    if (this.#isSettled) return;
    this.#settle();
    if (this.#exchange.message.method === "initialize") {
      const { state } = this.link;
      state.revision = agreedRevision(reply.message) ?? state.revision;
    }
    // Later, as a promise would: the reader is then done with the response.
    queueMicrotask(() => {
      this.#callback.resolve(reply);
      if (this.listIndex >= 0) this.#expectEnd();
    });
  }

  /** The answer has come as an event, but not the end of the stream, which could otherwise stay open for good. */
  #expectEnd(): void {
    const { setTimer } = this.link.endpoint;
    this.#stopTimer = setTimer(lingerMs, () =>
      this.#reader?.abort(new GatewayError("cancelled", "the response stream is no longer needed")),
    );
  }

  reject(failure: GatewayError): void {
    if (this.#isSettled) return;
    this.#settle();
    // Later: the dispatcher first has to be done with the connection that broke.
    queueMicrotask(() => {
      if (this.#mayRecover) settleCallback(this.link.recover(this.#exchange, failure), this.#callback);
      else this.#callback.reject(failure);
    });
  }

  #settle(): void {
    this.#isSettled = true;
    this.#exchange.cancellation.unfollow(this);
    this.#resumed?.close();
  }

  #release(): void {
    this.#stopTimer?.();
    if (this.listIndex >= 0 && this.#exchange.message.kind !== "request") this.link.unaccepted.leave();
    posts.delete(this);
  }

  /** Handles one event of the response stream: the response itself, or a message before it. */
  #receive(event: SseEvent): void | Promise<void> {
    if (event.kind === "empty") return undefined;
    const exchange = this.#exchange;
    const { events, endpoint } = this.link;
    const message = readUpstreamMessage(event.data, exchange.revision, endpoint.limits);
    if (message === undefined) {
      const { reason, response } = describeInvalid(event.data, upstreamParsing(exchange.revision, endpoint.limits));
      events.malformed(event.data, reason, exchange, this.link.contextOf(event));
      if (response !== undefined && isResponseTo(response.withId, exchange.message)) {
        this.reject(response.error);
        return undefined;
      }
      // Bytes that are not even JSON are passed on: no client takes them for a message, as it might other JSON.
      return isJsonText(event.data) ? undefined : exchange.reply?.writeRaw?.(event.data, event.event);
    }
    if (!this.#isSettled && isResponseTo(message, exchange.message)) {
      this.resolve({ message: withIdOf(exchange.message, message) });
      return undefined;
    }
    return events.message(message, exchange, this.link.contextOf(event));
  }

  /** Handles a response that is not a stream. */
  #receiveBody(status: number, headers: ResponseHeaders, body: Buffer): void {
    const { message, revision } = this.#exchange;
    const { state, endpoint, events } = this.link;
    if (status === 404 && this.#session !== undefined && state.era === "legacy") {
      this.reject(new SessionLostError(this.#session));
      return;
    }
    if (message.kind !== "request") {
      if (status >= 200 && status < 300) this.resolve(noReply);
      else this.reject(upstreamStatusError(status, headers));
      return;
    }
    const response = body.length === 0 ? undefined : readUpstreamMessage(body, revision, endpoint.limits);
    const reply = response === undefined ? undefined : replyOf(response, message, status, headers);
    if (reply !== undefined) this.resolve(reply);
    else if (status !== 200) this.reject(upstreamStatusError(status, headers));
    else if (response !== undefined)
      this.reject(new GatewayError("upstream_invalid", "the upstream's answer is not a response to the request"));
    else {
      const { reason } = describeInvalid(body, upstreamParsing(revision, endpoint.limits));
      events.malformed(body, reason, this.#exchange, this.#exchange.transport);
      this.reject(new GatewayError("upstream_invalid", `the upstream's response is not valid: ${reason}`));
    }
  }

  /** Resumes a broken response stream after the last event received (MCP 2025-03-26 and later, Resumability). */
  #resume(emptyTries: number): void {
    const { cancellation, revision } = this.#exchange;
    const { endpoint, state, isClosed } = this.link;
    const isResumable = this.#lastEventId !== undefined && revisions[revision].resumption;
    const isOver = isClosed || cancellation.isCancelled || emptyTries >= maxEmptyResumes;
    if (!isResumable || isOver) {
      this.reject(new GatewayError("upstream_invalid", "the upstream ended its answer before the response"));
      return;
    }
    this.#resumed = openServerStream(endpoint, state, (event) => this.#receive(event), {
      lastEventId: this.#lastEventId,
      retryMs: this.#retryMs,
      onEnd: (lastEventId, retryMs, sawEvents) => {
        if (this.#isSettled) return;
        this.#lastEventId = lastEventId;
        this.#retryMs = retryMs;
        this.#resume(sawEvents ? 0 : emptyTries + 1);
      },
    });
  }
}
