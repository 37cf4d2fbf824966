import type { Exchange, Principal } from "../../core/exchange.ts";
import { memberSource } from "../../protocol/json/read.ts";
import type { Era } from "../../protocol/revisions.ts";
import type { Session } from "../../sessions/session.ts";
import type { LinkEvents, UpstreamLink } from "../../transports/transport.ts";

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
  /** The link of a session, if it has one. */
  of(session: Session): UpstreamLink | undefined;
  /** The sessions that have a link. */
  readonly sessions: readonly Session[];
  close(reason: string): Promise<void>;
}

/** Keeps the links of a route: one for each legacy session, and few for all modern requests. */
export function createLinks(open: OpenLink, modernSharing: ModernSharing, eventsFor: LinkEventsFor): Links {
  const bySession = new Map<Session, UpstreamLink>();
  const byModernClient = new Map<string, UpstreamLink>();
  /** Closing links, for which connections must stay a moment longer. */
  const closing = new Set<Promise<void>>();

  function close(link: UpstreamLink, reason: string): void {
    const closed = link.close(reason).finally(() => {
      closing.delete(closed);
    });
    closing.add(closed);
  }

  function openIn<Key>(links: Map<Key, UpstreamLink>, key: Key, scope: LinkScope): UpstreamLink {
    const link: UpstreamLink = open(
      scope,
      eventsFor({
        scope,
        get link() {
          return link;
        },
        forget: () => {
          if (links.get(key) === link) links.delete(key);
        },
      }),
    );
    links.set(key, link);
    return link;
  }

  function sessionLink(session: Session, principal: Principal): UpstreamLink {
    const existing = bySession.get(session);
    if (existing !== undefined) return existing;
    const link = openIn(bySession, session, { era: "legacy", principal, session, capabilities: undefined });
    session.readUpstreamId = () => link.upstreamSession;
    session.onEnd((reason) => {
      bySession.delete(session);
      close(link, reason);
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
    return byModernClient.get(key) ?? openIn(byModernClient, key, scope);
  }

  return {
    for: (exchange, session) =>
      session === undefined ? modernLink(exchange) : sessionLink(session, exchange.principal),
    of: (session) => bySession.get(session),
    get sessions() {
      return [...bySession.keys()];
    },
    close: async (reason) => {
      const links = [...bySession.values(), ...byModernClient.values()];
      bySession.clear();
      byModernClient.clear();
      for (const link of links) close(link, reason);
      await Promise.all(closing);
    },
  };
}
