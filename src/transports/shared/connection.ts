import type { Exchange, TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { errorTable, GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../lib/clock.ts";
import { createTurnLimiter } from "../../lib/turn-limiter.ts";
import type { FindingCode } from "../../protocol/diagnostics.ts";
import { type ClientIdRewriter, createIdRewriter, type RestoreResult } from "../../protocol/ids/id-rewriter.ts";
import { memberString } from "../../protocol/json/read.ts";
import { type Message, type ParseLimits, replaceIds, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { parseSingle } from "../../protocol/parse.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import { createSerialQueue, LazyChannel, type OpenChannel, PendingReplies, type SerialQueue } from "../channel-link.ts";
import { describeInvalid, describeUnread, type InvalidMessage } from "../invalid-message.ts";
import { SessionSubscriptions, subscribersOf } from "./session-subscriptions.ts";
import { cancelledError, cancelledNotification, type LinkEvents, type UpstreamLink } from "../transport.ts";

/** How a shared connection is used. */
export interface SharedConnectionOptions {
  readonly limits: ParseLimits;
  readonly context: (incarnation: string) => TransportContext;
  readonly setTimer: SetTimer;
  /** How long a connection without sessions is kept for the next one. */
  readonly lingerMs: number;
}

/**
 * Creates links for several legacy sessions over one channel per key. The handshake is done once: later clients receive
 * the response to the first one, and with it the revision that the server agreed to (MCP 2025-11-25, Lifecycle).
 * Ids, progress tokens and cancels are rewritten (SC-059).
 */
export function createSharedLinks(openFor: (key: string) => OpenChannel, options: SharedConnectionOptions) {
  const connections = new Map<string, SharedConnection>();
  return {
    /** A session's link over the connection of a key, which is opened for the first message. */
    open: (key: string, events: LinkEvents): UpstreamLink => {
      let connection = connections.get(key);
      if (connection === undefined) {
        const created = new SharedConnection(openFor(key), options, () => {
          if (connections.get(key) === created) connections.delete(key);
        });
        connections.set(key, created);
        connection = created;
      }
      return connection.addSession(events);
    },
    /** Closes all connections. */
    close: async (reason: string): Promise<void> => {
      await Promise.all([...connections.values()].map((connection) => connection.close(reason)));
    },
  };
}

/** Receives the messages that belong to one client of the connection. */
interface MessageOwner {
  onResponse(response: Message): void;
  /** The response is no valid message; `response` has the id of the request. */
  onInvalid(bytes: Buffer, reason: string, response: Message, error: GatewayError): void;
  onMessage(message: Message): void;
}

/** A request of the server that one session has to answer. */
interface ServerRequest {
  readonly receiver: SessionLink;
  /** The key of its progress token, if it has one. */
  readonly token: string | undefined;
}

/** One legacy channel and the sessions on it. When the channel ends, so do all of them. */
class SharedConnection {
  readonly #options: SharedConnectionOptions;
  readonly #onEnd: () => void;
  readonly #channel: LazyChannel;
  readonly #sessions = new Set<SessionLink>();
  readonly #ids = createIdRewriter<MessageOwner>("legacy", { endedPerClient: 100 });
  /** The requests of the server that are not answered yet, and which session received them, by request id. */
  readonly #serverRequests = new Map<string, ServerRequest>();
  readonly #turn = createTurnLimiter();
  #handshake: PromiseWithResolvers<Message> | undefined;
  #isInitialized = false;
  #stopLinger: (() => void) | undefined;
  #isOver = false;

  constructor(open: OpenChannel, options: SharedConnectionOptions, onEnd: () => void) {
    this.#options = options;
    this.#onEnd = onEnd;
    this.#channel = new LazyChannel(open, {
      message: (bytes) => this.#receive(bytes),
      malformed: (bytes, reason, unread) => this.#receiveInvalid(bytes, describeUnread(unread, reason)),
      closed: (error) => this.#closed(error),
    });
  }

  addSession(events: LinkEvents): UpstreamLink {
    this.#stopLinger?.();
    this.#stopLinger = undefined;
    const session = new SessionLink(this, events);
    this.#sessions.add(session);
    return session;
  }

  removeSession(session: SessionLink, reason: string): void {
    this.#sessions.delete(session);
    if (this.#sessions.size > 0 || this.#isOver) return;
    this.#stopLinger = this.#options.setTimer(
      this.#options.lingerMs,
      () => void this.close(reason).catch(this.#report),
    );
  }

  /** Closes the channel, which ends the sessions on it. */
  async close(reason: string): Promise<void> {
    this.#end();
    await this.#channel.close(reason);
  }

  get incarnation(): string {
    return this.#channel.incarnation;
  }

  get context(): TransportContext {
    return this.#options.context(this.incarnation);
  }

  /** Opens the channel unless it is open. */
  async ready(): Promise<void> {
    if (this.#isOver) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    await this.#channel.ready();
  }

  addIdScope(owner: MessageOwner): ClientIdRewriter {
    return this.#ids.join(owner);
  }

  write(message: Message): Promise<void> {
    return this.#channel.write(message);
  }

  /** The server's response to the handshake, which the first caller sends. */
  handshake(request: RequestMessage): Promise<Message> {
    if (this.#handshake !== undefined) return this.#handshake.promise;
    const handshake = Promise.withResolvers<Message>();
    // All callers may have been cancelled when it fails.
    handshake.promise.catch(() => {});
    this.#handshake = handshake;
    const forget = (): void => {
      if (this.#handshake === handshake) this.#handshake = undefined;
    };
    const idScope = this.#ids.join({
      onResponse: (response) => {
        // The next client may succeed with its own handshake.
        if (response.kind === "error") forget();
        handshake.resolve(response);
      },
      onInvalid: (bytes, reason, _response, error) => {
        this.#anySession?.events.malformed(bytes, reason, undefined, this.context);
        forget();
        handshake.reject(error);
      },
      onMessage: (message) => this.#drop("notification.unheard", message),
    });
    const sent = idScope.rewrite(request);
    this.write(sent.ok ? sent.message : request).catch((error: unknown) => {
      forget();
      handshake.reject(GatewayError.from(error));
    });
    return handshake.promise;
  }

  /** The handshake timed out. */
  abandonHandshake(): void {
    this.close("the server did not answer the handshake").catch(this.#report);
  }

  /** True for the first caller only, who has to send `notifications/initialized`. */
  claimInitialized(): boolean {
    const isFirst = !this.#isInitialized;
    this.#isInitialized = true;
    return isFirst;
  }

  /** A client answers one of the server's requests. */
  onClientResponse(response: Message): void {
    if (response.id !== undefined) this.#serverRequests.delete(response.id.key);
  }

  /** Whether a progress notification of a client is about a request of the server that this client received. */
  isOwnProgress(session: SessionLink, notification: Message): boolean {
    const key = metadataOf(notification).related?.id.key;
    for (const { receiver, token } of this.#serverRequests.values())
      if (receiver === session && token !== undefined && token === key) return true;
    return false;
  }

  #expectAnswer(request: RequestMessage, receiver: SessionLink): void {
    this.#serverRequests.set(request.id.key, { receiver, token: metadataOf(request).progressToken?.key });
  }

  isSubscribedByOthers(session: SessionLink, uri: string): boolean {
    for (const other of this.#sessions) if (other !== session && other.subscriptions.has(uri)) return true;
    return false;
  }

  #closed(error: GatewayError): void {
    this.#end();
    this.#handshake?.reject(error);
    const sessions = [...this.#sessions];
    this.#sessions.clear();
    for (const session of sessions) session.onClosed(error);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stopLinger?.();
    this.#onEnd();
  }

  #receive(bytes: Buffer): void {
    const parsing = { revision: newestLegacy, mode: "enforce", limits: this.#options.limits } as const;
    const received = parseSingle(bytes, parsing);
    if (received === undefined) {
      this.#receiveInvalid(bytes, describeInvalid(bytes, parsing));
      return;
    }
    const restored = this.#ids.restore(received);
    const { message } = restored;
    if (restored.type === "owned") this.#deliver(message, restored.owner);
    else if (restored.type === "late") restored.owner.onMessage(message);
    else if (message.kind === "request") this.#receiveRequest(message);
    else if (restored.type === "stray") this.#receiveStray(restored);
    else if (message.kind === "notification") this.#broadcast(message);
    else this.#anySession?.onMessage(message);
  }

  /** One session logs an answer to nothing. What comes late for a session that has ended is nobody else's to see. */
  #receiveStray({ message, reason }: Extract<RestoreResult<MessageOwner>, { readonly type: "stray" }>): void {
    const isLate = reason === "finished";
    if (message.kind === "notification") this.#drop(isLate ? "progress.after-end" : "progress.unknown-token", message);
    else if (isLate) this.#drop("response.late", message);
    else this.#anySession?.onMessage(message);
  }

  #drop(why: FindingCode, message: Message): void {
    this.#anySession?.events.dropped?.(why, message, this.context);
  }

  #receiveInvalid(bytes: Buffer, { reason, response }: InvalidMessage): void {
    const restored = response === undefined ? undefined : this.#ids.restore(response.withId);
    if (response !== undefined && restored?.type === "owned")
      restored.owner.onInvalid(bytes, reason, restored.message, response.error);
    else this.#anySession?.events.malformed(bytes, reason, undefined, this.context);
  }

  /** Delivers a message that names a request or task of one session. */
  #deliver(message: Message, owner: MessageOwner): void {
    if (message.kind === "result" || message.kind === "error") {
      owner.onResponse(message);
      return;
    }
    if (message.kind === "request" && owner instanceof SessionLink) this.#expectAnswer(message, owner);
    owner.onMessage(message);
  }

  /** Delivers a request of the server only if there is one session: a guess could leak data to another client. */
  #receiveRequest(request: RequestMessage): void {
    const [only, another] = this.#sessions;
    if (request.method === "ping") this.#respond(resultMessage(request.id, "{}"));
    else if (only !== undefined && another === undefined) {
      this.#expectAnswer(request, only);
      only.receiveUnaddressed(request, true);
    } else {
      const text = "several clients share this server, and the request does not say which one it addresses";
      const data = { origin: "gateway", code: "method_not_found" };
      const code = errorTable.method_not_found.jsonrpc ?? -32603;
      this.#respond(errorMessage(request.id, { code, message: text, data }));
    }
  }

  #respond(message: Message): void {
    this.write(message).catch(this.#report);
  }

  /** Delivers a notification that names no request to every session it may concern. */
  #broadcast(message: Message): void {
    if (message.method === "notifications/cancelled") {
      const key = metadataOf(message).related?.id.key ?? "";
      const asked = this.#serverRequests.get(key);
      if (asked === undefined) this.#drop("cancel.unknown", message);
      else asked.receiver.receiveUnaddressed(message, false);
      this.#serverRequests.delete(key);
      return;
    }
    const initialized = [...this.#sessions].filter(({ isInitialized }) => isInitialized);
    const isUpdate = message.method === "notifications/resources/updated";
    const receivers = isUpdate ? subscribersOf(initialized, memberString(message, "params.uri")) : initialized;
    if (receivers.length === 0) this.#drop("notification.unheard", message);
    const isOnlySession = this.#sessions.size === 1;
    for (const session of receivers) session.receiveUnaddressed(message, isOnlySession, this.#turn());
  }

  /** A session to log what belongs to none. */
  get #anySession(): SessionLink | undefined {
    const [first] = this.#sessions;
    return first;
  }

  readonly #report = (error: unknown): void => this.#anySession?.events.error(GatewayError.from(error));
}

