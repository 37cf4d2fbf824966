import { GatewayError } from "../../errors.ts";
import { Cancellation } from "../../core/cancellation.ts";
import { type Exchange, type SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { type Message, readId } from "../../protocol/message.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberInteger, memberValue } from "../../protocol/json/read.ts";
import { changeMembers, isEmptyObject } from "../../protocol/json/edit.ts";
import { synthesizeMessage } from "../synthesize.ts";

/** Which lists a server tells the changes of. */
export interface ListChangeSupport {
  readonly tools: boolean;
  readonly prompts: boolean;
  readonly resources: boolean;
}

/**
 * What a legacy client hears outside its requests, taken from one `subscriptions/listen` stream of the upstream. The
 * stream is opened anew for every change of what is wanted, because its filter is fixed (MCP 2026-07-28, Subscriptions).
 */
export interface UpstreamSubscription {
  /** The client can take messages from now on. */
  start(): void;
  /** Adds or removes a resource; resolves when the upstream has taken note, or is not heard of for a while. */
  subscribe(uri: string): Promise<void>;
  unsubscribe(uri: string): Promise<void>;
  /** Whether a message belongs to a stream of this feed. */
  owns(message: Message, related: Exchange | undefined): boolean;
  /** Deals with a message of its own: true when it is for the client. */
  handle(message: Message, related: Exchange | undefined): boolean;
  close(): void;
}

export interface UpstreamSubscriptionDeps {
  /** What the server offers; asked when the first stream is opened. */
  readonly lists: () => ListChangeSupport;
  /** Makes a listen request with this filter. */
  readonly exchangeFor: (filter: string, cancellation: Cancellation) => Exchange;
  readonly request: (exchange: Exchange) => Promise<Reply>;
  readonly setTimer: SetTimer;
  readonly onError: (error: GatewayError) => void;
  /** How many resources one client may watch. */
  readonly maxResources: number;
}

interface ListenStream {
  readonly exchange: Exchange;
  readonly cancellation: Cancellation;
  isAcknowledged: boolean;
  /** The server said that it will tell nothing of what was asked for. */
  isFutile: boolean;
  /** We have no use for it any more. */
  isDropped: boolean;
  readonly settled: PromiseWithResolvers<void>;
}

const acknowledged = "notifications/subscriptions/acknowledged";
const subscriptionMember = "params._meta.io.modelcontextprotocol/subscriptionId";
/** Within this a server must say what it will tell. */
const acknowledgeMs = 30_000;
/** How long a client that subscribes is kept waiting for that. */
const subscribeWaitMs = 5000;
const firstRetryMs = 1000;
const maxRetryMs = 30_000;

/** Makes the feed of one session; nothing is opened before the client can listen. */
export function createUpstreamSubscription(deps: UpstreamSubscriptionDeps): UpstreamSubscription {
  const { setTimer } = deps;
  const uris = new Set<string>();
  const streams = new Set<ListenStream>();
  let newest: ListenStream | undefined;
  let isStarted = false;
  let isClosed = false;
  let failures = 0;
  let stopRetry: (() => void) | undefined;

  /** Opens a stream for what is wanted now; older ones go on until it has been acknowledged. */
  function open(): ListenStream | undefined {
    stopRetry?.();
    stopRetry = undefined;
    for (const stream of streams) if (!stream.isAcknowledged) drop(stream);
    const filter = filterText(deps.lists(), uris);
    if (filter === undefined) {
      for (const stream of streams) drop(stream);
      newest = undefined;
      return undefined;
    }
    const cancellation = new Cancellation();
    const stream: ListenStream = {
      exchange: deps.exchangeFor(filter, cancellation),
      cancellation,
      isAcknowledged: false,
      isFutile: false,
      isDropped: false,
      settled: Promise.withResolvers(),
    };
    streams.add(stream);
    newest = stream;
    const stop = setTimer(acknowledgeMs, () => {
      if (!stream.isAcknowledged) cancellation.cancel("timeout");
    });
    void deps
      .request(stream.exchange)
      .then(
        ({ message }) => {
          ended(stream, message);
        },
        (error: unknown) => {
          broken(stream, GatewayError.from(error));
        },
      )
      .finally(stop);
    return stream;
  }

  function drop(stream: ListenStream): void {
    stream.isDropped = true;
    streams.delete(stream);
    stream.settled.resolve();
    stream.cancellation.cancel("client-gone");
  }

  function noted(stream: ListenStream, message: Message): void {
    stream.isAcknowledged = true;
    const honoured: unknown = memberValue(message, "params.notifications");
    stream.isFutile = Object.keys(Object(honoured)).length === 0;
    failures = 0;
    for (const older of streams) if (older !== stream) drop(older);
    stream.settled.resolve();
  }

  /** The server has closed the stream in good order, or refused it. */
  function ended(stream: ListenStream, answer: Message | undefined): void {
    const code = answer?.kind === "error" ? memberInteger(answer, "error.code") : undefined;
    if (code !== undefined) {
      deps.onError(new GatewayError("upstream_invalid", `the upstream refused to be listened to (${code})`));
    }
    // A server without the method, or with nothing to tell, will say the same again.
    over(stream, code !== -32601 && !stream.isFutile);
  }

  function broken(stream: ListenStream, error: GatewayError): void {
    if (!stream.isDropped) deps.onError(error);
    over(stream, true);
  }

  function over(stream: ListenStream, mayRetry: boolean): void {
    streams.delete(stream);
    stream.settled.resolve();
    if (stream.isDropped || stream !== newest) return;
    newest = undefined;
    if (!mayRetry || isClosed) return;
    const wait = Math.min(firstRetryMs * 2 ** failures++, maxRetryMs);
    stopRetry = setTimer(wait, open);
  }

  async function changed(): Promise<void> {
    if (!isStarted || isClosed) return;
    const stream = open();
    if (stream === undefined) return;
    const patience = Promise.withResolvers<void>();
    const stop = setTimer(subscribeWaitMs, patience.resolve);
    await Promise.race([stream.settled.promise, patience.promise]);
    stop();
  }

  function streamOf(message: Message, related: Exchange | undefined): ListenStream | undefined {
    const member = message.method === "notifications/cancelled" ? "params.requestId" : subscriptionMember;
    const span = spanOf(message.outline, member);
    const reading = span === undefined ? undefined : readId(message.bytes, span.start, span.end);
    for (const stream of streams) {
      if (related === stream.exchange) return stream;
      // A transport that carries all streams in one may leave it to the message to say where it belongs.
      if (related === undefined && reading?.ok === true && reading.id.key === stream.exchange.message.id?.key)
        return stream;
    }
    return undefined;
  }

  return {
    start: () => {
      if (isStarted || isClosed) return;
      isStarted = true;
      open();
    },
    subscribe: async (uri) => {
      if (uris.has(uri)) return;
      if (uris.size >= deps.maxResources) {
        throw new GatewayError("overloaded", `a session may subscribe to ${deps.maxResources} resources`);
      }
      uris.add(uri);
      await changed();
    },
    unsubscribe: async (uri) => {
      if (uris.delete(uri)) await changed();
    },
    owns: (message, related) => streamOf(message, related) !== undefined,
    handle: (message, related) => {
      const stream = streamOf(message, related);
      if (stream === undefined || message.kind !== "notification") return false;
      if (message.method === acknowledged) {
        noted(stream, message);
        return false;
      }
      if (message.method === "notifications/cancelled") {
        // The server ends the stream and wants nothing back; on a shared channel no result need follow.
        over(stream, true);
        stream.cancellation.cancel("cancelled");
        return false;
      }
      return true;
    },
    close: () => {
      isClosed = true;
      stopRetry?.();
      for (const stream of streams) drop(stream);
    },
  };
}

/** The same message without the name of its subscription, of which a legacy client knows nothing. */
export function withoutSubscription(message: Message): Message {
  const { bytes, outline } = message;
  const params = spanOf(outline, "params");
  const meta = spanOf(outline, "params._meta");
  if (params === undefined || meta === undefined) return message;
  const rest = changeMembers(bytes, meta, new Map([["io.modelcontextprotocol/subscriptionId", undefined]]));
  const isBare = isEmptyObject(rest, { start: 0, end: rest.length });
  const edited = changeMembers(bytes, params, new Map([["_meta", isBare ? undefined : rest]]));
  return synthesizeMessage(changeMembers(bytes, outline, new Map([["params", edited]])));
}

/** The filter of a listen request; undefined when there is nothing to hear. */
function filterText(lists: ListChangeSupport, uris: ReadonlySet<string>): string | undefined {
  const filter = {
    ...(lists.tools ? { toolsListChanged: true } : {}),
    ...(lists.prompts ? { promptsListChanged: true } : {}),
    ...(lists.resources ? { resourcesListChanged: true } : {}),
    ...(uris.size === 0 ? {} : { resourceSubscriptions: [...uris] }),
  };
  return Object.keys(filter).length === 0 ? undefined : JSON.stringify(filter);
}
