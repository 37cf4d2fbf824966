import { errorTable, GatewayError } from "../../errors.ts";
import type { SetTimer, TransportContext } from "../../core/exchange.ts";
import { type Message, messageBytes, type ParseLimits, type RequestMessage } from "../../protocol/message.ts";
import { type ClientIdRewriter, createIdRewriter } from "../../protocol/ids/id-rewriter.ts";
import { memberString } from "../../protocol/json/read.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { parse } from "../../protocol/parse.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import type { OpenChannel } from "../channel-link.ts";
import type { Channel, LinkEvents, UpstreamLink } from "../transport.ts";
import { type MessageOwner, type SessionConnection, SessionLink, subscribersOf } from "./session-link.ts";

/** How a shared connection is used. */
export interface SharedConnectionOptions {
  readonly limits: ParseLimits;
  readonly context: (incarnation: string) => TransportContext;
  readonly setTimer: SetTimer;
  /** How long a connection that nobody uses any more is kept for whoever comes next. */
  readonly lingerMs: number;
}

/** One channel of the legacy era and the sessions on it. When the channel ends, all of them do. */
class SharedConnection implements SessionConnection {
  readonly #open: OpenChannel;
  readonly #options: SharedConnectionOptions;
  readonly #onOver: () => void;
  readonly #members = new Set<SessionLink>();
  readonly #ids = createIdRewriter<MessageOwner>("legacy");
  /** Who was given a request of the server that is not answered yet, by its id. */
  readonly #asked = new Map<string, SessionLink>();
  #opening: Promise<Channel> | undefined;
  #channel: Channel | undefined;
  #handshake: PromiseWithResolvers<Message> | undefined;
  #isInitialized = false;
  #stopLinger: (() => void) | undefined;
  #isOver = false;

  constructor(open: OpenChannel, options: SharedConnectionOptions, onOver: () => void) {
    this.#open = open;
    this.#options = options;
    this.#onOver = onOver;
  }

  /** A new session's link. */
  addSession(events: LinkEvents): SessionLink {
    this.#stopLinger?.();
    this.#stopLinger = undefined;
    const member = new SessionLink(this, events);
    this.#members.add(member);
    return member;
  }