/** One legacy session's link over a shared connection. */
class SessionLink implements UpstreamLink, MessageOwner {
  readonly upstreamSession = undefined;
  /** A slow client must not hold up the others. */
  readonly hasBackpressure = false;
  readonly subscriptions = new SessionSubscriptions();
  /** The client has completed the handshake, so it may receive notifications. */
  isInitialized = false;
  readonly events: LinkEvents;
  readonly #connection: SharedConnection;
  readonly #idScope: ClientIdRewriter;
  readonly #pending = new PendingReplies();
  readonly #queue: SerialQueue;
  #isClosed = false;

  constructor(connection: SharedConnection, events: LinkEvents) {
    this.#connection = connection;
    this.events = events;
    this.#idScope = connection.addIdScope(this);
    this.#queue = createSerialQueue(this.#report);
  }

  get incarnation(): string {
    return this.#connection.incarnation;
  }

  async request(exchange: Exchange): Promise<Reply> {
    const { message, cancellation } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have responses");
    await this.#ready();
    if (cancellation.reason !== undefined) throw cancelledError(cancellation.reason);
    switch (message.method) {
      case "initialize":
        return this.#initialize(exchange, message);
      case "resources/subscribe":
        return this.#subscribe(exchange, message);
      case "resources/unsubscribe":
        return this.#unsubscribe(exchange, message);
      default:
        return this.#send(exchange, message);
    }
  }

