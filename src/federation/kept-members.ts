import { createHash } from "node:crypto";

import type { Capabilities } from "../protocol/methods.ts";
import { parseRevision, type Revision } from "../protocol/revisions.ts";

/** What a handshake with a member agreed on. */
interface Agreement {
  /** Undefined if that is not known. */
  readonly revision: Revision | undefined;
  readonly capabilities: Capabilities;
}

/** A member's session, as far as another process needs it to continue. */
export interface KeptMember extends Agreement {
  readonly session: string;
}

type Agreements = readonly (readonly [revision: string, capabilities: Capabilities])[];

/** Clients carry the bytes in the id of their session, which is a header of every request. */
const maxLength = 2048;
const keyLength = 5;
const uuidLength = 16;

/** Identifies a member and its server: a session is never offered to another one. Each character is a byte. */
export function keptKey(name: string, address: string): string {
  return createHash("sha256")
    .update(JSON.stringify([name, address]))
    .digest()
    .toString("latin1", 0, keyLength);
}

/**
 * Writes the sessions of members as one string of bytes (each character is one), as many as fit; the others start over.
 * Undefined without any. Each request has it in a header, which servers read one character at a time, so it is short:
 * what servers agreed on is written once, in the first line, and ids that are UUIDs are packed. Needed by bench federation:
 * "call of a".
 */
export function formatKeptMembers(members: ReadonlyMap<string, KeptMember>): string | undefined {
  const agreements: string[] = [];
  let entries = "";
  let length = "[]\n".length;
  for (const [key, { session, revision = "", capabilities }] of members) {
    // Visible ASCII, as MCP wants it (2025-11-25, Transports, Session Management).
    if (!/^[!-~]+$/u.test(session)) continue;
    const agreement = escapeNonAscii(JSON.stringify([revision, capabilities]));
    const known = agreements.indexOf(agreement);
    const index = known < 0 ? agreements.length : known;
    const entry = key + packEntry(index, session);
    const added = entry.length + (known < 0 ? agreement.length + 1 : 0);
    if (length + added > maxLength || index > maxIndex) continue;
    length += added;
    entries += entry;
    if (known < 0) agreements.push(agreement);
  }
  return entries === "" ? undefined : `[${agreements.join(",")}]\n${entries}`;
}

/** Reads such a string; it is trusted because it was sealed. */
export function parseKeptMembers(text: string): ReadonlyMap<string, KeptMember> {
  const end = text.indexOf("\n");
  const agreements = JSON.parse(text.slice(0, end)) as Agreements;
  const members = new Map<string, KeptMember>();
  let at = end + 1;
  while (at < text.length) {
    const key = text.slice(at, at + keyLength);
    const { index, session, next } = unpackEntry(text, at + keyLength);
    const [named = "", capabilities = {}] = agreements[index] ?? [];
    const parsed = parseRevision(named);
    members.set(key, { session, revision: parsed.ok ? parsed.revision : undefined, capabilities });
    at = next;
  }
  return members;
}

/** In the byte with the index of an agreement: the id is a packed UUID. Otherwise two bytes with its length follow. */
const packedUuid = 0x80;
const maxIndex = packedUuid - 1;

function packEntry(index: number, session: string): string {
  if (/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/u.test(session))
    return bytesText(index | packedUuid) + Buffer.from(session.replaceAll("-", ""), "hex").toString("latin1");
  return bytesText(index, session.length >> 8, session.length & 0xff) + session;
}

function unpackEntry(text: string, at: number) {
  const [head = 0, high = 0, low = 0] = Buffer.from(text.slice(at, at + 3), "latin1");
  const isUuid = (head & packedUuid) !== 0;
  const start = at + (isUuid ? 1 : 3);
  const next = start + (isUuid ? uuidLength : (high << 8) | low);
  const id = text.slice(start, next);
  return { index: head & maxIndex, session: isUuid ? uuidOf(id) : id, next };
}

function uuidOf(packed: string): string {
  const digits = Buffer.from(packed, "latin1").toString("hex");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
}

function bytesText(...bytes: readonly number[]): string {
  return Buffer.from(bytes).toString("latin1");
}

/** JSON text whose characters are bytes. */
function escapeNonAscii(json: string): string {
  return json.replaceAll(/[^ -~]/gu, (character) =>
    Array.from({ length: character.length }, (_, unit) => character.charCodeAt(unit).toString(16).padStart(4, "0"))
      .map((code) => String.raw`\u${code}`)
      .join(""),
  );
}
