import type { Cancellation, CancelReason } from "../core/cancellation.ts";
import type {
  CredentialHeaders,
  CredentialProvider,
  Exchange,
  Principal,
  SetTimer,
  TransportContext,
} from "../core/exchange.ts";
import type { Reply } from "../core/pipeline.ts";
import { createNotification } from "../core/synthesize.ts";
import { GatewayError } from "../errors.ts";
import type { FindingCode } from "../protocol/diagnostics.ts";
import type { Message } from "../protocol/message.ts";
import type { Revision } from "../protocol/revisions.ts";
import type { UnreadMessage } from "../protocol/unread-message.ts";

/** What a link reports besides the responses to its requests. */
export interface LinkEvents {
  /**
   * The upstream sent a notification, a request, or a response without a request. `related` is the exchange on whose
   * stream it arrived, if the transport tells. Messages of one stream are reported in order: the next one waits for the
   * returned promise. `member` names the server where several are behind the link.
   */
  message(
    message: Message,
    related: Exchange | undefined,
    context: TransportContext,
    member?: string,
  ): void | Promise<void>;
  /** Bytes that are not a message. `related` is the exchange on whose stream they arrived, if the transport tells. */
  malformed(bytes: Buffer, reason: string, related: Exchange | undefined, context: TransportContext): void;
  /** A message of the upstream reaches no client; `why` is the diagnostic that says so. Every message that is dropped is. */
  dropped?(why: FindingCode, message: Message, context: TransportContext): void;
  /** A failure that no caller waits for, such as sending a cancel: for the log. */
  error(error: GatewayError): void;
  /** The process exited, the session is gone or the connection closed. Requests in flight have been rejected. */
  closed(error: GatewayError): void;
}

type Findings = Pick<LinkEvents, "malformed" | "dropped" | "error">;

/** Passes on what one of several links behind another finds, as it is. */
export function relayFindings(events: Findings): Findings {
  return {
    malformed: (bytes, reason, related, context) => {
      events.malformed(bytes, reason, related, context);
    },
    dropped: (why, message, context) => {
      events.dropped?.(why, message, context);
    },
    error: (error) => {
      events.error(error);
    },
  };
}

/** Receives the outcome of a message; one of the two is called, once. */
export interface ReplyCallback {
  resolve(reply: Reply): void;
  reject(error: GatewayError): void;
}

/**
 * The connection to one upstream for one scope: a legacy session, a principal, or all callers, as the route is
 * configured. It throws GatewayErrors only; an error response of the upstream is a reply.
 */
export interface UpstreamLink {
  /** Distinguishes this connection from a later one to the same upstream (SC-048: the correlation scope). */
  readonly incarnation: string;
  /** The upstream's own session id, if it has assigned one. */
  readonly upstreamSession: string | undefined;
  /** Whether reads pause while a message is handled. */
  readonly hasBackpressure: boolean;
  /** The link that this one forwards everything to, once that can no longer change: use it directly. */
  readonly resolvedLink?: UpstreamLink | undefined;
  /** Whether closing it would end nothing that a client waits for, besides running requests. Yes, if absent. */
  readonly isIdle?: boolean;
  /** Sends a request and resolves with its response. Cancelling the exchange ends the wait. */
  request(exchange: Exchange): Promise<Reply>;
  /**
   * Like `request`, with a callback that is never called synchronously. A suspended promise chain retains more memory
   * than the link itself. Needed by bench bridge: "parked call over HTTP".
   */
  requestWithCallback?(exchange: Exchange, callback: ReplyCallback): void;
  /** Sends a notification, or the response to a request of the upstream. */
  send(exchange: Exchange): Promise<Reply>;
  /**
   * Opens the upstream's stream for messages outside any request, if it has one: the client can receive them from now
   * on. The promise resolves once the upstream has opened it or declined, and never rejects.
   */
  listen(): void | Promise<void>;
  /**
   * Continues a session that the upstream opened for another process. False if this link cannot: then the session
   * starts over with a handshake.
   */
  resume?(session: ResumedSession): boolean;
  /**
   * Like `close`, except that a process goes on for the next link. Only for links that have carried nothing but a probe
   * or a refused handshake. `mayExit` says that the server may exit because of that.
   */
  release?(mayExit: boolean): Promise<void>;
  /**
   * Deletes the session, unless it is kept for another process, stops the child, closes the streams. Never throws; safe
   * to call twice.
   */
  close(reason: string, isKept?: boolean): Promise<void>;
}

