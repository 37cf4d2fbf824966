import { ByteWriter } from "../bytes.ts";
import { blockSize, type SqlDatabase, type SqlValue } from "./database.ts";
import { createInserter } from "./insert.ts";

/** What is to be written about the exchanges of a block. */
interface BlockNote {
  firstAt: number;
  lastAt: number;
  firstId: string;
  lastId: string;
  /** For each exchange where it stands in the block, its party and its subject. */
  readonly members: ByteWriter;
}

/**
 * Notes which parties and subjects there are in a block of exchanges, in a few bytes for each, where an index would have
 * a row for each.
 */
export interface BlockNotes {
  note(position: number, party: number, subject: number, at: number, id: string): void;
  /** Writes what was noted. */
  write(inside: SqlDatabase): Promise<void>;
  forget(): void;
}

/** Makes the notes of one writer. */
export function createBlockNotes(): BlockNotes {
  const notes = new Map<number, BlockNote>();
  /** The note that was added to last: most exchanges belong to it. */
  let last: BlockNote | undefined;
  let lastBlock = -1;

  function noteOf(block: number, at: number, id: string): BlockNote {
    if (last !== undefined && lastBlock === block) return last;
    let note = notes.get(block);
    if (note === undefined) {
      note = { firstAt: at, lastAt: at, firstId: id, lastId: id, members: new ByteWriter(firstBytes) };
      notes.set(block, note);
    }
    last = note;
    lastBlock = block;
    return note;
  }

  function forget(): void {
    notes.clear();
    last = undefined;
    lastBlock = -1;
  }

  return {
    note: (position, party, subject, at, id) => {
      const block = Math.floor(position / blockSize);
      const note = noteOf(block, at, id);
      if (at < note.firstAt) note.firstAt = at;
      if (at > note.lastAt) note.lastAt = at;
      if (id < note.firstId) note.firstId = id;
      if (id > note.lastId) note.lastId = id;
      note.members.number(position - block * blockSize);
      note.members.number(party);
      note.members.number(subject);
    },
    write: async (inside) => {
      const rows = createInserter(
        inside,
        "block",
        ["number", "first_at", "last_at", "first_id", "last_id", "members"],
        joinNotes[inside.dialect],
      );
      for (const [number, { firstAt, lastAt, firstId, lastId, members }] of notes) {
        rows.row().push(number, firstAt, lastAt, firstId, lastId, members.since(0));
        if (rows.isFull) await rows.write();
      }
      await rows.write();
      forget();
    },
    forget,
  };
}

const firstBytes = 1024;

const joinNotes: Readonly<Record<SqlDatabase["dialect"], string>> = {
  sqlite: joinedBy("MIN", "MAX", "CAST(block.members || excluded.members AS BLOB)"),
  postgres: joinedBy("LEAST", "GREATEST", "block.members || excluded.members"),
};

function joinedBy(least: string, most: string, members: string): string {
  return ` ON CONFLICT (number) DO UPDATE SET
    first_at = ${least}(block.first_at, excluded.first_at), last_at = ${most}(block.last_at, excluded.last_at),
    first_id = ${least}(block.first_id, excluded.first_id), last_id = ${most}(block.last_id, excluded.last_id),
    members = ${members}`;
}

/** Told of every exchange that was noted. One that has changed was noted again, and what it was is still there. */
export type MemberListener = (position: number, party: number, subject: number) => void;

/** Reads the notes of a block. */
export function readMembers(block: number, members: SqlValue | undefined, onMember: MemberListener): void {
  if (!(members instanceof Uint8Array)) return;
  const start = block * blockSize;
  let at = 0;
  // Here and not by a reader: a search reads millions of them.
  const next = (): number => {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = members[at++] ?? 0;
      if (byte < 128) return value + byte * unit;
      value += (byte - 128) * unit;
    }
  };
  while (at < members.length) onMember(start + next(), next(), next());
}

const removedAtOnce = 500;

/** Takes out the notes of blocks of which nothing is left, and what no exchange has in common any more. */
export async function tidyBlocks(database: SqlDatabase): Promise<void> {
  await database.transaction(async (inside) => {
    // Whoever writes sees by this number that what it remembers may be gone.
    await inside.run("UPDATE headgate SET value = CAST(value AS INTEGER) + 1 WHERE name = 'tidied'");
    await inside.run(
      `DELETE FROM block WHERE NOT EXISTS (SELECT 1 FROM exchange_own
        WHERE position >= block.number * ${blockSize} AND position < (block.number + 1) * ${blockSize})`,
    );
    const used = { party: new Set<number>(), subject: new Set<number>() };
    for (const row of await inside.all("SELECT number, members FROM block")) {
      readMembers(Number(row["number"]), row["members"], (_position, party, subject) => {
        used.party.add(party);
        used.subject.add(subject);
      });
    }
    for (const table of ["party", "subject"] as const) {
      const numbers = (await inside.all(`SELECT number FROM ${table}`)).map((row) => Number(row["number"]));
      const unused = numbers.filter((number) => !used[table].has(number));
      for (let at = 0; at < unused.length; at += removedAtOnce) {
        const some = unused.slice(at, at + removedAtOnce);
        await inside.run(`DELETE FROM ${table} WHERE number IN (${some.map(() => "?").join(", ")})`, some);
      }
    }
  });
}

/** How often something was taken out that writers may remember. While it is looked at, nothing is. */
export async function timesTidied(inside: SqlDatabase): Promise<string> {
  const lock = inside.dialect === "postgres" ? " FOR SHARE" : "";
  const [row] = await inside.all(`SELECT value FROM headgate WHERE name = 'tidied'${lock}`);
  return String(row?.["value"]);
}
