import { isDeepStrictEqual } from "node:util";

import { GatewayError } from "../../errors.ts";
import type { CaptureRecord, ExchangeRecord, FilterCondition, Frame } from "../contract.ts";
import { indexedWords, toSearchText } from "../filter/condition.ts";
import { type FramePack, packFrames, unpackFrames } from "../pack.ts";
import { createAppender } from "./append.ts";
import { compactIndex } from "./block-index.ts";
import { type CaptureIds, createCaptureIds, findExchanges } from "./find-exchanges.ts";
import { checkFormat, ensureSchema, toCapture } from "./schema.ts";
import { captureStride, type ColumnValue, type SqlDatabase, toPosition } from "./sql-database.ts";
import { createSqlReader, type ReaderDeps } from "./sql-reader.ts";
import type {
  CaptureLine,
  ImportResult,
  Progress,
  PruneResult,
  PruneRules,
  RecordReader,
  RecordStore,
} from "./store-contract.ts";

const importBatch = 1000;

/** Opens a store to write to; creates the tables of an empty database. Closes the database if that fails. */
export async function openSqlStore(database: SqlDatabase, deps: ReaderDeps): Promise<RecordStore> {
  return orClose(database, async () => {
    await ensureSchema(database);
    return createSqlStore(database, deps);
  });
}

/** Opens a store to read from. Closes the database if that fails. */
export async function openSqlReader(database: SqlDatabase, deps: ReaderDeps): Promise<RecordReader> {
  return orClose(database, async () => {
    await checkFormat(database);
    return createSqlReader(database, deps);
  });
}

