import type { Exchange, TransportContext } from "../core/exchange.ts";
import { noReply, type Reply } from "../core/pipeline.ts";
import { resultMessage } from "../core/reply.ts";
import { GatewayError } from "../errors.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { InFlightCounter } from "../lib/token-bucket.ts";
import { memberSource } from "../protocol/json/read.ts";
import type { Message, RequestMessage } from "../protocol/message.ts";
import type { LinkEvents, UpstreamLink } from "../transports/transport.ts";
import { Catalogue } from "./lists/catalogue.ts";
import type { Federation } from "./federation.ts";
import { Listens } from "./listens.ts";
import { withAdvertisedTasks, withAsker, withLogger } from "./names/member-messages.ts";
import type { MemberOptions } from "./names/member-options.ts";
import { askOver, createOwnExchange, createOwnRequest } from "./member-requests.ts";
import { withAdvertisedUris, withOwnUris } from "./names/member-uris.ts";
import { Router } from "./router.ts";
import { formatDiscoverResult, parseServerFacts } from "./server-facts.ts";

export interface RequestLinkDeps {
  readonly federation: Federation;
  readonly events: LinkEvents;
  /** The link of a member for an exchange; its events go to `received` and `memberGone`. */
  readonly linkOf: (member: MemberOptions, exchange: Exchange) => UpstreamLink;
  /** Reopens the links to members; the returned function ends the old ones. */
  readonly replace: (changed: ReadonlySet<string>) => (reason: string) => Promise<void>;
  /** Closes the links to all members. */
  readonly close: (reason: string) => Promise<void>;
}

/** How many callers have their lists kept for a member. */
const maxCatalogues = 1000;

/** The link of all modern requests to a federation: to the gateway it looks like one modern server. */
export class FederatedRequestLink implements UpstreamLink {
  readonly incarnation = "federation";
  readonly upstreamSession = undefined;
  readonly hasBackpressure = true;
  readonly #deps: RequestLinkDeps;
  readonly #federation: Federation;
  readonly #router: Router;
  readonly #listens: Listens;
  /** Running requests, by member. A reload starts new counters and waits for the old ones. */
  #running = new Map<string, InFlightCounter>();
  readonly #leave: () => void;
  /** What members have listed, by member and caller. */
  readonly #catalogues = new BoundedMap<string, Catalogue>(maxCatalogues);

