import { GatewayError } from "../../errors.ts";
import { Cancellation } from "../../core/cancellation.ts";
import { createExchange } from "../../core/exchange.ts";
import { type Exchange, type SetTimer, type TransportContext } from "../../core/exchange.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { type LoggingLevel, loggingLevels } from "../../protocol/envelope.ts";
import { idFrom, type Message, type RequestMessage } from "../../protocol/message.ts";
import { memberString } from "../../protocol/json/read.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { newestModern, type Revision, revisionNames } from "../../protocol/revisions.ts";
import { resultMessage } from "../../core/reply.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import { type ClientCall, type ClientCallDeps, type RoundTripLimits, runCall } from "./call.ts";
import { createUpstreamSubscription, withoutSubscription } from "./upstream-subscription.ts";
import {
  type ClientEnvelope,
  createGatewayRequest,
  parameterHeaders,
  type RetryInput,
  toModernExchange,
  toModernRequest,
  withHeaders,
  withoutPause,
} from "./modern-request.ts";
import {
  type ClientFacts,
  formatInitializeResult,
  hasCapability,
  type ModernServerFacts,
  parseDiscoverResult,
  parseInitializeRequest,
} from "./handshake.ts";
import { createInputRequester } from "./input-requests.ts";
import { createToolCache, type ToolFacts } from "./tool-cache.ts";

/** Bounds of a bridged session; times in milliseconds. */
export interface LegacyToModernLimits extends RoundTripLimits {
  /** How long a client may think about one round of questions. */
  readonly answerMs: number;
  /** How long the bridge's own reading of the tool list may take. */
  readonly readMs: number;
  /** How many resources a session may subscribe to. */
  readonly maxResources: number;
}

/** Eight rounds and ten minutes for a person, as the official SDK has them. */
const defaultLegacyToModernLimits: LegacyToModernLimits = {
  maxRounds: 8,
  maxInputRequests: 32,
  paceMs: 250,
  answerMs: 600_000,
  readMs: 30_000,
  maxResources: 1000,
};

export interface LegacyToModernDeps {
  /** Opens the way to the upstream, which is spoken to in 2026-07-28. */
  readonly open: (events: LinkEvents) => UpstreamLink;
  /** Hears what the upstream has to say to the client, in the client's words. */
  readonly events: LinkEvents;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /** Whether the upstream compares headers with bodies, as it does over HTTP. */
  readonly validatesHeaders: boolean;
  /** Revisions to agree on with the client; all legacy ones unless told. */
  readonly supported?: readonly Revision[];
  readonly limits?: Partial<LegacyToModernLimits>;
}

/**
 * Makes the link of a legacy session to a server that speaks only 2026-07-28. Towards the gateway it is a legacy
 * server: it shakes hands, keeps log level and subscriptions, and puts what the server asks for to the client as
 * requests, so that they pass the same pipeline as those of any legacy server.
 */
export function createLegacyToModernLink(options: LegacyToModernDeps): UpstreamLink {
  return new LegacyToModernLink(options);
}

/** What the handshake told. */
interface AgreedSession {
  readonly client: ClientFacts;
  readonly server: ModernServerFacts;
  /** Where requests of our own take their circumstances from. */
  readonly handshake: Exchange;
}

/** Methods of the legacy era that the bridge answers itself, as the modern one has them no more. */
type LocalHandler = (exchange: Exchange, message: RequestMessage) => Promise<Reply>;

/** An exchange upstream that knows which one of the client it was made for. */
interface MadeFor extends Exchange {
  readonly madeFor: Exchange;
}

class LegacyToModernLink implements UpstreamLink {
  readonly upstreamSession = undefined;
  readonly #events: LinkEvents;
  readonly #options: LegacyToModernDeps;
  readonly #limits: LegacyToModernLimits;
  readonly #inner: UpstreamLink;
  /** Requests of the client that are not answered yet; few, and a map of ever new ids is costly to keep. */
  readonly #calls: ClientCall[] = [];
  readonly #questions;
  readonly #tools;
  readonly #feed;
  readonly #local: ReadonlyMap<string, LocalHandler>;
  readonly #run: (call: ClientCall) => Promise<Reply>;
  #agreed: AgreedSession | undefined;
  #logLevel: LoggingLevel | undefined;
  #requests = 0;
  #isClosed = false;

