import { GatewayError } from "../errors.ts";
import type { Clock, Exchange, Principal } from "../exchange.ts";
import type { Reply } from "../pipeline.ts";
import { memberInteger, memberSource } from "../protocol/json/read.ts";
import type { LinkEvents, UpstreamLink } from "../transports/transport.ts";
import type { DetectedEra } from "./era-probe.ts";
import type { LinkScope, OpenLink } from "./links.ts";

/** Makes links that translate between the eras. */
export interface Bridges {
  /** For a legacy session whose upstream speaks only 2026-07-28. */
  readonly toModern: OpenLink;
  /** For modern requests whose upstream speaks only older revisions. */
  readonly toLegacy: (scope: LinkScope, events: LinkEvents) => BridgeLink;
}

/** A bridge of one principal and set of capabilities. */
export interface BridgeLink extends UpstreamLink {
  /** Whether nothing of anybody goes on there, so that closing it is noticed by nobody. */
  readonly isIdle: boolean;
}

export interface EraLinksDeps {
  /** The era that the configuration says, or `auto` to find out. */
  readonly era: "auto" | "legacy" | "modern";
  /** Links that speak the scope's own era. */
  readonly plain: OpenLink;
  readonly bridges: Bridges;
  /** Asks the upstream, on behalf of the caller because of whom it must be known. */
  readonly probe: (principal: Principal) => Promise<DetectedEra>;
  readonly clock: Clock;
  /** Bridges to the older era that may be open at once; each has sessions with the upstream. */
  readonly maxBridges?: number;
  /** Told once per finding. */
  readonly onDetected?: (verdict: DetectedEra) => void;
}

/** Links of either era, and what is known of the upstream. */
export interface EraLinks {
  readonly open: OpenLink;
  /** Whether the upstream speaks 2026-07-28; undefined while nobody has asked. */
  readonly servesModern: () => boolean | undefined;
}

/** An upgraded server still answers the old handshake, so an old verdict is asked again after this long. */
const legacyRecheckMs = 10 * 60_000;

/** What clients say of themselves is theirs to choose, so it must not open sessions without end. */
const defaultMaxBridges = 1024;

/** A bridge that is open, and for whom. */
interface OpenBridge {
  readonly principal: string;
  readonly capabilities: string | undefined;
  readonly link: BridgeLink;
  /** Counts up with every use. */
  lastUse: number;
}

/** What is known of an upstream's eras. */
interface Knowledge {
  servesModern: boolean | undefined;
  servesLegacy: boolean | undefined;
  askedAt: number;
  asking: Promise<DetectedEra> | undefined;
}

/**
 * Wraps the links of a route so that every client finds its own era: straight where the upstream speaks it, through a
 * bridge where it does not. The upstream is asked once, and what it said is kept for all links.
 */
