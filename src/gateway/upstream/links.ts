import { type Exchange, limitKeyOf, type Principal } from "../../core/exchange.ts";
import { memberSource } from "../../protocol/json/read.ts";
import type { Era } from "../../protocol/revisions.ts";
import { GatewayError } from "../../errors.ts";
import { oldestIdle } from "../../sessions/registry.ts";
import { continues, type Session } from "../../sessions/session.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import { createRestoredLink, type RestorableSession, type RestoredLinkDeps } from "./restored-link.ts";

/** Whose messages go over a link. */
export interface LinkScope {
  readonly era: Era;
  readonly principal: Principal;
  /** Legacy: the session the link was opened for. */
  readonly session: Session | undefined;
  /** The capabilities of a modern client, as sent; links to processes are kept apart by them. */
  readonly capabilities: string | undefined;
}

/** Opens a link. The process or connection behind it may start later, with the first message. */
export type OpenLink = (scope: LinkScope, events: LinkEvents) => UpstreamLink;

/** How modern requests share links: one for all, or one for each principal and set of client capabilities. */
export type ModernSharing = "everybody" | "principal";

/** How many links with a server of their own a route may have: those of modern clients, and of legacy sessions. */
export interface LinkLimits {
  readonly perPrincipal: number;
  readonly total: number;
  /** Whether each legacy session has a server of its own as well. */
  readonly countsSessions: boolean;
}

/** A modern link that nobody uses is closed after this time, or up to twice as much. */
const idleMs = 10 * 60_000;

/** A modern link of one principal. */
interface ModernLink extends UpstreamLink {
  /** Whose limit it counts against. */
  readonly caller: string;
  readonly isIdle: boolean;
  /** Counts up with every use of any link. */
  readonly lastUse: number;
}

/** A link that is being opened, for the code that handles its events. */
export interface LinkHandle {
  readonly scope: LinkScope;
  /** The link itself; set before the first event. */
  readonly link: UpstreamLink;
  /** The link has closed: the next message opens another one. */
  forget(): void;
}

/** Creates the event handlers of a link. */
export type LinkEventsFor = (handle: LinkHandle) => LinkEvents;

/** The links of one route. */
export interface Links {
  /** The link for an exchange of a client, opened on first use. */
  for(exchange: Exchange, session: Session | undefined): UpstreamLink;
  /** Opens the link of a session that began in another process. */
  restore(restorable: RestorableSession): void;
  /** The link of a session, if it has one. */
  of(session: Session): UpstreamLink | undefined;
  /** The sessions that have a link. */
  readonly sessions: readonly Session[];
  close(reason: string): Promise<void>;
}

