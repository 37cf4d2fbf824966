import { bodiesOf, createConditionMatcher, readsBodies } from "../condition.ts";
import type { ExchangeRecord } from "../contract.ts";
import type { FollowQuery, RecordReader } from "../store-contract.ts";
import { toPosition, type SqlDatabase } from "./database.ts";
import { framesAt, type CaptureIds } from "./find.ts";
import type { ReaderDeps } from "./reader.ts";
import { toExchange } from "./rows.ts";

/** Makes the following of a store: it looks again and again, and holds nothing open in between. */
export function createFollow(
  database: SqlDatabase,
  names: CaptureIds,
  { wait }: ReaderDeps,
): RecordReader["follow"] {
  /** How far each capture has come. */
  async function ends(): Promise<ReadonlyMap<number, number>> {
    const rows = await database.all("SELECT number, last_seq FROM capture");
    return new Map(rows.map((row) => [Number(row["number"]), Number(row["last_seq"])]));
  }

  async function changedIn(capture: number, from: number, to: number): Promise<readonly ExchangeRecord[]> {
    const rows = await database.all(
      `SELECT * FROM exchange WHERE position IN (
        SELECT owner FROM pack WHERE position > ? AND position <= ?) ORDER BY position`,
      [toPosition(capture, from), toPosition(capture, to)],
    );
    const id = await names.of(capture);
    return rows.map((row) => toExchange({ ...row, capture_id: id }));
  }

  async function* follow({ where, signal, intervalMs = 250 }: FollowQuery): AsyncGenerator<ExchangeRecord> {
    const matches = where === undefined ? undefined : createConditionMatcher(where);
    const looksInside = where !== undefined && readsBodies(where);
    let seen = await ends();
    while (!signal.aborted) {
      const now = await ends();
      for (const [capture, end] of now) {
        const from = seen.get(capture) ?? 0;
        if (end <= from) continue;
        for (const exchange of await changedIn(capture, from, end)) {
          const frames = looksInside
            ? await framesAt(database, toPosition(capture, exchange.seq), exchange.capture)
            : [];
          const bodies = bodiesOf(frames);
          if (matches === undefined || matches(exchange, () => bodies)) yield exchange;
          if (signal.aborted) return;
        }
      }
      seen = now;
      await wait(intervalMs, signal);
    }
  }

  return follow;
}