/** A session that the upstream opened for another process. */
export interface ResumedSession {
  readonly session: string;
  /** Undefined if it is not known what the handshake agreed on. */
  readonly revision: Revision | undefined;
  /** The handshake, to be repeated if the upstream has lost the session. */
  readonly initialize: Exchange;
  readonly initialized: Exchange;
}

/** Sends a request over any link and reports its outcome to a callback. */
export function requestWithCallback(link: UpstreamLink, exchange: Exchange, callback: ReplyCallback): void {
  if (link.requestWithCallback === undefined) settleCallback(link.request(exchange), callback);
  else link.requestWithCallback(exchange, callback);
}

/** Reports the outcome of a promise to a callback. */
export function settleCallback(outcome: Promise<Reply>, callback: ReplyCallback): void {
  outcome.then(
    (reply) => callback.resolve(reply),
    (error: unknown) => callback.reject(GatewayError.from(error)),
  );
}

/**
 * A two-way stream of messages: a child's standard streams, an HTTP+SSE connection, an in-process server. The link on
 * top of it matches responses by id; the channel only moves bytes.
 */
export interface Channel {
  readonly incarnation: string;
  /**
   * Resolves when the bytes are written; rejects with a GatewayError if the channel is closed or its queue full. A client
   * over HTTP+SSE names the last `resumeId` that it got when it connects again.
   */
  send(message: Buffer, resumeId?: string): void | Promise<void>;
  /**
   * Leaves the channel to the next one that needs it, instead of closing it. `mayExit` says that the server may exit
   * because of what it was sent.
   */
  release?(mayExit: boolean): void | Promise<void>;
  close(reason: string): Promise<void>;
}

/** What a channel reports. */
export interface ChannelEvents {
  /** One message as received; the receiver owns the buffer. */
  message(bytes: Buffer): void;
  /** Bytes that are not a message; `unread` is the message that they would have been, as far as that can be told. */
  malformed(bytes: Buffer, reason: string, unread?: UnreadMessage): void;
  closed(error: GatewayError): void;
}

/** The error of a request that was cancelled. */
export function cancelledError(reason: CancelReason): GatewayError {
  if (reason === "timeout") return new GatewayError("upstream_timeout", "the upstream did not answer in time");
  if (reason === "shutdown")
    return new GatewayError(
      "shutting_down",
      "the gateway shut down before the server answered; the server may have executed the call",
    );
  return new GatewayError("cancelled", `the request was cancelled (${reason})`);
}

/** The notification that cancels a request at the upstream; undefined if the request cannot be cancelled. */
export function cancelledNotification(exchange: Exchange): Message | undefined {
  const { message, cancellation } = exchange;
  // MCP, Cancellation: `initialize` must not be cancelled.
  if (message.id === undefined || message.method === "initialize") return undefined;
  const params = `{"requestId":${message.id.json},"reason":"${cancellation.reason ?? "cancelled"}"}`;
  return createNotification("notifications/cancelled", params);
}

/**
 * Sends a request with credentials. A 401 means that it was not carried out, so it is sent once more if newer credentials
 * can be obtained; a second 401 is reported.
 */
export async function sendWithCredentials<Result>(
  credentials: CredentialProvider | undefined,
  principal: Principal,
  send: (headers: CredentialHeaders) => Promise<Result>,
): Promise<Result> {
  if (credentials === undefined) return send({});
  const headers = await credentials.headersFor(principal);
  try {
    return await send(headers);
  } catch (error) {
    if (!isUnauthorized(error) || !credentials.invalidate(principal, headers)) throw error;
    return send(await credentials.headersFor(principal));
  }
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof GatewayError && error.details?.["upstreamStatus"] === 401;
}

/** Waits for a promise that others may share; rejects on cancellation. */
export function untilCancelled<Value>(cancellation: Cancellation, promise: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const off = cancellation.onCancel((reason) => reject(cancelledError(reason)));
    void promise.then(resolve, reject).finally(off);
  });
}

/** Waits some milliseconds; rejects on cancellation. */
export function delayUnlessCancelled(
  cancellation: Cancellation,
  milliseconds: number,
  setTimer: SetTimer,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = setTimer(milliseconds, resolve);
  return untilCancelled(cancellation, promise).finally(stop);
}
