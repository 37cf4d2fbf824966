import { GatewayError } from "../../errors.ts";
import type { CancelReason } from "../../core/cancellation.ts";
import { Cancellation } from "../../core/cancellation.ts";
import { type Exchange, type SetTimer } from "../../core/exchange.ts";
import {
  cancelledError,
  cancelledNotification,
  type LinkEvents,
  type ReplyCallback,
  settleCallback,
  type UpstreamLink,
} from "../transport.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { type Message, messageBytes, type ParseLimits } from "../../protocol/message.ts";
import { memberString } from "../../protocol/json/read.ts";
import { type Era, newestLegacy, parseRevision, revisions } from "../../protocol/revisions.ts";
import type { SseEvent } from "../../protocol/sse/event.ts";
import { type CredentialProvider, sendWithCredentials } from "../credential-provider.ts";
import type { HttpDispatcher } from "./connection-pool.ts";
import { deleteSession } from "./delete-session.ts";
import { type HttpSessionState, requestHeaders } from "./request-headers.ts";
import { isRetryable, ReplayableRequest, SessionLostError } from "./retry.ts";
import { type BufferedResponse, Post, type PostOwner, type ReplyHandler, type ResumePoint } from "./post.ts";
import {
  isJsonText,
  isResponseTo,
  readUpstreamMessage,
  type ResponseHeaders,
  ResponseReader,
  sessionHeader,
  sseContext,
  type SseContext,
  type StreamCounter,
  upstreamStatusError,
  withIdOf,
} from "./response.ts";
import { openServerStream, type ServerStream } from "./server-stream.ts";

/** One upstream server reached over Streamable HTTP; shared by all links to it. */
export interface HttpEndpoint {
  readonly origin: string;
  readonly path: string;
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Shown with every request, where they have to be obtained or depend on who is calling. */
  readonly credentials?: CredentialProvider | undefined;
  /** Lower-case names of client headers that are passed on. */
  readonly forwardHeaders: readonly string[];
  /** For requests. Not limited in connections: a streamed answer must never keep another call waiting. */
  readonly requestPool: HttpDispatcher;
  /** For streams that stay open. */
  readonly streamPool: HttpDispatcher;
  readonly limits: ParseLimits;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly onStreamCount?: StreamCounter | undefined;
}

/** How often a broken answer stream is taken up again without anything new arriving. */
const maxEmptyResumes = 5;

/** Makes a link to an upstream for one legacy session, or for the modern requests of one scope. */
export function createHttpLink(upstream: HttpEndpoint, era: Era, events: LinkEvents): UpstreamLink {
  return new HttpLink(upstream, era, events);
}

class HttpLink implements UpstreamLink, PostOwner {
  readonly incarnation: string;
  /** Every answer has a connection of its own, which is not read while its client is slow. */
  readonly hasBackpressure = true;
  readonly #upstream: HttpEndpoint;
  readonly #events: LinkEvents;
  readonly #state: HttpSessionState;
  /** An array, not a Set: a set whose members keep changing makes new tables, which keep each other alive. */
  readonly #readers: ResponseReader[] = [];
  #handshake: ReplayableRequest | undefined;
  #initialized: ReplayableRequest | undefined;
  #renewal: Promise<void> | undefined;
  #stream: ServerStream | undefined;
  #lastContext: SseContext | undefined;
  #isClosed = false;

  constructor(upstream: HttpEndpoint, era: Era, events: LinkEvents) {
    this.#upstream = upstream;
    this.#events = events;
    this.#state = { era, session: undefined, revision: undefined, principal: undefined };
    this.incarnation = upstream.newId();
  }

  get upstreamSession(): string | undefined {
    return this.#state.session;
  }

  request(exchange: Exchange): Promise<Reply> {
    if (exchange.message.method === "initialize") this.#handshake = new ReplayableRequest(exchange);
    return this.#isStraight ? this.#dispatch(exchange, undefined, true) : this.#requestInTurn(exchange);
  }

  requestWithCallback(exchange: Exchange, call: ReplyCallback): void {
    const isStraight = this.#isStraight && !this.#isClosed && exchange.message.method !== "initialize";
    if (!isStraight) {
      settleCallback(this.request(exchange), call);
      return;
    }
    try {
      this.#begin(exchange, undefined, true, call);
    } catch (error) {
      settleCallback(Promise.reject(GatewayError.from(error)), call);
    }
  }

