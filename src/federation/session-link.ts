import type { Exchange, TransportContext, UpstreamTarget } from "../core/exchange.ts";
import { noReply, type Reply } from "../core/pipeline.ts";
import { errorMessage, resultMessage } from "../core/reply.ts";
import { GatewayError } from "../errors.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { memberString } from "../protocol/json/read.ts";
import { idFrom, type Message, replaceIds, type RequestId, type RequestMessage } from "../protocol/message.ts";
import { metadataOf } from "../protocol/metadata.ts";
import { negotiateRevision, revisionNames } from "../protocol/revisions.ts";
import {
  type LinkEvents,
  relayFindings,
  type ResumedSession,
  untilCancelled,
  type UpstreamLink,
} from "../transports/transport.ts";
import { Catalogue } from "./lists/catalogue.ts";
import type { ListFacts } from "./names/list-facts.ts";
import { capabilityOf } from "./lists/catalogue-entries.ts";
import { ChangeNotices } from "./lists/change-notices.ts";
import type { Federation } from "./federation.ts";
import { withAdvertisedTasks, withAsker, withLogger } from "./names/member-messages.ts";
import type { MemberOptions } from "./names/member-options.ts";
import { askOver, createOwnExchange, createOwnNotification, createOwnRequest } from "./member-requests.ts";
import { withAdvertisedUris, withOwnUris } from "./names/member-uris.ts";
import { MemberSession } from "./member-session.ts";
import { formatKeptMembers, keptKey, parseKeptMembers } from "./kept-members.ts";
import { Router } from "./router.ts";
import { type BusyMember, RunningCalls } from "./running-calls.ts";
import { formatInitializeResult, type ServerFacts } from "./server-facts.ts";

export interface SessionLinkDeps {
  readonly federation: Federation;
  readonly events: LinkEvents;
  /** Opens a link to a member, for this session. */
  readonly open: (member: MemberOptions, events: LinkEvents) => UpstreamLink;
  /** Identifies the server of a member. */
  readonly addressOf: (member: string) => string;
}

/** A request of a member that the client has not answered. */
interface Question {
  readonly member: SessionMember;
  readonly id: RequestId;
  readonly progressToken: RequestId | undefined;
}

/** A member as this session has it. */
interface SessionMember extends BusyMember {
  readonly options: MemberOptions;
  readonly session: MemberSession;
  readonly catalogue: Catalogue;
  facts: ServerFacts | undefined;
}

/** How many subscriptions of a client are remembered. */
const maxSubscribed = 1000;

const inProcess: TransportContext = { type: "in-process" };

/** The link of a legacy session to a federation: to the gateway it looks like one legacy server. */
export class FederatedSessionLink implements UpstreamLink {
  readonly incarnation = "federation";
  /** It never resolves to another link, so it need not be looked up with each message. */
  readonly resolvedLink: UpstreamLink = this;
  readonly #federation: Federation;
  readonly #events: LinkEvents;
  readonly #deps: SessionLinkDeps;
  readonly #leave: () => void;
  #members: ReadonlyMap<string, SessionMember>;
  readonly #router: Router;
  readonly #changes: ChangeNotices;
  /** Requests of members that wait for the client, by the id that the client knows. */
  readonly #questions = new Map<string, Question>();
  /** Requests of the client that run at a member. */
  readonly #running = new RunningCalls<SessionMember>();
  #handshake: Exchange | undefined;
  #level: string | undefined;
  /** The resources that the client is subscribed to, by member and URI. */
  readonly #subscribed = new BoundedMap<string, UpstreamTarget>(maxSubscribed);
  #asked = 0;
  /** Also for a session of another process, whose client knows the lists. */
  #isInitialized = false;
  #isListening = false;
  /** If another process opened the session, that one may receive the change notifications. */
  #isResumed = false;
  readonly #addressOf: (member: string) => string;

