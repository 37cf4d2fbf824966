// Needed by bench recorder: "recording on against off", and bench traffic: "first page of a million exchanges".
import { ByteWriter } from "../bytes.ts";
import { idSortKey, parseShortId } from "../exchange-id.ts";
import {
  blockSize,
  captureStride,
  createRowInserter,
  type ColumnValue,
  type SqlDatabase,
  type SqlRow,
} from "./sql-database.ts";

/**
 * The index of exchanges by caller and outcome. Exchanges are grouped in blocks of `blockSize` positions; the row of a
 * block has the range of their times and id keys, and for each exchange its offset and the numbers of its caller and
 * outcome, in a few bytes. An SQL index would need a row for each exchange.
 */
export interface BlockIndexWriter {
  add(position: number, caller: number, outcome: number, at: number, id: string): void;
  /** Writes what was added. */
  write(inside: SqlDatabase): Promise<void>;
  clear(): void;
}

/** What to add to the row of a block. */
interface BlockSummary {
  firstAt: number;
  lastAt: number;
  firstId: string;
  lastId: string;
  readonly entries: ByteWriter;
}

/** Makes the index writer of one appender. */
export function createBlockIndexWriter(): BlockIndexWriter {
  const summaries = new Map<number, BlockSummary>();

  function summaryOf(block: number, at: number, id: string): BlockSummary {
    let summary = summaries.get(block);
    if (summary === undefined) {
      summary = { firstAt: at, lastAt: at, firstId: id, lastId: id, entries: new ByteWriter(initialBytes) };
      summaries.set(block, summary);
    }
    return summary;
  }

  return {
    add: (position, caller, outcome, at, id) => {
      const block = Math.floor(position / blockSize);
      const key = idSortKey(id);
      const summary = summaryOf(block, at, key);
      if (at < summary.firstAt) summary.firstAt = at;
      if (at > summary.lastAt) summary.lastAt = at;
      if (key < summary.firstId) summary.firstId = key;
      if (key > summary.lastId) summary.lastId = key;
      summary.entries.varint(position - block * blockSize);
      summary.entries.varint(caller);
      summary.entries.varint(outcome);
    },
    write: async (inside) => {
      const rows = createRowInserter(
        inside,
        "block",
        ["number", "first_at", "last_at", "first_id", "last_id", "entries"],
        mergeClause[inside.dialect],
      );
      for (const [number, { firstAt, lastAt, firstId, lastId, entries }] of summaries) {
        rows.row().push(number, firstAt, lastAt, firstId, lastId, entries.copyFrom(0));
        if (rows.isFull) await rows.write();
      }
      await rows.write();
      summaries.clear();
    },
    clear: () => {
      summaries.clear();
    },
  };
}

const initialBytes = 1024;

const mergeClause: Readonly<Record<SqlDatabase["dialect"], string>> = {
  sqlite: mergeWith("MIN", "MAX", "CAST(block.entries || excluded.entries AS BLOB)"),
  postgres: mergeWith("LEAST", "GREATEST", "block.entries || excluded.entries"),
};

function mergeWith(least: string, most: string, entries: string): string {
  return ` ON CONFLICT (number) DO UPDATE SET
    first_at = ${least}(block.first_at, excluded.first_at), last_at = ${most}(block.last_at, excluded.last_at),
    first_id = ${least}(block.first_id, excluded.first_id), last_id = ${most}(block.last_id, excluded.last_id),
    entries = ${entries}`;
}

/** Called for each entry of a block. An exchange that changed has several, and only the last is true. */
export type BlockEntryListener = (position: number, caller: number, outcome: number) => void;

/** Reads the entries of a block. */
export function readBlockEntries(block: number, entries: ColumnValue | undefined, onEntry: BlockEntryListener): void {
  if (!(entries instanceof Uint8Array)) return;
  const start = block * blockSize;
  let at = 0;
  // Not a ByteReader: a search reads millions of entries.
  const next = (): number => {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = entries[at++] ?? 0;
      if (byte < 128) return value + byte * unit;
      value += (byte - 128) * unit;
    }
  };
  while (at < entries.length) onEntry(start + next(), next(), next());
}

/** SQL that joins a table of exchanges to the blocks it is in. */
export function inBlock(table: string): string {
  return `${table}.position >= block.number * ${blockSize} AND ${table}.position < (block.number + 1) * ${blockSize}`;
}

