// Needed by bench recorder: "recording on against off".
import type { CaptureRecord, ExchangeRecord } from "../contract.ts";
import { createDerivation, type ExchangeDerivation } from "../derive.ts";
import { createOutcomeCache } from "../dimension-cache.ts";
import {
  type DimensionTable,
  type ExchangeCaller,
  exchangeFields,
  type ExchangeOutcome,
  fieldsIn,
  type OwnFields,
} from "../exchange-fields.ts";
import { type FramePack, maxPackSpan, packFrames, readPackIds, unpackFrames } from "../pack.ts";
import { type ContextReader, createContextReader, formatContext } from "../pack-context.ts";
import { type BlockIndexWriter, compactionCount, createBlockIndexWriter, findById } from "./block-index.ts";
import { ownColumns, type OwnRow, packColumns, pushExchange, pushPack, toColumn } from "./schema.ts";
import { framesAt, packsBetween } from "./find-exchanges.ts";
import {
  captureStride,
  type ColumnValue,
  createRowInserter,
  type RowInserter,
  type SqlDatabase,
  toPosition,
} from "./sql-database.ts";

/** Writes batches of frames, and the exchanges derived from them. */
export interface Appender {
  /** Resolves with how many of the frames are new. */
  append(capture: CaptureRecord, packs: readonly FramePack[]): Promise<number>;
  /** Forgets a capture that gets no more frames. */
  forget(capture: string): void;
}

/** A capture that is being written. */
interface OpenCapture {
  readonly number: number;
  readonly id: string;
  readonly derivation: ExchangeDerivation;
}

/** One transaction of the appender. */
interface Batch {
  readonly inside: SqlDatabase;
  readonly capture: OpenCapture;
  readonly packRows: RowInserter;
  /** Rows of exchanges that came complete. */
  readonly exchangeRows: RowInserter;
  /** Exchanges that began before this batch or continue after it; their rows may exist already. */
  readonly changed: Set<ExchangeRecord>;
}

const upsertExchange = ` ON CONFLICT (position) DO UPDATE SET ${ownColumns
  .slice(1)
  .map((column) => `${column} = excluded.${column}`)
  .join(", ")}`;

/** Makes the appender of a database; each process that writes has one. */
export function createAppender(database: SqlDatabase): Appender {
  const open = new Map<string, OpenCapture>();
  const readContext = createContextReader();
  const dimensions = createDimensionRows();
  const blockIndex = createBlockIndexWriter();
  /** The contexts stored with the callers of open exchanges. */
  const storedContexts = new WeakMap<ExchangeRecord, string>();
  let compactions = "";

  async function openCapture(inside: SqlDatabase, record: CaptureRecord): Promise<OpenCapture> {
    const known = open.get(record.id);
    if (known !== undefined) return known;
    const { capture, isNew } = await insertCapture(inside, record);
    if (!isNew) await resume(inside, capture, readContext, storedContexts);
    open.set(record.id, capture);
    return capture;
  }

  /** Stores a pack of an exchange that began earlier, continues later or belongs to others. */
  async function addPartial(batch: Batch, pack: FramePack): Promise<void> {
    const { inside, capture, changed } = batch;
    const frames = unpackFrames(pack, capture.id, readContext, false);
    const id = frames[0]?.exchange ?? "";
    let record: ExchangeRecord | undefined;
    for (const frame of frames) {
      for (const exchange of capture.derivation.add(frame)) {
        changed.add(exchange);
        if (exchange.id === id) record = exchange;
      }
    }
    if (record === undefined) {
      // Frames after the end of an exchange are still its own, even if its row was added just now.
      if (id !== "") await writeExchanges(batch);
      const owner = id === "" ? null : await findById(inside, capture.number, id);
      addPack(batch, pack, owner, "");
      return;
    }
    let context = "";
    if (record.seq === pack.first) {
      context = shareableContext(record, pack.context);
      if (context !== "" && !dimensions.isRepeatedContext(context)) context = "";
      storedContexts.set(record, context);
    }
    addPack(batch, pack, toPosition(capture.number, record.seq), context);
  }

  /** Writes the rows of all exchanges of a batch so far. */
  async function writeExchanges(batch: Batch): Promise<void> {
    await batch.exchangeRows.write();
    const rows = createRowInserter(batch.inside, "exchange", ownColumns, upsertExchange);
    for (const exchange of batch.changed) {
      const context = storedContexts.get(exchange) ?? "";
      const shared = { caller: exchange, context, outcome: exchange };
      const numbers = dimensions.find(shared) ?? (await dimensions.write(batch.inside, shared));
      addExchange(batch, rows, exchange.seq, exchange, numbers, blockIndex);
      if (rows.isFull) await rows.write();
    }
    await rows.write();
    await blockIndex.write(batch.inside);
  }

  async function write(inside: SqlDatabase, record: CaptureRecord, packs: readonly FramePack[]): Promise<number> {
    const count = await compactionCount(inside);
    if (count !== compactions) clearCaches();
    compactions = count;
    const capture = await openCapture(inside, record);
    const [row] = await inside.all("SELECT last_seq FROM capture WHERE number = ?", [capture.number]);
    const lastStored = Number(row?.["last_seq"]);
    // Numbers rise, so usually all of it is new; imports and retries may bring known frames.
    const isNew = packs.every(({ first }) => first > lastStored);
    const fresh = isNew ? packs : await withoutKnown(inside, capture, packs, readContext);
    const batch: Batch = {
      inside,
      capture,
      packRows: createRowInserter(inside, "pack", packColumns),
      exchangeRows: createRowInserter(inside, "exchange", ownColumns),
      changed: new Set(),
    };
    const known: KnownOutcomes = new Map();
    let frames = 0;
    for (const pack of fresh) {
      frames += pack.count;
      const { complete } = pack;
      if (complete === undefined || !isNew) await addPartial(batch, pack);
      else {
        // The whole exchange is in this pack, so it is stored without unpacking it.
        const { at, durationMs, upstreamMs, requestBytes, answerBytes, outcome } = complete;
        const context = dimensions.isRepeatedContext(pack.context) ? pack.context : "";
        const shared = { caller: readContext(pack.context), context, outcome };
        const numbers = dimensions.find(shared, known) ?? (await dimensions.write(inside, shared));
        const { exchange: id, id: rpcId } = readPackIds(pack.content);
        const own = { at, id, operation: id, rpcId, durationMs, upstreamMs, requestBytes, answerBytes };
        addExchange(batch, batch.exchangeRows, pack.first, own, numbers, blockIndex);
        addPack(batch, pack, toPosition(capture.number, pack.first), context);
      }
      if (batch.exchangeRows.isFull) await batch.exchangeRows.write();
      if (batch.packRows.isFull) await batch.packRows.write();
    }
    await batch.packRows.write();
    await writeExchanges(batch);
    const last = packs.reduce((most, pack) => Math.max(most, pack.last), lastStored);
    await inside.run("UPDATE capture SET record = ?, last_seq = ?, stored = stored + ? WHERE number = ?", [
      JSON.stringify(record),
      last,
      frames,
      capture.number,
    ]);
    return frames;
  }

  function clearCaches(): void {
    dimensions.clear();
    blockIndex.clear();
  }

  return {
    append: async (capture, packs) => {
      try {
        return await database.transaction((inside) => write(inside, capture, packs));
      } catch (error) {
        // The transaction was rolled back, so nothing derived or cached from it is true any more.
        open.delete(capture.id);
        clearCaches();
        throw error;
      }
    },
    forget: (capture) => {
      open.delete(capture);
    },
  };
}

