import type { FilterCondition } from "../contract.ts";
import type { Progress, PruneResult, PruneRules } from "./store-contract.ts";
import { compactIndex } from "./block-index.ts";
import { captureStride, type SqlDatabase, type ColumnValue } from "./sql-database.ts";
import { findExchanges, type CaptureIds } from "./find-exchanges.ts";
import { toCapture } from "./columns.ts";

const chunk = 200;
const dayMs = 86_400_000;

/** Deletes what the rules say, in small transactions, so that writing goes on in between. */
export async function pruneStore(
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