export function createEraLinks(options: EraLinksDeps): EraLinks {
  const { plain, bridges, clock, era, maxBridges = defaultMaxBridges } = options;
  const known: Knowledge = {
    servesModern: era === "auto" ? undefined : era === "modern",
    servesLegacy: era === "auto" ? undefined : era === "legacy",
    askedAt: clock.now(),
    asking: undefined,
  };

  function servesModern(): boolean | undefined {
    const isStale =
      era === "auto" && known.servesModern === false && clock.now() - known.askedAt > legacyRecheckMs;
    return isStale ? undefined : known.servesModern;
  }

  async function ask({ principal }: Exchange): Promise<DetectedEra> {
    known.asking ??= options.probe(principal).finally(() => {
      known.asking = undefined;
    });
    const verdict = await known.asking;
    known.servesModern = verdict === "modern";
    known.askedAt = clock.now();
    options.onDetected?.(verdict);
    return verdict;
  }

  /** Modern requests of one scope; bridges are kept apart by principal and capabilities, as sessions are. */
  function modernLink(scope: LinkScope, events: LinkEvents): UpstreamLink {
    let straight: UpstreamLink | undefined;
    const bridged = new Map<string, OpenBridge>();
    const closing = new Set<Promise<void>>();
    let last: OpenBridge | undefined;
    let uses = 0;
    const plainLink = (): UpstreamLink => (straight ??= plain(scope, events));
    const bridgeFor = (exchange: Exchange): UpstreamLink => {
      const { principal, message } = exchange;
      // The answer to a question finds its call by itself, whichever bridge it is handed to.
      if (last !== undefined && (message.kind === "result" || message.kind === "error")) return last.link;
      const capabilities = memberSource(message, "params._meta.io.modelcontextprotocol/clientCapabilities");
      // Mostly it is the same as before; then no key has to be made.
      if (last?.principal !== principal.id || last.capabilities !== capabilities) {
        const key = JSON.stringify([principal.id, capabilities]);
        last = bridged.get(key) ?? openBridge(key, principal, capabilities);
      }
      last.lastUse = ++uses;
      return last.link;
    };
    const openBridge = (key: string, principal: Principal, capabilities: string | undefined): OpenBridge => {
      if (bridged.size >= maxBridges) makeRoom();
      const link = bridges.toLegacy({ ...scope, principal, capabilities }, events);
      const bridge = { principal: principal.id, capabilities, link, lastUse: 0 };
      bridged.set(key, bridge);
      return bridge;
    };
    /** Closes the bridge that nobody has used for longest, of those that nobody uses now. */
    const makeRoom = (): void => {
      let oldest: [key: string, bridge: OpenBridge] | undefined;
      for (const entry of bridged) {
        if (entry[1].link.isIdle && (oldest === undefined || entry[1].lastUse < oldest[1].lastUse))
          oldest = entry;
      }
      if (oldest === undefined)
        throw new GatewayError("overloaded", "too many kinds of clients use this upstream at once");
      const [key, { link }] = oldest;
      bridged.delete(key);
      const closed = link.close("others need its place").finally(() => closing.delete(closed));
      closing.add(closed);
    };
    const choose = (exchange: Exchange): UpstreamLink | Promise<UpstreamLink> => {
      const verdict = servesModern();
      if (verdict === true) return plainLink();
      if (verdict === false) return bridgeFor(exchange);
      return ask(exchange).then((found) => (found === "modern" ? plainLink() : bridgeFor(exchange)));
    };
    return {
      get incarnation() {
        return straight?.incarnation ?? "not open";
      },
      upstreamSession: undefined,
      get hasBackpressure() {
        return straight?.hasBackpressure ?? false;
      },
      request: (exchange) => {
        const link = choose(exchange);
        return link instanceof Promise
          ? link.then((chosen) => chosen.request(exchange))
          : link.request(exchange);
      },
      send: async (exchange) => (await choose(exchange)).send(exchange),
      listen: () => {},
      close: async (reason) => {
        const open = straight === undefined ? [] : [straight];
        const links = [...open, ...[...bridged.values()].map(({ link }) => link)];
        await Promise.all([...closing, ...links.map((link) => link.close(reason))]);
      },
    };
  }

  /** A legacy session: its own handshake tells whether the upstream takes it. */
  function legacyLink(scope: LinkScope, events: LinkEvents): UpstreamLink {
    let isReplaced = false;
    // The end of a link that was only tried must not be taken for the end of the session.
    const triedEvents: LinkEvents = {
      ...events,
      closed: (error) => {
        if (!isReplaced) events.closed(error);
      },
    };
    let link = known.servesLegacy === false ? bridges.toModern(scope, events) : plain(scope, triedEvents);
    let isDecided = known.servesLegacy !== undefined;

    async function handshake(exchange: Exchange): Promise<Reply> {
      let failure: GatewayError | undefined;
      let reply: Reply | undefined;
      try {
        reply = await link.request(exchange);
        if (!isRefusal(reply)) {
          known.servesLegacy = true;
          isDecided = true;
          return reply;
        }
      } catch (error) {
        failure = GatewayError.from(error);
        if (failure.details?.["upstreamStatus"] === undefined) throw failure;
      }
      if ((await ask(exchange)) === "modern") {
        known.servesLegacy = false;
        isReplaced = true;
        const tried = link;
        link = bridges.toModern(scope, events);
        isDecided = true;
        await tried.close("the upstream speaks 2026-07-28 only");
        return link.request(exchange);
      }
      if (reply !== undefined) return reply;
      throw failure ?? new GatewayError("upstream_invalid", "the upstream did not take the handshake");
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
      close: (reason) => link.close(reason),
    };
  }

  return {
    open: (scope, events) => (scope.era === "modern" ? modernLink(scope, events) : legacyLink(scope, events)),
    servesModern,
  };
}

/** A server that knows only 2026-07-28 says so with this code, or does not know `initialize` at all. */
function isRefusal({ message }: Reply): boolean {
  if (message?.kind !== "error") return false;
  const code = memberInteger(message, "error.code");
  return code === -32022 || code === -32601 || code === -32602;
}
