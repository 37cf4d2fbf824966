import { isDeepStrictEqual } from "node:util";

import { GatewayError } from "../../errors.ts";
import type { CaptureRecord, ExchangeRecord, Frame } from "../contract.ts";
import { packFrames, unpackFrames, type FramePack } from "../pack.ts";
import type { CaptureLine, ImportResult, Progress, RecordStore } from "./store-contract.ts";
import { toSearchText, indexedWords } from "../filter/condition.ts";
import { createAppender } from "./append.ts";
import { toPosition, type SqlDatabase, type ColumnValue } from "./sql-database.ts";
import { createCaptureIds } from "./find-exchanges.ts";
import { pruneStore } from "./prune.ts";
import { createSqlReader, type ReaderDeps } from "./sql-reader.ts";

/** What a store is given besides its database. */
export interface StoreDeps extends ReaderDeps {
  /** Milliseconds since 1970. */
  readonly wall: () => number;
}

const importBatch = 1000;

/** A store over a database whose tables have the newest form. */
export function createSqlStore(database: SqlDatabase, options: StoreDeps): RecordStore {
  const reader = createSqlReader(database, options);
  const names = createCaptureIds(database);
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

  /** Takes up frames behind a number; the answer is the number of the last one that the index holds then. */
  async function indexCapture(number: number, from: number, last: number, room: number): Promise<number> {
    const to = Math.min(last, from + room);
    const rows = await database.all("SELECT position, content FROM pack WHERE position > ? AND position <= ?", [
      toPosition(number, from),
      toPosition(number, to),
    ]);
    const insert =
      database.dialect === "sqlite"
        ? "INSERT INTO frame_words (rowid, words) VALUES (?, ?)"
        : "INSERT INTO frame_words (position, words) VALUES (?, array_to_tsvector(string_to_array(?, ' '))) ON CONFLICT DO NOTHING";
    await database.transaction(async (inside) => {
      for (const row of rows) {
        const bodies = packBodies(row["content"]);
        const words = bodies === "" ? [] : indexedWords(toSearchText(bodies));
        if (words.length > 0) await inside.run(insert, [Number(row["position"]), words.join(" ")]);
      }
      await inside.run("UPDATE capture SET indexed_seq = ? WHERE number = ?", [to, number]);
    });
    return to;
  }

  async function take(lines: AsyncIterable<CaptureLine>, onProgress?: Progress): Promise<ImportResult> {
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
      onProgress?.(count.frames + count.known, undefined);
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
          throw new GatewayError("invalid_params", `frame ${frame.seq} stands outside of its capture`);
        frames.push(frame);
        if (frames.length >= importBatch) await flush();
      } else if (line.type === "exchange") {
        await flushOnce();
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
    if (different > 0) warnings.push(`${different} exchanges differ from what their frames say; the frames count`);
    return { ...count, warnings };

    async function flushOnce(): Promise<void> {
      if (frames.length > 0) await flush();
    }
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
    prune: (rules, onProgress) => pruneStore(database, names, rules, onProgress),
    import: take,
    index,
    putDocument: async (kind, key, value) => {
      if (value === undefined) {
        await database.run("DELETE FROM document WHERE kind = ? AND key = ?", [kind, key]);
        return;
      }
      await database.run(
        "INSERT INTO document (kind, key, value, at) VALUES (?, ?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, at = excluded.at",
        [kind, key, JSON.stringify(value), options.wall()],
      );
    },
  };
}

/** The texts of a pack, one behind the other. */
function packBodies(content: ColumnValue | undefined): string {
  if (!(content instanceof Uint8Array)) return "";
  return unpackFrames({ first: 0, context: "", content }, "", neverRead)
    .map(({ body }) => body ?? "")
    .join(" ");
}

const neverRead = (): never => {
  throw new TypeError("a pack without a context has none to read");
};