  /** The usual way waits for nothing but the answer; whatever goes wrong there is taken up by `recover`. */
  get #isStraight(): boolean {
    return this.#renewal === undefined && this.#upstream.credentials === undefined;
  }

  async #requestInTurn(exchange: Exchange): Promise<Reply> {
    try {
      // There is no session to name while a new one is being opened.
      if (this.#renewal !== undefined) await this.#renewal;
      return await this.#post(exchange);
    } catch (error) {
      return this.recover(exchange, error);
    }
  }

  /** Sends a request once more where that is safe; throws what it failed with where it is not. */
  async recover(exchange: Exchange, error: unknown): Promise<Reply> {
    if (error instanceof SessionLostError && !this.#isClosed) {
      // The upstream says that it does not know the session, so the request was not carried out: safe to repeat.
      await this.#renew(error.session);
      return this.#post(exchange);
    }
    const failure = GatewayError.from(error);
    const isFresh = failure.code === "upstream_unreachable" && failure.details?.["answered"] === false;
    if (isFresh && !exchange.cancellation.isCancelled && isRetryable(exchange.message, failure)) {
      return this.#post(exchange);
    }
    throw failure;
  }

  async send(exchange: Exchange): Promise<Reply> {
    if (exchange.message.method === "notifications/initialized") this.#initialized = new ReplayableRequest(exchange);
    try {
      await this.#post(exchange);
    } catch (error) {
      // What was meant for a session that is gone has nobody to reach any more.
      if (!(error instanceof SessionLostError)) throw GatewayError.from(error);
    }
    return noReply;
  }

  listen(): Promise<void> | undefined {
    const { revision, era } = this.#state;
    if (this.#stream !== undefined) return this.#stream.opened;
    if (this.#isClosed || era === "modern") return undefined;
    if (revision !== undefined && !revisions[revision].getStream) return undefined;
    this.#stream = openServerStream(this.#upstream, this.#state, (event) => this.#unsolicited(event));
    return this.#stream.opened;
  }

  async close(reason: string): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stream?.close();
    for (const reader of this.#readers.slice()) reader.abort(new GatewayError("cancelled", reason));
    if (this.#state.session !== undefined) await deleteSession(this.#upstream, this.#state);
  }

  /** Sends one message and waits for what it leads to: an answer, or the word that it was accepted. */
  #post(exchange: Exchange): Promise<Reply> {
    const { credentials } = this.#upstream;
    if (credentials === undefined) return this.#dispatch(exchange, undefined);
    this.#state.principal = exchange.principal;
    return sendWithCredentials(credentials, exchange.principal, (own) => this.#dispatch(exchange, own));
  }

  #dispatch(
    exchange: Exchange,
    own: Readonly<Record<string, string>> | undefined,
    isRecoverable = false,
  ): Promise<Reply> {
    if (this.#isClosed)
      return Promise.reject(new GatewayError("upstream_unreachable", "the connection has been closed"));
    return new Promise<Reply>((resolve) => {
      this.#begin(exchange, own, isRecoverable, resolve);
    });
  }

  #begin(
    exchange: Exchange,
    own: Readonly<Record<string, string>> | undefined,
    isRecoverable: boolean,
    outcome: ReplyHandler,
  ): void {
    const { origin, path, requestPool: calls, limits, onStreamCount: onStream } = this.#upstream;
    const headers = requestHeaders(this.#upstream, this.#state, exchange, own);
    const post = new Post(this, exchange, this.#state.session, isRecoverable, outcome);
    const reader = new ResponseReader(post, limits.maxBytes, onStream);
    post.begin(reader);
    reader.index = this.#readers.push(reader) - 1;
    calls.dispatch({ origin, path, method: "POST", headers, body: messageBytes(exchange.message) }, reader);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The upstream has begun to answer the handshake. */
  opened(headers: ResponseHeaders): void {
    this.#state.session = sessionHeader(headers);
  }

  /** The handshake has been answered. */
  agreed(answer: Message | undefined): void {
    const named = answer === undefined ? undefined : memberString(answer, "result.protocolVersion");
    const reading = named === undefined ? undefined : parseRevision(named);
    if (reading?.ok === true) this.#state.revision = reading.revision;
  }

  /** Takes a reader out; the last one moves to its place. */
  forget(reader: ResponseReader): void {
    const last = this.#readers.pop();
    if (last === undefined || last === reader) return;
    this.#readers[reader.index] = last;
    last.index = reader.index;
  }

  /** Deals with one event of an answer stream: the answer itself, or something on the way to it. */
  streamed(event: SseEvent, exchange: Exchange, call: ReplyCallback): void | Promise<void> {
    if (event.kind === "empty") return undefined;
    const message = readUpstreamMessage(event.data, exchange.revision, this.#upstream.limits);
    if (message === undefined) {
      this.#events.malformed(event.data, "an event that is not a message");
      // What is no JSON at all cannot be taken for a message by anybody; JSON that is no message could.
      return isJsonText(event.data) ? undefined : exchange.reply?.writeRaw?.(event.data, event.event);
    }
    if (isResponseTo(message, exchange.message)) {
      call.resolve({ message: withIdOf(exchange.message, message) });
      return undefined;
    }
    return this.#events.message(message, exchange, this.#contextOf(event));
  }

  /** Where an event came from. Events without an id of their own come from the same as the one before. */
  #contextOf(event: SseEvent): SseContext {
    if (event.id !== undefined || event.retry !== undefined) return sseContext(this.incarnation, event);
    if (this.#lastContext?.event !== event.event || this.#lastContext === undefined)
      this.#lastContext = sseContext(this.incarnation, event);
    return this.#lastContext;
  }

  /** Deals with an answer that came as one body. */
  settle(exchange: Exchange, session: string | undefined, answer: BufferedResponse, call: ReplyCallback): void {
    const { message } = exchange;
    const { status, headers, body } = answer;
    if (status === 404 && session !== undefined && this.#state.era === "legacy") {
      call.reject(new SessionLostError(session));
      return;
    }
    if (message.kind !== "request") {
      if (status >= 200 && status < 300) call.resolve(noReply);
      else call.reject(upstreamStatusError(status));
      return;
    }
    const reply = body.length === 0 ? undefined : readUpstreamMessage(body, exchange.revision, this.#upstream.limits);
    if (reply !== undefined && isResponseTo(reply, message) && status !== 401 && status !== 403) {
      call.resolve({ message: withIdOf(message, reply), status });
      return;
    }
    call.reject(
      status === 200
        ? new GatewayError("upstream_invalid", "the upstream's answer is not a response to the request")
        : upstreamStatusError(status, headers),
    );
  }

  /** Takes up an answer stream that broke, from the last event that came (MCP 2025-03-26 and later, Resumability). */
  resume(exchange: Exchange, from: ResumePoint, call: ReplyCallback): void {
    const isResumable = from.lastEventId !== undefined && revisions[exchange.revision].resumption;
    const isOver = this.#isClosed || exchange.cancellation.isCancelled || from.emptyTries >= maxEmptyResumes;
    if (!isResumable || isOver) {
      call.reject(new GatewayError("upstream_invalid", "the upstream ended its answer before the response"));
      return;
    }
    let isAnswered = false;
    const resumed: ReplyCallback = {
      resolve: (reply) => {
        isAnswered = true;
        off();
        stream.close();
        call.resolve(reply);
      },
      reject: (error) => {
        call.reject(error);
      },
    };
    const stream = openServerStream(this.#upstream, this.#state, (event) => this.streamed(event, exchange, resumed), {
      ...from,
      onEnd: (lastEventId, retryMs, sawEvents) => {
        off();
        const emptyTries = sawEvents ? 0 : from.emptyTries + 1;
        if (!isAnswered) this.resume(exchange, { lastEventId, retryMs, emptyTries }, call);
      },
    });
    const off = exchange.cancellation.onCancel((reason) => {
      stream.close();
      call.reject(cancelledError(reason));
    });
  }

  /** A call that is under way has been cancelled, and its connection closed. */
  cancelled(exchange: Exchange, reason: CancelReason): void {
    // Closing the stream means nothing to a legacy upstream, and the client's own cancel has gone there already.
    if (this.#state.era === "legacy" && exchange.message.kind === "request" && reason !== "cancelled")
      this.#tellCancelled(exchange);
  }

  /** Tells the upstream to stop working on a request; whether it hears it or not, the request is over for us. */
  #tellCancelled(exchange: Exchange): void {
    const message = cancelledNotification(exchange);
    if (message === undefined || this.#isClosed) return;
    const notice = {
      ...exchange,
      message,
      original: message,
      reply: undefined,
      cancellation: new Cancellation(),
    };
    this.#post(notice).catch((error: unknown) => {
      this.#events.error(GatewayError.from(error));
    });
  }

  #unsolicited(event: SseEvent): void | Promise<void> {
    if (event.kind === "empty") return undefined;
    const message = readUpstreamMessage(event.data, this.#state.revision ?? newestLegacy, this.#upstream.limits);
    if (message !== undefined) return this.#events.message(message, undefined, this.#contextOf(event));
    this.#events.malformed(event.data, "an event that is not a message");
    return undefined;
  }

  /** Shakes hands anew after the upstream forgot the session; callers that come meanwhile wait for the same handshake. */
  async #renew(lost: string): Promise<void> {
    if (this.#renewal === undefined && this.#state.session !== lost) return;
    this.#renewal ??= this.#shakeHands()
      .catch((error: unknown) => {
        // The next request finds the session lost again, and tries anew.
        this.#state.session = lost;
        throw error;
      })
      .finally(() => {
        this.#renewal = undefined;
      });
    await this.#renewal;
  }

  async #shakeHands(): Promise<void> {
    const handshake = this.#handshake;
    if (handshake === undefined)
      throw new GatewayError("upstream_unreachable", "the upstream has forgotten the session");
    const wasListening = this.#stream !== undefined;
    this.#stream?.close();
    this.#stream = undefined;
    this.#state.session = undefined;
    const reply = await this.#post(handshake.toExchange());
    if (reply.message?.kind !== "result") {
      throw new GatewayError("upstream_unreachable", "the upstream has forgotten the session and refuses a new one");
    }
    if (this.#initialized !== undefined) await this.#post(this.#initialized.toExchange());
    if (wasListening) void this.listen();
  }
}
