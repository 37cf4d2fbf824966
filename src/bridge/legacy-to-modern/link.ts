import { Cancellation } from "../../core/cancellation.ts";
import { createExchange, type Exchange, type SetTimer, type TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { type LoggingLevel, loggingLevels } from "../../protocol/envelope.ts";
import { memberString } from "../../protocol/json/read.ts";
import { idFrom, type Message, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { newestModern, type Revision, revisionNames } from "../../protocol/revisions.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import { type ClientCall, type ClientCallDeps, type RoundTripLimits, runCall } from "./call.ts";
import {
  type ClientFacts,
  bridgedInitializeResult,
  hasCapability,
  type ModernServerFacts,
  parseDiscoverResult,
  parseInitializeRequest,
} from "./handshake.ts";
import { createInputRequester, type InputRequester } from "./input-requests.ts";
import {
  type ClientEnvelope,
  createGatewayRequest,
  parameterHeaders,
  type RetryInput,
  toModernExchange,
  toModernRequest,
  withoutPause,
  replaceParameterHeaders,
} from "./modern-request.ts";
import { createToolCache, type ToolCache, type ToolFacts } from "./tool-cache.ts";
import { createUpstreamSubscription, type UpstreamSubscription, withoutSubscription } from "./upstream-subscription.ts";

/** Bounds of a bridged session; times in milliseconds. */
export interface LegacyToModernLimits extends RoundTripLimits {
  /** How long a client may take for one round of input requests. */
  readonly answerMs: number;
  /** How long the bridge's own reading of the tool list may take. */
  readonly readMs: number;
  /** How many resources a session may subscribe to. */
  readonly maxResources: number;
}

/** Eight rounds and ten minutes for a person, as in the official SDK. */
const defaultLegacyToModernLimits: LegacyToModernLimits = {
  maxRounds: 8,
  maxInputRequests: 32,
  paceMs: 250,
  answerMs: 600_000,
  readMs: 30_000,
  maxResources: 1000,
};

export interface LegacyToModernDeps {
  /** Opens the link to the upstream, which speaks 2026-07-28. */
  readonly open: (events: LinkEvents) => UpstreamLink;
  /** Receives what the upstream sends to the client, in its legacy form. */
  readonly events: LinkEvents;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /** Whether the upstream compares headers with bodies, as it does over HTTP. */
  readonly validatesHeaders: boolean;
  /** Revisions to negotiate with the client; all legacy ones by default. */
  readonly supported?: readonly Revision[];
  readonly limits?: Partial<LegacyToModernLimits>;
}

/**
 * Makes the link of a legacy session to a server that speaks only 2026-07-28. To the gateway it looks like a legacy
 * server: it answers `initialize`, keeps the log level and the subscriptions, and sends the server's input requests to
 * the client as requests, so that they pass the same pipeline as those of a legacy server.
 */
export function createLegacyToModernLink(deps: LegacyToModernDeps): UpstreamLink {
  return new LegacyToModernLink(deps);
}

/** What the handshake agreed on. */
interface AgreedSession {
  readonly client: ClientFacts;
  readonly server: ModernServerFacts;
  /** The client's `initialize`; the bridge's own requests are made like it. */
  readonly handshake: Exchange;
}

class LegacyToModernLink implements UpstreamLink {
  readonly upstreamSession = undefined;
  readonly #deps: LegacyToModernDeps;
  readonly #events: LinkEvents;
  readonly #limits: LegacyToModernLimits;
  readonly #upstream: UpstreamLink;
  /** Requests of the client that are not answered yet. */
  readonly #calls: ClientCall[] = [];
  readonly #inputRequester: InputRequester;
  readonly #tools: ToolCache;
  readonly #subscription: UpstreamSubscription;
  readonly #callDeps: ClientCallDeps;
  #agreed: AgreedSession | undefined;
  #logLevel: LoggingLevel | undefined;
  #requests = 0;
  #isClosed = false;

  constructor(deps: LegacyToModernDeps) {
    const { events, setTimer, newId, validatesHeaders } = deps;
    const onError = (error: GatewayError): void => events.error(error);
    this.#deps = deps;
    this.#events = events;
    this.#limits = { ...defaultLegacyToModernLimits, ...deps.limits };
    this.#upstream = deps.open({
      message: (message, related, context) => this.#received(message, related, context),
      malformed: (bytes, reason, related, context) => {
        events.malformed(bytes, reason, this.#clientExchange(related), context);
      },
      dropped: (why, message, context) => events.dropped?.(why, message, context),
      error: onError,
      // The session lives here, not upstream: the next request connects again.
      closed: onError,
    });
    this.#inputRequester = createInputRequester({
      events,
      setTimer,
      newId,
      client: () => this.#agreement().client,
      answerMs: this.#limits.answerMs,
    });
    this.#tools = createToolCache({ validatesHeaders, readPage: (cursor) => this.#readTools(cursor), onError });
    this.#subscription = createUpstreamSubscription({
      lists: () => {
        const { server } = this.#agreement();
        return {
          tools: hasCapability(server, "tools", "listChanged"),
          prompts: hasCapability(server, "prompts", "listChanged"),
          resources: hasCapability(server, "resources", "listChanged"),
        };
      },
      exchangeFor: (filter, cancellation) =>
        this.#gatewayExchange("subscriptions/listen", [`"notifications":${filter}`], cancellation),
      request: (exchange) => this.#upstream.request(exchange),
      setTimer,
      onError,
      maxResources: this.#limits.maxResources,
    });
    this.#callDeps = {
      limits: this.#limits,
      setTimer,
      inputRequester: this.#inputRequester,
      tools: this.#tools,
      send: (call, input, tool) => this.#send(call, input, tool),
    };
  }

  get incarnation(): string {
    return this.#upstream.incarnation;
  }

  get hasBackpressure(): boolean {
    return this.#upstream.hasBackpressure;
  }

  async request(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have answers");
    if (this.#isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    switch (message.method) {
      // Methods that the modern revision has dropped are answered here.
      case "initialize":
        return this.#initialize(exchange, message);
      case "ping":
        return { message: resultMessage(message.id, "{}") };
      case "logging/setLevel":
        return this.#setLevel(message);
      case "resources/subscribe":
        return this.#setSubscribed(message, true);
      case "resources/unsubscribe":
        return this.#setSubscribed(message, false);
      default:
        return this.#forward(exchange, message);
    }
  }

  #forward(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const { client } = this.#agreement();
    const forms = methodFacts(message.method)?.forms;
    // A method must be known to both revisions; one known to none may belong to an extension.
    if (forms !== undefined && (forms[client.revision] !== "core" || forms[newestModern] !== "core")) {
      throw new GatewayError("method_not_found", `method not found: ${message.method}`);
    }
    return this.#track(exchange, message, client.revision, (call) => runCall(call, this.#callDeps));
  }

  async send(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind === "result" || message.kind === "error") {
      this.#inputRequester.receiveResponse(message);
      return noReply;
    }
    if (message.method === "notifications/cancelled") {
      const key = metadataOf(message).related?.id.key;
      // With "client-gone", each modern transport cancels in its own way.
      this.#calls.findLast((call) => call.message.id.key === key)?.cancellation.cancel("client-gone");
      return noReply;
    }
    // Modern clients send no other notifications; one known to no revision may belong to an extension.
    if (message.kind !== "notification" || methodFacts(message.method) !== undefined) return noReply;
    return this.#upstream.send(toModernExchange(exchange, message));
  }

  listen(): void {
    if (this.#agreed !== undefined && !this.#isClosed) this.#subscription.start();
  }

  async close(reason: string): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#subscription.close();
    for (const { cancellation } of this.#calls.slice()) cancellation.cancel("session-ended");
    await this.#upstream.close(reason);
  }

  /** Runs a request of the client so that it can be cancelled. */
  async #track(
    exchange: Exchange,
    message: RequestMessage,
    revision: Revision,
    run: (call: ClientCall) => Promise<Reply>,
  ): Promise<Reply> {
    const cancellation = new Cancellation();
    const off = exchange.cancellation.onCancel((reason) => {
      // The upstream has not heard of the client's cancel yet.
      cancellation.cancel(reason === "cancelled" ? "client-gone" : reason);
    });
    const call: ClientCall = { exchange, message, revision, cancellation };
    this.#calls.push(call);
    try {
      return await run(call);
    } finally {
      off();
      this.#calls.splice(this.#calls.indexOf(call), 1);
    }
  }

  /** Answers `initialize` with the result of `server/discover` (MCP 2026-07-28, Discovery). */
  #initialize(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const client = parseInitializeRequest(message, this.#deps.supported ?? revisionNames);
    return this.#track(exchange, message, client.revision, async (call) => {
      const envelope = { ...client, logLevel: undefined };
      const request = createGatewayRequest(this.#nextId(), "server/discover", [], envelope);
      const answer = await this.#upstream.request(this.#upstreamExchange(call, request, undefined));
      const server = parseDiscoverResult(answer.message);
      this.#agreed = { client, server, handshake: exchange };
      return { message: resultMessage(message.id, bridgedInitializeResult(client, server, exchange.route)) };
    });
  }

  #setLevel(message: RequestMessage): Reply {
    this.#requireCapability("logging", undefined, message);
    const requested = memberString(message, "params.level");
    const level = loggingLevels.find((known) => known === requested);
    if (level === undefined) {
      throw new GatewayError("invalid_params", `params.level must be one of ${loggingLevels.join(", ")}`);
    }
    this.#logLevel = level;
    return { message: resultMessage(message.id, "{}") };
  }

  async #setSubscribed(message: RequestMessage, isSubscribed: boolean): Promise<Reply> {
    this.#requireCapability("resources", "subscribe", message);
    const uri = memberString(message, "params.uri");
    if (uri === undefined) throw new GatewayError("invalid_params", "params.uri must be a string");
    await (isSubscribed ? this.#subscription.subscribe(uri) : this.#subscription.unsubscribe(uri));
    return { message: resultMessage(message.id, "{}") };
  }

  #requireCapability(capability: string, detail: string | undefined, { method }: RequestMessage): void {
    if (hasCapability(this.#agreement().server, capability, detail)) return;
    throw new GatewayError("method_not_found", `method not found: the server does not offer ${method}`);
  }

  #send(call: ClientCall, input: RetryInput | undefined, tool: ToolFacts | undefined): Promise<Reply> {
    const message = toModernRequest(call.message, this.#nextId(), this.#envelope(), input);
    return this.#upstream.request(this.#upstreamExchange(call, message, tool));
  }

  /** The exchange of a request upstream that is part of a call. */
  #upstreamExchange(call: ClientCall, message: RequestMessage, tool: ToolFacts | undefined): Exchange {
    const { exchange: client, cancellation } = call;
    call.upstream = createExchange({
      ...client,
      id: `${client.id}.${this.#requests}`,
      message,
      revision: newestModern,
      session: undefined,
      transport: replaceParameterHeaders(client.transport, parameterHeaders(message, tool)),
      parent: undefined,
      cancellation,
      reply: withoutPause(client.reply),
    });
    return call.upstream;
  }

  /** The exchange of a request that the bridge itself makes, outside any call. */
  #gatewayExchange(method: string, members: readonly string[], cancellation: Cancellation): Exchange {
    const { handshake } = this.#agreement();
    const message = createGatewayRequest(this.#nextId(), method, members, this.#envelope());
    const id = `${handshake.id}.${this.#requests}`;
    return { ...toModernExchange(handshake, message), id, cancellation, reply: undefined };
  }

  async #readTools(cursor: string | undefined): Promise<Message | undefined> {
    const cancellation = new Cancellation();
    const stop = this.#deps.setTimer(this.#limits.readMs, () => cancellation.cancel("timeout"));
    const members = cursor === undefined ? [] : [`"cursor":${JSON.stringify(cursor)}`];
    try {
      return (await this.#upstream.request(this.#gatewayExchange("tools/list", members, cancellation))).message;
    } finally {
      stop();
    }
  }

  /** Passes an unsolicited message of the upstream to the client. */
  #received(message: Message, related: Exchange | undefined, context: TransportContext): void | Promise<void> {
    if (message.kind === "request") {
      const text = `the upstream sent the request ${message.method}, which its revision does not allow`;
      this.#events.error(new GatewayError("upstream_invalid", text));
      return this.#events.dropped?.("direction.request", message, context);
    }
    if (message.method === "notifications/tools/list_changed") this.#tools.invalidate();
    if (this.#subscription.owns(message, related)) {
      if (!this.#subscription.handle(message, related)) return undefined;
      return this.#events.message(withoutSubscription(message), undefined, context);
    }
    const facts = message.method === undefined ? undefined : methodFacts(message.method);
    // Belongs to a listen stream that was dropped.
    if (facts?.listenOnly === true) return this.#events.dropped?.("subscription.unknown", message, context);
    if (message.method === "notifications/cancelled") return this.#events.dropped?.("cancel.unknown", message, context);
    return this.#events.message(message, this.#clientExchange(related), context);
  }

  /** The client's request that a message belongs to; the only one that runs, where the transport does not tell. */
  #clientExchange(related: Exchange | undefined): Exchange | undefined {
    if (related !== undefined) return this.#calls.find(({ upstream }) => upstream === related)?.exchange;
    const [only, another] = this.#calls;
    return another === undefined ? only?.exchange : undefined;
  }

  #envelope(): ClientEnvelope {
    return { ...this.#agreement().client, logLevel: this.#logLevel };
  }

  #agreement(): AgreedSession {
    if (this.#agreed !== undefined) return this.#agreed;
    throw new GatewayError("invalid_message", "the session must begin with initialize");
  }

  #nextId(): RequestId {
    return idFrom(++this.#requests);
  }
}
