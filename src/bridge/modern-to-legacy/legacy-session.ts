import { GatewayError } from "../../errors.ts";
import { Cancellation } from "../../core/cancellation.ts";
import { createExchange, type Exchange, type SetTimer, type TransportContext } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { loggingLevels } from "../../protocol/envelope.ts";
import { idFrom, type Message, type NotificationMessage, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import { type LinkEvents, requestWithCallback, type UpstreamLink } from "../../transports/transport.ts";
import { BridgedCall } from "./bridged-call.ts";
import { formatInitializeParams, type LegacyServerFacts, parseInitializeResult } from "./handshake.ts";
import { toLegacyRequest } from "./legacy-request.ts";
import { createNotification, createRequest } from "../synthesize.ts";
import { requestedLogLevel } from "./notifications.ts";

/** Opens a link for one legacy session. */
export type OpenLegacyLink = (events: LinkEvents) => UpstreamLink;

/** Who hears of what a legacy server sends of its own accord. */
export interface LegacySessionEvents {
  /** `call` is the one that the message belongs to, where that is known. */
  message(
    peer: LegacySession,
    message: Message,
    call: BridgedCall | undefined,
    context: TransportContext,
  ): void | Promise<void>;
  malformed(bytes: Buffer, reason: string): void;
  error(error: GatewayError): void;
  /** The call that the session knows under an id. */
  findCall(peer: LegacySession, key: string): BridgedCall | undefined;
  /** The session has ended; the next request opens another. */
  closed(peer: LegacySession, error: GatewayError): void;
  /** The server has forgotten the session and given a new one: what it was told before is forgotten too. */
  renewed(peer: LegacySession): void;
}

/** What a peer is made of. */
export interface LegacySessionDeps {
  readonly openLegacy: OpenLegacyLink;
  readonly setTimer: SetTimer;
  /** How long the server may take for what the gateway itself asks of it. */
  readonly gatewayRequestMs: number;
}

/** A session with the server that is open: its link, and what the handshake said. */
interface OpenedSession {
  readonly link: UpstreamLink;
  readonly facts: LegacyServerFacts;
  readonly template: Exchange;
  /** The upstream's id for it, by which a new one is noticed. */
  id: string | undefined;
  /** Index of the most verbose level that was asked for. */
  level: number;
  /** When the server has been told of it. */
  raised: Promise<void>;
}

/** One legacy session at the server, opened when it is needed and opened anew after it has ended. */
export class LegacySession {
  /** The call that alone may ask on this session, where the server does not say which one asks. */
  exclusiveCall: BridgedCall | undefined;
  readonly #options: LegacySessionDeps;
  readonly #events: LegacySessionEvents;
  #opening: Promise<OpenedSession> | undefined;
  #session: OpenedSession | undefined;
  #link: UpstreamLink | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(options: LegacySessionDeps, events: LegacySessionEvents) {
    this.#options = options;
    this.#events = events;
  }

  get incarnation(): string {
    return this.#link?.incarnation ?? "not open";
  }

  /** Every request has a stream of its own, so that a message tells by where it comes which call it belongs to. */
  get hasStreamPerCall(): boolean {
    return this.#session?.link.hasBackpressure === true;
  }

  /** Opens the session if it is not open, for the client behind this request. */
  async ready(exchange: Exchange): Promise<LegacyServerFacts> {
    return (await this.#open(exchange)).facts;
  }

  /** Sends a client's request on; the call's cancellation ends it. The call is told, and says when it has landed. */
  startCall(call: BridgedCall): void {
    const session = this.#session;
    if (session === undefined || this.#isClosed || needsLogLevel(session, call.request)) {
      this.#requestLater(call).catch((error: unknown) => {
        call.reject(GatewayError.from(error));
      });
    } else {
      this.#send(session, call);
    }
  }

  /** A request has ended, in whichever way. */
  callEnded(): void {
    if (this.#session !== undefined) this.#checkRenewed(this.#session);
  }

  /** Asks the server something of the gateway's own; an error answer is thrown like any failure. */
  async sendRequest(method: string, paramsJson: string, session = this.#session): Promise<void> {
    if (session === undefined) throw new GatewayError("upstream_unreachable", "the session is not open");
    const message = createRequest(idFrom(++this.#lastId), method, paramsJson);
    const exchange = this.#exchangeFor(session.template, message, session.facts.revision);
    const reply = await this.#timed(session.link, exchange);
    this.#checkRenewed(session);
    if (reply.message?.kind !== "result") throw new GatewayError("upstream_invalid", `the upstream refuses ${method}`);
  }

  /** Sends an answer to one of the server's requests, or a notification. */
  async send(message: Message): Promise<void> {
    const session = this.#session;
    if (session === undefined) return;
    await session.link.send(this.#exchangeFor(session.template, message, session.facts.revision));
  }

  /** Passes a client's notification on. */
  async forwardNotification(exchange: Exchange, message: NotificationMessage): Promise<void> {
    const { link, facts } = await this.#open(exchange);
    await link.send(this.#exchangeFor(exchange, message, facts.revision));
  }

  /** Wants what the server says outside any request; resolves when the server has had its chance to begin. */
  async listen(): Promise<void> {
    await this.#session?.link.listen();
  }

  async close(reason: string): Promise<void> {
    this.#isClosed = true;
    this.#session = undefined;
    await this.#link?.close(reason);
  }

  async #requestLater(call: BridgedCall): Promise<void> {
    const session = await this.#open(call.relatedExchange);
    this.#checkRenewed(session);
    if (needsLogLevel(session, call.request)) await this.#raiseLevel(session, call.request);
    this.#send(session, call);
  }

  #send(session: OpenedSession, call: BridgedCall): void {
    if (call.cancellation.isCancelled) {
      queueMicrotask(() => {
        call.reject(new GatewayError("cancelled", "the call has been cancelled"));
      });
      return;
    }
    const { link, facts } = session;
    const message = toLegacyRequest(call.request, idFrom(++this.#lastId));
    call.serverInfo = facts.serverInfo;
    call.upstreamRequest = message;
    const exchange = this.#exchangeFor(call.contextExchange, message, facts.revision, call.cancellation, call);
    requestWithCallback(link, exchange, call);
  }

  #open(exchange: Exchange): Promise<OpenedSession> {
    if (this.#isClosed)
      return Promise.reject(new GatewayError("upstream_unreachable", "the connection has been closed"));
    if (this.#opening !== undefined) return this.#opening;
    const opening = this.#shakeHands(exchange).catch((error: unknown) => {
      // The next request may find the server well again.
      if (this.#opening === opening) this.#opening = undefined;
      throw GatewayError.from(error);
    });
    this.#opening = opening;
    return opening;
  }

  async #shakeHands(exchange: Exchange): Promise<OpenedSession> {
    const link = this.#options.openLegacy(this.#linkEvents(() => link));
    this.#link = link;
    try {
      const { message } = exchange;
      const params = message.kind === "request" ? formatInitializeParams(message) : "{}";
      const initialize = createRequest(idFrom(++this.#lastId), "initialize", params);
      const template = this.#exchangeFor(exchange, initialize, newestLegacy);
      const reply = await this.#timed(link, template);
      const facts = parseInitializeResult(reply.message);
      const initialized = createNotification("notifications/initialized", "{}");
      await link.send(this.#exchangeFor(template, initialized, facts.revision));
      if (this.#link !== link) throw new GatewayError("upstream_unreachable", "the session ended at once");
      const session: OpenedSession = {
        link,
        facts,
        template,
        id: link.upstreamSession,
        level: noLevel,
        raised: Promise.resolve(),
      };
      this.#session = session;
      return session;
    } catch (error) {
      if (this.#link === link) this.#link = undefined;
      await link.close("the handshake failed");
      throw error;
    }
  }

  #linkEvents(link: () => UpstreamLink): LinkEvents {
    return {
      message: (message, related, context) => {
        if (this.#link !== link()) return undefined;
        return this.#events.message(this, message, this.#callOf(message, related), context);
      },
      malformed: (bytes, reason) => {
        this.#events.malformed(bytes, reason);
      },
      error: (error) => {
        this.#events.error(error);
      },
      closed: (error) => {
        const ended = link();
        if (this.#link !== ended) return;
        this.#link = undefined;
        this.#session = undefined;
        this.#opening = undefined;
        void ended.close("the session has ended");
        if (!this.#isClosed) this.#events.closed(this, error);
      },
    };
  }

  /** Which call a message belongs to: by its token, by the stream it came on, or because only one may ask. */
  #callOf(message: Message, related: Exchange | undefined): BridgedCall | undefined {
    const streaming = related?.reply instanceof BridgedCall ? related.reply : undefined;
    const token = metadataOf(message).related;
    if (token?.type === "progress") {
      const { key } = token.id;
      return streaming?.upstreamRequest?.id.key === key ? streaming : this.#events.findCall(this, key);
    }
    const isQuestion = message.kind === "request" || message.method === "notifications/cancelled";
    return isQuestion && !this.hasStreamPerCall ? this.exclusiveCall : streaming;
  }

  /** The level of a legacy session is one for all: the most verbose that any request has wanted. */
  async #raiseLevel(session: OpenedSession, request: RequestMessage): Promise<void> {
    const wanted = requestedLogLevel(request);
    if (wanted < session.level) {
      session.level = wanted;
      const params = JSON.stringify({ level: loggingLevels[wanted] });
      // One after the other, so that the most verbose is the last that the server hears.
      session.raised = session.raised
        .then(() => this.sendRequest("logging/setLevel", params, session))
        // The call itself is worth more than its log messages.
        .catch((error: unknown) => {
          this.#events.error(GatewayError.from(error));
        });
    }
    await session.raised;
  }

  #checkRenewed(session: OpenedSession): void {
    const id = session.link.upstreamSession;
    if (id === session.id || this.#session !== session) return;
    session.id = id;
    session.level = noLevel;
    this.#events.renewed(this);
  }

  /** A request of our own: nobody else watches over how long it takes. */
  async #timed(link: UpstreamLink, exchange: Exchange): Promise<Reply> {
    const stop = this.#options.setTimer(this.#options.gatewayRequestMs, () => {
      exchange.cancellation.cancel("timeout");
    });
    try {
      return await link.request(exchange);
    } finally {
      stop();
    }
  }

  #exchangeFor(
    like: Exchange,
    message: Message,
    revision: LegacyServerFacts["revision"],
    cancellation = new Cancellation(),
    reply?: BridgedCall,
  ): Exchange {
    const { route, principal, transport, timing } = like;
    const id = `${like.id}.${this.#lastId}`;
    return createExchange({ id, message, route, principal, revision, transport, timing, cancellation, reply });
  }
}

/** Whether a request wants log messages that the server has to be asked for first. */
function needsLogLevel({ facts }: OpenedSession, request: RequestMessage): boolean {
  return facts.capabilities["logging"] !== undefined && requestedLogLevel(request) >= 0;
}

/** Less verbose than every level. */
const noLevel = loggingLevels.length;
