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

/** Clients carry the text in the id of their session, which is a header of every request. */
const maxLength = 2048;
const keyLength = 8;

/** Identifies a member and its server: a session is never offered to another one. */
export function keptKey(name: string, address: string): string {
  return createHash("sha256")
    .update(JSON.stringify([name, address]))
    .digest("base64url")
    .slice(0, keyLength);
}

/**
 * Writes the sessions of members as one text, as many as fit; the others start over. Undefined without any. Each
 * request has the text in a header, so it is short: what servers agreed on is written once, in the first line, and ids
 * that are UUIDs are packed. Needed by bench federation: "call of a".
 */
export function formatKeptMembers(members: ReadonlyMap<string, KeptMember>): string | undefined {
  const agreements: string[] = [];
  const entries: string[] = [];
  let length = "[]\n".length;
  for (const [key, { session, revision = "", capabilities }] of members) {
    // Visible ASCII, as MCP wants it (2025-11-25, Transports, Session Management); a space would end the entry.
    if (!/^[!-~]+$/u.test(session)) continue;
    const agreement = JSON.stringify([revision, capabilities]);
    const known = agreements.indexOf(agreement);
    const entry = `${key}.${known < 0 ? agreements.length : known}${packId(session)}`;
    const added = entry.length + 1 + (known < 0 ? agreement.length + 1 : 0);
    if (length + added > maxLength) continue;
    length += added;
    entries.push(entry);
    if (known < 0) agreements.push(agreement);
  }
  return entries.length === 0 ? undefined : `[${agreements.join(",")}]\n${entries.join(" ")}`;
}

/** Reads such a string; it is trusted because it was sealed. */
export function parseKeptMembers(text: string): ReadonlyMap<string, KeptMember> {
  const [head = "[]", entries = ""] = text.split("\n");
  const agreements = JSON.parse(head) as Agreements;
  return new Map(
    entries.split(" ").flatMap((entry) => {
      const [, key, index, form, id] = /^(.+?)\.(\d+)([:~])(.+)$/u.exec(entry) ?? [];
      if (key === undefined || id === undefined) return [];
      const [named = "", capabilities = {}] = agreements[Number(index)] ?? [];
      const parsed = parseRevision(named);
      const revision = parsed.ok ? parsed.revision : undefined;
      return [[key, { session: form === "~" ? unpackUuid(id) : id, revision, capabilities }]];
    }),
  );
}

function packId(session: string): string {
  const isUuid = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/u.test(session);
  return isUuid ? `~${Buffer.from(session.replaceAll("-", ""), "hex").toString("base64url")}` : `:${session}`;
}

function unpackUuid(packed: string): string {
  const digits = Buffer.from(packed, "base64url").toString("hex");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/u, "$1-$2-$3-$4-");
}
