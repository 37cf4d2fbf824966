import { ByteWriter } from "../bytes.ts";
import { blockSize, type ColumnValue, createRowInserter, type SqlDatabase } from "./sql-database.ts";

/** What is to be written about the exchanges of a block. */
interface BlockSummary {
  firstAt: number;
  lastAt: number;
  firstId: string;
  lastId: string;
  /** For each exchange where it stands in the block, its party and its subject. */
  readonly entries: ByteWriter;
}

/**
 * Notes which parties and subjects there are in a block of exchanges, in a few bytes for each, where an index would have
 * a row for each.
 */
export interface BlockIndexWriter {
  add(position: number, party: number, subject: number, at: number, id: string): void;
  /** Writes what was noted. */
  write(inside: SqlDatabase): Promise<void>;
  clear(): void;
}

/** Makes the notes of one writer. */
export function createBlockIndexWriter(): BlockIndexWriter {
  const notes = new Map<number, BlockSummary>();
  /** The note that was added to last: most exchanges belong to it. */
  let last: BlockSummary | undefined;
  let lastBlock = -1;

  function noteOf(block: number, at: number, id: string): BlockSummary {
    if (last !== undefined && lastBlock === block) return last;
    let note = notes.get(block);
    if (note === undefined) {
      note = { firstAt: at, lastAt: at, firstId: id, lastId: id, entries: new ByteWriter(initialBytes) };
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
    add: (position, party, subject, at, id) => {
      const block = Math.floor(position / blockSize);
      const note = noteOf(block, at, id);
      if (at < note.firstAt) note.firstAt = at;
      if (at > note.lastAt) note.lastAt = at;
      if (id < note.firstId) note.firstId = id;
      if (id > note.lastId) note.lastId = id;
      note.entries.varint(position - block * blockSize);
      note.entries.varint(party);
      note.entries.varint(subject);
    },
    write: async (inside) => {
      const rows = createRowInserter(
        inside,
        "block",
        ["number", "first_at", "last_at", "first_id", "last_id", "members"],
        mergeClause[inside.dialect],
      );
      for (const [number, { firstAt, lastAt, firstId, lastId, entries: members }] of notes) {
        rows.row().push(number, firstAt, lastAt, firstId, lastId, members.copyFrom(0));
        if (rows.isFull) await rows.write();
      }
      await rows.write();
      forget();
    },
    clear: forget,
  };
}

const initialBytes = 1024;

const mergeClause: Readonly<Record<SqlDatabase["dialect"], string>> = {
  sqlite: mergeWith("MIN", "MAX", "CAST(block.members || excluded.members AS BLOB)"),
  postgres: mergeWith("LEAST", "GREATEST", "block.members || excluded.members"),
};

function mergeWith(least: string, most: string, members: string): string {
  return ` ON CONFLICT (number) DO UPDATE SET
    first_at = ${least}(block.first_at, excluded.first_at), last_at = ${most}(block.last_at, excluded.last_at),
    first_id = ${least}(block.first_id, excluded.first_id), last_id = ${most}(block.last_id, excluded.last_id),
    members = ${members}`;
}

/** Told of every exchange that was noted. One that has changed was noted again, and what it was is still there. */
export type BlockEntryListener = (position: number, party: number, subject: number) => void;

/** Reads the notes of a block. */
export function readBlockEntries(block: number, members: ColumnValue | undefined, onMember: BlockEntryListener): void {
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

const deleteBatch = 500;

/** Takes out the notes of blocks of which nothing is left, and what no exchange has in common any more. */
export async function compactIndex(database: SqlDatabase): Promise<void> {
  await database.transaction(async (inside) => {
    // Whoever writes sees by this number that what it remembers may be gone.
    await inside.run("UPDATE headgate SET value = CAST(value AS INTEGER) + 1 WHERE name = 'tidied'");
    await inside.run(
      `DELETE FROM block WHERE NOT EXISTS (SELECT 1 FROM exchange_own
        WHERE position >= block.number * ${blockSize} AND position < (block.number + 1) * ${blockSize})`,
    );
    const used = { party: new Set<number>(), subject: new Set<number>() };
    for (const row of await inside.all("SELECT number, members FROM block")) {
      readBlockEntries(Number(row["number"]), row["members"], (_position, party, subject) => {
        used.party.add(party);
        used.subject.add(subject);
      });
    }
    for (const table of ["party", "subject"] as const) {
      const numbers = (await inside.all(`SELECT number FROM ${table}`)).map((row) => Number(row["number"]));
      const unused = numbers.filter((number) => !used[table].has(number));
      for (let at = 0; at < unused.length; at += deleteBatch) {
        const some = unused.slice(at, at + deleteBatch);
        await inside.run(`DELETE FROM ${table} WHERE number IN (${some.map(() => "?").join(", ")})`, some);
      }
    }
  });
}

/** How often something was taken out that writers may remember. While it is looked at, nothing is. */
export async function compactionCount(inside: SqlDatabase): Promise<string> {
  const lock = inside.dialect === "postgres" ? " FOR SHARE" : "";
  const [row] = await inside.all(`SELECT value FROM headgate WHERE name = 'tidied'${lock}`);
  return String(row?.["value"]);
}
