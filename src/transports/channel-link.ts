import { GatewayError } from "../errors.ts";
import type { Exchange, TransportContext } from "../core/exchange.ts";
import { noReply, type Reply } from "../core/pipeline.ts";
import { type Message, messageBytes, type ParseLimits } from "../protocol/message.ts";
import { type ClientIdRewriter, createIdRewriter, type IdRewriter } from "../protocol/ids/id-rewriter.ts";
import { metadataOf } from "../protocol/metadata.ts";
import { parse } from "../protocol/parse.ts";
import { type Era, newestLegacy, newestModern, type Revision } from "../protocol/revisions.ts";
import {
  cancelledError,
  cancelledNotification,
  type Channel,
  type ChannelEvents,
  type LinkEvents,
  type UpstreamLink,
} from "./transport.ts";
import { createSerialQueue, type SerialQueue } from "../lib/serial-queue.ts";

/** How a link uses its channel. */
export interface ChannelLinkOptions {
  readonly era: Era;
  /** Several exchanges with the same ids may be on the channel at once, so ids and tokens are rewritten. */
  readonly isShared: boolean;
  readonly limits: ParseLimits;
  readonly context: (incarnation: string) => TransportContext;
}

interface PendingRequest {
  readonly exchange: Exchange;
  readonly settle: (reply: Reply | GatewayError) => void;
  /** On a shared channel, this request's part of the table of ids. */
  idScope: ClientIdRewriter | undefined;
}

/** Opens a channel and says what comes over it. */
export type OpenChannel = (events: ChannelEvents) => Promise<Channel>;

/** Makes a link over a channel, which is opened when the first message goes out. */
export function createChannelLink(open: OpenChannel, options: ChannelLinkOptions, events: LinkEvents): UpstreamLink {
  return new ChannelLink(open, options, events);
}

class ChannelLink implements UpstreamLink {
  readonly upstreamSession = undefined;
  /** Others may be behind the same channel, and a process or connection is read as it comes. */
  readonly hasBackpressure = false;
  readonly #open: OpenChannel;
  readonly #options: ChannelLinkOptions;
  readonly #events: LinkEvents;
  /** By the id of the request; on a shared channel, by its exchange. */
  readonly #waiting = new Map<string, PendingRequest>();
  readonly #ids: IdRewriter<PendingRequest> | undefined;
  readonly #revision: Revision;
  #channel: Channel | undefined;
  #opening: Promise<Channel> | undefined;
  /** Order is kept: what comes behind a message that is still being dealt with waits for its turn. */
  readonly #inTurn: SerialQueue;
  #isClosed = false;

