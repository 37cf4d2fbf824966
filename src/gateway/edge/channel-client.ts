import type { Exchange, Principal, TransportContext } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { refusalReply } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import {
  combineAnswers,
  type Message,
  messageBytes,
  errorResponse,
  parseFailureResponse,
  type RequestId,
} from "../../protocol/message.ts";
import type { ServedRevisions } from "../../protocol/http/era.ts";
import { parse } from "../../protocol/parse.ts";
import { revisionWithoutHeader } from "../../protocol/revisions.ts";
import type { RestoredSession } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";
import type { Channel, ChannelEvents } from "../../transports/transport.ts";
import type { GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import { type BatchReply, type ClientConnection, type ClientReply, receive } from "./conversation.ts";

/** A client that is connected by a channel. */
export interface ChannelClient {
  readonly route: Route;
  /** Read with every message, because newer credentials may have been presented. */
  readonly principal: Principal;
  /** HTTP+SSE clients are legacy; on stdio the first message shows the era. */
  readonly eras: "legacy" | "both";
  readonly transport: TransportContext;
  /** Whether a client that closed its input may still read answers. If so, running requests finish first. */
  readonly mayStillRead: boolean;
  /** Whether the last message arrived after the shutdown began. */
  readonly isLate: boolean;
  /** The session that a client continues here after another process served it. */
  readonly restored?: RestoredSession | undefined;
  /** Whether the client can name its session when it connects again. */
  readonly mayResume?: boolean;
  /** Called when the client has disconnected and everything it started has ended. */
  readonly onGone?: () => void;
}

/** Serves a client over one channel for messages in both directions: stdio, HTTP+SSE, or in process. */
export function serveChannel(gateway: GatewayContext, channel: Channel, client: ChannelClient): ChannelEvents {
  const connection = new ChannelConnection(gateway, channel, client);
  if (client.restored !== undefined) connection.restore(client.restored);
  const { log, limits } = gateway;
  const route = client.route.name;
  return {
    message: (bytes) => {
      connection.session?.renew(client.principal);
      receive(gateway, connection, bytes)?.catch((error: unknown) => {
        log.error({ route, reason: GatewayError.from(error).message }, "message failed");
      });
    },
    malformed: (bytes, reason, unread) => {
      const { principal, transport } = client;
      const isTooLarge = unread?.kind === "request";
      const code = isTooLarge ? "too_large" : "parse_error";
      const fields = { bytes: String(bytes.length) };
      gateway.noteRefusal({ route, code, status: 0, reason, principal, transport, fields });
      if (isTooLarge) {
        connection.reject(
          refusalReply(errorResponse("too_large", `the message is too large: ${reason}`, unread)),
          undefined,
        );
        return;
      }
      const outcome = parse(bytes, { revision: revisionWithoutHeader, mode: "enforce", limits: limits.parse });
      if (!outcome.ok) connection.reject(refusalReply(parseFailureResponse(outcome.failure)), undefined);
    },
    closed: (error) => {
      log.debug({ route, reason: error.message }, "client disconnected");
      connection.inputEnded();
    },
  };
}

class ChannelConnection implements ClientConnection {
  readonly header = undefined;
  readonly mayInitialize = true;
  readonly route: Route;
  readonly #gateway: GatewayContext;
  readonly #channel: Channel;
  readonly #client: ChannelClient;
  readonly #running = new Map<string, Exchange>();
  #session: Session | undefined;
  #isInputOver = false;

  constructor(gateway: GatewayContext, channel: Channel, client: ChannelClient) {
    this.#gateway = gateway;
    this.#channel = channel;
    this.#client = client;
    this.route = client.route;
  }

  get principal(): Principal {
    return this.#client.principal;
  }

  get transport(): TransportContext {
    return this.#client.transport;
  }

  get isLate(): boolean {
    return this.#client.isLate;
  }

  get session(): Session | undefined {
    return this.#session;
  }

  /** Once a session is open, the conversation stays legacy. */
  get serving(): ServedRevisions {
    const { serving } = this.route;
    const isLegacy = this.#client.eras === "legacy" || this.#session !== undefined;
    return isLegacy ? { ...serving, eras: "legacy" } : serving;
  }

  sessionError(): GatewayError {
    return new GatewayError(
      "session_missing",
      "the connection begins with initialize, or with a request of 2026-07-28",
    );
  }

  restore(restored: RestoredSession): void {
    this.route.restoreSession({ ...restored, transport: this.transport });
    this.sessionOpened(restored.session);
    this.route.listen(restored.session);
  }

  sessionOpened(session: Session): void {
    this.#session = session;
    // The open channel is a stream to the client, so its session is never idle.
    session.running++;
    this.route.setClientSender(session, (message) => this.#channel.send(messageBytes(message)));
    session.onEnd((reason) => {
      // Answers caused by the end itself are sent first.
      setImmediate(() => {
        if (this.#session === session) void this.#channel.close(reason);
      });
    });
  }

  sessionRefused(session: Session): void {
    // The channel stays open, so that the client can read the refusal and try again.
    this.#session = undefined;
    session.end("the upstream refused the handshake", "refused");
  }

  replyTo(request: Message, session: Session | undefined): ClientReply {
    const isResumable = this.#client.mayResume === true && request.method === "initialize";
    return {
      open: () => {},
      write: (message) => this.#channel.send(messageBytes(message)),
      finish: ({ message }) => {
        if (message === undefined) return;
        const isOpen = isResumable && message.kind === "result" && session?.isOver === false;
        const resumeId = isOpen ? this.#gateway.registry.sealId(session) : undefined;
        this.#send(messageBytes(message), resumeId);
      },
    };
  }

  replyToBatch(): BatchReply {
    const answers: Buffer[] = [];
    return {
      open: () => {},
      write: (message) => this.#channel.send(messageBytes(message)),
      add: (answer) => {
        answers.push(messageBytes(answer));
      },
      finish: () => {
        const body = combineAnswers(answers, true);
        if (body !== undefined) this.#send(body);
      },
    };
  }

  watch(exchange: Exchange): () => void {
    const key = exchange.message.kind === "request" ? exchange.message.id.key : undefined;
    if (key !== undefined) this.#running.set(key, exchange);
    return () => {
      if (key !== undefined && this.#running.get(key) === exchange) this.#running.delete(key);
      this.#endWhenDone();
    };
  }

  cancel(request: RequestId): void {
    this.#running.get(request.key)?.cancellation.cancel("client-gone");
  }

  responseUnknown(report: () => void): void {
    report();
  }

  acknowledge(): void {
    // Channels have no acknowledgements.
  }

  reject({ message: answer }: Reply, message: Message | undefined): void {
    const isAnswered = message === undefined || message.kind === "request";
    if (isAnswered && answer !== undefined) this.#send(messageBytes(answer));
  }

  /** The client has closed its side. */
  inputEnded(): void {
    this.#isInputOver = true;
    if (!this.#client.mayStillRead)
      for (const exchange of this.#running.values()) exchange.cancellation.cancel("client-gone");
    this.#endWhenDone();
  }

  /** Ends the session once the client has closed its input and all requests are answered. */
  #endWhenDone(): void {
    const { mayStillRead, onGone } = this.#client;
    if (!this.#isInputOver || (mayStillRead && this.#running.size > 0)) return;
    this.#isInputOver = false;
    this.#running.clear();
    // The last answer is written first.
    setImmediate(() => {
      this.#session?.end("the client disconnected");
      onGone?.();
    });
  }

  #send(bytes: Buffer, resumeId?: string): void {
    Promise.resolve(this.#channel.send(bytes, resumeId)).catch((error: unknown) => {
      const reason = GatewayError.from(error).message;
      this.#gateway.log.debug({ route: this.route.name, reason }, "could not answer the client");
    });
  }
}
