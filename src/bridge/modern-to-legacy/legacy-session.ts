import { Cancellation } from "../../core/cancellation.ts";
import { createExchange, type Exchange, type SetTimer, type TransportContext } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { loggingLevels } from "../../protocol/envelope.ts";
import { idFrom, type Message, type NotificationMessage, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import {
  acceptServerRevision,
  newestLegacy,
  newestModern,
  type Revision,
  revisionNames,
} from "../../protocol/revisions.ts";
import {
  type LinkEvents,
  type ReplyCallback,
  requestWithCallback,
  type UpstreamLink,
} from "../../transports/transport.ts";
import { createNotification, createRequest } from "../../core/synthesize.ts";
import { BridgedCall } from "./bridged-call.ts";
import type { CompactRequest } from "./compact-request.ts";
import { toLegacyRequest } from "./call-runner.ts";
import { requestedLogLevel } from "./subscriptions.ts";
import { type Capabilities, tasksExtension } from "../../protocol/methods.ts";
import { memberSource, memberString, memberType } from "../../protocol/json/read.ts";
import { declaredCapabilities, parseCapabilities } from "./input-requests.ts";
import { defaultServerInfo, serverInfoMeta } from "./modern-result.ts";

/** Opens a link for one legacy session. */
export type OpenLegacyLink = (events: LinkEvents) => UpstreamLink;

/** One attempt to run a call on a session; `resolve` or `reject` is called when it ends. */
export interface UpstreamAttempt extends ReplyCallback {
  readonly call: BridgedCall;
  readonly session: LegacySession;
  /** What the server was sent, once it was. */
  request: CompactRequest | undefined;
}

/** What a session reports. */
export interface LegacySessionEvents {
  /** The server sent a request or notification; `call` is the call it belongs to, where that is known. */
  message(
    session: LegacySession,
    message: Message,
    call: BridgedCall | undefined,
    context: TransportContext,
  ): void | Promise<void>;
  malformed: LinkEvents["malformed"];
  dropped: NonNullable<LinkEvents["dropped"]>;
  error(error: GatewayError): void;
  /** Finds the call that a session sent under this id. */
  findCall(session: LegacySession, key: string): BridgedCall | undefined;
  /** The session has ended; the next request opens another. */
  closed(session: LegacySession, error: GatewayError): void;
  /** The server lost the session and gave a new one: subscriptions and log level have to be set again. */
  renewed(session: LegacySession): void;
}

export interface LegacySessionDeps {
  readonly openLegacy: OpenLegacyLink;
  readonly setTimer: SetTimer;
  /** How long the server may take to answer the gateway's own requests. */
  readonly gatewayRequestMs: number;
}

interface OpenedSession {
  readonly link: UpstreamLink;
  readonly facts: LegacyServerFacts;
  /** The exchange of `initialize`; the gateway's own requests are made like it. */
  readonly handshake: Exchange;
  /** The upstream's session id; a new one means that the server lost the session. */
  id: string | undefined;
  /** Index of the most verbose log level requested so far. */
  level: number;
  /** Resolves when the server knows that level. */
  levelSet: Promise<void>;
}

/** One legacy session with the server, opened on first use and opened again after it has ended. */
export class LegacySession {
  /** The only call that may be asked on this session, where the server does not say which call asks. */
  exclusiveCall: BridgedCall | undefined;
  readonly #deps: LegacySessionDeps;
  readonly #events: LegacySessionEvents;
  #opening: Promise<OpenedSession> | undefined;
  #session: OpenedSession | undefined;
  #link: UpstreamLink | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(deps: LegacySessionDeps, events: LegacySessionEvents) {
    this.#deps = deps;
    this.#events = events;
  }

  get incarnation(): string {
    return this.#link?.incarnation ?? "not open";
  }

  /** Whether each request has a stream of its own, so that a message shows by its stream which call it belongs to. */
  get hasStreamPerCall(): boolean {
    return this.#session?.link.hasBackpressure === true;
  }

  /** Opens the session if needed, for the client behind this request. */
  async ready(exchange: Exchange): Promise<LegacyServerFacts> {
    return (await this.#open(exchange)).facts;
  }

  /** Sends a call; its cancellation cancels the request. The attempt reports the end with `callEnded`. */
  startCall(attempt: UpstreamAttempt): void {
    const session = this.#session;
    if (session === undefined || this.#isClosed || needsLogLevel(session, attempt.call.request)) {
      this.#prepareAndSend(attempt).catch((error: unknown) => attempt.reject(GatewayError.from(error)));
    } else {
      this.#send(session, attempt);
    }
  }

  /** A call on this session has ended, successfully or not. */
  callEnded(): void {
    if (this.#session !== undefined) this.#checkRenewed(this.#session);
  }

  /** Sends a request of the gateway itself; rejects when the server answers with an error. */
  async sendRequest(method: string, paramsJson: string, session = this.#session): Promise<void> {
    if (session === undefined) throw new GatewayError("upstream_unreachable", "the session is not open");
    const message = createRequest(idFrom(++this.#lastId), method, paramsJson);
    const exchange = this.#exchangeFor(session.handshake, message, session.facts.revision);
    const reply = await this.#requestWithTimeout(session.link, exchange);
    this.#checkRenewed(session);
    if (reply.message?.kind !== "result")
      throw new GatewayError("upstream_invalid", `the upstream answered ${method} with an error`);
  }

  /** Sends a response to one of the server's requests, or a notification. */
  async send(message: Message): Promise<void> {
    const session = this.#session;
    if (session === undefined) return;
    await session.link.send(this.#exchangeFor(session.handshake, message, session.facts.revision));
  }

  /** Sends a response of the gateway itself; a failure is only reported. */
  respond(message: Message): void {
    this.send(message).catch((error: unknown) => this.#events.error(GatewayError.from(error)));
  }

  async forwardNotification(exchange: Exchange, message: NotificationMessage): Promise<void> {
    const { link, facts } = await this.#open(exchange);
    await link.send(this.#exchangeFor(exchange, message, facts.revision));
  }

  /** Opens the stream for messages outside any request; resolves when the server had its chance to open it. */
  async listen(): Promise<void> {
    await this.#session?.link.listen();
  }

  async close(reason: string): Promise<void> {
    this.#isClosed = true;
    this.#session = undefined;
    await this.#link?.close(reason);
  }

  async #prepareAndSend(attempt: UpstreamAttempt): Promise<void> {
    const { call } = attempt;
    const session = await this.#open(call.relatedExchange);
    this.#checkRenewed(session);
    if (needsLogLevel(session, call.request)) await this.#raiseLogLevel(session, call.request);
    this.#send(session, attempt);
  }

  #send({ link, facts }: OpenedSession, attempt: UpstreamAttempt): void {
    const { call } = attempt;
    if (call.cancellation.isCancelled) {
      queueMicrotask(() => attempt.reject(new GatewayError("cancelled", "the call was cancelled")));
      return;
    }
    attempt.request = toLegacyRequest(call.request, idFrom(++this.#lastId));
    call.serverInfo = facts.serverInfo;
    const { contextExchange, cancellation } = call;
    const exchange = this.#exchangeFor(contextExchange, attempt.request, facts.revision, cancellation, call);
    requestWithCallback(link, exchange, attempt);
  }

  #open(exchange: Exchange): Promise<OpenedSession> {
    if (this.#isClosed)
      return Promise.reject(new GatewayError("upstream_unreachable", "the connection has been closed"));
    if (this.#opening !== undefined) return this.#opening;
    const opening = this.#initialize(exchange).catch((error: unknown) => {
      // The next request tries again.
      if (this.#opening === opening) this.#opening = undefined;
      throw GatewayError.from(error);
    });
    this.#opening = opening;
    return opening;
  }

  async #initialize(exchange: Exchange): Promise<OpenedSession> {
    const link = this.#deps.openLegacy(this.#linkEvents(() => link));
    this.#link = link;
    try {
      const { message } = exchange;
      const params = message.kind === "request" ? formatInitializeParams(message) : "{}";
      const initialize = createRequest(idFrom(++this.#lastId), "initialize", params);
      const handshake = this.#exchangeFor(exchange, initialize, newestLegacy);
      const reply = await this.#requestWithTimeout(link, handshake);
      const facts = parseInitializeResult(reply.message);
      const initialized = createNotification("notifications/initialized", "{}");
      await link.send(this.#exchangeFor(handshake, initialized, facts.revision));
      if (this.#link !== link) throw new GatewayError("upstream_unreachable", "the session ended during the handshake");
      const { upstreamSession: id } = link;
      this.#session = { link, facts, handshake, id, level: noLevel, levelSet: Promise.resolve() };
      return this.#session;
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
      malformed: (bytes, reason, related, context) => {
        const call = related?.reply instanceof BridgedCall ? related.reply : undefined;
        this.#events.malformed(bytes, reason, call === undefined ? related : call.contextExchange, context);
      },
      dropped: (why, message, context) => this.#events.dropped(why, message, context),
      error: (error) => this.#events.error(error),
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

  /** The call that a message belongs to: by its progress token, by its stream, or as the only call that may be asked. */
  #callOf(message: Message, related: Exchange | undefined): BridgedCall | undefined {
    const streaming = related?.reply instanceof BridgedCall ? related.reply : undefined;
    const token = metadataOf(message).related;
    if (token?.type === "progress") {
      const { key } = token.id;
      return streaming?.attempt?.request?.id.key === key ? streaming : this.#events.findCall(this, key);
    }
    const isAboutInput = message.kind === "request" || message.method === "notifications/cancelled";
    return isAboutInput && !this.hasStreamPerCall ? this.exclusiveCall : streaming;
  }

  /** A legacy session has one log level for all calls: the most verbose that any of them requested. */
  async #raiseLogLevel(session: OpenedSession, request: RequestMessage): Promise<void> {
    const level = requestedLogLevel(request);
    if (level < session.level) {
      session.level = level;
      const params = JSON.stringify({ level: loggingLevels[level] });
      // Sent one after the other, so that the server ends up with the most verbose level.
      session.levelSet = session.levelSet
        .then(() => this.sendRequest("logging/setLevel", params, session))
        // The call continues without its log messages.
        .catch((error: unknown) => this.#events.error(GatewayError.from(error)));
    }
    await session.levelSet;
  }

  #checkRenewed(session: OpenedSession): void {
    const id = session.link.upstreamSession;
    if (id === session.id || this.#session !== session) return;
    session.id = id;
    session.level = noLevel;
    this.#events.renewed(this);
  }

  /** For the gateway's own requests, which no other timeout covers. */
  async #requestWithTimeout(link: UpstreamLink, exchange: Exchange): Promise<Reply> {
    const stop = this.#deps.setTimer(this.#deps.gatewayRequestMs, () => exchange.cancellation.cancel("timeout"));
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

/** Whether a request wants log messages, for which the server needs a `logging/setLevel` first. */
function needsLogLevel({ facts }: OpenedSession, request: RequestMessage): boolean {
  return facts.capabilities["logging"] !== undefined && requestedLogLevel(request) >= 0;
}

/** Less verbose than every level. */
const noLevel = loggingLevels.length;

/** What a legacy server declared in `initialize`. */
export interface LegacyServerFacts {
  readonly revision: Revision;
  readonly capabilities: Capabilities;
  /** The JSON text of `serverInfo`. */
  readonly serverInfo: string;
  /** The JSON string of `instructions`. */
  readonly instructions: string | undefined;
}

/** Stands for a client that did not name itself: the legacy handshake requires a name. */
const unnamedClient = '{"name":"unnamed client","version":"0"}';

/** The JSON text of `initialize` params for the client behind a modern request. */
function formatInitializeParams(request: RequestMessage): string {
  const info = memberSource(request, "params._meta.io.modelcontextprotocol/clientInfo") ?? unnamedClient;
  const { roots, sampling, elicitation, experimental } = parseCapabilities(declaredCapabilities(request));
  // Modern clients do not report changes of their roots.
  const capabilities = { roots: roots === undefined ? undefined : {}, sampling, elicitation, experimental };
  return `{"protocolVersion":"${newestLegacy}","capabilities":${JSON.stringify(capabilities)},"clientInfo":${info}}`;
}

/** Reads the answer to `initialize`; throws when it is an error or names an unknown revision. */
function parseInitializeResult(answer: Message | undefined): LegacyServerFacts {
  if (answer?.kind !== "result") throw new GatewayError("upstream_unreachable", "the upstream rejected initialize");
  const version = memberString(answer, "result.protocolVersion");
  const agreed = version === undefined ? undefined : acceptServerRevision(version, revisionNames);
  if (agreed?.ok !== true)
    throw new GatewayError("upstream_invalid", "the upstream answered initialize with an unknown revision");
  const isNamed = memberType(answer, "result.serverInfo") === "object";
  const isInstructed = memberType(answer, "result.instructions") === "string";
  return {
    revision: agreed.revision,
    capabilities: parseCapabilities(memberSource(answer, "result.capabilities") ?? "{}"),
    serverInfo: (isNamed ? memberSource(answer, "result.serverInfo") : undefined) ?? defaultServerInfo,
    instructions: isInstructed ? memberSource(answer, "result.instructions") : undefined,
  };
}

/** The JSON text of a `server/discover` result. Tasks are left out: their legacy and modern forms differ. */
export function bridgedDiscoverResult({ capabilities, serverInfo, instructions }: LegacyServerFacts): string {
  const { tasks: _, extensions, ...served } = capabilities;
  const others = Object.entries(parseCapabilities(JSON.stringify(extensions ?? {}))).filter(
    ([name]) => name !== tasksExtension,
  );
  const shown = others.length === 0 ? served : { ...served, extensions: Object.fromEntries(others) };
  const members = [
    `"resultType":"complete"`,
    `"supportedVersions":["${newestModern}"]`,
    `"capabilities":${JSON.stringify(shown)}`,
    ...(instructions === undefined ? [] : [`"instructions":${instructions}`]),
    `"ttlMs":0`,
    `"cacheScope":"private"`,
    `"_meta":${serverInfoMeta(serverInfo)}`,
  ];
  return `{${members.join(",")}}`;
}
