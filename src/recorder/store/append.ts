import type { CaptureRecord, ExchangeRecord } from "../contract.ts";
import { createDerivation, type ExchangeDerivation } from "../derive.ts";
import {
  type CompleteExchange,
  type ContextReader,
  createContextReader,
  formatContext,
  type FramePack,
  maxPackSpan,
  packFrames,
  readPackIds,
  unpackFrames,
} from "../pack.ts";
import type { ExchangeOutcome } from "../dimension-cache.ts";
import { compactionCount, createBlockIndexWriter } from "./block-index.ts";
import {
  blockSize,
  captureStride,
  createRowInserter,
  type RowInserter,
  type SqlDatabase,
  toPosition,
} from "./sql-database.ts";
import { framesAt, packsBetween } from "./find-exchanges.ts";
import { ownColumns, type OwnFields, packColumns, pushExchange, pushPack } from "./columns.ts";
import { createDimensionRows, type ExchangeCaller } from "./dimension-rows.ts";

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

const upsertExchange = ` ON CONFLICT (position) DO UPDATE SET ${ownColumns
  .slice(1)
  .map((column) => `${column} = excluded.${column}`)
  .join(", ")}`;

/** Makes the appender of a database; there is one for each process that writes. */
export function createAppender(database: SqlDatabase): Appender {
  const open = new Map<string, OpenCapture>();
  const readContext = createContextReader();
  const shared = createDimensionRows();
  const notes = createBlockIndexWriter();
  /** The contexts that stand with the parties of exchanges that go on. */
  const contexts = new WeakMap<ExchangeRecord, string>();
  let tidied = "";

  function forgetShared(): void {
    shared.clear();
    notes.clear();
  }

  async function captureOf(inside: SqlDatabase, capture: CaptureRecord): Promise<OpenCapture> {
    const known = open.get(capture.id);
    if (known !== undefined) return known;
    const isNew = await inside.run(
      "INSERT INTO capture (id, record, last_seq, indexed_seq) VALUES (?, ?, -1, -1) ON CONFLICT (id) DO NOTHING",
      [capture.id, JSON.stringify(capture)],
    );
    const [row] = await inside.all("SELECT number FROM capture WHERE id = ?", [capture.id]);
    const own = { number: Number(row?.["number"]), derivation: createDerivation() };
    if (isNew === 0) await resume(inside, own, capture.id);
    open.set(capture.id, own);
    return own;
  }

  /** What was open when the capture was left is open again. */
  async function resume(inside: SqlDatabase, own: OpenCapture, capture: string): Promise<void> {
    const rows = await inside.all(
      `SELECT position FROM exchange WHERE duration_ms IS NULL AND state = 'open'
        AND position >= ? AND position < ? ORDER BY position`,
      [own.number * captureStride, (own.number + 1) * captureStride],
    );
    for (const row of rows) {
      for (const frame of await framesAt(inside, Number(row["position"]), capture, readContext)) {
        for (const record of own.derivation.add(frame))
          if (frame.context !== undefined) contexts.set(record, sharedContext(record, formatContext(frame.context)));
      }
    }
  }

  /** Adds the row of an exchange; false where what it shares with others has to be written first. */
  function pushNow(
    rows: RowInserter,
    capture: number,
    exchange: OwnFields & Pick<ExchangeRecord, "seq">,
    shares: ExchangeDimensions,
  ): boolean {
    const party = shared.caller(shares.caller, shares.context);
    const subject = shared.outcome(shares.outcome);
    if (party < 0 || subject < 0) return false;
    const position = toPosition(capture, exchange.seq);
    notes.add(position, party, subject, exchange.at, exchange.id);
    pushExchange(rows.row(), exchange, position, party, subject);
    return true;
  }

  async function push(
    inside: SqlDatabase,
    rows: RowInserter,
    capture: number,
    exchange: OwnFields & Pick<ExchangeRecord, "seq">,
    shares: ExchangeDimensions,
  ): Promise<void> {
    if (shared.caller(shares.caller, shares.context) < 0)
      await shared.writeCaller(inside, shares.caller, shares.context);
    if (shared.outcome(shares.outcome) < 0) await shared.writeOutcome(inside, shares.outcome);
    if (!pushNow(rows, capture, exchange, shares)) await push(inside, rows, capture, exchange, shares);
  }

  async function writeChanged(
    inside: SqlDatabase,
    capture: number,
    exchanges: Iterable<ExchangeRecord>,
  ): Promise<void> {
    const rows = createRowInserter(inside, "exchange_own", ownColumns, upsertExchange);
    for (const exchange of exchanges) {
      const context = contexts.get(exchange) ?? "";
      await push(inside, rows, capture, exchange, { caller: exchange, context, outcome: exchange });
      if (rows.isFull) await rows.write();
    }
    await rows.write();
  }

  async function write(inside: SqlDatabase, capture: CaptureRecord, packs: readonly FramePack[]): Promise<number> {
    const times = await compactionCount(inside);
    if (times !== tidied) forgetShared();
    tidied = times;
    const own = await captureOf(inside, capture);
    const [row] = await inside.all("SELECT last_seq FROM capture WHERE number = ?", [own.number]);
    const before = Number(row?.["last_seq"]);
    // Usually all of it is new, since numbers rise; only what is imported or tried again may be there already.
    const isNew = packs.every(({ first }) => first > before);
    const fresh = isNew ? packs : await withoutKnown(inside, own.number, packs, capture.id, readContext);
    const rows = createRowInserter(inside, "pack", packColumns);
    const exchanges = createRowInserter(inside, "exchange_own", ownColumns);
    /** Exchanges that began before this batch or go on after it; the others came as a whole. */
    const changed = new Set<ExchangeRecord>();
    let count = 0;
    for (const pack of fresh) {
      count += pack.count;
      const position = toPosition(own.number, pack.first);
      if (pack.complete !== undefined && isNew) {
        const context = shared.isRepeatedContext(pack.context) ? pack.context : "";
        const shares = { caller: readContext(pack.context), context, outcome: pack.complete.outcome };
        const exchange = ownFieldsOf(pack, pack.complete);
        if (!pushNow(exchanges, own.number, exchange, shares))
          await push(inside, exchanges, own.number, exchange, shares);
        if (exchanges.isFull) await exchanges.write();
        pushPack(rows.row(), pack, position, position, context === "" ? pack.context : "");
        if (rows.isFull) await rows.write();
        continue;
      }
      const frames = unpackFrames(pack, capture.id, readContext, false);
      const id = frames[0]?.exchange ?? "";
      let record: ExchangeRecord | undefined;
      for (const frame of frames) {
        for (const exchange of own.derivation.add(frame)) {
          if (exchange.id === id) record = exchange;
          else changed.add(exchange);
        }
      }
      let context = "";
      if (record !== undefined) {
        if (record.seq === pack.first) {
          context = sharedContext(record, pack.context);
          if (context !== "" && !shared.isRepeatedContext(context)) context = "";
          contexts.set(record, context);
        }
        changed.add(record);
      }
      let owner = record === undefined ? null : toPosition(own.number, record.seq);
      if (record === undefined && id !== "") {
        // Frames behind the end of an exchange still are its own, also where that has just been written.
        await exchanges.write();
        await writeChanged(inside, own.number, changed);
        await notes.write(inside);
        owner = await findOwner(inside, own.number, id);
      }
      pushPack(rows.row(), pack, position, owner, context === "" ? pack.context : "");
      if (rows.isFull) await rows.write();
    }
    await rows.write();
    await exchanges.write();
    await writeChanged(inside, own.number, changed);
    await notes.write(inside);
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
        // What was derived from a batch that is not there must not go on, nor what was written with it.
        open.delete(capture.id);
        forgetShared();
        throw error;
      }
    },
    forget: (capture) => {
      open.delete(capture);
    },
  };
}

