import type { Exchange, TransportContext } from "../core/exchange.ts";
import { noReply, type Reply } from "../core/pipeline.ts";
import { GatewayError } from "../errors.ts";
import { type ClientIdRewriter, createIdRewriter, type IdRewriter } from "../protocol/ids/id-rewriter.ts";
import { type Message, messageBytes, type ParseLimits } from "../protocol/message.ts";
import { metadataOf } from "../protocol/metadata.ts";
import { parseSingle } from "../protocol/parse.ts";
import { type Era, newestLegacy, newestModern, type Revision } from "../protocol/revisions.ts";
import { describeInvalid, describeUnread, type InvalidMessage } from "./invalid-message.ts";
import {
  cancelledError,
  cancelledNotification,
  type Channel,
  type ChannelEvents,
  type LinkEvents,
  type UpstreamLink,
} from "./transport.ts";

/** How a link uses its channel. */
export interface ChannelLinkOptions {
  readonly era: Era;
  /** Requests of several clients may use the same ids at once, so ids and progress tokens are rewritten. */
  readonly isShared: boolean;
  readonly limits: ParseLimits;
  readonly context: (incarnation: string) => TransportContext;
}

/** Opens a channel. */
export type OpenChannel = (events: ChannelEvents) => Promise<Channel>;

/** A channel that is opened for the first message, and again after it failed to open or closed. */
export class LazyChannel {
  readonly #open: OpenChannel;
  readonly #events: ChannelEvents;
  #opening: Promise<Channel> | undefined;
  #channel: Channel | undefined;

  constructor(open: OpenChannel, events: ChannelEvents) {
    this.#open = open;
    this.#events = {
      ...events,
      closed: (error) => {
        this.#channel = undefined;
        this.#opening = undefined;
        events.closed(error);
      },
    };
  }

  get incarnation(): string {
    return this.#channel?.incarnation ?? "not open";
  }

  ready(): Promise<Channel> {
    this.#opening ??= this.#start();
    return this.#opening;
  }

  /** Writes a message to the channel, which must be open. */
  async write(message: Message): Promise<void> {
    if (this.#channel === undefined) throw new GatewayError("upstream_unreachable", "the connection has ended");
    await this.#channel.send(messageBytes(message));
  }

  async close(reason: string): Promise<void> {
    await (await this.#opened())?.close(reason);
  }

  /** Leaves the channel to others, or closes it if that is not possible. */
  async release(mayExit: boolean): Promise<void> {
    const channel = await this.#opened();
    if (channel?.release === undefined) await channel?.close("not needed");
    else await channel.release(mayExit);
  }

  async #opened(): Promise<Channel | undefined> {
    try {
      return await this.#opening;
    } catch {
      // It never opened.
      return undefined;
    }
  }

  async #start(): Promise<Channel> {
    try {
      this.#channel = await this.#open(this.#events);
      return this.#channel;
    } catch (error) {
      this.#opening = undefined;
      throw GatewayError.from(error);
    }
  }
}

/** A request that waits for its response. */
export interface PendingReply {
  readonly exchange: Exchange;
  readonly reply: Promise<Reply>;
  readonly settle: (outcome: Reply | GatewayError) => void;
}

/** The requests on a channel that wait for their responses. */
export class PendingReplies {
  readonly #pending = new Map<string, PendingReply>();

