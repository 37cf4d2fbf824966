import { GatewayError } from "../../errors.ts";
import { createExchange, timingOf } from "../../core/exchange.ts";
import { type Clock, type Exchange, type Principal, type SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { memberInteger, memberSource, memberType, memberValue } from "../../protocol/json/read.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import type { LinkScope, OpenLink } from "./links.ts";
import type { Message } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";
import { newestModern } from "../../protocol/revisions.ts";

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
    const isStale = era === "auto" && known.servesModern === false && clock.now() - known.askedAt > legacyRecheckMs;
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
        if (entry[1].link.isIdle && (oldest === undefined || entry[1].lastUse < oldest[1].lastUse)) oldest = entry;
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
      get resolvedLink() {
        return servesModern() === true ? plainLink() : undefined;
      },
      request: (exchange) => {
        const link = choose(exchange);
        return link instanceof Promise ? link.then((chosen) => chosen.request(exchange)) : link.request(exchange);
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

/** What asking an upstream for `server/discover` told: it serves 2026-07-28, it does not, or nothing at all. */
export type DetectedEra = "modern" | "legacy";

export interface EraProbeDeps {
  readonly route: string;
  /** On whose behalf is asked: the caller because of whom it must be known. */
  readonly principal: Principal;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  /** A link that is used for this question only, so that a server which dies of it takes nothing along. */
  readonly open: () => UpstreamLink;
  /** Whether silence means an old server, as on stdio, or just silence, as over HTTP. */
  readonly silenceIsLegacy: boolean;
  readonly timeoutMs: number;
}

/** Statuses with which an HTTP server of the older era answers a request it does not understand. */
const legacyStatuses: ReadonlySet<unknown> = new Set([400, 404, 405, 406, 415]);

/**
 * Asks an upstream which era it speaks (MCP 2026-07-28, Versioning). Refused credentials, server faults and lost
 * connections are no evidence: they are thrown, and the question can be asked again.
 */
export async function probeEra(deps: EraProbeDeps): Promise<DetectedEra> {
  const link = deps.open();
  const exchange = discoverExchange(deps);
  const stop = deps.setTimer(deps.timeoutMs, () => {
    exchange.cancellation.cancel("timeout");
  });
  try {
    const { message, status } = await link.request(exchange);
    return message !== undefined && isModernAnswer(message, status) ? "modern" : "legacy";
  } catch (error) {
    const failure = GatewayError.from(error);
    if (legacyStatuses.has(failure.details?.["upstreamStatus"])) return "legacy";
    const isSilence = failure.code === "upstream_timeout" || failure.code === "upstream_unreachable";
    if (deps.silenceIsLegacy && isSilence) return "legacy";
    throw failure;
  } finally {
    stop();
    await link.close("the era of the upstream is known");
  }
}

/** Only a real discovery, or the error that lists modern versions, shows a modern server. */
function isModernAnswer(message: Message, _status: number | undefined): boolean {
  if (message.kind === "result") return memberType(message, "result.supportedVersions") === "array";
  if (memberInteger(message, "error.code") !== -32022) return false;
  const data: unknown = memberValue(message, "error.data");
  const supported: unknown = typeof data === "object" && data !== null ? Reflect.get(data, "supported") : undefined;
  return Array.isArray(supported) && supported.includes(newestModern);
}

function discoverExchange({ route, principal, clock, newId }: EraProbeDeps): Exchange {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": newestModern,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "headgate", version: "0.1.0" },
  };
  const text = JSON.stringify({
    jsonrpc: "2.0",
    id: newId(),
    method: "server/discover",
    params: { _meta: meta },
  });
  const outcome = parseText(text, { revision: newestModern, mode: "enforce" });
  if (!outcome.ok || outcome.form !== "single") throw new GatewayError("internal", "the probe is no message");
  return createExchange({
    id: newId(),
    message: outcome.message,
    route,
    principal,
    revision: newestModern,
    transport: { type: "in-process" },
    timing: timingOf(clock),
  });
}