async function orClose<T>(database: SqlDatabase, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Makes a store of a database whose tables exist. */
export function createSqlStore(database: SqlDatabase, deps: ReaderDeps): RecordStore {
  const reader = createSqlReader(database, deps);
  const captures = createCaptureIds(database);
  const appender = createAppender(database);

  async function index(limit: number): Promise<number> {
    let room = limit;
    const rows = await database.all(
      "SELECT number, last_seq, indexed_seq FROM capture WHERE last_seq > indexed_seq ORDER BY number",
    );
    let left = 0;
    for (const row of rows) {
      const [number, last, indexed] = [row["number"], row["last_seq"], row["indexed_seq"]].map(Number);
      if (number === undefined || last === undefined || indexed === undefined) continue;
      const done = room > 0 ? await indexCapture(number, indexed, last, room) : indexed;
      room -= done - indexed;
      left += last - done;
    }
    return left;
  }

  /** Indexes frames after a number; resolves with the number of the last indexed frame. */
  async function indexCapture(number: number, from: number, last: number, room: number): Promise<number> {
    const to = Math.min(last, from + room);
    const rows = await database.all("SELECT position, content FROM pack WHERE position > ? AND position <= ?", [
      toPosition(number, from),
      toPosition(number, to),
    ]);
    const indexed = rows.flatMap((row) => {
      const bodies = packBodies(row["content"]);
      const words = bodies === "" ? [] : indexedWords(toSearchText(bodies));
      return words.length === 0 ? [] : [{ position: Number(row["position"]), words: words.join(" ") }];
    });
    await database.transaction(async (inside) => {
      if (inside.dialect === "postgres") await inside.run(insertWordsRemotely, [JSON.stringify(indexed)]);
      else for (const { position, words } of indexed) await inside.run(insertWords, [position, words]);
      await inside.run("UPDATE capture SET indexed_seq = ? WHERE number = ?", [to, number]);
    });
    return to;
  }

  async function importLines(lines: AsyncIterable<CaptureLine>): Promise<ImportResult> {
    const warnings: string[] = [];
    const count = { captures: 0, frames: 0, exchanges: 0, known: 0 };
    let capture: CaptureRecord | undefined;
    let frames: Frame[] = [];
    let different = 0;

    async function flush(): Promise<void> {
      if (capture === undefined) return;
      const fresh = await appender.append(capture, packFrames(frames));
      count.known += frames.length - fresh;
      count.frames += fresh;
      frames = [];
    }

    for await (const line of lines) {
      if (line.type === "capture") {
        if (capture !== undefined) warnings.push(`capture ${capture.id} was cut off: it has no end line`);
        await flush();
        const { type: _type, ...record } = line;
        capture = record;
        count.captures++;
      } else if (line.type === "frame") {
        const { type: _type, ...frame } = line;
        if (frame.capture !== capture?.id)
          throw new GatewayError("invalid_params", `frame ${frame.seq} is not in the capture that it names`);
        frames.push(frame);
        if (frames.length >= importBatch) await flush();
      } else if (line.type === "exchange") {
        if (frames.length > 0) await flush();
        const { type: _type, ...written } = line;
        count.exchanges++;
        if (!(await isStored(written))) different++;
      } else {
        await flush();
        if (capture !== undefined) appender.forget(capture.id);
        capture = undefined;
      }
    }
    if (capture !== undefined) warnings.push(`capture ${capture.id} was cut off: it has no end line`);
    await flush();
    if (different > 0) warnings.push(`${different} exchanges differ from their frames; the frames were used`);
    return { ...count, warnings };
  }

  async function append(capture: CaptureRecord, packs: readonly FramePack[]): Promise<void> {
    await appender.append(capture, packs);
    if (capture.endedAt !== undefined) appender.forget(capture.id);
  }

  async function isStored(written: ExchangeRecord): Promise<boolean> {
    return isDeepStrictEqual(await reader.exchange(written.id), written);
  }

  return {
    ...reader,
    append: async ({ capture, frames }) => append(capture, packFrames(frames)),
    appendPacks: ({ capture, packs }) => append(capture, packs),
    prune: (rules, onProgress) => pruneStore(database, captures, rules, onProgress),
    import: importLines,
    check: () => database.check(),
    storedFrames: async (capture) => {
      const [row] = await database.all("SELECT stored FROM capture WHERE id = ?", [capture]);
      return Number(row?.["stored"] ?? 0);
    },
    index,
  };
}

const insertWords = "INSERT INTO frame_words (rowid, words) VALUES (?, ?)";

/** All rows in one round trip. */
const insertWordsRemotely = `INSERT INTO frame_words (position, words)
  SELECT position, array_to_tsvector(string_to_array(words, ' '))
  FROM json_to_recordset(?) AS indexed (position bigint, words text) ON CONFLICT DO NOTHING`;

/** The bodies of a pack, joined. */
function packBodies(content: ColumnValue | undefined): string {
  if (!(content instanceof Uint8Array)) return "";
  return unpackFrames({ first: 0, context: "", content }, "", neverRead)
    .map(({ body }) => body ?? "")
    .join(" ");
}

const neverRead = (): never => {
  throw new TypeError("no context was expected");
};

const chunk = 200;
const dayMs = 86_400_000;

/** Deletes what the rules say, in small transactions, so that writing goes on in between. */
async function pruneStore(
  database: SqlDatabase,
  captures: CaptureIds,
  rules: PruneRules,
  onProgress?: Progress,
): Promise<PruneResult> {
  const before = await database.bytes();
  let exchanges = 0;
  let frames = 0;

  async function remove(positions: readonly number[]): Promise<void> {
    const places = positions.map(() => "?").join(", ");
    await database.transaction(async (inside) => {
      frames += await removePacks(inside, `position IN (${places}) OR (owner IN (${places}) AND owner <> position)`, [
        ...positions,
        ...positions,
      ]);
      exchanges += await inside.run(`DELETE FROM exchange WHERE position IN (${places})`, positions);
    });
    onProgress?.(exchanges, undefined);
  }

  /** Deletes one chunk of the oldest matches; false when none are left. */
  async function removeOldest(where: FilterCondition, most = chunk): Promise<boolean> {
    const positions: number[] = [];
    for await (const { position } of findExchanges(database, captures, { where, order: "oldest", chunk })) {
      positions.push(position);
      if (positions.length === most) break;
    }
    if (positions.length > 0) await remove(positions);
    return positions.length === most;
  }

  for (const condition of conditionsOf(rules)) while (await removeOldest(condition));
  const { maxBytes } = rules;
  if (maxBytes !== undefined) {
    const where = limited([not(open)], rules);
    // As many as are needed by the size of those before: a whole chunk of large ones may be all there is.
    let most = 4;
    for (let bytes = await database.bytes(); bytes > maxBytes && (await removeOldest(where, most));) {
      const left = await database.bytes();
      const each = Math.max((bytes - left) / most, 1);
      most = Math.min(Math.max(Math.ceil((left - maxBytes) / each), 1), chunk);
      bytes = left;
    }
  }
  frames += await removeEmptyCaptures(database, rules);
  if (exchanges > 0) await compactIndex(database);
  await database.compact();
  return { exchanges, frames, bytes: Math.max(before - (await database.bytes()), 0) };
}

const open: FilterCondition = { type: "is", field: "state", value: "open" };
const not = (of: FilterCondition): FilterCondition => ({ type: "not", of });
const since = (value: number): FilterCondition => ({ type: "number", field: "at", is: "<", value });

function conditionsOf(rules: PruneRules): readonly FilterCondition[] {
  const { before, beforeByRoute = {}, where, maxBytes } = rules;
  const routeIs = (value: string): FilterCondition => ({ type: "is", field: "route", value });
  const named = Object.keys(beforeByRoute).map(routeIs);
  const own = Object.entries(beforeByRoute).map(([route, time]) => limited([routeIs(route), older(time)], rules));
  if (before !== undefined) return [...own, limited([not({ type: "any", of: named }), older(before)], rules)];
  const isOnlyFilter = where !== undefined && maxBytes === undefined && own.length === 0;
  return isOnlyFilter ? [limited([not(open)], rules)] : own;
}

/** Open exchanges may still get an answer, unless they are older by another day. */
function older(time: number): FilterCondition {
  return {
    type: "any",
    of: [{ type: "all", of: [not(open), since(time)] }, since(time - dayMs)],
  };
}

function limited(conditions: readonly FilterCondition[], { where }: PruneRules): FilterCondition {
  return { type: "all", of: where === undefined ? conditions : [...conditions, where] };
}

/** Deletes captures without exchanges, with their gaps, once they ended or are as old as what was deleted. */
async function removeEmptyCaptures(database: SqlDatabase, { before }: PruneRules): Promise<number> {
  const rows = await database.all(
    `SELECT number, record FROM capture WHERE NOT EXISTS (SELECT 1 FROM exchange
      WHERE position >= capture.number * ${captureStride} AND position < (capture.number + 1) * ${captureStride})`,
  );
  let frames = 0;
  for (const row of rows) {
    const { endedAt, startedAt } = toCapture(row);
    if (endedAt === undefined && (before === undefined || startedAt >= before - dayMs)) continue;
    const number = Number(row["number"]);
    const range = [number * captureStride, (number + 1) * captureStride];
    frames += await database.transaction(async (inside) => {
      const count = await removePacks(inside, "position >= ? AND position < ?", range);
      await inside.run("DELETE FROM capture WHERE number = ?", [number]);
      return count;
    });
  }
  return frames;
}

/** Deletes packs, and updates the text index and the counts of their captures. */
async function removePacks(inside: SqlDatabase, where: string, values: readonly ColumnValue[]): Promise<number> {
  const rows = await inside.all(
    `SELECT position / ${captureStride} AS number, SUM(frames) AS frames FROM pack WHERE ${where} GROUP BY position / ${captureStride}`,
    values,
  );
  const key = inside.dialect === "sqlite" ? "rowid" : "position";
  await inside.run(`DELETE FROM frame_words WHERE ${key} IN (SELECT position FROM pack WHERE ${where})`, values);
  await inside.run(`DELETE FROM pack WHERE ${where}`, values);
  let frames = 0;
  for (const row of rows) {
    const own = Number(row["frames"]);
    frames += own;
    await inside.run("UPDATE capture SET stored = stored - ? WHERE number = ?", [own, Number(row["number"])]);
  }
  return frames;
}
