import { Cancellation } from "../../core/cancellation.ts";
import type { Exchange, SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { settlesWithin } from "../../lib/timeout.ts";
import { changeMembers, isEmptyObject } from "../../protocol/json/edit.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberInteger, memberValue } from "../../protocol/json/read.ts";
import { type Message, readId } from "../../protocol/message.ts";
import { synthesizeMessage } from "../../core/synthesize.ts";

/** The lists whose changes a server reports. */
export interface ListChangeSupport {
  readonly tools: boolean;
  readonly prompts: boolean;
  readonly resources: boolean;
}

/**
 * The `subscriptions/listen` stream that supplies a legacy client with notifications outside its requests. Every change
 * of the subscriptions opens a new stream, because the filter of a stream is fixed (MCP 2026-07-28, Subscriptions).
 */
export type UpstreamSubscription = ReturnType<typeof createUpstreamSubscription>;

export interface UpstreamSubscriptionDeps {
  /** What the server supports; called when the first stream is opened. */
  readonly lists: () => ListChangeSupport;
  /** Makes the exchange of a listen request with this filter. */
  readonly exchangeFor: (filter: string, cancellation: Cancellation) => Exchange;
  readonly request: (exchange: Exchange) => Promise<Reply>;
  readonly setTimer: SetTimer;
  readonly onError: (error: GatewayError) => void;
  /** How many resources one client may subscribe to. */
  readonly maxResources: number;
}

interface ListenStream {
  readonly exchange: Exchange;
  readonly cancellation: Cancellation;
  isAcknowledged: boolean;
  /** The server acknowledged nothing of the filter. */
  isEmpty: boolean;
  /** Replaced by a newer stream, or no longer needed. */
  isDropped: boolean;
  readonly settled: PromiseWithResolvers<void>;
}

const acknowledged = "notifications/subscriptions/acknowledged";
const subscriptionMember = "params._meta.io.modelcontextprotocol/subscriptionId";
/** How long a server may take to acknowledge a stream. */
const acknowledgeMs = 30_000;
/** How long a subscribing client waits for that. */
const subscribeWaitMs = 5000;
const firstRetryMs = 1000;
const maxRetryMs = 30_000;

/** Makes the subscription of one session; it opens nothing before `start`. */
export function createUpstreamSubscription(deps: UpstreamSubscriptionDeps) {
  const { setTimer } = deps;
  const uris = new Set<string>();
  const streams = new Set<ListenStream>();
  let newest: ListenStream | undefined;
  let isStarted = false;
  let isClosed = false;
  let failures = 0;
  let stopRetry: (() => void) | undefined;

  /** Opens a stream with the current filter; older streams stay open until it is acknowledged. */
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
    const stream = newStream(deps.exchangeFor(filter, cancellation), cancellation);
    streams.add(stream);
    newest = stream;
    const stop = setTimer(acknowledgeMs, () => {
      if (!stream.isAcknowledged) cancellation.cancel("timeout");
    });
    void deps
      .request(stream.exchange)
      .then(
        ({ message }) => ended(stream, message),
        (error: unknown) => broken(stream, GatewayError.from(error)),
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

  function acknowledge(stream: ListenStream, message: Message): void {
    stream.isAcknowledged = true;
    const honoured: unknown = memberValue(message, "params.notifications");
    stream.isEmpty = Object.keys(Object(honoured)).length === 0;
    failures = 0;
    for (const older of streams) if (older !== stream) drop(older);
    stream.settled.resolve();
  }

  /** The server has ended the stream, or refused it. */
  function ended(stream: ListenStream, answer: Message | undefined): void {
    const code = answer?.kind === "error" ? memberInteger(answer, "error.code") : undefined;
    if (code !== undefined) {
      deps.onError(
        new GatewayError("upstream_invalid", `the upstream refused subscriptions/listen with error ${code}`),
      );
    }
    // A server that lacks the method or acknowledged nothing would do the same again.
    over(stream, code !== -32601 && !stream.isEmpty);
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
    await settlesWithin(stream.settled.promise, subscribeWaitMs, setTimer);
  }

  return {
    /** The client can receive messages from now on. */
    start: (): void => {
      if (isStarted || isClosed) return;
      isStarted = true;
      open();
    },
    /** Adds a resource; resolves when the upstream has acknowledged it, or after a few seconds. */
    subscribe: async (uri: string): Promise<void> => {
      if (uris.has(uri)) return;
      if (uris.size >= deps.maxResources) {
        throw new GatewayError("overloaded", `a session may subscribe to at most ${deps.maxResources} resources`);
      }
      uris.add(uri);
      await changed();
    },
    unsubscribe: async (uri: string): Promise<void> => {
      if (uris.delete(uri)) await changed();
    },
    /** Whether a message belongs to a stream of this subscription. */
    owns: (message: Message, related: Exchange | undefined): boolean =>
      streamOf(streams, message, related) !== undefined,
    /** Handles a message of its streams; true when it is for the client. */
    handle: (message: Message, related: Exchange | undefined): boolean => {
      const stream = streamOf(streams, message, related);
      if (stream === undefined || message.kind !== "notification") return false;
      if (message.method === acknowledged) {
        acknowledge(stream, message);
        return false;
      }
      if (message.method === "notifications/cancelled") {
        // The server ends the stream; on a shared channel no result follows.
        over(stream, true);
        stream.cancellation.cancel("cancelled");
        return false;
      }
      return true;
    },
    close: (): void => {
      isClosed = true;
      stopRetry?.();
      for (const stream of streams) drop(stream);
    },
  };
}

function newStream(exchange: Exchange, cancellation: Cancellation): ListenStream {
  const state = { isAcknowledged: false, isEmpty: false, isDropped: false };
  return { exchange, cancellation, ...state, settled: Promise.withResolvers() };
}

/** The stream that a message belongs to. */
function streamOf(
  streams: Iterable<ListenStream>,
  message: Message,
  related: Exchange | undefined,
): ListenStream | undefined {
  const member = message.method === "notifications/cancelled" ? "params.requestId" : subscriptionMember;
  const span = spanOf(message.outline, member);
  const reading = span === undefined ? undefined : readId(message.bytes, span.start, span.end);
  for (const stream of streams) {
    if (related === stream.exchange) return stream;
    // On a transport with one stream for everything, only the message itself names its subscription.
    if (related === undefined && reading?.ok === true && reading.id.key === stream.exchange.message.id?.key)
      return stream;
  }
  return undefined;
}

/** The same message without its subscription id, which legacy clients do not know. */
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

/** The filter of a listen request; undefined when it would be empty. */
function filterText(lists: ListChangeSupport, uris: ReadonlySet<string>): string | undefined {
  const { tools, prompts, resources } = lists;
  if (!tools && !prompts && !resources && uris.size === 0) return undefined;
  return JSON.stringify({
    toolsListChanged: tools || undefined,
    promptsListChanged: prompts || undefined,
    resourcesListChanged: resources || undefined,
    resourceSubscriptions: uris.size === 0 ? undefined : [...uris],
  });
}