/** The first block of a capture, and that of the next one. */
export function blocksOf(capture: number): readonly [number, number] {
  return [(capture * captureStride) / blockSize, ((capture + 1) * captureStride) / blockSize];
}

/** The position of an exchange of a capture by its id; null if there is none. */
export async function findById(inside: SqlDatabase, capture: number, id: string): Promise<number | null> {
  const [row] = await inside.all(
    `SELECT exchange.position FROM block JOIN exchange ON ${inBlock("exchange")}
    WHERE block.number >= ? AND block.number < ? AND block.first_id <= ? AND block.last_id >= ?
      AND exchange.id = ? LIMIT 1`,
    [...blocksOf(capture), idSortKey(id), idSortKey(id), id],
  );
  return row === undefined ? null : Number(row["position"]);
}

/** Rows of exchanges whose id, short id or beginning of an id is given; two tell that it is not the only one. */
export async function findRows(database: SqlDatabase, id: string): Promise<readonly SqlRow[]> {
  const key = idSortKey(id);
  if (key !== id) return rowsBetween(database, key, key, "exchange.id = ?", [id]);
  const end = `${id}\uffff`;
  const rows = [...(await rowsBetween(database, id, end, "exchange.id >= ? AND exchange.id < ?", [id, end]))];
  const short = parseShortId(id);
  if (short === undefined) return rows;
  const { node, counter } = short;
  const nodes = await database.all(
    "SELECT DISTINCT SUBSTR(first_id, 1, 8) AS node FROM block WHERE first_id >= ? AND first_id < ?",
    [node, `${node}\uffff`],
  );
  for (const row of nodes) {
    const whole = String(row["node"]);
    const ownKey = idSortKey(`-${whole}--${counter}`);
    rows.push(...(await rowsBetween(database, ownKey, ownKey, "exchange.id LIKE ?", [`%-${whole}-%-${counter}`])));
  }
  return rows;
}

/** Rows in blocks whose id keys reach into a range. */
function rowsBetween(
  database: SqlDatabase,
  from: string,
  to: string,
  condition: string,
  values: readonly string[],
): Promise<readonly SqlRow[]> {
  return database.all(
    `SELECT exchange.* FROM block JOIN exchange_view AS exchange ON ${inBlock("exchange")}
    WHERE block.first_id <= ? AND block.last_id >= ? AND ${condition} ORDER BY exchange.id LIMIT 2`,
    [to, from, ...values],
  );
}

const deleteBatch = 500;

/** Deletes blocks without exchanges, and rows of callers and outcomes that no exchange has any more. */
export async function compactIndex(database: SqlDatabase): Promise<void> {
  await database.transaction(async (inside) => {
    // Writers see by this number that rows they have cached may be gone.
    await inside.run("UPDATE headgate SET value = CAST(value AS INTEGER) + 1 WHERE name = 'compactions'");
    await inside.run(`DELETE FROM block WHERE NOT EXISTS (SELECT 1 FROM exchange WHERE ${inBlock("exchange")})`);
    const used = { caller: new Set<number>(), outcome: new Set<number>() };
    for (const row of await inside.all("SELECT number, entries FROM block")) {
      readBlockEntries(Number(row["number"]), row["entries"], (_position, caller, outcome) => {
        used.caller.add(caller);
        used.outcome.add(outcome);
      });
    }
    for (const table of ["caller", "outcome"] as const) {
      const numbers = (await inside.all(`SELECT number FROM ${table}`)).map((row) => Number(row["number"]));
      const unused = numbers.filter((number) => !used[table].has(number));
      for (let at = 0; at < unused.length; at += deleteBatch) {
        const some = unused.slice(at, at + deleteBatch);
        await inside.run(`DELETE FROM ${table} WHERE number IN (${some.map(() => "?").join(", ")})`, some);
      }
    }
  });
}

/** How often the index was compacted; it cannot be while the transaction that asks is open. */
export async function compactionCount(inside: SqlDatabase): Promise<string> {
  const lock = inside.dialect === "postgres" ? " FOR SHARE" : "";
  const [row] = await inside.all(`SELECT value FROM headgate WHERE name = 'compactions'${lock}`);
  return String(row?.["value"]);
}
