import type { CancelReason } from "../core/cancellation.ts";
import type { Exchange, TransportContext } from "../core/exchange.ts";
import { GatewayError } from "../errors.ts";
import type { Reply } from "../core/pipeline.ts";
import type { Message } from "../protocol/message.ts";
import { parseText } from "../protocol/parse.ts";

/** What a link reports of messages that are not the answer to a request it is waiting for. */
export interface LinkEvents {
  /**
   * The upstream sent a notification, a request, or an answer that fits nothing. `related` is the exchange on whose
   * stream it came, where the transport tells. Messages of one stream are reported one after the other: the next one
   * waits until the returned promise resolves.
   */
  message(message: Message, related: Exchange | undefined, context: TransportContext): void | Promise<void>;
  /** Something that is no message came: shown in logs and counted, never passed on. */
  malformed(bytes: Buffer, reason: string): void;
  /** Something failed that nobody waits for, such as telling the upstream to stop: for the log. */
  error(error: GatewayError): void;
  /** The other side has gone: process exit, session gone, connection closed. Requests in flight have been failed. */
  closed(error: GatewayError): void;
}

/** Somebody who waits for the outcome of a message; one of the two is called, once. */
export interface ReplyCallback {
  resolve(reply: Reply): void;
  reject(error: GatewayError): void;
}

/**
 * The way to one upstream for one scope: a legacy session, a principal, or everybody, as the route is configured.
 * What it throws are GatewayErrors; what a peer answered is data.
 */
export interface UpstreamLink {
  /** Distinguishes this link's life from a later one to the same upstream (SC-048: the correlation scope). */
  readonly incarnation: string;
  /** The upstream's own session id, once it has given one. */
  readonly upstreamSession: string | undefined;
  /** Whether the upstream waits while a message of its is being dealt with; if not, only bounds can hold it. */
  readonly hasBackpressure: boolean;
  /**
   * The link behind this one that everything goes to, once that can no longer change: whoever keeps it saves the way
   * there. Undefined where it can, or where there is none behind it.
   */
  readonly resolvedLink?: UpstreamLink | undefined;
  /** Sends a request and resolves with its answer. The exchange's cancellation ends the wait as its era wants. */
  request(exchange: Exchange): Promise<Reply>;
  /**
   * The same for somebody who may wait long, told later and never from within this call: what a promise and those who
   * wait for it keep is more than a link keeps itself. Left out where a promise is as good.
   */
  requestWithCallback?(exchange: Exchange, call: ReplyCallback): void;
  /** Sends a notification, or the answer to one of the upstream's own requests. */
  send(exchange: Exchange): Promise<Reply>;
  /**
   * The client can take messages outside any request from now on; opens the upstream's stream for them, if it has one.
   * What is returned, if anything, resolves when the upstream has had its chance to open it, and never fails.
   */
  listen(): void | Promise<void>;
  /** Ends the scope: session deleted, child stopped, streams closed. Never throws; safe to call twice. */
  close(reason: string): Promise<void>;
}

/** Sends a request for somebody who waits without a promise, over whichever link. */
export function requestWithCallback(link: UpstreamLink, exchange: Exchange, call: ReplyCallback): void {
  if (link.requestWithCallback === undefined) settleCallback(link.request(exchange), call);
  else link.requestWithCallback(exchange, call);
}

/** Tells somebody who waits without a promise what becomes of one. */
export function settleCallback(outcome: Promise<Reply>, call: ReplyCallback): void {
  outcome.then(
    (reply) => {
      call.resolve(reply);
    },
    (error: unknown) => {
      call.reject(GatewayError.from(error));
    },
  );
}

/**
 * A plain two-way stream of messages: a child's standard streams, an HTTP+SSE connection, an in-process server.
 * Links over channels match answers by id; the channel only moves bytes.
 */
export interface Channel {
  readonly incarnation: string;
  /** Resolves when the bytes are handed over; rejects with a GatewayError when the channel is gone or its queue full. */
  send(message: Buffer): void | Promise<void>;
  close(reason: string): Promise<void>;
}

/** What a channel reports. */
export interface ChannelEvents {
  /** One message as it came; the buffer is the receiver's to keep. */
  message(bytes: Buffer): void;
  malformed(bytes: Buffer, reason: string): void;
  closed(error: GatewayError): void;
}

/** The error that a cancelled wait ends with. */
export function cancelledError(reason: CancelReason): GatewayError {
  if (reason === "timeout") return new GatewayError("upstream_timeout", "the upstream did not answer in time");
  if (reason === "shutdown") return new GatewayError("shutting_down", "the gateway is shutting down");
  return new GatewayError("cancelled", `nobody waits for the answer any more (${reason})`);
}

/** The notification that tells an upstream to stop working on a request; none for what cannot be cancelled. */
export function cancelledNotification(exchange: Exchange): Message | undefined {
  const { message, revision, cancellation } = exchange;
  // MCP, Cancellation: `initialize` must not be cancelled.
  if (message.id === undefined || message.method === "initialize") return undefined;
  const params = `{"requestId":${message.id.json},"reason":"${cancellation.reason ?? "cancelled"}"}`;
  const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`;
  const outcome = parseText(text, { revision, mode: "enforce" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}
