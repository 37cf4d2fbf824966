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

type KeptText = readonly [
  /** Many servers agree on the same. */
  agreements: readonly (readonly [revision: string, capabilities: Capabilities])[],
  members: readonly (readonly [key: string, session: string, agreement: number])[],
];

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

/** Writes the sessions of members as one text, as many as fit; the others start over. Undefined without any. */
export function formatKeptMembers(members: ReadonlyMap<string, KeptMember>): string | undefined {
  const agreements: string[] = [];
  const parts: string[] = [];
  let length = "[[],[]]".length;
  for (const [key, { session, revision = "", capabilities }] of members) {
    const agreement = JSON.stringify([revision, capabilities]);
    const known = agreements.indexOf(agreement);
    const part = JSON.stringify([key, session, known < 0 ? agreements.length : known]);
    const added = part.length + 1 + (known < 0 ? agreement.length + 1 : 0);
    if (length + added > maxLength) continue;
    length += added;
    parts.push(part);
    if (known < 0) agreements.push(agreement);
  }
  return parts.length === 0 ? undefined : `[[${agreements.join(",")}],[${parts.join(",")}]]`;
}

/** Reads such a text, which is trusted because it was sealed. */
export function parseKeptMembers(text: string): ReadonlyMap<string, KeptMember> {
  const [agreements, members] = JSON.parse(text) as KeptText;
  return new Map(
    members.map(([key, session, index]) => {
      const [named = "", capabilities = {}] = agreements[index] ?? [];
      const parsed = parseRevision(named);
      return [key, { session, revision: parsed.ok ? parsed.revision : undefined, capabilities }];
    }),
  );
}
