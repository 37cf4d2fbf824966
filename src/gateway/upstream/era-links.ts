import { isPromise } from "../../lib/is-promise.ts";
import type { Exchange, Principal } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { memberInteger, memberSource } from "../../protocol/json/read.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import { EraDetector, type EraDetectorDeps } from "./era-detection.ts";
import { ClosingLinks, type LinkScope, type OpenLink } from "./links.ts";

/** Opens links that translate between the eras. */
export interface Bridges {
  /** For a legacy session whose upstream speaks only 2026-07-28. */
  readonly toModern: OpenLink;
  /** For modern requests whose upstream speaks only older revisions. */
  readonly toLegacy: (scope: LinkScope, events: LinkEvents) => BridgeLink;
}

/** The bridge of one principal and set of capabilities. */
export interface BridgeLink extends UpstreamLink {
  /** Whether it carries no calls, so that it can be closed unnoticed. */
  readonly isIdle: boolean;
}

export interface EraLinksDeps extends EraDetectorDeps {
  /** Opens links that speak the era of their scope. */
  readonly plain: OpenLink;
  readonly bridges: Bridges;
  /** How many bridges to the older era may be open at once; each has sessions with the upstream. */
  readonly maxBridges?: number;
}

/** Links for clients of either era. */
export interface EraLinks {
  readonly open: OpenLink;
  /** Whether the upstream speaks 2026-07-28; undefined while that is unknown. */
  readonly servesModern: () => boolean | undefined;
}

/** Clients choose the capabilities they name, so these must not open sessions without bound. */
const defaultMaxBridges = 1024;
/** One principal closes its own bridges before those of others. */
const maxBridgesPerPrincipal = 128;

/**
 * Wraps the links of a route so that every client reaches the upstream in its own era: directly where the upstream
 * speaks it, through a bridge where not. The upstream is asked once for all links.
 */
export function createEraLinks(deps: EraLinksDeps): EraLinks {
  const eras = new EraDetector(deps);
  return {
    open: (scope, events) =>
      scope.era === "modern"
        ? new ModernEraLink(scope, events, eras, deps)
        : createLegacyEraLink(scope, events, eras, deps),
    servesModern: () => eras.servesModern,
  };
}

/** An open bridge, and whose it is. */
interface OpenBridge {
  readonly principal: string;
  readonly capabilities: string | undefined;
  readonly link: BridgeLink;
  /** Counts up with every use. */
  lastUse: number;
}

/** The link for modern requests. Bridges are kept apart by principal and capabilities, as sessions are. */
class ModernEraLink implements UpstreamLink {
  readonly upstreamSession = undefined;
  readonly #scope: LinkScope;
  readonly #events: LinkEvents;
  readonly #eras: EraDetector;
  readonly #deps: EraLinksDeps;
  readonly #bridges = new Map<string, OpenBridge>();
  readonly #closing = new ClosingLinks();
  #direct: UpstreamLink | undefined;
  #last: OpenBridge | undefined;
  #uses = 0;

  constructor(scope: LinkScope, events: LinkEvents, eras: EraDetector, deps: EraLinksDeps) {
    this.#scope = scope;
    this.#events = events;
    this.#eras = eras;
    this.#deps = deps;
  }

  get incarnation(): string {
    return this.#direct?.incarnation ?? "not open";
  }

  get hasBackpressure(): boolean {
    return this.#direct?.hasBackpressure ?? false;
  }