  constructor(open: OpenChannel, options: ChannelLinkOptions, events: LinkEvents) {
    this.#open = open;
    this.#options = options;
    this.#events = events;
    this.#ids = options.isShared ? createIdRewriter(options.era) : undefined;
    this.#revision = options.era === "modern" ? newestModern : newestLegacy;
    this.#inTurn = createSerialQueue((error) => {
      events.error(GatewayError.from(error));
    });
  }

  get incarnation(): string {
    return this.#channel?.incarnation ?? "not open";
  }

  async request(exchange: Exchange): Promise<Reply> {
    const { message, cancellation } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have answers");
    const channel = await this.#ready();
    // It may have been given up while the channel was being opened.
    if (cancellation.reason !== undefined) throw cancelledError(cancellation.reason);
    return new Promise<Reply>((resolve, reject) => {
      const key = this.#ids === undefined ? message.id.key : exchange.id;
      const over = () => {
        off();
        if (this.#waiting.get(key) === waiting) this.#waiting.delete(key);
        waiting.idScope?.release();
      };
      const waiting: PendingRequest = {
        exchange,
        idScope: undefined,
        settle: (outcome) => {
          over();
          if (outcome instanceof GatewayError) reject(outcome);
          else resolve(outcome);
        },
      };
      this.#waiting.set(key, waiting);
      waiting.idScope = this.#ids?.join(waiting);
      const sent = rewriteIds(message, waiting.idScope);
      const off = cancellation.onCancel((reason) => {
        const notice = reason === "cancelled" ? undefined : cancelledNotification(exchange);
        if (notice !== undefined) this.#tell(channel, rewriteIds(notice, waiting.idScope));
        waiting.settle(cancelledError(reason));
      });
      if (sent !== undefined) {
        this.#write(channel, messageBytes(sent)).catch((error: unknown) => {
          waiting.settle(GatewayError.from(error));
        });
      }
    });
  }

  async send(exchange: Exchange): Promise<Reply> {
    const channel = await this.#ready();
    await this.#write(channel, messageBytes(exchange.message));
    return noReply;
  }

  listen(): void {
    // A channel carries everything at all times.
  }

  async close(reason: string): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#failAll(new GatewayError("cancelled", reason));
    const opening = this.#opening;
    if (opening === undefined) return;
    await opening.then(
      (channel) => channel.close(reason),
      // What never opened needs no closing.
      () => {},
    );
  }

  #ready(): Promise<Channel> {
    if (this.#isClosed) {
      return Promise.reject(new GatewayError("upstream_unreachable", "the connection has been closed"));
    }
    this.#opening ??= this.#start();
    return this.#opening;
  }

  async #start(): Promise<Channel> {
    try {
      const channel = await this.#open({
        message: (bytes) => {
          this.#received(bytes);
        },
        malformed: (bytes, reason) => {
          this.#events.malformed(bytes, reason);
        },
        closed: (error) => {
          this.#channel = undefined;
          this.#opening = undefined;
          this.#failAll(error);
          this.#events.closed(error);
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

  #tell(channel: Channel, notice: Message | undefined): void {
    if (notice === undefined) return;
    this.#write(channel, messageBytes(notice)).catch((error: unknown) => {
      this.#events.error(GatewayError.from(error));
    });
  }

  async #write(channel: Channel, bytes: Buffer): Promise<void> {
    await channel.send(bytes);
  }

  #received(bytes: Buffer): void {
    const message = this.#parse(bytes);
    if (message === undefined) {
      this.#events.malformed(bytes, "not a message of the protocol");
      return;
    }
    this.#inTurn(() => this.#handOn(message));
  }

  #handOn(message: Message): void | Promise<void> {
    const context = this.#options.context(this.incarnation);
    if (this.#ids !== undefined) return this.#handOnShared(message, this.#ids, context);
    if (message.kind === "result" || message.kind === "error") {
      const waiting = message.id === undefined ? undefined : this.#waiting.get(message.id.key);
      if (waiting === undefined) return this.#events.message(message, undefined, context);
      waiting.settle({ message });
      return undefined;
    }
    return this.#events.message(message, this.#relatedTo(message), context);
  }

  #handOnShared(message: Message, ids: IdRewriter<PendingRequest>, context: TransportContext): void | Promise<void> {
    const restored = ids.restore(message);
    if (restored.type !== "owned") return this.#events.message(message, undefined, context);
    const { owner, message: own } = restored;
    if (own.kind !== "result" && own.kind !== "error") return this.#events.message(own, owner.exchange, context);
    owner.settle({ message: own });
    return undefined;
  }

  /** Which request a message of the server belongs to: the one whose token it names, or the only one there is. */
  #relatedTo(message: Message): Exchange | undefined {
    const { related } = metadataOf(message);
    if (related?.type === "progress") {
      for (const { exchange } of this.#waiting.values()) {
        if (metadataOf(exchange.message).progressToken?.key === related.id.key) return exchange;
      }
      return undefined;
    }
    const [only, another] = this.#waiting.values();
    return another === undefined ? only?.exchange : undefined;
  }

  #failAll(error: GatewayError): void {
    for (const waiting of this.#waiting.values()) waiting.settle(error);
  }

  #parse(bytes: Buffer): Message | undefined {
    const outcome = parse(bytes, { revision: this.#revision, mode: "enforce", limits: this.#options.limits });
    return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
  }
}

/** The message in the ids of the channel; undefined when it speaks of something that is over. */
function rewriteIds(message: Message, leg: ClientIdRewriter | undefined): Message | undefined {
  if (leg === undefined) return message;
  const outcome = leg.rewrite(message);
  return outcome.ok ? outcome.message : undefined;
}