/** Keeps the links of a route: one for each legacy session, and few for all modern requests. */
export function createLinks(
  open: OpenLink,
  modernSharing: ModernSharing,
  eventsFor: LinkEventsFor,
  { limits, ...restoring }: RestoredLinkDeps & { readonly limits: LinkLimits },
): Links {
  const { setTimer, address } = restoring;
  const bySession = new Map<Session, UpstreamLink>();
  const counted = new CallerSessions();
  const byModernClient = new Map<string, UpstreamLink>();
  const byPrincipal = new Map<string, ModernLink>();
  let uses = 0;
  let usesAtSweep = 0;
  let stopSweep: (() => void) | undefined;
  const closing = new ClosingLinks();

  function drop(key: string, link: ModernLink, reason: string): void {
    byPrincipal.delete(key);
    closing.close(link, reason);
  }

  /** Closes links that were not used since the last time. */
  function sweep(): void {
    for (const [key, link] of byPrincipal) {
      if (!link.isIdle || link.lastUse > usesAtSweep) continue;
      drop(key, link, "closed because it was unused");
    }
    usesAtSweep = uses;
    stopSweep = byPrincipal.size === 0 ? undefined : setTimer(idleMs, sweep);
  }

  /**
   * Makes room for one more link: clients choose how many sessions they open and which capabilities they name, so one
   * of them could take all processes. Processes of closed links are counted until they have exited.
   */
  function makeRoom(caller: string): void {
    const own = [...byPrincipal].filter(([, link]) => link.caller === caller);
    const sessions = counted.of(caller);
    const isOwnFull = own.length + sessions.size >= limits.perPrincipal;
    if (!isOwnFull && byPrincipal.size < limits.total) return;
    const idle = (isOwnFull ? own : [...byPrincipal]).filter(([, link]) => link.isIdle);
    const [oldest] = idle.toSorted(([, a], [, b]) => a.lastUse - b.lastUse);
    const unused = isOwnFull ? oldestIdle(sessions) : undefined;
    if (oldest !== undefined) drop(...oldest, "closed to make room for another client");
    else if (unused !== undefined) unused.end("evicted for a newer session", "evicted");
    else throw noRoom(isOwnFull, limits);
  }

  function openModern(key: string, scope: LinkScope): ModernLink {
    const caller = limitKeyOf(scope.principal);
    makeRoom(caller);
    const plain = openIn(byModernClient, key, scope, () => {
      if (byPrincipal.get(key) === link) byPrincipal.delete(key);
    });
    // Only the counted link is found again.
    byModernClient.delete(key);
    const link = countUses(plain, caller, () => ++uses);
    byPrincipal.set(key, link);
    stopSweep ??= setTimer(idleMs, sweep);
    return link;
  }

  function openIn<Key>(
    links: Map<Key, UpstreamLink>,
    key: Key,
    scope: LinkScope,
    onForgotten?: () => void,
  ): UpstreamLink {
    const link: UpstreamLink = open(
      scope,
      eventsFor({
        scope,
        get link() {
          return link;
        },
        forget: () => {
          if (links.get(key) === link) links.delete(key);
          onForgotten?.();
        },
      }),
    );
    links.set(key, link);
    return link;
  }

  function openSessionLink(session: Session, principal: Principal): UpstreamLink {
    const caller = limits.countsSessions ? limitKeyOf(principal) : undefined;
    if (caller !== undefined) counted.add(session, caller, makeRoom);
    const link = openIn(bySession, session, { era: "legacy", principal, session, capabilities: undefined });
    session.readUpstream = () =>
      link.upstreamSession === undefined ? undefined : { id: link.upstreamSession, at: address };
    session.onEnd((reason, cause) => {
      bySession.delete(session);
      closing.close(link, reason, continues.has(cause) && session.survivesRestart);
    });
    return link;
  }

  function modernLink({ principal, message }: Exchange): UpstreamLink {
    const isShared = modernSharing === "everybody";
    const shared = isShared ? byModernClient.get("") : undefined;
    if (shared !== undefined) return shared;
    const capabilities = memberSource(message, "params._meta.io.modelcontextprotocol/clientCapabilities");
    const key = isShared ? "" : JSON.stringify([principal.id, capabilities ?? "{}"]);
    const scope: LinkScope = { era: "modern", principal, session: undefined, capabilities };
    if (isShared) return openIn(byModernClient, key, scope);
    return byPrincipal.get(key) ?? openModern(key, scope);
  }

  return {
    for: (exchange, session) =>
      session === undefined
        ? modernLink(exchange)
        : (bySession.get(session) ?? openSessionLink(session, exchange.principal)),
    restore: (restorable) => {
      const { session } = restorable;
      const link = openSessionLink(session, session.principal);
      bySession.set(session, createRestoredLink(link, restorable, restoring));
    },
    of: (session) => bySession.get(session),
    get sessions() {
      return [...bySession.keys()];
    },
    close: async (reason) => {
      stopSweep?.();
      const links = [...bySession.values(), ...byModernClient.values(), ...byPrincipal.values()];
      bySession.clear();
      byModernClient.clear();
      byPrincipal.clear();
      for (const link of links) closing.close(link, reason);
      await closing.whenClosed();
    },
  };
}

/** Closing links, for which connections must stay a moment longer. */
export class ClosingLinks {
  readonly #closing = new Set<Promise<void>>();

  close(link: UpstreamLink, reason: string, isKept = false): void {
    const closed = link.close(reason, isKept).finally(() => {
      this.#closing.delete(closed);
    });
    this.#closing.add(closed);
  }

  async whenClosed(): Promise<void> {
    await Promise.all(this.#closing);
  }
}

function noRoom(isOwnFull: boolean, { perPrincipal, total }: LinkLimits): GatewayError {
  const details = { limit: isOwnFull ? perPrincipal : total, retryAfter: 1 };
  return isOwnFull
    ? new GatewayError("rate_limited", "this caller uses too many servers of this route at once", { details })
    : new GatewayError("overloaded", "too many kinds of clients use this server at once", { details });
}

const noSessions: ReadonlySet<Session> = new Set();

/** The sessions of each caller that have a server of their own. */
class CallerSessions {
  readonly #byCaller = new Map<string, Set<Session>>();

  of(caller: string): ReadonlySet<Session> {
    return this.#byCaller.get(caller) ?? noSessions;
  }

  /** Counts a session until it ends, after making room for it. */
  add(session: Session, caller: string, makeRoom: (caller: string) => void): void {
    makeRoom(caller);
    const own = this.#byCaller.get(caller) ?? new Set();
    this.#byCaller.set(caller, own);
    own.add(session);
    session.onEnd(() => {
      own.delete(session);
      if (own.size === 0) this.#byCaller.delete(caller);
    });
  }
}

/** Counts the requests that run over a link. */
function countUses(link: UpstreamLink, caller: string, nextUse: () => number): ModernLink {
  let running = 0;
  let lastUse = nextUse();
  return {
    caller,
    get lastUse() {
      return lastUse;
    },
    get isIdle() {
      return running === 0 && link.isIdle !== false;
    },
    get incarnation() {
      return link.incarnation;
    },
    get upstreamSession() {
      return link.upstreamSession;
    },
    get hasBackpressure() {
      return link.hasBackpressure;
    },
    request: async (exchange) => {
      running++;
      try {
        return await link.request(exchange);
      } finally {
        running--;
        lastUse = nextUse();
      }
    },
    send: (exchange) => link.send(exchange),
    listen: () => link.listen(),
    close: (reason) => link.close(reason),
  };
}
