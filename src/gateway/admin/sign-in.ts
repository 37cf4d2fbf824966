import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import * as z from "zod";

import type { Clock } from "../../lib/clock.ts";

/** What a caller of the admin API may do. */
export const rights = ["view", "bodies", "operate", "approve"] as const;

/** One of {@link rights}: see traffic, read messages, call tools and release held messages, approve definitions. */
export type Right = (typeof rights)[number];

/** Somebody who has signed in. */
export interface Caller {
  readonly name: string;
  readonly rights: readonly Right[];
}

/** The person who runs the gateway: the owner of its data folder. */
export const owner: Caller = { name: "owner", rights };

/** Finds out who calls the admin API, and signs people in. */
export interface SignIn {
  /** Who sends a request with these headers, by bearer token or cookie. */
  callerOf(headers: IncomingHttpHeaders): Caller | undefined;
  /** A ticket for the one-time link of the console. */
  issueTicket(): string;
  /** The `Set-Cookie` of a caller whose ticket is good; each ticket is good once. */
  redeem(ticket: string, headers: IncomingHttpHeaders, isSecure: boolean): string | undefined;
  /** The `Set-Cookie` of somebody who has signed in elsewhere. */
  start(caller: Caller, headers: IncomingHttpHeaders, isSecure: boolean): string;
  /** The `Set-Cookie` that signs out. */
  end(headers: IncomingHttpHeaders): string;
}

const ticketMs = 3_600_000;
const sessionMs = 12 * 3_600_000;

const sealed = z.strictObject({
  id: z.string(),
  name: z.string(),
  rights: z.array(z.enum(rights)),
  until: z.number(),
});

type Sealed = z.output<typeof sealed>;

/**
 * Creates the sign-in of one gateway. Cookies are signed with a key made of the token, so they outlive a restart of a
 * gateway whose token is kept in a file. Tickets do not: which of them were used is known to this process only.
 */
export function createSignIn(token: string, { wall }: Pick<Clock, "wall">): SignIn {
  const key = keyOf(token);
  const digest = hash("sha256", token, "buffer");
  /** Used tickets, with the time at which they expire. */
  const used = new Map<string, number>();
  const startedAt = wall();

  function start(caller: Caller, headers: IncomingHttpHeaders, isSecure: boolean): string {
    const value = seal(key, {
      id: newId(),
      ...caller,
      rights: [...caller.rights],
      until: wall() + sessionMs,
    });
    return `${cookieName(headers)}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${sessionMs / 1000}${isSecure ? "; Secure" : ""}`;
  }

  return {
    callerOf: (headers) => {
      const bearer = /^bearer (?<token>\S+)$/iu.exec(headers.authorization ?? "")?.groups?.["token"];
      // Digests have the same length, so the comparison tells nothing of the token.
      if (bearer !== undefined) return timingSafeEqual(hash("sha256", bearer, "buffer"), digest) ? owner : undefined;
      const cookie = cookieOf(headers);
      const session = cookie === undefined ? undefined : unseal(key, cookie, wall());
      return session === undefined ? undefined : { name: session.name, rights: session.rights };
    },
    issueTicket: () => createTicket(token, wall()),
    redeem: (ticket, headers, isSecure) => {
      const now = wall();
      for (const [id, until] of used) if (until < now) used.delete(id);
      const until = ticketEnd(key, ticket);
      if (until === undefined || until <= now || until - ticketMs < startedAt || used.has(ticket)) return undefined;
      used.set(ticket, until);
      return start(owner, headers, isSecure);
    },
    start,
    end: (headers) => `${cookieName(headers)}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`,
  };
}

/** A ticket for the one-time link, made of the token that a gateway was started with; short, so that a terminal can show it. */
export function createTicket(token: string, now: number): string {
  const text = `${Math.ceil((now + ticketMs) / 1000).toString(36)}_${randomBytes(6).toString("hex")}`;
  return `${text}_${ticketSignature(keyOf(token), text).toString("hex")}`;
}

/** When a ticket ends; undefined if it is not one of ours. One ticket has one text, because used ones are known by it. */
function ticketEnd(key: Buffer, ticket: string): number | undefined {
  const {
    text = "",
    time = "",
    signature = "",
  } = /^(?<text>(?<time>[\da-z]+)_[\da-f]+)_(?<signature>[\da-f]{32})$/u.exec(ticket)?.groups ?? {};
  const [given, right] = [Buffer.from(signature, "hex"), ticketSignature(key, text)];
  if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
  return Number.parseInt(time, 36) * 1000;
}

/** 128 bits cannot be guessed within the life of a ticket. */
function ticketSignature(key: Buffer, text: string): Buffer {
  return signatureOf(key, `ticket ${text}`).subarray(0, 16);
}

/** A token for a gateway: 256 random bits. */
export function createAdminToken(): string {
  return randomBytes(32).toString("base64url");
}

function newId(): string {
  return randomBytes(9).toString("base64url");
}

function keyOf(token: string): Buffer {
  return createHmac("sha256", token).update("headgate console").digest();
}

function seal(key: Buffer, content: Sealed): string {
  const text = Buffer.from(JSON.stringify(content)).toString("base64url");
  return `${text}.${signatureOf(key, text).toString("base64url")}`;
}

function unseal(key: Buffer, value: string, now: number): Sealed | undefined {
  const [text = "", signature = ""] = value.split(".");
  const [given, right] = [Buffer.from(signature, "base64url"), signatureOf(key, text)];
  if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
  // We wrote what we signed; another version of us may have written it differently.
  const content = sealed.safeParse(JSON.parse(Buffer.from(text, "base64url").toString()));
  if (!content.success) return undefined;
  return content.data.until > now ? content.data : undefined;
}

function signatureOf(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

/** Browsers send cookies to every port of a host, so each gateway has its own name for it. */
function cookieName({ host = "" }: IncomingHttpHeaders): string {
  return `headgate-${/:(?<port>\d+)$/u.exec(host)?.groups?.["port"] ?? "console"}`;
}

function cookieOf(headers: IncomingHttpHeaders): string | undefined {
  const start = `${cookieName(headers)}=`;
  const pairs = (headers.cookie ?? "").split(";").map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(start))?.slice(start.length);
}
