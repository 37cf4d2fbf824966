import type { Exchange, Principal } from "../../core/exchange.ts";
import { memberSource } from "../../protocol/json/read.ts";
import type { Era } from "../../protocol/revisions.ts";
import type { Session } from "../../sessions/session.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";
import type { GatewayError } from "../../errors.ts";

/** Whose messages go over a link. */
export interface LinkScope {
  readonly era: Era;
  readonly principal: Principal;
  /** Legacy: the session the link was opened for. */
  readonly session: Session | undefined;
  /** What a modern client said it can do, as it said it; links of processes are kept apart by it. */
  readonly capabilities: string | undefined;
}

/** Opens a link; the way there (process, connection) may be made later, when the first message goes out. */
export type OpenLink = (scope: LinkScope, events: LinkEvents) => UpstreamLink;

/** How modern requests share links: all one, or one for each principal and set of client capabilities. */
export type ModernSharing = "everybody" | "principal";

/** Makes what hears of a link's events; the link itself is there as soon as there are any. */
export type LinkEventsFor = (scope: LinkScope, link: () => UpstreamLink) => LinkEvents;

/** The links of one route. */
export interface Links {
  /** The link for an exchange of a client; opened when it is first needed. */
  for(exchange: Exchange, session: Session | undefined): UpstreamLink;
  /** The link of a session, if it has one. */
  of(session: Session): UpstreamLink | undefined;
  /** The sessions that have a link. */
  readonly sessions: readonly Session[];
  readonly size: number;
  close(reason: string): Promise<void>;
}

/** Keeps the links of a route: one for each legacy session, and few for all modern requests. */
export function createLinks(open: OpenLink, modernSharing: ModernSharing, eventsFor: LinkEventsFor): Links {
  const bySession = new Map<Session, UpstreamLink>();
  const modern = new Map<string, UpstreamLink>();
  /** Links that are saying goodbye, for which connections must stay a moment longer. */
  const closing = new Set<Promise<void>>();

  function end(link: UpstreamLink, reason: string): void {
    const closed = link.close(reason).finally(() => {
      closing.delete(closed);
    });
    closing.add(closed);
  }

  function start(scope: LinkScope, forget: () => void): UpstreamLink {
    const inner = eventsFor(scope, () => link);
    const link: UpstreamLink = open(scope, {
      message: (message, related, context) => inner.message(message, related, context),
      malformed: (bytes, reason) => {
        inner.malformed(bytes, reason);
      },
      error: (error) => {
        inner.error(error);
      },
      closed: (error: GatewayError) => {
        forget();
        inner.closed(error);
      },
    });
    return link;
  }

  function sessionLink(session: Session, principal: Principal): UpstreamLink {
    const existing = bySession.get(session);
    if (existing !== undefined) return existing;
    const link = start({ era: "legacy", principal, session, capabilities: undefined }, () => {
      bySession.delete(session);
    });
    bySession.set(session, link);
    session.readUpstreamId = () => link.upstreamSession;
    session.onEnd((reason) => {
      bySession.delete(session);
      end(link, reason);
    });
    return link;
  }

  function modernLink({ principal, message }: Exchange): UpstreamLink {
    const isOne = modernSharing === "everybody";
    const shared = isOne ? modern.get("") : undefined;
    if (shared !== undefined) return shared;
    const capabilities = memberSource(message, "params._meta.io.modelcontextprotocol/clientCapabilities");
    const key = isOne ? "" : JSON.stringify([principal.id, capabilities ?? "{}"]);
    const existing = modern.get(key);
    if (existing !== undefined) return existing;
    const link = start({ era: "modern", principal, session: undefined, capabilities }, () => {
      if (modern.get(key) === link) modern.delete(key);
    });
    modern.set(key, link);
    return link;
  }

  return {
    for: (exchange, session) =>
      session === undefined ? modernLink(exchange) : sessionLink(session, exchange.principal),
    of: (session) => bySession.get(session),
    get sessions() {
      return [...bySession.keys()];
    },
    get size() {
      return bySession.size + modern.size;
    },
    close: async (reason) => {
      const links = [...bySession.values(), ...modern.values()];
      bySession.clear();
      modern.clear();
      for (const link of links) end(link, reason);
      await Promise.all(closing);
    },
  };
}
