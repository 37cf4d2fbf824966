import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";

import { GatewayError } from "../../../errors.ts";
import type { Clock, SetTimer } from "../../../lib/clock.ts";
import type { EndedSessions } from "../../../sessions/ended-sessions.ts";
import { type CookieKind, type CookiePlace, createCookies, type Cookies } from "./cookies.ts";
import { createTicket, keyOf, ticketEnd, ticketMs } from "./ticket.ts";

/** What a caller of the admin API may do. */
export const rights = ["view", "bodies", "operate", "approve"] as const;

/** One of {@link rights}: see traffic, read messages, call tools and release held messages, approve definitions. */
export type Right = (typeof rights)[number];

/** A caller of the admin API. */
export interface Caller {
  readonly name: string;
  /** Issuer and subject of a person who signed in elsewhere; the name is for reading only. */
  readonly subject?: string | undefined;
  readonly rights: readonly Right[];
  /** The session of a browser; programs have none. */
  readonly session?: BrowserSession | undefined;
}

/** The session of a browser, which ends when it expires or the person signs out. */
export interface BrowserSession {
  readonly id: string;
  readonly openedAt: number;
  readonly until: number;
}

/** The person who runs the gateway: the owner of its data folder. */
export const owner: Caller = { name: "owner", rights };

/** Throws unless the caller may do something. */
export function demandRight({ name, rights: own }: Caller, right: Right, what: string): void {
  if (!own.includes(right))
    throw new GatewayError("insufficient_scope", `${what} needs the right \`${right}\`, which ${name} does not have`);
}

/** Authenticates callers of the admin API, and signs people in. */
export interface SignIn {
  /** Cookies of this gateway, for other ways to sign in. */
  readonly cookies: Cookies;
  /** Who sends a request with these headers, by bearer token or cookie. */
  callerOf(headers: IncomingHttpHeaders): Promise<Caller | undefined>;
  /** A ticket for the one-time link of the console. */
  issueTicket(): string;
  /** The `Set-Cookie` for a valid ticket; each ticket is valid once. */
  redeem(ticket: string, place: CookiePlace): string | undefined;
  /** The `Set-Cookie` for a person who has signed in elsewhere. */
  start(caller: Omit<Caller, "session">, place: CookiePlace, lifetimeMs: number): string;
  /** Ends the session of a caller everywhere, and returns the `Set-Cookie` that removes it from the browser. */
  end(caller: Caller, headers: IncomingHttpHeaders): string;
  /** Calls back when the session of a caller ends. Returns the function that stops watching. */
  watch(caller: Caller, onEnd: () => void): () => void;
}

const ownerSessionMs = 12 * 3_600_000;
/** How soon a session that ended at another gateway ends its streams here. */
const checkMs = 15_000;

const sessionCookie: CookieKind<SessionContent> = {
  purpose: "console",
  sameSite: "Strict",
  content: z.strictObject({
    id: z.string(),
    name: z.string(),
    subject: z.string().optional(),
    rights: z.array(z.enum(rights)),
    openedAt: z.number(),
    until: z.number(),
  }),
};

interface SessionContent extends BrowserSession {
  readonly name: string;
  readonly subject?: string | undefined;
  readonly rights: Right[];
}

/** What the sign-in needs from the gateway. */
export interface SignInDeps {
  readonly clock: Pick<Clock, "wall">;
  readonly setTimer: SetTimer;
  readonly ended: Pick<EndedSessions, "add" | "has">;
  /** The configured roles as text: rights are in the cookie, so a session ends when they change. */
  readonly roles: string;
}

/**
 * Creates the sign-in of one gateway. Cookies are signed with a key made of token and roles, so they outlive a restart
 * of a gateway whose token is kept in a file, and so does the list of sessions that have ended. Tickets do not: only
 * this process knows which were used.
 */
export function createSignIn(token: string, { clock: { wall }, setTimer, ended, roles }: SignInDeps): SignIn {
  const key = keyOf(token);
  const digest = hash("sha256", token, "buffer");
  const cookies = createCookies(createHmac("sha256", key).update(`roles ${roles}`).digest());
  /** Used tickets, with the time at which they expire. */
  const used = new Map<string, number>();
  const startedAt = wall();
  /** What to do when a session ends, by its id. */
  const watchers = new Map<string, Set<() => void>>();

  async function isOver({ id, openedAt, until }: BrowserSession): Promise<boolean> {
    return until <= wall() || (await ended.has({ id: endedId(id), owner: endedOwner, openedAt }));
  }

  function start({ name, subject, rights: own }: Caller, place: CookiePlace, lifetimeMs: number): string {
    const openedAt = wall();
    const content = { id: newId(), name, subject, rights: [...own], openedAt, until: openedAt + lifetimeMs };
    return cookies.set(sessionCookie, content, place, lifetimeMs);
  }

  return {
    cookies,
    callerOf: async (headers) => {
      const bearer = /^bearer (?<token>\S+)$/iu.exec(headers.authorization ?? "")?.groups?.["token"];
      // Digests have the same length, so the comparison reveals nothing about the token.
      if (bearer !== undefined) return timingSafeEqual(hash("sha256", bearer, "buffer"), digest) ? owner : undefined;
      const content = cookies.get(sessionCookie, headers);
      if (content === undefined || (await isOver(content))) return undefined;
      const { name, subject, rights: own, id, openedAt, until } = content;
      return { name, subject, rights: own, session: { id, openedAt, until } };
    },
    issueTicket: () => createTicket(token, wall()),
    redeem: (ticket, place) => {
      const now = wall();
      for (const [id, until] of used) if (until < now) used.delete(id);
      const until = ticketEnd(key, ticket);
      if (until === undefined || until <= now || until - ticketMs < startedAt || used.has(ticket)) return undefined;
      used.set(ticket, until);
      return start(owner, place, ownerSessionMs);
    },
    start,
    end: ({ session }, headers) => {
      if (session !== undefined) {
        ended.add({ id: endedId(session.id), owner: endedOwner, openedAt: session.openedAt, expiresAt: session.until });
        for (const onEnd of watchers.get(session.id) ?? []) onEnd();
      }
      return cookies.clear(sessionCookie, headers);
    },
    watch: ({ session }, onEnd) => {
      if (session === undefined) return () => {};
      const own = watchers.get(session.id) ?? new Set();
      watchers.set(session.id, own.add(onEnd));
      let stopTimer = (): void => {};
      const check = (): void => {
        stopTimer = setTimer(Math.max(1, Math.min(checkMs, session.until - wall())), () => {
          isOver(session).then((over) => {
            if (over) onEnd();
            else if (own.has(onEnd)) check();
          }, onEnd);
        });
      };
      check();
      return () => {
        stopTimer();
        own.delete(onEnd);
        if (own.size === 0) watchers.delete(session.id);
      };
    },
  };
}

/** Sessions of the console are in the same list as those of MCP, where no principal has this id. */
const endedOwner = "console";

function endedId(id: string): string {
  return `console ${id}`;
}

/** A token for a gateway: 256 random bits. */
export function createAdminToken(): string {
  return randomBytes(32).toString("base64url");
}

function newId(): string {
  return randomBytes(9).toString("base64url");
}
