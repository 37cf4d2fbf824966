import type { Exchange } from "../../core/exchange.ts";
import { type Handler, noReply, type Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { diagnosticTable } from "../../protocol/diagnostics.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import type { Session } from "../../sessions/session.ts";
import type { RouteTracing } from "../../telemetry/trace-context.ts";
import type { GatewayContext } from "../context.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";
import { SessionStreams } from "./session-streams.ts";

/** Writes a message to a client outside any of its requests; `label` is that of its exchange. */
export type ClientSender = (message: Message, label?: string) => void | Promise<void>;

export interface ToClientDeps {
  readonly route: string;
  readonly observer: WireObserver;
  /** What a server request must wait for before its client sees it; undefined if nothing. */
  readonly whenStored: (() => Promise<void> | undefined) | undefined;
  readonly tracing: RouteTracing | undefined;
}

/** The innermost handler towards the client, and the streams of its sessions. */
export interface ToClient {
  readonly handle: Handler;
  /** The streams of a session over Streamable HTTP. */
  readonly streamsOf: (session: Session) => SessionStreams;
  /** Sends the messages of a session through a channel instead of streams. */
  readonly setClientSender: (session: Session, sender: ClientSender) => void;
  readonly hasClientSender: (session: Session) => boolean;
  /** Sends a message to the client of a session without waiting for it. */
  readonly notify: (session: Session, message: Message) => void;
  /** Closes the streams of a session. */
  readonly end: (session: Session) => void;
}

/** Creates the handler that delivers messages of the upstream to clients: the last one of the pipeline. */
export function createToClient(gateway: GatewayContext, deps: ToClientDeps): ToClient {
  const { route, observer, whenStored, tracing } = deps;
  const { registry, log, newLabel } = gateway;
  const streams = new WeakMap<Session, SessionStreams>();
  const senders = new WeakMap<Session, ClientSender>();

  function streamsOf(session: Session): SessionStreams {
    let own = streams.get(session);
    if (own === undefined) {
      own = new SessionStreams(gateway, session, (message) => newLabel(session, message));
      streams.set(session, own);
    }
    return own;
  }

  function senderOf(session: Session): ClientSender {
    return senders.get(session) ?? ((message, label) => streamsOf(session).general.write(message, label));
  }

  function undelivered(exchange: string | undefined, error: unknown): void {
    log.debug({ exchange, route, reason: GatewayError.from(error).message }, "could not notify the client");
  }

  function toClient(exchange: Exchange): Promise<Reply> {
    const { message, parent } = exchange;
    const session = registry.forContext(exchange.session);
    const stream = parent?.reply;
    const inSession = session === undefined ? undefined : senderOf(session);
    const sender: ClientSender | undefined =
      stream === undefined ? inSession : (out, label) => stream.write(out, label);
    if (sender === undefined) {
      if (message.kind === "notification") observer.found(diagnosticTable["notification.unheard"], exchange);
      return Promise.reject(new GatewayError("cancelled", "no client is connected to receive the message"));
    }
    if (message.kind !== "request") return notifyOver(sender, exchange);
    if (session !== undefined) return ask(session, exchange, message, sender);
    // Modern clients take no requests: the call that asks is suspended until its client comes back with the answer.
    const suspended = gateway.suspendedCalls.requestInput(exchange);
    if (suspended !== undefined) return suspended;
    observer.found(diagnosticTable["direction.request"], exchange);
    const text = "clients of this revision take no requests from servers";
    return Promise.reject(new GatewayError("invalid_message", text));
  }

  async function notifyOver(sender: ClientSender, exchange: Exchange): Promise<Reply> {
    observer.sent("client", exchange.message, exchange);
    const written = sender(exchange.message, exchange.id);
    // A slow client must not hold up a source that others share; its queue is bounded instead.
    if (exchange.isUnpaced === true) written?.catch((error: unknown) => undelivered(exchange.id, error));
    else await written;
    return noReply;
  }

  /** Sends a request of the server to the client and waits for the response. */
  function ask(session: Session, exchange: Exchange, message: RequestMessage, sender: ClientSender): Promise<Reply> {
    observer.sent("client", message, exchange);
    const stored = whenStored?.();
    return new Promise((resolve, reject) => {
      const offEnd = session.onEnd(() => {
        exchange.cancellation.cancel("session-ended");
      });
      const stopWaiting = session.awaitResponse(message.id, (response) => {
        over();
        observer.received("client", response, exchange);
        resolve({ message: response });
      });
      const offCancel = exchange.cancellation.onCancel((reason) => {
        over();
        reject(new GatewayError("cancelled", `the client did not answer the request (${reason})`));
      });
      const over = () => {
        offEnd();
        stopWaiting();
        offCancel();
      };
      const send = () => sender(message, exchange.id);
      const sent = stored === undefined ? Promise.resolve(send()) : stored.then(send);
      sent.catch((error: unknown) => {
        over();
        reject(GatewayError.from(error));
      });
    });
  }

  return {
    handle: tracing === undefined ? toClient : (exchange) => tracing.send(exchange, undefined, toClient),
    streamsOf,
    setClientSender: (session, sender) => {
      senders.set(session, sender);
    },
    hasClientSender: (session) => senders.has(session),
    notify: (session, message) => {
      // The gateway's own; no exchange brought it.
      senderOf(session)(message)?.catch((error: unknown) => undelivered(undefined, error));
    },
    end: (session) => {
      streams.get(session)?.close();
    },
  };
}
