import type { FrameContext } from "../contract.ts";
import { createSubjectBook, subjectMembers, type Subject } from "../subject-book.ts";
import type { SqlDatabase, SqlValue } from "./database.ts";
import { sharedColumns, type SharedTable } from "./rows.ts";

/** Who asked, and how. */
export type Party = Pick<FrameContext, "route" | "principal" | "session" | "revision" | "transport">;

/** Writes what many exchanges share once, and remembers its numbers. */
export interface SharedRows {
  /** The number of a party, whose context may stand with it; -1 where it has to be written first. */
  party(party: Party, context: string): number;
  writeParty(inside: SqlDatabase, party: Party, context: string): Promise<number>;
  /** The same for a subject. */
  subject(subject: Subject): number;
  writeSubject(inside: SqlDatabase, subject: Subject): Promise<number>;
  /** Whether a context comes again, so that it is worth to stand with a party. */
  holds(context: string): boolean;
  forget(): void;
}

/** What is remembered at most; beyond that it is written again, which harms nothing. */
const mostRemembered = 5000;

/** Makes the memory of one writer. */
export function createSharedRows(): SharedRows {
  const parties = new Map<string, number>();
  const contexts = new Set<string>();
  const subjects = createSubjectBook<number>();
  let seen = new Set<string>();
  let remembered = 0;

  function forget(): void {
    parties.clear();
    contexts.clear();
    subjects.clear();
    remembered = 0;
  }

  async function write(
    inside: SqlDatabase,
    table: SharedTable,
    columns: readonly string[],
    values: readonly SqlValue[],
  ): Promise<number> {
    if (remembered++ >= mostRemembered) forget();
    const places = values.map(() => "?").join(", ");
    const [row] = await inside.all(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places}) RETURNING number`,
      values,
    );
    return Number(row?.["number"]);
  }

  return {
    holds: (context) => {
      if (contexts.has(context) || seen.has(context)) return true;
      // Such as come only once, since every request brings another header, are not worth a row.
      if (seen.size >= mostRemembered) seen = new Set();
      seen.add(context);
      return false;
    },
    party: (party, context) => parties.get(partyKey(party, context)) ?? -1,
    writeParty: async (inside, party, context) => {
      const { route, principal, session = null, revision, transport } = party;
      const columns = [...sharedColumns.party.values(), "context"];
      const values = [route, principal, session, revision, transport, context];
      const number = await write(inside, "party", columns, values);
      if (context !== "") contexts.add(context);
      parties.set(partyKey(party, context), number);
      return number;
    },
    subject: (subject) => subjects.get(subject) ?? -1,
    writeSubject: async (inside, subject) => {
      const values = subjectMembers.map((member): SqlValue => {
        const value = subject[member];
        return typeof value === "boolean" ? Number(value) : (value ?? null);
      });
      const number = await write(inside, "subject", [...sharedColumns.subject.values()], values);
      subjects.set(subject, number);
      return number;
    },
    forget,
  };
}

/** A context says it all, and is at hand. */
function partyKey({ route, principal, session, revision, transport }: Party, context: string): string {
  return context === "" ? JSON.stringify([route, principal, session, revision, transport]) : context;
}