/** The context of an exchange if others may have the same; otherwise empty. */
function shareableContext({ parent, traceId }: ExchangeRecord, context: string): string {
  return parent === undefined && traceId === undefined ? context : "";
}

async function insertCapture(
  inside: SqlDatabase,
  record: CaptureRecord,
): Promise<{ readonly capture: OpenCapture; readonly isNew: boolean }> {
  const inserted = await inside.run(
    "INSERT INTO capture (id, record, last_seq, indexed_seq) VALUES (?, ?, -1, -1) ON CONFLICT (id) DO NOTHING",
    [record.id, JSON.stringify(record)],
  );
  const [row] = await inside.all("SELECT number FROM capture WHERE id = ?", [record.id]);
  const capture = { number: Number(row?.["number"]), id: record.id, derivation: createDerivation() };
  return { capture, isNew: inserted > 0 };
}

/** Derives the open exchanges of an earlier run again, so that later frames continue them. */
async function resume(
  inside: SqlDatabase,
  { number, id, derivation }: OpenCapture,
  readContext: ContextReader,
  storedContexts: WeakMap<ExchangeRecord, string>,
): Promise<void> {
  const rows = await inside.all(
    `SELECT position FROM exchange_view WHERE duration_ms IS NULL AND state = 'open'
      AND position >= ? AND position < ? ORDER BY position`,
    [number * captureStride, (number + 1) * captureStride],
  );
  for (const row of rows) {
    for (const frame of await framesAt(inside, Number(row["position"]), id, readContext)) {
      for (const record of derivation.add(frame))
        if (frame.context !== undefined)
          storedContexts.set(record, shareableContext(record, formatContext(frame.context)));
    }
  }
}

function addExchange(
  { capture }: Batch,
  rows: RowInserter,
  seq: number,
  exchange: OwnRow & Pick<OwnFields, "at" | "id">,
  { caller, outcome }: DimensionNumbers,
  blockIndex: BlockIndexWriter,
): void {
  const position = toPosition(capture.number, seq);
  blockIndex.add(position, caller, outcome, exchange.at, exchange.id);
  pushExchange(rows.row(), exchange, position, caller, outcome);
}

/** Adds the row of a pack; its context is left out if the row of the caller has it. */
function addPack({ capture, packRows }: Batch, pack: FramePack, owner: number | null, storedContext: string): void {
  const context = storedContext === "" ? pack.context : "";
  pushPack(packRows.row(), pack, toPosition(capture.number, pack.first), owner, context);
}