  constructor(deps: RequestLinkDeps) {
    const { federation, events, linkOf } = deps;
    this.#deps = deps;
    this.#federation = federation;
    this.#router = new Router(federation, {
      linkOf,
      catalogueOf: (member, exchange) => this.#catalogueOf(member, exchange),
      began: (_message, { name }) => {
        const running = this.#running.get(name) ?? this.#count(name);
        running.begin();
        return running;
      },
      listed: (exchange, facts, entries) => {
        this.#listens.listed(exchange, facts, entries);
      },
    });
    this.#leave = federation.join(this);
    this.#listens = new Listens({
      federation,
      linkOf,
      deliver: (message, related, member) => events.message(message, related, inProcess, member),
      dropped: (why, message, context) => events.dropped?.(why, message, context),
      lists: this.#router,
      expire: (member, capability) => {
        this.#expire(member, capability);
        if (capability === "resources") federation.forgetUris(member);
      },
      onError: (error) => {
        events.error(error);
      },
    });
  }

  get isIdle(): boolean {
    return this.#listens.size === 0;
  }

  /** For looking up the names and URIs of members. */
  get lists(): Router {
    return this.#router;
  }

  request(exchange: Exchange): Promise<Reply> {
    const { message } = exchange;
    if (message.kind !== "request") return Promise.reject(new GatewayError("internal", "only requests have answers"));
    switch (message.method) {
      case "server/discover":
        return this.#discover(exchange, message);
      case "subscriptions/listen":
        return this.#listens.listen(exchange, message);
      default:
        return this.#router.request(exchange, message);
    }
  }

  /** The answer to a question goes to the member that asked, a notification of an extension to all. */
  async send(exchange: Exchange): Promise<Reply> {
    const { message, tracking } = exchange;
    const { members } = this.#federation.options;
    if (message.kind === "result" || message.kind === "error") {
      const member = members.find(({ name }) => name === tracking.upstream?.member);
      if (member === undefined) return noReply;
      const own = withOwnUris(message, member);
      return this.#deps.linkOf(member, exchange).send(own === message ? exchange : { ...exchange, message: own });
    }
    await Promise.allSettled(members.map((member) => this.#deps.linkOf(member, exchange).send(exchange)));
    return noReply;
  }

  listen(): void {
    // Modern clients send subscriptions/listen.
  }

  async close(reason: string): Promise<void> {
    this.#leave();
    this.#listens.close();
    await this.#deps.close(reason);
  }

  /** After a reload: links to replaced or removed members end when their requests are answered. */
  async reconfigured(changed: ReadonlySet<string>, graceMs: number): Promise<void> {
    this.#catalogues.clear();
    const running = [...changed].flatMap((name) => this.#running.get(name) ?? []);
    for (const name of changed) this.#running.delete(name);
    const end = this.#deps.replace(changed);
    this.#listens.reconfigured(changed);
    const over = Promise.withResolvers<void>();
    const stop = this.#federation.setTimer(graceMs, over.resolve);
    await Promise.race([Promise.all(running.map((one) => one.whenIdle())), over.promise]);
    stop();
    await end("the server has been replaced");
  }

  /** Passes on unsolicited messages of a member. */
  received(
    member: MemberOptions,
    message: Message,
    related: Exchange | undefined,
    context: TransportContext,
  ): void | Promise<void> {
    if (this.#listens.owns(related)) return this.#listens.received(message, related, context);
    const { events } = this.#deps;
    if (message.kind === "request")
      return events.message(
        withAdvertisedUris(withAsker(message, message.method, member), member),
        related,
        context,
        member.name,
      );
    const isLog = message.method === "notifications/message";
    const shown = isLog ? withLogger(message, member) : withAdvertisedTasks(message, member.name);
    return events.message(withAdvertisedUris(shown, member), related, context, member.name);
  }

  #count(member: string): InFlightCounter {
    const counter = new InFlightCounter();
    this.#running.set(member, counter);
    return counter;
  }

  /** The connection to a member has ended; the next request opens another. */
  memberGone(member: MemberOptions, error: GatewayError): void {
    this.#expire(member.name, undefined);
    this.#deps.events.error(error);
  }

  #expire(member: string, capability: string | undefined): void {
    for (const [key, catalogue] of this.#catalogues) {
      if (key.startsWith(`${member} `)) catalogue.expire(capability);
    }
  }

  async #discover(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const { options, facts } = this.#federation;
    const asking = options.members.map(async (member) => {
      const request = createOwnRequest(exchange, "server/discover");
      const link = this.#deps.linkOf(member, exchange);
      const answer = await askOver(link, member.name, createOwnExchange(exchange, request), this.#federation);
      facts.set(member.name, parseServerFacts(answer.message));
    });
    const known = await this.#federation.factsOnce(asking);
    return { message: resultMessage(message.id, formatDiscoverResult(options, known)) };
  }

  /** Lists may depend on who asks and what its client can do. */
  #catalogueOf(member: MemberOptions, exchange: Exchange): Catalogue {
    const capabilities = memberSource(exchange.message, "params._meta.io.modelcontextprotocol/clientCapabilities");
    const key = `${member.name} ${JSON.stringify([exchange.principal.id, capabilities])}`;
    const known = this.#catalogues.touch(key);
    if (known !== undefined) return known;
    const { clock, options } = this.#federation;
    const catalogue = new Catalogue({
      clock,
      reader: { read: (facts, page) => this.#federation.readerOf(member).read(facts, page) },
      ask: (like, method, cursor) => {
        const message = createOwnRequest(
          like,
          method,
          cursor === undefined ? [] : [`"cursor":${JSON.stringify(cursor)}`],
        );
        const link = this.#deps.linkOf(member, like);
        return askOver(link, member.name, createOwnExchange(like, message), this.#federation);
      },
      freshness: (_facts, ttlMs) => Math.min(ttlMs, options.listing.stale),
    });
    this.#catalogues.set(key, catalogue);
    return catalogue;
  }
}

const inProcess: TransportContext = { type: "in-process" };
