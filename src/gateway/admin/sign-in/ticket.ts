import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** How long the ticket of a one-time link is valid. */
export const ticketMs = 3_600_000;

/** A ticket for the one-time link, made of the token that a gateway was started with; short, so that a terminal can show it. */
export function createTicket(token: string, now: number): string {
  const text = `${Math.ceil((now + ticketMs) / 1000).toString(36)}_${randomBytes(6).toString("hex")}`;
  return `${text}_${signatureOf(keyOf(token), text).toString("hex")}`;
}

/** When a ticket ends; undefined if it is not one of ours. One ticket has one text, because used ones are known by it. */
export function ticketEnd(key: Buffer, ticket: string): number | undefined {
  const {
    text = "",
    time = "",
    signature = "",
  } = /^(?<text>(?<time>[\da-z]+)_[\da-f]+)_(?<signature>[\da-f]{32})$/u.exec(ticket)?.groups ?? {};
  const [given, right] = [Buffer.from(signature, "hex"), signatureOf(key, text)];
  if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
  return Number.parseInt(time, 36) * 1000;
}

/** The key of everything that is signed with a token. */
export function keyOf(token: string): Buffer {
  return createHmac("sha256", token).update("headgate console").digest();
}

/** 128 bits cannot be guessed within the life of a ticket. */
function signatureOf(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(`ticket ${text}`).digest().subarray(0, 16);
}