  /** Ends the channel; the sessions on it are told by its end. */
  async close(reason: string): Promise<void> {
    this.#over();
    await this.#opening?.then(
      (channel) => channel.close(reason),
      // What never opened needs no closing.
      () => {},
    );
  }

  get incarnation(): string {
    return this.#channel?.incarnation ?? "not open";
  }

  get context(): TransportContext {
    return this.#options.context(this.incarnation);
  }

  async whenOpen(): Promise<void> {
    if (this.#isOver) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    this.#opening ??= this.#start();
    await this.#opening;
  }

  addIdScope(owner: MessageOwner): ClientIdRewriter {
    return this.#ids.join(owner);
  }

  async write(message: Message): Promise<void> {
    if (this.#channel === undefined) throw new GatewayError("upstream_unreachable", "the connection has ended");
    await this.#channel.send(messageBytes(message));
  }

  handshake(request: RequestMessage): Promise<Message> {
    if (this.#handshake !== undefined) return this.#handshake.promise;
    const handshake = Promise.withResolvers<Message>();
    // When nobody waits for it any more it may fail unnoticed.
    handshake.promise.catch(() => {});
    this.#handshake = handshake;
    const again = (): void => {
      if (this.#handshake === handshake) this.#handshake = undefined;
    };
    const leg = this.#ids.join({
      onResponse: (answer) => {
        // Whoever comes next may be luckier with a handshake of its own.
        if (answer.kind === "error") again();
        handshake.resolve(answer);
      },
      onMessage: () => {},
    });
    const sent = leg.rewrite(request);
    this.write(sent.ok ? sent.message : request).catch((error: unknown) => {
      again();
      handshake.reject(GatewayError.from(error));
    });
    return handshake.promise;
  }

  abandonHandshake(): void {
    this.close("the server did not answer the handshake").catch(this.#trouble);
  }

  claimInitialized(): boolean {
    const isFirst = !this.#isInitialized;
    this.#isInitialized = true;
    return isFirst;
  }

  onClientResponse(answer: Message): void {
    if (answer.id !== undefined) this.#asked.delete(answer.id.key);
  }

  isSubscribedByOthers(member: SessionLink, uri: string): boolean {
    for (const other of this.#members) if (other !== member && other.subscriptions.has(uri)) return true;
    return false;
  }

  removeSession(member: SessionLink, reason: string): void {
    this.#members.delete(member);
    if (this.#members.size > 0 || this.#isOver) return;
    this.#stopLinger = this.#options.setTimer(this.#options.lingerMs, () => {
      this.close(reason).catch(this.#trouble);
    });
  }

  async #start(): Promise<Channel> {
    try {
      const channel = await this.#open({
        message: (bytes) => {
          this.#received(bytes);
        },
        malformed: (bytes, reason) => {
          this.#anybody()?.events.malformed(bytes, reason);
        },
        closed: (error) => {
          this.#closed(error);
        },
      });
      this.#channel = channel;
      return channel;
    } catch (error) {
      // The next message may find it well again.
      this.#opening = undefined;
      throw GatewayError.from(error);
    }
  }

  #closed(error: GatewayError): void {
    this.#over();
    this.#channel = undefined;
    this.#handshake?.reject(error);
    const members = [...this.#members];
    this.#members.clear();
    for (const member of members) {
      member.failPending(error);
      member.events.closed(error);
    }
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#stopLinger?.();
    this.#onOver();
  }

  #received(bytes: Buffer): void {
    const outcome = parse(bytes, { revision: newestLegacy, mode: "enforce", limits: this.#options.limits });
    if (!outcome.ok || outcome.form !== "single") {
      this.#anybody()?.events.malformed(bytes, "not a message of the protocol");
      return;
    }
    const restored = this.#ids.restore(outcome.message);
    const { message } = restored;
    if (restored.type === "owned") {
      if (message.kind === "result" || message.kind === "error") restored.owner.onResponse(message);
      else this.#hand(message, restored.owner);
    } else if (message.kind === "request") this.#question(message);
    else if (message.kind === "notification" && restored.type === "shared") this.#news(message);
    // An answer or a report of progress for something that is over: shown in the log of one of them, told nobody.
    else if (message.kind !== "notification") this.#anybody()?.onMessage(message);
  }

  /** Something that belongs to a task or a request of one of them. */
  #hand(message: Message, owner: MessageOwner): void {
    if (message.kind === "request" && owner instanceof SessionLink) this.#asked.set(message.id.key, owner);
    owner.onMessage(message);
  }

  /** A request of the server that names nobody. To guess whom it means would show one client's affairs to another. */
  #question(request: RequestMessage): void {
    const [only, another] = this.#members;
    if (request.method === "ping") this.#answer(resultMessage(request.id, "{}"));
    else if (only !== undefined && another === undefined) {
      this.#asked.set(request.id.key, only);
      only.receiveUnaddressed(request, true);
    } else {
      const text = "several clients share this server, and it cannot be told which of them is asked";
      const data = { origin: "gateway", code: "method_not_found" };
      const code = errorTable.method_not_found.jsonrpc ?? -32603;
      this.#answer(errorMessage(request.id, { code, message: text, data }));
    }
  }

  #answer(message: Message): void {
    this.write(message).catch(this.#trouble);
  }

  /** A notification that names nobody's request: it may concern everybody. */
  #news(message: Message): void {
    if (message.method === "notifications/cancelled") {
      const key = metadataOf(message).related?.id.key ?? "";
      this.#asked.get(key)?.receiveUnaddressed(message, false);
      this.#asked.delete(key);
      return;
    }
    const ready = [...this.#members].filter(({ isInitialized: isReady }) => isReady);
    const isUpdate = message.method === "notifications/resources/updated";
    const readers = isUpdate ? subscribersOf(ready, memberString(message, "params.uri")) : ready;
    for (const member of readers) member.receiveUnaddressed(message, this.#members.size === 1);
  }

  #anybody(): SessionLink | undefined {
    const [first] = this.#members;
    return first;
  }

  readonly #trouble = (error: unknown): void => {
    this.#anybody()?.events.error(GatewayError.from(error));
  };
}

/** Links of legacy sessions that share connections. */
export interface SharedLinks {
  /** A session's link over the connection of its key, which is opened when the first message goes out. */
  open(key: string, events: LinkEvents): UpstreamLink;
  /** Ends all connections. */
  close(reason: string): Promise<void>;
}

/**
 * Makes links for several legacy sessions over one channel for each key. The handshake is done once: later clients are
 * given the answer to the first one, and with it the revision that the server agreed on (MCP 2025-11-25, Lifecycle:
 * a server answers with a version that it supports). Ids, progress tokens and cancels are rewritten (SC-059).
 */
export function createSharedLinks(open: OpenChannel, options: SharedConnectionOptions): SharedLinks {
  const connections = new Map<string, SharedConnection>();
  return {
    open: (key, events) => {
      let connection = connections.get(key);
      if (connection === undefined) {
        const made = new SharedConnection(open, options, () => {
          if (connections.get(key) === made) connections.delete(key);
        });
        connections.set(key, made);
        connection = made;
      }
      return connection.addSession(events);
    },
    close: async (reason) => {
      await Promise.all([...connections.values()].map((connection) => connection.close(reason)));
    },
  };
}