  constructor(options: LegacyToModernDeps) {
    const { events, setTimer, newId, validatesHeaders: seesHeaders } = options;
    this.#options = options;
    this.#events = events;
    this.#limits = { ...defaultLegacyToModernLimits, ...options.limits };
    this.#inner = options.open({
      message: (message, related, context) => this.#received(message, related, context),
      malformed: (bytes, reason) => {
        events.malformed(bytes, reason);
      },
      error: (error) => {
        events.error(error);
      },
      // The session lives here and not upstream: what comes next finds the way again.
      closed: (error) => {
        events.error(error);
      },
    });
    this.#questions = createInputRequester({
      events,
      setTimer,
      newId,
      client: () => this.#agreement().client,
      answerMs: this.#limits.answerMs,
    });
    this.#tools = createToolCache({
      validatesHeaders: seesHeaders,
      readPage: (cursor) => this.#readTools(cursor),
      onError: (error) => {
        events.error(error);
      },
    });
    this.#feed = createUpstreamSubscription({
      lists: () => {
        const { server } = this.#agreement();
        return {
          tools: hasCapability(server, "tools", "listChanged"),
          prompts: hasCapability(server, "prompts", "listChanged"),
          resources: hasCapability(server, "resources", "listChanged"),
        };
      },
      exchangeFor: (filter, cancellation) =>
        this.#own("subscriptions/listen", [`"notifications":${filter}`], cancellation),
      request: (exchange) => this.#inner.request(exchange),
      setTimer,
      onError: (error) => {
        events.error(error);
      },
      maxResources: this.#limits.maxResources,
    });
    const deps: ClientCallDeps = {
      limits: this.#limits,
      setTimer,
      inputRequester: this.#questions,
      tools: this.#tools,
      send: (call, input, tool) => this.#send(call, input, tool),
    };
    this.#run = (call) => runCall(call, deps);
    this.#local = new Map<string, LocalHandler>([
      ["initialize", (exchange, message) => this.#shakeHands(exchange, message)],
      ["ping", async (_exchange, { id }) => ({ message: resultMessage(id, "{}") })],
      ["logging/setLevel", async (_exchange, message) => this.#setLevel(message)],
      ["resources/subscribe", (_exchange, message) => this.#watch(message, true)],
      ["resources/unsubscribe", (_exchange, message) => this.#watch(message, false)],
    ]);
  }

  get incarnation(): string {
    return this.#inner.incarnation;
  }

  get hasBackpressure(): boolean {
    return this.#inner.hasBackpressure;
  }

  request(exchange: Exchange): Promise<Reply> {
    try {
      return this.#answerOf(exchange);
    } catch (error) {
      return Promise.reject(GatewayError.from(error));
    }
  }

  #answerOf(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind !== "request") throw new GatewayError("internal", "only requests have answers");
    if (this.#isClosed) throw new GatewayError("upstream_unreachable", "the connection has been closed");
    const local = this.#local.get(message.method);
    if (local !== undefined) return local(exchange, message);
    const { client } = this.#agreement();
    const form = methodFacts(message.method)?.forms;
    // What only the other era knows must not be reached around its rules; names that nobody knows may be extensions.
    if (form !== undefined && (form[client.revision] !== "core" || form[newestModern] !== "core")) {
      throw new GatewayError("method_not_found", `method not found: ${message.method}`);
    }
    return this.#during(exchange, message, client.revision, this.#run);
  }

  async send(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind === "result" || message.kind === "error") {
      this.#questions.receiveResponse(message);
      return noReply;
    }
    if (message.method === "notifications/cancelled") {
      const target = metadataOf(message).related;
      // Upstream there is nothing to say but that nobody waits: each transport of the era has its own way.
      if (target !== undefined) this.#callOf(target.id.key)?.cancellation.cancel("client-gone");
      return noReply;
    }
    // Clients of the modern era tell a server nothing else; what nobody knows may belong to an extension.
    if (message.kind !== "notification" || methodFacts(message.method) !== undefined) return noReply;
    return this.#inner.send(toModernExchange(exchange, message));
  }

  listen(): void {
    if (this.#agreed !== undefined && !this.#isClosed) this.#feed.start();
  }

  async close(reason: string): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#feed.close();
    for (const { cancellation } of this.#calls.slice()) cancellation.cancel("session-ended");
    await this.#inner.close(reason);
  }

  /** Keeps track of a request of the client while it runs; a cancel of it reaches whatever is going on. */
  async #during(
    exchange: Exchange,
    message: RequestMessage,
    revision: Revision,
    work: (call: ClientCall) => Promise<Reply>,
  ): Promise<Reply> {
    const cancellation = new Cancellation();
    const off = exchange.cancellation.onCancel((reason) => {
      // The client's own cancel has reached nobody yet, so upstream it is told like any other.
      cancellation.cancel(reason === "cancelled" ? "client-gone" : reason);
    });
    const call: ClientCall = { exchange, message, revision, cancellation };
    this.#calls.push(call);
    try {
      return await work(call);
    } finally {
      off();
      this.#calls.splice(this.#calls.indexOf(call), 1);
    }
  }

  /** The handshake is ours to answer, with what the server says of itself (MCP 2026-07-28, Discovery). */
  #shakeHands(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const client = parseInitializeRequest(message, this.#options.supported ?? revisionNames);
    return this.#during(exchange, message, client.revision, async (call) => {
      const request = createGatewayRequest(this.#nextId(), "server/discover", [], {
        ...client,
        logLevel: undefined,
      });
      const answer = await this.#inner.request(this.#onBehalf(call, request, undefined));
      const server = parseDiscoverResult(answer.message);
      this.#agreed = { client, server, handshake: exchange };
      return { message: resultMessage(message.id, formatInitializeResult(client, server, exchange.route)) };
    });
  }

  #setLevel(message: RequestMessage): Reply {
    this.#require("logging", undefined, message);
    const wished = memberString(message, "params.level");
    const level = loggingLevels.find((known) => known === wished);
    if (level === undefined) {
      throw new GatewayError("invalid_params", `params.level must be one of ${loggingLevels.join(", ")}`);
    }
    this.#logLevel = level;
    return { message: resultMessage(message.id, "{}") };
  }

  async #watch(message: RequestMessage, isWanted: boolean): Promise<Reply> {
    this.#require("resources", "subscribe", message);
    const uri = memberString(message, "params.uri");
    if (uri === undefined) throw new GatewayError("invalid_params", "params.uri must be a string");
    await (isWanted ? this.#feed.subscribe(uri) : this.#feed.unsubscribe(uri));
    return { message: resultMessage(message.id, "{}") };
  }

  #require(capability: string, detail: string | undefined, { method }: RequestMessage): void {
    if (hasCapability(this.#agreement().server, capability, detail)) return;
    throw new GatewayError("method_not_found", `method not found: the server does not offer ${method}`);
  }

  #send(call: ClientCall, input: RetryInput | undefined, tool: ToolFacts | undefined): Promise<Reply> {
    const message = toModernRequest(call.message, this.#nextId(), this.#envelope(), input);
    return this.#inner.request(this.#onBehalf(call, message, tool));
  }

  /** A request upstream as part of a request of the client. */
  #onBehalf(call: ClientCall, message: RequestMessage, tool: ToolFacts | undefined): MadeFor {
    const { exchange: client, cancellation } = call;
    const exchange = createExchange({
      ...client,
      id: `${client.id}.${this.#requests}`,
      message,
      revision: newestModern,
      session: undefined,
      transport: withHeaders(client.transport, parameterHeaders(message, tool)),
      parent: undefined,
      cancellation,
      reply: withoutPause(client.reply),
    });
    return Object.assign(exchange, { madeFor: client });
  }

  /** A request upstream that no request of the client led to. */
  #own(method: string, members: readonly string[], cancellation: Cancellation): Exchange {
    const { handshake } = this.#agreement();
    const message = createGatewayRequest(this.#nextId(), method, members, this.#envelope());
    const id = `${handshake.id}.${this.#requests}`;
    return { ...toModernExchange(handshake, message), id, cancellation, reply: undefined };
  }

  async #readTools(cursor: string | undefined): Promise<Message | undefined> {
    const cancellation = new Cancellation();
    const stop = this.#options.setTimer(this.#limits.readMs, () => {
      cancellation.cancel("timeout");
    });
    const place = cursor === undefined ? [] : [`"cursor":${JSON.stringify(cursor)}`];
    try {
      return (await this.#inner.request(this.#own("tools/list", place, cancellation))).message;
    } finally {
      stop();
    }
  }

  /** Takes what the upstream sends of its own accord to the client. */
  #received(message: Message, related: Exchange | undefined, context: TransportContext): void | Promise<void> {
    if (message.kind === "request") {
      const text = `the upstream sent the request ${message.method}, which its revision does not allow`;
      this.#events.error(new GatewayError("upstream_invalid", text));
      return undefined;
    }
    if (message.method === "notifications/tools/list_changed") this.#tools.invalidate();
    if (this.#feed.owns(message, related)) {
      if (!this.#feed.handle(message, related)) return undefined;
      return this.#events.message(withoutSubscription(message), undefined, context);
    }
    const facts = message.method === undefined ? undefined : methodFacts(message.method);
    // What ends or opens a stream that is none of ours any more is not for the client.
    if (facts?.listenOnly === true || message.method === "notifications/cancelled") return undefined;
    return this.#events.message(message, this.#clientExchange(related), context);
  }

  /** The last call with this id. */
  #callOf(key: string): ClientCall | undefined {
    return this.#calls.findLast(({ message }) => message.id.key === key);
  }

  /** The request of the client that a message belongs to, or the only one that runs where the transport cannot tell. */
  #clientExchange(related: Exchange | undefined): Exchange | undefined {
    if (related !== undefined) return "madeFor" in related ? (related as MadeFor).madeFor : undefined;
    const [only, another] = this.#calls;
    return another === undefined ? only?.exchange : undefined;
  }

  #envelope(): ClientEnvelope {
    return { ...this.#agreement().client, logLevel: this.#logLevel };
  }

  #agreement(): AgreedSession {
    if (this.#agreed !== undefined) return this.#agreed;
    throw new GatewayError("invalid_message", "the session begins with initialize");
  }

  #nextId() {
    return idFrom(++this.#requests);
  }
}