  async send({ message }: Exchange): Promise<Reply> {
    const isResponse = message.kind === "result" || message.kind === "error";
    // The server waits for a response even if the session has just ended.
    if (isResponse) this.#connection.onClientResponse(message);
    else await this.#ready();
    if (message.method === "notifications/initialized") {
      this.isInitialized = true;
      if (!this.#connection.claimInitialized()) return noReply;
    }
    // Tokens of the server are no secret: another client could speak in the name of the one that was asked.
    if (message.method === "notifications/progress" && !this.#connection.isOwnProgress(this, message)) return noReply;
    const outcome = this.#idScope.rewrite(message);
    if (outcome.ok) await this.#connection.write(outcome.message);
    return noReply;
  }

  listen(): void {
    // The channel always carries everything.
  }

  async close(reason: string): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const exchange of this.#pending.exchanges) this.#sendCancelled(exchange);
    this.#pending.rejectAll(new GatewayError("cancelled", reason));
    this.#idScope.release();
    this.#connection.removeSession(this, reason);
  }

  onResponse(response: Message): void {
    this.#queue(() => void this.#pending.settle(response.id?.key, { message: response }));
  }

  onInvalid(bytes: Buffer, reason: string, response: Message, error: GatewayError): void {
    const pending = this.#pending.get(response.id?.key);
    this.events.malformed(bytes, reason, pending?.exchange, this.#connection.context);
    this.#queue(() => pending?.settle(error));
  }

  onMessage(message: Message): void {
    this.#forward(message, this.#pending.byProgressToken(message));
  }

  /** Receives a message that the server addressed to no request; what comes later waits until it had its turn. */
  receiveUnaddressed(message: Message, isOnlySession: boolean, turn?: Promise<void>): void {
    if (turn === undefined) this.#forward(message, isOnlySession ? this.#pending.only : undefined);
    else this.#queue(() => turn.then(() => this.#passOn(message, undefined)));
  }

  onClosed(error: GatewayError): void {
    this.#pending.rejectAll(error);
    this.events.closed(error);
  }

  #forward(message: Message, related: Exchange | undefined): void {
    this.#queue(() => this.#passOn(message, related));
  }

  #passOn(message: Message, related: Exchange | undefined): void | Promise<void> {
    return this.#isClosed ? undefined : this.events.message(message, related, this.#connection.context);
  }