  constructor(deps: SessionLinkDeps) {
    const { federation, events, addressOf } = deps;
    this.#deps = deps;
    this.#federation = federation;
    this.#addressOf = addressOf;
    this.#events = events;
    this.#members = new Map(federation.options.members.map((options) => [options.name, this.#createMember(options)]));
    this.#leave = federation.join(this);
    this.#router = new Router(federation, {
      linkOf: ({ name }, { cancellation }) => {
        const { session } = this.#member(name);
        return session.link ?? untilCancelled(cancellation, session.ready());
      },
      catalogueOf: ({ name }) => this.#member(name).catalogue,
      began: (message, member) => this.#running.begin(message, this.#member(member.name)),
      listed: (_exchange, facts, entries) => {
        this.#changes.listed(facts, entries);
      },
      lacked: (facts, name) => {
        if (this.#isListening) federation.recoveries.watch(name, this, () => this.#isBack(name, facts));
      },
    });
    this.#changes = new ChangeNotices({
      setTimer: federation.setTimer,
      turn: federation.turn,
      read: (facts) => this.#router.wholeList(this.#agreement(), facts),
      isVisible: (facts, entries) => this.#router.isVisible(this.#agreement(), facts, entries),
      tell: (capability) => {
        void events.message(createOwnNotification(`notifications/${capability}/list_changed`), undefined, inProcess);
      },
    });
  }

  /** The sessions of all members that have one. */
  get upstreamSession(): string | undefined {
    const kept = [...this.#members.values()].flatMap(({ options: { name }, session: { link }, facts }) => {
      const session = link?.upstreamSession;
      if (session === undefined || facts === undefined) return [];
      const { capabilities, revision } = facts;
      return [[keptKey(name, this.#addressOf(name)), { session, revision, capabilities }] as const];
    });
    return formatKeptMembers(new Map(kept));
  }

  /** Continues the sessions that another process opened with members; the others start over when they are needed. */
  resume(resumed: ResumedSession): boolean {
    const kept = parseKeptMembers(resumed.session);
    this.#handshake = resumed.initialize;
    this.#isInitialized = true;
    this.#isResumed = true;
    for (const member of this.#members.values()) {
      const { name } = member.options;
      const own = kept.get(keptKey(name, this.#addressOf(name)));
      if (!member.session.resume(resumed, own)) continue;
      member.facts = { capabilities: own?.capabilities ?? {}, instructions: undefined, revision: own?.revision };
      this.#federation.facts.learn(name, member.facts);
    }
    return true;
  }

  get hasBackpressure(): boolean {
    return [...this.#members.values()].every(({ session }) => session.hasBackpressure);
  }

  /** For looking up the names and URIs of members. */
  get lists(): Router {
    return this.#router;
  }

  request(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind !== "request") return Promise.reject(new GatewayError("internal", "only requests have answers"));
    switch (message.method) {
      case "initialize":
        return this.#initialize(exchange, message);
      case "ping":
        return Promise.resolve({ message: resultMessage(message.id, "{}") });
      case "logging/setLevel":
        return this.#setLevel(exchange, message);
      case "resources/subscribe":
      case "resources/unsubscribe":
        return this.#subscribe(exchange, message);
      default:
        return this.#router.request(exchange, message);
    }
  }

  async send(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind === "result" || message.kind === "error") return this.#answer(exchange, message);
    if (message.method === "notifications/initialized") {
      this.#isInitialized = true;
      await Promise.allSettled([...this.#members.values()].map(({ session }) => session.initialized()));
      return noReply;
    }
    const { related } = metadataOf(message);
    if (related?.type === "cancel") {
      const member = this.#running.memberOf(related.id.key);
      return member === undefined ? noReply : this.#sendTo(member, exchange);
    }
    if (related?.type === "progress") {
      const question = this.#questions.get(related.id.key);
      if (question?.progressToken === undefined) return noReply;
      const restored = replaceIds(message, [{ name: "params.progressToken", id: question.progressToken }]);
      return this.#sendTo(question.member, { ...exchange, message: restored, original: restored });
    }
    // Notifications about the client as a whole, such as its roots.
    await Promise.allSettled([...this.#members.values()].map((member) => this.#sendTo(member, exchange)));
    return noReply;
  }

  async listen(): Promise<void> {
    this.#isListening = true;
    await Promise.all([...this.#members.values()].map(({ session }) => session.listen()));
  }

  async close(reason: string, isKept?: boolean): Promise<void> {
    this.#leave();
    this.#federation.recoveries.leave(this);
    this.#changes.close();
    await Promise.all([...this.#members.values()].map(({ session }) => session.close(reason, isKept)));
  }

  /**
   * After a reload: sessions with replaced or removed members end when their requests are answered, new ones start with
   * the client's handshake, and all others stay.
   */
  async reconfigured(changed: ReadonlySet<string>, graceMs: number): Promise<void> {
    const before = this.#members;
    this.#members = new Map(
      this.#federation.options.members.map((options) => {
        const known = changed.has(options.name) ? undefined : before.get(options.name);
        return [options.name, known ?? this.#createMember(options)];
      }),
    );
    for (const [name, member] of this.#members) {
      member.catalogue.forget();
      if (before.get(name) === member) continue;
      if (this.#isInitialized) void member.session.initialized();
      if (this.#isListening) void member.session.listen();
      if (this.#handshake !== undefined)
        member.session.start(this.#handshake).catch((error: unknown) => {
          this.#events.error(GatewayError.from(error));
        });
    }
    for (const capability of ["tools", "prompts", "resources"]) this.#changes.changed(capability);
    const old = [...before].filter(([name, member]) => this.#members.get(name) !== member);
    await Promise.all(old.map(([, member]) => this.#retire(member, graceMs)));
  }

  /** Ends the session with a member when its requests are answered, or after a while. */
  async #retire(member: SessionMember, graceMs: number): Promise<void> {
    if (member.running > 0) {
      const idle = Promise.withResolvers<void>();
      const stop = this.#federation.setTimer(graceMs, idle.resolve);
      member.onIdle = idle.resolve;
      await idle.promise;
      stop();
    }
    await member.session.close("the server has been replaced");
  }

  #createMember(options: MemberOptions): SessionMember {
    const { federation, open } = this.#deps;
    // A reload may change its title and prefix.
    const current = (): MemberOptions => federation.member(options.name) ?? options;
    const session = new MemberSession({
      member: options,
      ask: federation,
      open: (events) => open(options, events),
      events: {
        message: (message, related, context) => this.#received(member, current(), message, related, context),
        ...relayFindings(this.#events),
      },
      onReady: (facts) => {
        this.#onReady(member, facts);
      },
      onGone: (error) => {
        member.catalogue.expire();
        this.#events.error(error);
      },
    });
    const catalogue = new Catalogue({
      clock: federation.clock,
      reader: { read: (facts, page) => federation.readerOf(options).read(facts, page) },
      ask: async (like, method, cursor) => {
        const link = session.link ?? (await session.ready());
        const message = createOwnRequest(
          like,
          method,
          cursor === undefined ? [] : [`"cursor":${JSON.stringify(cursor)}`],
        );
        const capability = capabilityOf(member.facts?.capabilities, method.split("/")[0] ?? "");
        if (capability === undefined)
          return { message: errorMessage(message.id, { code: -32601, message: "not offered" }) };
        return askOver(link, options.name, createOwnExchange(like, message), federation);
      },
      // A server that reports changes by itself need not be asked.
      freshness: ({ capability }) => {
        if (this.#isResumed && !this.#isListening) return 0;
        const details = capabilityOf(member.facts?.capabilities, capability);
        return details === undefined || details["listChanged"] === true ? federation.options.listing.stale : 0;
      },
    });
    const member: SessionMember = { options, session, catalogue, facts: undefined, running: 0, onIdle: undefined };
    return member;
  }

  /** Whether a member that a list lacked has that list now; if so, the client is notified. */
  async #isBack(name: string, facts: ListFacts): Promise<boolean> {
    const member = this.#members.get(name);
    if (member === undefined) return true;
    const { type } = await member.catalogue.read(this.#agreement(), facts, undefined).outcome;
    if (type !== "failed") this.#mayHaveChanged(member);
    return type !== "failed";
  }

  #member(name: string): SessionMember {
    const member = this.#members.get(name);
    if (member === undefined) throw new GatewayError("internal", `no member ${name}`);
    return member;
  }

  async #initialize(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const requested = memberString(message, "params.protocolVersion");
    if (requested === undefined) throw new GatewayError("invalid_params", "initialize needs params.protocolVersion");
    const outcome = negotiateRevision(requested, revisionNames);
    if (!outcome.ok) {
      const details = { supported: outcome.supported, requested };
      throw new GatewayError("invalid_params", `unsupported protocol version: ${requested}`, { details });
    }
    this.#handshake = exchange;
    const starting = [...this.#members.values()].map(({ session }) => session.start(exchange));
    const facts = await this.#federation.factsOnce(starting);
    const { options } = this.#federation;
    return { message: resultMessage(message.id, formatInitializeResult(options, outcome.revision, facts)) };
  }

  /** A member has been reached: for the first time, or again after it was gone. */
  #onReady(member: SessionMember, facts: ServerFacts): void {
    const isFirst = member.facts === undefined && !this.#isInitialized;
    member.facts = facts;
    const { name } = member.options;
    if (this.#members.get(name) !== member) return;
    this.#federation.facts.set(name, facts);
    member.catalogue.expire();
    if (this.#level !== undefined) void this.#tellLevel(member, this.#agreement(), this.#level);
    if (isFirst) return;
    this.#mayHaveChanged(member);
    // A new session with the server does not have the state of the previous one.
    for (const subscribed of this.#subscribed.values())
      if (subscribed.member === name)
        void this.#tell(member, this.#agreement(), "resources/subscribe", { uri: subscribed.name });
  }

  async #subscribe(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const reply = await this.#router.request(exchange, message);
    const target = exchange.tracking.upstream;
    if (reply.message?.kind !== "result" || target === undefined) return reply;
    const key = `${target.member} ${target.name}`;
    if (message.method === "resources/subscribe") this.#subscribed.set(key, target);
    else this.#subscribed.delete(key);
    return reply;
  }

  #mayHaveChanged({ facts }: SessionMember): void {
    for (const capability of ["tools", "prompts", "resources"]) {
      if (capabilityOf(facts?.capabilities, capability) !== undefined) this.#changes.changed(capability);
    }
  }

  /** Remembered for members that come later. */
  async #setLevel(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const level = memberString(message, "params.level");
    if (level === undefined) throw new GatewayError("invalid_params", "params.level must be a string");
    const members = [...this.#members.values()];
    const answers = await Promise.all(members.map((member) => this.#tellLevel(member, exchange, level)));
    const refusal = answers.find((answer) => answer?.kind === "error");
    if (refusal !== undefined && answers.every((answer) => answer?.kind !== "result"))
      return { message: replaceIds(refusal, [{ name: "id", id: message.id }]) };
    this.#level = level;
    return { message: resultMessage(message.id, "{}") };
  }

  async #tellLevel(member: SessionMember, exchange: Exchange, level: string): Promise<Message | undefined> {
    const canLog = capabilityOf(member.facts?.capabilities, "logging") !== undefined;
    return canLog ? this.#tell(member, exchange, "logging/setLevel", { level }) : undefined;
  }

  /** What a member answers to a request of the federation's own; undefined if there is no answer. */
  async #tell(
    { session: { link }, options }: SessionMember,
    exchange: Exchange,
    method: string,
    params: Readonly<Record<string, string>>,
  ): Promise<Message | undefined> {
    if (link === undefined) return undefined;
    const given = Object.entries(params).map(([name, value]) => `"${name}":${JSON.stringify(value)}`);
    const request = createOwnRequest(exchange, method, given);
    try {
      return (await askOver(link, options.name, createOwnExchange(exchange, request), this.#federation)).message;
    } catch (error) {
      const { code, message } = GatewayError.from(error);
      this.#events.error(new GatewayError(code, `${options.name}: ${message}`));
      return undefined;
    }
  }

  /** Takes the client's response to the member that asked. */
  async #answer(exchange: Exchange, message: Message): Promise<Reply> {
    const question = this.#questions.get(message.id?.key ?? "");
    if (question === undefined) return noReply;
    this.#questions.delete(message.id?.key ?? "");
    const { options } = question.member;
    // A reload may have changed them since the question was asked.
    const own = withOwnUris(message, this.#federation.member(options.name) ?? options);
    const restored = replaceIds(own, [{ name: "id", id: question.id }]);
    return this.#sendTo(question.member, { ...exchange, message: restored, original: restored });
  }

  async #sendTo({ session }: SessionMember, exchange: Exchange): Promise<Reply> {
    return (await session.link?.send(exchange)) ?? noReply;
  }

  /** Passes on unsolicited messages of a member. */
  #received(
    own: SessionMember,
    member: MemberOptions,
    message: Message,
    related: Exchange | undefined,
    context: TransportContext,
  ): void | Promise<void> {
    const { method } = message;
    if (message.kind === "request") return this.#ask(own, member, message, related, context);
    const changed = /^notifications\/(tools|prompts|resources)\/list_changed$/u.exec(method ?? "")?.[1];
    if (changed !== undefined) {
      own.catalogue.expire(changed);
      if (changed === "resources") this.#federation.forgetUris(member.name);
      this.#changes.changed(changed);
      return undefined;
    }
    if (method === "notifications/cancelled") {
      const asked = metadataOf(message).related?.id.key;
      const known = [...this.#questions].find(([, question]) => question.member === own && question.id.key === asked);
      if (known === undefined) return this.#events.dropped?.("cancel.unknown", message, context);
      const cancelled = replaceIds(message, [{ name: "params.requestId", id: idFrom(known[0].slice(2)) }]);
      return this.#events.message(cancelled, related, context, member.name);
    }
    const reported = method === "notifications/progress" ? metadataOf(message).related?.id.key : undefined;
    if (reported !== undefined && this.#running.isTokenOfAnother(reported, own))
      return this.#events.dropped?.("progress.unknown-token", message, context);
    const shown =
      method === "notifications/message" ? withLogger(message, member) : withAdvertisedTasks(message, member.name);
    return this.#events.message(withAdvertisedUris(shown, member), related, context, member.name);
  }

  /** Members choose their ids independently, so the client gets others. */
  #ask(
    own: SessionMember,
    member: MemberOptions,
    message: RequestMessage,
    related: Exchange | undefined,
    context: TransportContext,
  ): void | Promise<void> {
    const id = idFrom(`${member.name}-${++this.#asked}`);
    const { progressToken } = metadataOf(message);
    this.#questions.set(id.key, { member: own, id: message.id, progressToken });
    const renamed = replaceIds(message, [
      { name: "id", id },
      ...(progressToken === undefined ? [] : [{ name: "params._meta.progressToken" as const, id }]),
    ]);
    const shown = withAdvertisedTasks(withAsker(renamed, message.method, member), member.name);
    return this.#events.message(withAdvertisedUris(shown, member), related, context, member.name);
  }

  #agreement(): Exchange {
    if (this.#handshake === undefined)
      throw new GatewayError("invalid_message", "the session must begin with initialize");
    return this.#handshake;
  }
}