/** The packs without the frames that are stored already. */
async function withoutKnown(
  inside: SqlDatabase,
  { number, id }: OpenCapture,
  packs: readonly FramePack[],
  readContext: ContextReader,
): Promise<readonly FramePack[]> {
  const first = Math.min(...packs.map((pack) => pack.first));
  const last = Math.max(...packs.map((pack) => pack.last));
  const known = new Set<number>();
  const stored = packsBetween(inside, toPosition(number, Math.max(first - maxPackSpan, 0)) - 1, {
    end: Math.min(toPosition(number, last) + 1, (number + 1) * captureStride),
    lastFrom: first,
  });
  for await (const { pack } of stored) for (const { seq } of unpackFrames(pack, id, readContext, false)) known.add(seq);
  if (known.size === 0) return packs;
  const frames = packs.flatMap((pack) => unpackFrames(pack, id, readContext));
  return packFrames(frames.filter(({ seq }) => !known.has(seq)).toSorted((one, other) => one.seq - other.seq));
}

/** What an exchange shares with others, and the context that is stored with its caller. */
interface ExchangeDimensions {
  readonly caller: ExchangeCaller;
  readonly context: string;
  readonly outcome: ExchangeOutcome;
}

/** The numbers of those rows. */
type DimensionNumbers = Readonly<Record<DimensionTable, number>>;

/**
 * The numbers of outcomes that do not change any more. Complete exchanges of a batch share a few objects, which are found
 * quicker than equal ones.
 */
type KnownOutcomes = Map<ExchangeOutcome, number>;

/** Writes rows that many exchanges share once, and caches their numbers. */
interface DimensionRows {
  /** The numbers of rows that were written before; undefined if one was not. Adds to what is known of a batch. */
  find(dimensions: ExchangeDimensions, known?: KnownOutcomes): DimensionNumbers | undefined;
  /** Writes the rows that are missing. */
  write(inside: SqlDatabase, dimensions: ExchangeDimensions): Promise<DimensionNumbers>;
  /** Whether a context came before, so that it is worth storing with its caller. */
  isRepeatedContext(context: string): boolean;
  clear(): void;
}

/** Rows beyond this many are written again, which does no harm. */
const maxCachedRows = 5000;

/** Makes the cache of one writer. */
function createDimensionRows(): DimensionRows {
  const callers = new Map<string, number>();
  const outcomes = createOutcomeCache<number>();
  let seenContexts = new Set<string>();
  let cached = 0;

  function clear(): void {
    callers.clear();
    outcomes.clear();
    cached = 0;
  }

  async function insert(
    inside: SqlDatabase,
    table: DimensionTable,
    columns: readonly string[],
    values: readonly ColumnValue[],
  ): Promise<number> {
    if (cached++ >= maxCachedRows) clear();
    const places = values.map(() => "?").join(", ");
    const [row] = await inside.all(
      `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${places}) RETURNING number`,
      values,
    );
    return Number(row?.["number"]);
  }

  async function writeCaller(inside: SqlDatabase, caller: ExchangeCaller, context: string): Promise<number> {
    const columns = [...callerFields.map((field) => exchangeFields[field].column), "context"];
    const values = [...callerFields.map((field) => toColumn(caller[field])), context];
    const number = await insert(inside, "caller", columns, values);
    callers.set(callerKey(caller, context), number);
    return number;
  }

  async function writeOutcome(inside: SqlDatabase, outcome: ExchangeOutcome): Promise<number> {
    const columns = outcomeFields.map((field) => exchangeFields[field].column);
    const values = outcomeFields.map((field) => toColumn(outcome[field]));
    const number = await insert(inside, "outcome", columns, values);
    outcomes.set(outcome, number);
    return number;
  }

  return {
    isRepeatedContext: (context) => {
      if (seenContexts.has(context)) return true;
      if (seenContexts.size >= maxCachedRows) seenContexts = new Set();
      seenContexts.add(context);
      return false;
    },
    find: ({ caller, context, outcome }, known) => {
      const callerNumber = callers.get(callerKey(caller, context));
      const outcomeNumber = known?.get(outcome) ?? outcomes.get(outcome);
      if (callerNumber === undefined || outcomeNumber === undefined) return undefined;
      known?.set(outcome, outcomeNumber);
      return { caller: callerNumber, outcome: outcomeNumber };
    },
    write: async (inside, { caller, context, outcome }) => ({
      caller: callers.get(callerKey(caller, context)) ?? (await writeCaller(inside, caller, context)),
      outcome: outcomes.get(outcome) ?? (await writeOutcome(inside, outcome)),
    }),
    clear,
  };
}

const callerFields = fieldsIn("caller");
const outcomeFields = fieldsIn("outcome");

/** A context names its caller too, and is already a string. */
function callerKey(caller: ExchangeCaller, context: string): string {
  return context === "" ? JSON.stringify(callerFields.map((field) => caller[field])) : context;
}
