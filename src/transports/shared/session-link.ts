import { GatewayError } from "../../errors.ts";
import type { CancelReason } from "../../core/cancellation.ts";
import type { Exchange, TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { replaceIds } from "../../protocol/message-edit.ts";
import type { ClientIdRewriter } from "../../protocol/ids/id-rewriter.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { resultMessage } from "../../core/reply.ts";
import { cancelledError, cancelledNotification, type LinkEvents, type UpstreamLink } from "../transport.ts";
import { createSerialQueue } from "../../lib/serial-queue.ts";

/** More than this many are not kept apart any more: whoever has them hears of every update. */
const mostUris = 1000;

/** The resources that one session wants to hear of. */
export class SessionSubscriptions {
  readonly #uris = new Set<string>();
  #isEverything = false;

  get isEmpty(): boolean {
    return !this.#isEverything && this.#uris.size === 0;
  }

  add(uri: string): void {
    if (this.#uris.size < mostUris) this.#uris.add(uri);
    else this.#isEverything = true;
  }

  delete(uri: string): void {
    this.#uris.delete(uri);
  }

  has(uri: string): boolean {
    return this.#isEverything || this.#uris.has(uri);
  }

  /** Whether an update concerns it; what was updated may be a part of what was subscribed to (MCP, Resources). */
  covers(uri: string): boolean {
    if (this.has(uri)) return true;
    for (const own of this.#uris) if (uri.startsWith(own)) return true;
    return false;
  }
}

/** Whom an update concerns; where it fits no subscription, everybody who has one, because it may be meant for any. */
export function subscribersOf<Reader extends { readonly subscriptions: SessionSubscriptions }>(
  readers: readonly Reader[],
  uri: string | undefined,
): readonly Reader[] {
  const subscribers = readers.filter(({ subscriptions }) => !subscriptions.isEmpty);
  const concerned = uri === undefined ? [] : subscribers.filter(({ subscriptions }) => subscriptions.covers(uri));
  return concerned.length > 0 ? concerned : subscribers;
}

/** What a message from the shared connection is handed to. */
export interface MessageOwner {
  onResponse(answer: Message): void;
  onMessage(message: Message): void;
}

/** The connection as one of its members sees it. */
export interface SessionConnection {
  readonly incarnation: string;
  readonly context: TransportContext;
  /** Opens the connection if need be; rejects where that fails. */
  whenOpen(): Promise<void>;
  addIdScope(owner: MessageOwner): ClientIdRewriter;
  /** Puts a message on the connection, which is open. */
  write(message: Message): Promise<void>;
  /** The server's answer to the handshake; the first who asks sends it. */
  handshake(request: RequestMessage): Promise<Message>;
  /** Nobody got an answer to the handshake in time. */
  abandonHandshake(): void;
  /** Whether the server still has to be told that the handshake is done; true only once. */
  claimInitialized(): boolean;
  /** The client answers one of the server's requests. */
  onClientResponse(answer: Message): void;
  isSubscribedByOthers(member: SessionLink, uri: string): boolean;
  removeSession(member: SessionLink, reason: string): void;
}

interface PendingRequest {
  readonly exchange: Exchange;
  readonly settle: (outcome: Reply | GatewayError) => void;
}

/** One legacy session's link over a connection that others use too. */
export class SessionLink implements UpstreamLink, MessageOwner {
  readonly upstreamSession = undefined;
  /** One slow client must not hold up the others. */
  readonly hasBackpressure = false;
  readonly subscriptions = new SessionSubscriptions();
  /** The client has shaken hands, and so can be told things. */
  isInitialized = false;
  readonly events: LinkEvents;
  readonly #connection: SessionConnection;
  readonly #leg: ClientIdRewriter;
  readonly #waiting = new Map<string, PendingRequest>();
  readonly #inTurn;
  #isClosed = false;

  constructor(connection: SessionConnection, events: LinkEvents) {
    this.#connection = connection;
    this.events = events;
    this.#leg = connection.addIdScope(this);
    this.#inTurn = createSerialQueue((error) => {
      events.error(GatewayError.from(error));
    });
  }

  get incarnation(): string {
    return this.#connection.incarnation;
  }

  async request(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have answers");
    await this.#ready();
    // It may have been given up while the connection was being opened.
    if (exchange.cancellation.reason !== undefined) throw cancelledError(exchange.cancellation.reason);
    if (message.method === "initialize") return this.#shakeHands(exchange, message);
    const uri = isSubscribing(message) ? memberString(message, "params.uri") : undefined;
    if (uri === undefined) return this.#ask(exchange, message);
    if (message.method === "resources/unsubscribe") {
      this.subscriptions.delete(uri);
      // To the server all its clients are one: it would stop telling the others too.
      if (this.#connection.isSubscribedByOthers(this, uri)) return { message: resultMessage(message.id, "{}") };
      return this.#ask(exchange, message);
    }
    const reply = await this.#ask(exchange, message);
    if (reply.message?.kind === "result") this.subscriptions.add(uri);
    return reply;
  }

  async send({ message }: Exchange): Promise<Reply> {
    const isAnswer = message.kind === "result" || message.kind === "error";
    if (isAnswer) this.#connection.onClientResponse(message);
    // The server waits for its answer, also from a session that has just ended.
    else await this.#ready();
    if (message.method === "notifications/initialized") {
      this.isInitialized = true;
      if (!this.#connection.claimInitialized()) return noReply;
    }
    const outcome = this.#leg.rewrite(message);
    if (outcome.ok) await this.#connection.write(outcome.message);
    return noReply;
  }

  listen(): void {
    // The connection carries everything at all times.
  }

  async close(reason: string): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const { exchange } of this.#waiting.values()) this.#tellCancelled(exchange);
    this.failPending(new GatewayError("cancelled", reason));
    this.#leg.release();
    this.#connection.removeSession(this, reason);
  }

  onResponse(answer: Message): void {
    this.#inTurn(() => {
      const waiting = answer.id === undefined ? undefined : this.#waiting.get(answer.id.key);
      waiting?.settle({ message: answer });
    });
  }

  onMessage(message: Message): void {
    this.#say(message, this.#exchangeOf(message));
  }

  /** Hands on what the server sent to nobody in particular; there may be only this one. */
  receiveUnaddressed(message: Message, isAlone: boolean): void {
    const [only, another] = this.#waiting.values();
    const isTheirs = isAlone && another === undefined;
    this.#say(message, isTheirs ? only?.exchange : undefined);
  }

  /** Everything that waits has failed. */
  failPending(error: GatewayError): void {
    for (const { settle } of this.#waiting.values()) settle(error);
  }

  #say(message: Message, related: Exchange | undefined): void {
    this.#inTurn(() => this.events.message(message, related, this.#connection.context));
  }

  /** The request whose progress is reported. */
  #exchangeOf(message: Message): Exchange | undefined {
    const { related } = metadataOf(message);
    if (related?.type !== "progress") return undefined;
    for (const { exchange } of this.#waiting.values()) {
      if (metadataOf(exchange.message).progressToken?.key === related.id.key) return exchange;
    }
    return undefined;
  }

  async #ready(): Promise<void> {
    if (this.#isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    await this.#connection.whenOpen();
  }

  /** The handshake is the connection's, not this session's: it goes on without whoever began it. */
  #shakeHands({ cancellation }: Exchange, message: RequestMessage): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const off = cancellation.onCancel((reason) => {
        if (reason === "timeout") this.#connection.abandonHandshake();
        reject(cancelledError(reason));
      });
      void this.#connection
        .handshake(message)
        .then((answer) => {
          resolve({ message: replaceIds(answer, [{ name: "id", id: message.id }]) });
        }, reject)
        .finally(off);
    });
  }

  #ask(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const { key } = message.id;
    this.#waiting.get(key)?.settle(new GatewayError("cancelled", "another request has taken its id"));
    return new Promise((resolve, reject) => {
      const waiting: PendingRequest = {
        exchange,
        settle: (outcome) => {
          off();
          if (this.#waiting.get(key) === waiting) this.#waiting.delete(key);
          if (outcome instanceof GatewayError) reject(outcome);
          else resolve(outcome);
        },
      };
      this.#waiting.set(key, waiting);
      const sent = this.#leg.rewrite(message);
      const off = exchange.cancellation.onCancel((reason: CancelReason) => {
        // The client's own cancel has gone there already.
        if (reason !== "cancelled") this.#tellCancelled(exchange);
        waiting.settle(cancelledError(reason));
      });
      if (!sent.ok) return;
      this.#connection.write(sent.message).catch((error: unknown) => {
        waiting.settle(GatewayError.from(error));
      });
    });
  }

  #tellCancelled(exchange: Exchange): void {
    const notice = cancelledNotification(exchange);
    const outcome = notice === undefined ? undefined : this.#leg.rewrite(notice);
    if (outcome?.ok !== true) return;
    this.#connection.write(outcome.message).catch((error: unknown) => {
      this.events.error(GatewayError.from(error));
    });
  }
}

function isSubscribing({ method }: RequestMessage): boolean {
  return method === "resources/subscribe" || method === "resources/unsubscribe";
}