  /** Waits for a response. If the exchange is cancelled first, `sendCancelled` has to tell the server. */
  add(key: string, exchange: Exchange, sendCancelled: () => void): PendingReply {
    this.settle(key, new GatewayError("cancelled", "another request reused its id"));
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const pending: PendingReply = {
      exchange,
      reply: promise,
      settle: (outcome) => {
        off();
        if (this.#pending.get(key) === pending) this.#pending.delete(key);
        if (outcome instanceof GatewayError) reject(outcome);
        else resolve(outcome);
      },
    };
    this.#pending.set(key, pending);
    const off = exchange.cancellation.onCancel((reason) => {
      // A cancel of the client's own has been forwarded.
      if (reason !== "cancelled") sendCancelled();
      pending.settle(cancelledError(reason));
    });
    return pending;
  }

  /** Ends the wait for a key; false if nothing waits for it. */
  settle(key: string | undefined, outcome: Reply | GatewayError): boolean {
    const pending = this.get(key);
    pending?.settle(outcome);
    return pending !== undefined;
  }

  get(key: string | undefined): PendingReply | undefined {
    return key === undefined ? undefined : this.#pending.get(key);
  }

  rejectAll(error: GatewayError): void {
    for (const { settle } of this.#pending.values()) settle(error);
  }

  get exchanges(): readonly Exchange[] {
    return [...this.#pending.values()].map(({ exchange }) => exchange);
  }

  /** The exchange whose progress token a notification names; undefined if it names none of these. */
  byProgressToken(message: Message): Exchange | undefined {
    const { related } = metadataOf(message);
    if (related?.type !== "progress") return undefined;
    for (const { exchange } of this.#pending.values()) {
      if (metadataOf(exchange.message).progressToken?.key === related.id.key) return exchange;
    }
    return undefined;
  }

  /** The exchange, if exactly one waits. */
  get only(): Exchange | undefined {
    const [first, second] = this.#pending.values();
    return second === undefined ? first?.exchange : undefined;
  }
}

/** Creates a link over a channel, which is opened for the first message. */
export function createChannelLink(open: OpenChannel, options: ChannelLinkOptions, events: LinkEvents): UpstreamLink {
  return new ChannelLink(open, options, events);
}

class ChannelLink implements UpstreamLink {
  readonly upstreamSession = undefined;
  /** Other sessions may use the same channel, and a process or connection is read continuously. */
  readonly hasBackpressure = false;
  readonly #options: ChannelLinkOptions;
  readonly #events: LinkEvents;
  readonly #channel: LazyChannel;
  /** By request id; on a shared channel, by exchange id. */
  readonly #pending = new PendingReplies();
  readonly #ids: IdRewriter<PendingReply> | undefined;
  readonly #revision: Revision;
  /** Keeps messages in order while one is being handled. */
  readonly #queue: SerialQueue;
  #isClosed = false;

  constructor(open: OpenChannel, options: ChannelLinkOptions, events: LinkEvents) {
    this.#options = options;
    this.#events = events;
    this.#ids = options.isShared ? createIdRewriter(options.era) : undefined;
    this.#revision = options.era === "modern" ? newestModern : newestLegacy;
    this.#queue = createSerialQueue(this.#report);
    this.#channel = new LazyChannel(open, {
      message: (bytes) => this.#receive(bytes),
      malformed: (bytes, reason, unread) => this.#receiveInvalid(bytes, describeUnread(unread, reason)),
      closed: (error) => {
        this.#pending.rejectAll(error);
        events.closed(error);
      },
    });
  }

  get incarnation(): string {
    return this.#channel.incarnation;
  }

  async request(exchange: Exchange): Promise<Reply> {
    const { message, cancellation } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have responses");
    await this.#ready();
    if (cancellation.reason !== undefined) throw cancelledError(cancellation.reason);
    const key = this.#ids === undefined ? message.id.key : exchange.id;
    let idScope: ClientIdRewriter | undefined;
    const pending = this.#pending.add(key, exchange, () => {
      const notification = rewriteIds(cancelledNotification(exchange), idScope);
      if (notification !== undefined) this.#channel.write(notification).catch(this.#report);
    });
    idScope = this.#ids?.join(pending);
    const sent = rewriteIds(message, idScope);
    if (sent !== undefined) {
      this.#channel.write(sent).catch((error: unknown) => pending.settle(GatewayError.from(error)));
    }
    try {
      return await pending.reply;
    } finally {
      idScope?.release();
    }
  }

  async send(exchange: Exchange): Promise<Reply> {
    await this.#ready();
    await this.#channel.write(exchange.message);
    return noReply;
  }

  listen(): void {
    // A channel always carries everything.
  }

  async close(reason: string): Promise<void> {
    if (this.#end(reason)) await this.#channel.close(reason);
  }

  async release(mayExit: boolean): Promise<void> {
    if (this.#end("not needed")) await this.#channel.release(mayExit);
  }

  /** False if it has ended before. */
  #end(reason: string): boolean {
    if (this.#isClosed) return false;
    this.#isClosed = true;
    this.#pending.rejectAll(new GatewayError("cancelled", reason));
    return true;
  }

  async #ready(): Promise<void> {
    if (this.#isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    await this.#channel.ready();
  }

  readonly #report = (error: unknown): void => this.#events.error(GatewayError.from(error));

  #receive(bytes: Buffer): void {
    const { limits } = this.#options;
    const parsing = { revision: this.#revision, mode: "enforce", limits } as const;
    const message = parseSingle(bytes, parsing);
    if (message !== undefined) {
      this.#queue(() => this.#deliver(message));
      return;
    }
    this.#receiveInvalid(bytes, describeInvalid(bytes, parsing));
  }

  #receiveInvalid(bytes: Buffer, { reason, response }: InvalidMessage): void {
    const pending = response === undefined ? undefined : this.#pendingOf(response.withId);
    this.#events.malformed(bytes, reason, pending?.exchange, this.#options.context(this.incarnation));
    // After the messages that came before it.
    if (response !== undefined && pending !== undefined) this.#queue(() => pending.settle(response.error));
  }

  /** The request that a response ends. */
  #pendingOf(response: Message): PendingReply | undefined {
    if (this.#ids === undefined) return this.#pending.get(response.id?.key);
    const restored = this.#ids.restore(response);
    return restored.type === "owned" ? restored.owner : undefined;
  }

  #deliver(message: Message): void | Promise<void> {
    const context = this.#options.context(this.incarnation);
    if (this.#ids !== undefined) return this.#deliverRestored(message, this.#ids, context);
    if (message.kind === "result" || message.kind === "error") {
      if (this.#pending.settle(message.id?.key, { message })) return undefined;
      return this.#events.message(message, undefined, context);
    }
    const isProgress = metadataOf(message).related?.type === "progress";
    const related = isProgress ? this.#pending.byProgressToken(message) : this.#pending.only;
    return this.#events.message(message, related, context);
  }

  #deliverRestored(message: Message, ids: IdRewriter<PendingReply>, context: TransportContext): void | Promise<void> {
    const restored = ids.restore(message);
    if (restored.type !== "owned") return this.#events.message(message, undefined, context);
    const { owner, message: own } = restored;
    if (own.kind !== "result" && own.kind !== "error") return this.#events.message(own, owner.exchange, context);
    owner.settle({ message: own });
    return undefined;
  }
}

/** The message with the ids of the channel; undefined if it refers to a request that has ended. */
function rewriteIds(message: Message | undefined, idScope: ClientIdRewriter | undefined): Message | undefined {
  if (idScope === undefined || message === undefined) return message;
  const outcome = idScope.rewrite(message);
  return outcome.ok ? outcome.message : undefined;
}

/** Runs tasks one after the other, in order. */
export type SerialQueue = (work: () => void | Promise<void>) => void;

/** Creates a queue. A synchronous task runs at once if the queue is empty; errors are reported and do not stop it. */
export function createSerialQueue(failed: (error: unknown) => void): SerialQueue {
  /** The end of the last task that is still running. */
  let last: Promise<void> | undefined;
  return (work) => {
    let pending: Promise<void>;
    if (last === undefined) {
      const begun = startTask(work, failed);
      if (begun === undefined) return;
      pending = begun;
    } else {
      pending = last.then(work);
    }
    const turn = pending.catch(failed).then(() => {
      if (last === turn) last = undefined;
    });
    last = turn;
  };
}

function startTask(work: () => void | Promise<void>, failed: (error: unknown) => void): void | Promise<void> {
  try {
    return work();
  } catch (error) {
    failed(error);
    return undefined;
  }
}