  get isIdle(): boolean {
    return [...this.#bridges.values()].every(({ link }) => link.isIdle);
  }

  get resolvedLink(): UpstreamLink | undefined {
    return this.#eras.servesModern === true ? this.#directLink() : undefined;
  }

  request(exchange: Exchange): Promise<Reply> {
    const link = this.#choose(exchange);
    return isPromise(link) || this.#eras.isAssumed ? this.#requestOnceKnown(link, exchange) : link.request(exchange);
  }

  async send(exchange: Exchange): Promise<Reply> {
    return (await this.#choose(exchange)).send(exchange);
  }

  listen(): void {
    // Modern clients listen with a request of their own.
  }

  async close(reason: string): Promise<void> {
    const direct = this.#direct === undefined ? [] : [this.#direct];
    const links = [...direct, ...[...this.#bridges.values()].map(({ link }) => link)];
    for (const link of links) this.#closing.close(link, reason);
    await this.#closing.whenClosed();
  }

  /** An upstream that did not answer the probe is shown to be legacy by its first answer over a bridge. */
  async #requestOnceKnown(link: UpstreamLink | Promise<UpstreamLink>, exchange: Exchange): Promise<Reply> {
    const chosen = await link;
    try {
      const reply = await chosen.request(exchange);
      this.#eras.confirmLegacy();
      return reply;
    } catch (error) {
      const failure = GatewayError.from(error);
      if (failure.code !== "cancelled") this.#eras.forgetAssumption();
      throw failure;
    }
  }

  #choose(exchange: Exchange): UpstreamLink | Promise<UpstreamLink> {
    const isModern = this.#eras.servesModern;
    if (isModern === true) return this.#directLink();
    if (isModern === false) return this.#bridgeFor(exchange);
    return this.#eras
      .detect(exchange.principal)
      .then((era) => (era === "modern" ? this.#directLink() : this.#bridgeFor(exchange)));
  }

  #directLink(): UpstreamLink {
    return (this.#direct ??= this.#deps.plain(this.#scope, this.#events));
  }

  #bridgeFor({ principal, message }: Exchange): UpstreamLink {
    // A response finds its call over any bridge.
    if (this.#last !== undefined && (message.kind === "result" || message.kind === "error")) return this.#last.link;
    const capabilities = memberSource(message, "params._meta.io.modelcontextprotocol/clientCapabilities");
    // Needed by bench bridge: "bridged call, legacy client / modern client". The key is built only when the caller changes.
    if (this.#last?.principal !== principal.id || this.#last.capabilities !== capabilities) {
      const key = JSON.stringify([principal.id, capabilities]);
      this.#last = this.#bridges.get(key) ?? this.#openBridge(key, principal, capabilities);
    }
    this.#last.lastUse = ++this.#uses;
    return this.#last.link;
  }

  #openBridge(key: string, principal: Principal, capabilities: string | undefined): OpenBridge {
    const own = [...this.#bridges].filter(([, bridge]) => bridge.principal === principal.id);
    if (own.length >= maxBridgesPerPrincipal) this.#closeIdleBridge(own);
    if (this.#bridges.size >= (this.#deps.maxBridges ?? defaultMaxBridges)) this.#closeIdleBridge(this.#bridges);
    const link = this.#deps.bridges.toLegacy({ ...this.#scope, principal, capabilities }, this.#events);
    const bridge = { principal: principal.id, capabilities, link, lastUse: 0 };
    this.#bridges.set(key, bridge);
    return bridge;
  }

  /** Closes the idle bridge that was used longest ago. */
  #closeIdleBridge(among: Iterable<[key: string, bridge: OpenBridge]>): void {
    let oldest: [key: string, bridge: OpenBridge] | undefined;
    for (const entry of among) {
      if (entry[1].link.isIdle && (oldest === undefined || entry[1].lastUse < oldest[1].lastUse)) oldest = entry;
    }
    if (oldest === undefined)
      throw new GatewayError("overloaded", "too many kinds of clients use this upstream at once");
    const [key, { link }] = oldest;
    this.#bridges.delete(key);
    this.#closing.close(link, "closed to make room for another client");
  }
}

/** The link for a legacy session. Its own handshake shows whether the upstream takes it. */
function createLegacyEraLink(
  scope: LinkScope,
  events: LinkEvents,
  eras: EraDetector,
  { plain, bridges }: EraLinksDeps,
): UpstreamLink {
  let link = eras.servesLegacy === false ? bridges.toModern(scope, events) : openPlain();
  let isDecided = eras.servesLegacy !== undefined;

  /** The end of a tentative link is not the end of the session. */
  function openPlain(): UpstreamLink {
    const own = plain(scope, {
      ...events,
      closed: (error) => {
        if (link === own) events.closed(error);
      },
    });
    return own;
  }

  async function handshake(exchange: Exchange): Promise<Reply> {
    let failure: GatewayError | undefined;
    let reply: Reply | undefined;
    try {
      reply = await link.request(exchange);
      if (!isHandshakeRefusal(reply)) {
        eras.servesLegacy = true;
        isDecided = true;
        return reply;
      }
    } catch (error) {
      failure = GatewayError.from(error);
      if (failure.details?.["upstreamStatus"] === undefined) throw failure;
    }
    const tried = link;
    link = openPlain();
    // The process that refused the handshake is the one to probe.
    if (tried.release === undefined) await tried.close("the upstream refused the handshake");
    else await tried.release(true);
    if ((await eras.detect(exchange.principal)) === "modern") {
      eras.servesLegacy = false;
      link = bridges.toModern(scope, events);
      isDecided = true;
      return link.request(exchange);
    }
    if (reply !== undefined) return reply;
    throw failure ?? new GatewayError("upstream_invalid", "the upstream refused the handshake");
  }

  return {
    get incarnation() {
      return link.incarnation;
    },
    get upstreamSession() {
      return link.upstreamSession;
    },
    get hasBackpressure() {
      return link.hasBackpressure;
    },
    get resolvedLink() {
      return isDecided ? (link.resolvedLink ?? link) : undefined;
    },
    request: (exchange) =>
      isDecided || exchange.message.method !== "initialize" ? link.request(exchange) : handshake(exchange),
    send: (exchange) => link.send(exchange),
    listen: () => link.listen(),
    resume: (resumed) => {
      if (link.resume?.(resumed) !== true) return false;
      // An upstream that has opened a session speaks the older era.
      eras.servesLegacy = true;
      isDecided = true;
      return true;
    },
    close: (reason, isKept) => link.close(reason, isKept),
  };
}

/** A server that speaks only 2026-07-28 answers with one of these codes, or does not know `initialize` at all. */
function isHandshakeRefusal({ message }: Reply): boolean {
  if (message?.kind !== "error") return false;
  const code = memberInteger(message, "error.code");
  return code === -32022 || code === -32601 || code === -32602;
}