/** What an exchange shares with others, and the context that stands with its party. */
interface ExchangeDimensions {
  readonly caller: ExchangeCaller;
  readonly context: string;
  readonly outcome: ExchangeOutcome;
}

/** What an exchange has of its own that is in one pack. */
function ownFieldsOf(pack: FramePack, whole: CompleteExchange): OwnFields & Pick<ExchangeRecord, "seq"> {
  const { exchange, id } = readPackIds(pack.content);
  const { at, durationMs, upstreamMs, requestBytes, answerBytes } = whole;
  return {
    seq: pack.first,
    id: exchange,
    operation: exchange,
    ...(id === undefined ? undefined : { rpcId: id }),
    at,
    ...(durationMs === undefined ? undefined : { durationMs }),
    ...(upstreamMs === undefined ? undefined : { upstreamMs }),
    requestBytes,
    answerBytes,
  };
}

/** The context of an exchange where others may have the same; otherwise empty. */
function sharedContext({ parent, traceId }: ExchangeRecord, context: string): string {
  return parent === undefined && traceId === undefined ? context : "";
}

async function findOwner(inside: SqlDatabase, capture: number, exchange: string): Promise<number | null> {
  const [row] = await inside.all(
    `SELECT exchange_own.position FROM block JOIN exchange_own
      ON exchange_own.position >= block.number * ${blockSize}
      AND exchange_own.position < (block.number + 1) * ${blockSize}
    WHERE block.number >= ? AND block.number < ? AND block.first_id <= ? AND block.last_id >= ?
      AND exchange_own.id = ? LIMIT 1`,
    [(capture * captureStride) / blockSize, ((capture + 1) * captureStride) / blockSize, exchange, exchange, exchange],
  );
  return row === undefined ? null : Number(row["position"]);
}

/** What of some packs is not there yet. */
async function withoutKnown(
  inside: SqlDatabase,
  capture: number,
  packs: readonly FramePack[],
  id: string,
  readContext: ContextReader,
): Promise<readonly FramePack[]> {
  const first = Math.min(...packs.map((pack) => pack.first));
  const last = Math.max(...packs.map((pack) => pack.last));
  const known = new Set<number>();
  const stored = packsBetween(inside, toPosition(capture, Math.max(first - maxPackSpan, 0)) - 1, {
    end: Math.min(toPosition(capture, last) + 1, (capture + 1) * captureStride),
    lastFrom: first,
  });
  for await (const { pack } of stored) {
    for (const { seq } of unpackFrames(pack, id, readContext, false)) known.add(seq);
  }
  if (known.size === 0) return packs;
  const frames = packs.flatMap((pack) => unpackFrames(pack, id, readContext));
  return packFrames(frames.filter(({ seq }) => !known.has(seq)).toSorted((one, other) => one.seq - other.seq));
}
