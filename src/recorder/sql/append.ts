import type { CaptureRecord, ExchangeRecord } from "../contract.ts";
import { createDerivation, type ExchangeDerivation } from "../derive.ts";
import {
  createContextReader,
  longestPack,
  packFrames,
  unpackFrames,
  type ContextReader,
  type FramePack,
} from "../pack.ts";
import { captureStride, positionOf, type SqlDatabase } from "./database.ts";
import { framesAt, packsBetween } from "./find.ts";
import { createInserter } from "./insert.ts";
import { exchangeColumns, packColumns, pushExchange, pushPack } from "./rows.ts";

/** A capture that is being written. */
interface OpenCapture {
  readonly number: number;
  readonly derivation: ExchangeDerivation;
}

/** Writes batches of frames, and what is derived from them. */
export interface Appender {
  /** Resolves with how many of the frames are new. */
  append(capture: CaptureRecord, packs: readonly FramePack[]): Promise<number>;
  /** Forgets a capture that gets no more frames. */
  forget(capture: string): void;
}

const upsertExchange = ` ON CONFLICT (position) DO UPDATE SET ${exchangeColumns
  .slice(3)
  .map((column) => `${column} = excluded.${column}`)
  .join(", ")}`;

/** Makes the appender of a database; there is one for each process that writes. */
export function createAppender(database: SqlDatabase): Appender {
  const open = new Map<string, OpenCapture>();
  const readContext = createContextReader();

  async function captureOf(inside: SqlDatabase, capture: CaptureRecord): Promise<OpenCapture> {
    const known = open.get(capture.id);
    if (known !== undefined) return known;
    await inside.run(
      "INSERT INTO capture (id, record, last_seq, indexed_seq) VALUES (?, ?, -1, -1) ON CONFLICT (id) DO NOTHING",
      [capture.id, JSON.stringify(capture)],
    );
    const [row] = await inside.all("SELECT number FROM capture WHERE id = ?", [capture.id]);
    const own = { number: Number(row?.["number"]), derivation: createDerivation() };
    await resume(inside, own, capture.id, readContext);
    open.set(capture.id, own);
    return own;
  }

  async function write(
    inside: SqlDatabase,
    capture: CaptureRecord,
    packs: readonly FramePack[],
  ): Promise<number> {
    const own = await captureOf(inside, capture);
    const [row] = await inside.all("SELECT last_seq FROM capture WHERE number = ?", [own.number]);
    const before = Number(row?.["last_seq"]);
    // Usually all of it is new, since numbers rise; only what is imported or tried again may be there already.
    const isNew = packs.every(({ first }) => first > before);
    const fresh = isNew ? packs : await unknownOf(inside, own.number, packs, capture.id, readContext);
    const rows = createInserter(inside, "pack", packColumns);
    const exchanges = createInserter(inside, "exchange", exchangeColumns);
    /** Exchanges that began before this batch or go on after it; the others are written at once and forgotten. */
    const changed = new Set<ExchangeRecord>();
    let count = 0;
    for (const pack of fresh) {
      const frames = unpackFrames(pack, capture.id, readContext);
      const id = frames[0]?.exchange ?? "";
      let record: ExchangeRecord | undefined;
      for (const frame of frames) {
        for (const exchange of own.derivation.add(frame)) {
          if (exchange.id === id) record = exchange;
          else changed.add(exchange);
        }
      }
      if (record !== undefined && isNew && record.seq === pack.first && record.state !== "open") {
        pushExchange(exchanges.row(), record, own.number);
        if (exchanges.isFull) await exchanges.write();
      } else if (record !== undefined) changed.add(record);
      let owner = record === undefined ? null : positionOf(own.number, record.seq);
      if (record === undefined && id !== "") {
        // Frames behind the end of an exchange still are its own, also where that has just been written.
        await exchanges.write();
        await writeChanged(inside, own.number, changed);
        owner = await ownerOf(inside, own.number, id);
      }
      count += pack.count;
      pushPack(rows.row(), pack, own.number, owner);
      if (rows.isFull) await rows.write();
    }
    await rows.write();
    await exchanges.write();
    await writeChanged(inside, own.number, changed);
    const last = packs.reduce((most, pack) => Math.max(most, pack.last), before);
    await inside.run("UPDATE capture SET record = ?, last_seq = ?, stored = stored + ? WHERE number = ?", [
      JSON.stringify(capture),
      last,
      count,
      own.number,
    ]);
    return count;
  }

  return {
    append: async (capture, packs) => {
      try {
        return await database.transaction((inside) => write(inside, capture, packs));
      } catch (error) {
        // What was derived from a batch that is not there must not go on.
        open.delete(capture.id);
        throw error;
      }
    },
    forget: (capture) => {
      open.delete(capture);
    },
  };
}

/** What was open when the capture was left is open again. */
async function resume(
  inside: SqlDatabase,
  own: OpenCapture,
  capture: string,
  readContext: ContextReader,
): Promise<void> {
  const rows = await inside.all(
    "SELECT position FROM exchange WHERE state <> 'ok' AND state = 'open' AND capture = ?",
    [own.number],
  );
  for (const row of rows) {
    for (const frame of await framesAt(inside, Number(row["position"]), capture, readContext))
      own.derivation.add(frame);
  }
}

async function ownerOf(inside: SqlDatabase, capture: number, exchange: string): Promise<number | null> {
  const [row] = await inside.all("SELECT position FROM exchange WHERE id = ? AND capture = ?", [
    exchange,
    capture,
  ]);
  return row === undefined ? null : Number(row["position"]);
}

async function writeChanged(
  inside: SqlDatabase,
  capture: number,
  exchanges: Iterable<ExchangeRecord>,
): Promise<void> {
  const rows = createInserter(inside, "exchange", exchangeColumns, upsertExchange);
  for (const exchange of exchanges) {
    pushExchange(rows.row(), exchange, capture);
    if (rows.isFull) await rows.write();
  }
  await rows.write();
}

/** What of some packs is not there yet. */
async function unknownOf(
  inside: SqlDatabase,
  capture: number,
  packs: readonly FramePack[],
  id: string,
  readContext: ContextReader,
): Promise<readonly FramePack[]> {
  const first = Math.min(...packs.map((pack) => pack.first));
  const last = Math.max(...packs.map((pack) => pack.last));
  const known = new Set<number>();
  const stored = packsBetween(inside, positionOf(capture, Math.max(first - longestPack, 0)) - 1, {
    end: Math.min(positionOf(capture, last) + 1, (capture + 1) * captureStride),
    lastFrom: first,
  });
  for await (const { pack } of stored) {
    for (const { seq } of unpackFrames(pack, id, readContext)) known.add(seq);
  }
  if (known.size === 0) return packs;
  const frames = packs.flatMap((pack) => unpackFrames(pack, id, readContext));
  return packFrames(
    frames.filter(({ seq }) => !known.has(seq)).toSorted((one, other) => one.seq - other.seq),
  );
}
