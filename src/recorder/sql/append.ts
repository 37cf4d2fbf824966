import type { ExchangeRecord, Frame } from "../contract.ts";
import type { FrameBatch } from "../store-contract.ts";
import { createDerivation, type ExchangeDerivation } from "../derive.ts";
import { captureStride, positionOf, type SqlDatabase, type SqlValue } from "./database.ts";
import { framesAt } from "./find.ts";
import { exchangeColumns, exchangeValues, headOf } from "./rows.ts";

/** A capture that is being written. */
interface OpenCapture {
  readonly number: number;
  readonly derivation: ExchangeDerivation;
  /** Numbers of exchanges by id, as long as frames of them may come. */
  readonly owners: Map<string, number>;
}

/** Writes batches of frames, and what is derived from them. */
export interface Appender {
  /** Resolves with how many of the frames are new. */
  append(batch: FrameBatch): Promise<number>;
  /** Forgets a capture that gets no more frames. */
  forget(capture: string): void;
}

/** Rows that are written by one statement; what is left over goes one by one, so that two statements are enough. */
const rowsAtOnce = 32;
const mostOwners = 20_000;

const upsertExchange = ` ON CONFLICT (position) DO UPDATE SET ${exchangeColumns
  .slice(3)
  .map((column) => `${column} = excluded.${column}`)
  .join(", ")}`;

/** Makes the appender of a database; there is one for each process that writes. */
export function createAppender(database: SqlDatabase): Appender {
  const open = new Map<string, OpenCapture>();

  async function captureOf(inside: SqlDatabase, { capture }: FrameBatch): Promise<OpenCapture> {
    const known = open.get(capture.id);
    if (known !== undefined) return known;
    await inside.run(
      "INSERT INTO capture (id, record, last_seq, indexed_seq) VALUES (?, ?, -1, -1) ON CONFLICT (id) DO NOTHING",
      [capture.id, JSON.stringify(capture)],
    );
    const [row] = await inside.all("SELECT number FROM capture WHERE id = ?", [capture.id]);
    const own = { number: Number(row?.["number"]), derivation: createDerivation(), owners: new Map() };
    await resume(inside, own, capture.id);
    open.set(capture.id, own);
    return own;
  }

  /** What was open when the capture was left is open again. */
  async function resume(inside: SqlDatabase, own: OpenCapture, capture: string): Promise<void> {
    const rows = await inside.all("SELECT position, id FROM exchange WHERE state = 'open' AND capture = ?", [
      own.number,
    ]);
    for (const row of rows) {
      const position = Number(row["position"]);
      own.owners.set(String(row["id"]), position);
      for (const frame of await framesAt(inside, position, capture)) own.derivation.add(frame);
    }
  }

  async function write(inside: SqlDatabase, batch: FrameBatch): Promise<number> {
    const own = await captureOf(inside, batch);
    const fresh = await unknownOf(inside, own.number, batch.frames);
    const changed = new Map<number, ExchangeRecord>();
    const rows: SqlValue[][] = [];
    for (const frame of fresh) {
      for (const exchange of own.derivation.add(frame)) {
        const position = positionOf(own.number, exchange.seq);
        changed.set(position, exchange);
        own.owners.set(exchange.id, position);
      }
      const owner = frame.exchange === "" ? null : await ownerOf(inside, own, frame.exchange);
      rows.push([positionOf(own.number, frame.seq), owner, headOf(frame), frame.body ?? null]);
    }
    trim(own.owners);
    await insert(inside, "frame", ["position", "owner", "head", "body"], rows, "");
    const exchanges = [...changed.values()].map((exchange) => exchangeValues(exchange, own.number));
    await insert(inside, "exchange", exchangeColumns, exchanges, upsertExchange);
    const last = batch.frames.at(-1)?.seq ?? -1;
    const larger = inside.dialect === "sqlite" ? "MAX" : "GREATEST";
    await inside.run(`UPDATE capture SET record = ?, last_seq = ${larger}(last_seq, ?) WHERE number = ?`, [
      JSON.stringify(batch.capture),
      last,
      own.number,
    ]);
    return fresh.length;
  }

  async function ownerOf(inside: SqlDatabase, own: OpenCapture, exchange: string): Promise<number | null> {
    const known = own.owners.get(exchange);
    if (known !== undefined) return known;
    const [row] = await inside.all("SELECT position FROM exchange WHERE id = ? AND capture = ?", [
      exchange,
      own.number,
    ]);
    return row === undefined ? null : Number(row["position"]);
  }

  return {
    append: async (batch) => {
      try {
        return await database.transaction((inside) => write(inside, batch));
      } catch (error) {
        // What was derived from a batch that is not there must not go on.
        open.delete(batch.capture.id);
        throw error;
      }
    },
    forget: (capture) => {
      open.delete(capture);
    },
  };
}

/** Frames that are not there yet; usually all of them, since their numbers rise. */
async function unknownOf(
  inside: SqlDatabase,
  capture: number,
  frames: readonly Frame[],
): Promise<readonly Frame[]> {
  const [first] = frames;
  if (first === undefined) return frames;
  const rows = await inside.all("SELECT position FROM frame WHERE position >= ? AND position < ?", [
    positionOf(capture, first.seq),
    (capture + 1) * captureStride,
  ]);
  if (rows.length === 0) return frames;
  const known = new Set(rows.map((row) => Number(row["position"])));
  return frames.filter(({ seq }) => !known.has(positionOf(capture, seq)));
}

async function insert(
  inside: SqlDatabase,
  table: string,
  columns: readonly string[],
  rows: readonly (readonly SqlValue[])[],
  behind: string,
): Promise<void> {
  const row = `(${columns.map(() => "?").join(", ")})`;
  const statement = (count: number): string =>
    `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${Array.from({ length: count }, () => row).join(", ")}${behind}`;
  const many = statement(rowsAtOnce);
  const one = statement(1);
  let at = 0;
  for (; at + rowsAtOnce <= rows.length; at += rowsAtOnce) {
    await inside.run(many, rows.slice(at, at + rowsAtOnce).flat());
  }
  for (const left of rows.slice(at)) await inside.run(one, left);
}

function trim(owners: Map<string, number>): void {
  for (const id of owners.keys()) {
    if (owners.size <= mostOwners) return;
    owners.delete(id);
  }
}
