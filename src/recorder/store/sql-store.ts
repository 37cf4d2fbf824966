import { isDeepStrictEqual } from "node:util";

import { GatewayError } from "../../errors.ts";
import type { CaptureRecord, ExchangeRecord, Frame } from "../contract.ts";
import { indexedWords, toSearchText } from "../filter/condition.ts";
import { type FramePack, packFrames, unpackFrames } from "../pack.ts";
import { createAppender } from "./append.ts";
import { createCaptureIds } from "./find-exchanges.ts";
import { pruneStore } from "./prune.ts";
import { checkFormat, ensureSchema } from "./schema.ts";
import { type ColumnValue, type SqlDatabase, toPosition } from "./sql-database.ts";
import { createSqlReader, type ReaderDeps } from "./sql-reader.ts";
import type { CaptureLine, ImportResult, RecordReader, RecordStore } from "./store-contract.ts";

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
