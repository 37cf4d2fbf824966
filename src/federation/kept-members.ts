import type { Capabilities } from "../protocol/methods.ts";
import { parseRevision, type Revision } from "../protocol/revisions.ts";

/** A member's own session, as far as another process needs it to go on. */
export interface KeptMember {
  readonly session: string;
  /** Tells its server from others: a session is never offered to another one. */
  readonly address: string;
  /** What the handshake agreed on; undefined if that is not known. */
  readonly revision: Revision | undefined;
  readonly capabilities: Capabilities;
}

type Entry = readonly [name: string, address: string, session: string, revision: string, capabilities: Capabilities];

/** Clients carry the text in the id of their session, which is a header of every request. */
const maxLength = 2048;

/** Writes the sessions of members as one text, as many as fit; the others begin anew. Undefined if there are none. */
export function formatKeptMembers(members: ReadonlyMap<string, KeptMember>): string | undefined {
  const parts: string[] = [];
  let length = 1;
  for (const [name, { session, address, revision = "", capabilities }] of members) {
    const entry: Entry = [name, address, session, revision, capabilities];
    const part = JSON.stringify(entry);
    if (length + part.length + 1 > maxLength) continue;
    length += part.length + 1;
    parts.push(part);
  }
  return parts.length === 0 ? undefined : `[${parts.join(",")}]`;
}

/** Reads such a text, which was sealed: it is as it was written. */
export function parseKeptMembers(text: string): ReadonlyMap<string, KeptMember> {
  const entries = JSON.parse(text) as readonly Entry[];
  return new Map(
    entries.map(([name, address, session, named, capabilities]) => {
      const parsed = parseRevision(named);
      return [name, { session, address, revision: parsed.ok ? parsed.revision : undefined, capabilities }];
    }),
  );
}
