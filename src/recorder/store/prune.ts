import type { FilterCondition } from "../contract.ts";
import { unpackFrames } from "../pack.ts";
import { createContextReader } from "../pack-context.ts";
import { compactIndex } from "./block-index.ts";
import { type CaptureIds, findExchanges } from "./find-exchanges.ts";
import { packSelection, packSource, toCapture, toPack } from "./schema.ts";
import { captureStride, type ColumnValue, type SqlDatabase } from "./sql-database.ts";
import type { Progress, PruneResult, PruneRules } from "./store-contract.ts";

const chunk = 200;
const dayMs = 86_400_000;

/** Deletes what the rules say, in small transactions, so that writes can happen in between. */
export async function pruneStore(
  database: SqlDatabase,
  captures: CaptureIds,
  rules: PruneRules,
  onProgress?: Progress,
): Promise<PruneResult> {
  const before = await database.bytes();
  let exchanges = 0;
  let frames = 0;

  async function remove(entries: readonly Aged[]): Promise<void> {
    const { places, values } = listed(entries);
    await database.transaction(async (inside) => {
      frames += await removePacks(inside, `position IN (${places}) OR (owner IN (${places}) AND owner <> position)`, [
        ...values,
        ...values,
      ]);
      exchanges += await inside.run(`DELETE FROM exchange WHERE position IN (${places})`, values);
    });
    onProgress?.(exchanges, undefined);
  }

  async function removeAll(next: () => Promise<readonly Aged[]>): Promise<void> {
    let found = await next();
    while (found.length > 0) {
      await remove(found);
      found = found.length < chunk ? [] : await next();
    }
  }

  async function oldestExchanges(where: FilterCondition): Promise<readonly Aged[]> {
    const found: Aged[] = [];
    for await (const { position, exchange } of findExchanges(database, captures, { where, order: "oldest", chunk })) {
      found.push({ position, at: exchange.at });
      if (found.length === chunk) break;
    }
    return found;
  }

  /** A condition is about exchanges, so that it spares all other frames. */
  async function oldestUnowned(until: number): Promise<readonly Aged[]> {
    if (rules.where !== undefined) return [];
    return oldestPacksWithoutExchange(database, until);
  }

  async function removeDownTo(maxBytes: number): Promise<void> {
    const where = limited([not(open)], rules);
    let bytes = await usedBytes(database, maxBytes);
    while (bytes > maxBytes) {
      const found = merged(await oldestExchanges(where), await oldestUnowned(Number.POSITIVE_INFINITY));
      if (found.length === 0) return;
      const sizes = await sizesOf(database, found);
      let count = 0;
      let freed = 0;
      // One by one by their sizes: a whole chunk of large ones may be all there is.
      for (; count < found.length && freed < bytes - maxBytes; count++) freed += sizes[count] ?? 0;
      await remove(found.slice(0, count));
      // PostgreSQL frees nothing before VACUUM, so there the sizes of what was deleted count.
      bytes = database.dialect === "sqlite" ? await database.bytes() : bytes - freed;
    }
  }

  const { before: tooOld, maxBytes } = rules;
  for (const condition of conditionsOf(rules)) await removeAll(() => oldestExchanges(condition));
  if (tooOld !== undefined) await removeAll(() => oldestUnowned(tooOld));
  if (maxBytes !== undefined) await removeDownTo(maxBytes);
  frames += await removeEmptyCaptures(database, rules);
  if (exchanges > 0) await compactIndex(database);
  await database.compact();
  return { exchanges, frames, bytes: Math.max(before - (await database.bytes()), 0) };
}

/** An entry of the store and its time. */
interface Aged {
  readonly position: number;
  readonly at: number;
}

function listed(entries: readonly Aged[]): { readonly places: string; readonly values: readonly number[] } {
  return { places: entries.map(() => "?").join(", "), values: entries.map(({ position }) => position) };
}

/** Both by age, up to where more of either may follow. */
function merged(one: readonly Aged[], other: readonly Aged[]): readonly Aged[] {
  const ends = [one, other].map((found) => (found.length < chunk ? Number.POSITIVE_INFINITY : (found.at(-1)?.at ?? 0)));
  const end = Math.min(...ends);
  return [...one, ...other].filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at);
}

/** A chunk of the oldest packs without an exchange, such as lines of standard error, from before a time. */
async function oldestPacksWithoutExchange(database: SqlDatabase, until: number): Promise<readonly Aged[]> {
  const rows = await database.all(
    `SELECT ${packSelection} FROM ${packSource} WHERE pack.owner IS NULL ORDER BY pack.position LIMIT ${chunk}`,
  );
  const readContext = createContextReader();
  const found = rows.map((row) => {
    const times = unpackFrames(toPack(row), "", readContext, false).map(({ at }) => at);
    return { position: Number(row["position"]), at: Math.max(...times) };
  });
  const young = found.findIndex(({ at }) => at >= until);
  return young === -1 ? found : found.slice(0, young);
}

/** About what the row of an exchange or pack takes besides its content. */
const rowBytes = 150;

/** How many bytes are freed by deleting each of these entries with all its packs. */
async function sizesOf(database: SqlDatabase, entries: readonly Aged[]): Promise<readonly number[]> {
  const { places, values } = listed(entries);
  const size = `SUM(${contentSize(database)} + ${rowBytes})`;
  const rows = await database.all(
    `SELECT position AS entry, ${size} AS bytes FROM pack WHERE position IN (${places}) GROUP BY position
      UNION ALL SELECT owner AS entry, ${size} AS bytes FROM pack
        WHERE owner IN (${places}) AND owner <> position GROUP BY owner`,
    [...values, ...values],
  );
  const sizes = new Map<number, number>();
  for (const row of rows) {
    const entry = Number(row["entry"]);
    sizes.set(entry, (sizes.get(entry) ?? 0) + Number(row["bytes"]));
  }
  return entries.map(({ position }) => sizes.get(position) ?? rowBytes);
}

/** Bytes in use, not counting what was deleted; exact only where they may exceed the bound. */
async function usedBytes(database: SqlDatabase, bound: number): Promise<number> {
  const allocated = await database.bytes();
  if (database.dialect === "sqlite" || allocated <= bound) return allocated;
  // Tables of PostgreSQL keep the room of deleted rows, so their size does not tell.
  const [row] = await database.all(`SELECT SUM(${contentSize(database)} + ${rowBytes}) AS bytes FROM pack`);
  return Number(row?.["bytes"] ?? 0);
}

/** Neither reads the content itself. */
function contentSize({ dialect }: SqlDatabase): string {
  return dialect === "sqlite" ? "LENGTH(content)" : "pg_column_size(content)";
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