  readonly #report = (error: unknown): void => this.events.error(GatewayError.from(error));

  async #ready(): Promise<void> {
    if (this.#isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    await this.#connection.ready();
  }

  /** The handshake is the connection's: it continues if the session that began it is cancelled. */
  #initialize({ cancellation }: Exchange, message: RequestMessage): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const off = cancellation.onCancel((reason) => {
        if (reason === "timeout") this.#connection.abandonHandshake();
        reject(cancelledError(reason));
      });
      void this.#connection
        .handshake(message)
        .then((response) => {
          resolve({ message: replaceIds(response, [{ name: "id", id: message.id }]) });
        }, reject)
        .finally(off);
    });
  }

  async #subscribe(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const uri = memberString(message, "params.uri");
    const reply = await this.#send(exchange, message);
    if (uri !== undefined && reply.message?.kind === "result") this.subscriptions.add(uri);
    return reply;
  }

  async #unsubscribe(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const uri = memberString(message, "params.uri");
    if (uri === undefined) return this.#send(exchange, message);
    this.subscriptions.delete(uri);
    // The server sees one client: it would stop notifying the others too.
    if (this.#connection.isSubscribedByOthers(this, uri)) return { message: resultMessage(message.id, "{}") };
    return this.#send(exchange, message);
  }

  #send(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const pending = this.#pending.add(message.id.key, exchange, () => this.#sendCancelled(exchange));
    const sent = this.#idScope.rewrite(message);
    if (sent.ok) {
      this.#connection.write(sent.message).catch((error: unknown) => pending.settle(GatewayError.from(error)));
    }
    return pending.reply;
  }

  #sendCancelled(exchange: Exchange): void {
    const notification = cancelledNotification(exchange);
    const outcome = notification === undefined ? undefined : this.#idScope.rewrite(notification);
    if (outcome?.ok === true) this.#connection.write(outcome.message).catch(this.#report);
  }
}
