import type { Condition } from "../contract.ts";
import { blockSize, type SqlDatabase, type SqlValue } from "./database.ts";
import { readMembers } from "./blocks.ts";
import type { SharedTable } from "./rows.ts";
import { toSharedSql } from "./where.ts";

/** A part of the exchanges, as SQL over `exchange`. */
export interface Stretch {
  readonly sql: string;
  readonly values: readonly SqlValue[];
  /** Whether it is little enough to be put in order by itself. */
  readonly isShort: boolean;
}

/** A block, and from where to where its exchanges stand in the order that is asked for. */
interface Span {
  readonly block: number;
  readonly from: number;
  readonly to: number;
}

type Order = "newest" | "oldest" | "position";

const everything: Stretch = { sql: "1 = 1", values: [], isShort: false };
const mostAtOnce = 64;
const fewPositions = 200;

/**
 * The stretches in which something may fit a condition, one behind the other in the order that is asked for. Where the
 * condition names what exchanges share, these are the blocks that have it; otherwise it is one, and that is everything.
 */
export async function* stretchesOf(
  database: SqlDatabase,
  where: Condition | undefined,
  order: Order,
  after: { readonly at: number; readonly position: number } | undefined,
): AsyncGenerator<Stretch, void, undefined> {
  const condition = where === undefined ? undefined : ofOwn(where);
  const parties = where === undefined ? undefined : await numbersOf(database, "party", where);
  const subjects = where === undefined ? undefined : await numbersOf(database, "subject", where);
  if (parties === undefined && subjects === undefined && condition === undefined) {
    yield everything;
    return;
  }
  if (parties?.size === 0 || subjects?.size === 0) return;
  const rows = await database.all(
    `SELECT number, first_at, last_at FROM block WHERE ${condition?.sql ?? "1 = 1"}`,
    condition?.values,
  );
  const begin = after === undefined ? Number.NEGATIVE_INFINITY : placeOf(order, after);
  let left = rows
    .map((row) => spanOf(order, Number(row["number"]), Number(row["first_at"]), Number(row["last_at"])))
    .filter(({ to }) => to >= begin)
    .toSorted((one, other) => one.from - other.from);
  let carried = 0;
  for (let size = 1; left.length > 0; size = Math.max(carried + 1, Math.min(size * 2, mostAtOnce))) {
    const taken = left.slice(0, size);
    const rest = left.slice(size);
    // What comes behind the beginning of the rest may stand between what the rest holds.
    const end = rest[0]?.from ?? Number.POSITIVE_INFINITY;
    const ranges = rangesOf(taken.map(({ block }) => block));
    const found = await membersOf(database, ranges, parties, subjects);
    if (found.size > 0) yield stretchOf(order, ranges, found, end);
    const over = taken.filter(({ to }) => to >= end);
    carried = over.length;
    left = [...over, ...rest];
  }
}

/** The numbers of the shared rows that fit; undefined where the condition does not say. */
async function numbersOf(
  database: SqlDatabase,
  table: SharedTable,
  where: Condition,
): Promise<ReadonlySet<number> | undefined> {
  const shared = toSharedSql(where, table);
  if (shared === undefined) return undefined;
  const rows = await database.all(`SELECT number FROM ${table} WHERE ${shared.sql}`, shared.values);
  return new Set(rows.map((row) => Number(row["number"])));
}

/** Exchanges of some blocks that have one of these parties and one of these subjects, or had. */
async function membersOf(
  database: SqlDatabase,
  ranges: readonly Range[],
  parties: ReadonlySet<number> | undefined,
  subjects: ReadonlySet<number> | undefined,
): Promise<ReadonlySet<number>> {
  const rows = await database.all(
    `SELECT number, members FROM block WHERE ${ranges.map(() => "(number >= ? AND number < ?)").join(" OR ")}`,
    ranges.flat(),
  );
  const found = new Set<number>();
  for (const row of rows) {
    readMembers(Number(row["number"]), row["members"], (position, party, subject) => {
      if (parties?.has(party) !== false && subjects?.has(subject) !== false) found.add(position);
    });
  }
  return found;
}

/** In growing numbers, whichever way it goes. */
function placeOf(order: Order, { at, position }: { readonly at: number; readonly position: number }): number {
  return order === "newest" ? -at : order === "oldest" ? at : position;
}

function spanOf(order: Order, block: number, firstAt: number, lastAt: number): Span {
  if (order === "newest") return { block, from: -lastAt, to: -firstAt };
  if (order === "oldest") return { block, from: firstAt, to: lastAt };
  return { block, from: block * blockSize, to: (block + 1) * blockSize - 1 };
}

/** Blocks from one on, and before another. */
type Range = readonly [number, number];

function rangesOf(blocks: readonly number[]): readonly Range[] {
  const ranges: [number, number][] = [];
  for (const block of blocks.toSorted((one, other) => one - other)) {
    const last = ranges.at(-1);
    if (last?.[1] === block) last[1] = block + 1;
    else ranges.push([block, block + 1]);
  }
  return ranges;
}

function stretchOf(order: Order, ranges: readonly Range[], found: ReadonlySet<number>, end: number): Stretch {
  // Many are found sooner by going through all of them.
  const isFew = found.size <= fewPositions;
  const sql = isFew
    ? `exchange.position IN (${Array.from(found, () => "?").join(", ")})`
    : `(${ranges.map(() => "(exchange.position >= ? AND exchange.position < ?)").join(" OR ")})`;
  const values = isFew ? [...found] : ranges.flatMap(([from, to]) => [from * blockSize, to * blockSize]);
  if (end === Number.POSITIVE_INFINITY) return { sql, values, isShort: true };
  const [bound, value] =
    order === "newest"
      ? ["exchange.at > ?", -end]
      : order === "oldest"
        ? ["exchange.at < ?", end]
        : ["exchange.position < ?", end];
  return { sql: `${sql} AND ${bound}`, values: [...values, value], isShort: true };
}

/** What blocks must have where something of one exchange alone is asked for, as SQL over `block`. */
function ofOwn(where: Condition): { readonly sql: string; readonly values: readonly SqlValue[] } | undefined {
  if (where.type === "all") {
    const parts = where.of.map(ofOwn).filter((part) => part !== undefined);
    if (parts.length === 0) return undefined;
    return { sql: parts.map(({ sql }) => sql).join(" AND "), values: parts.flatMap(({ values }) => values) };
  }
  if (where.type !== "is") return undefined;
  if (where.field === "id")
    return { sql: "first_id <= ? AND last_id >= ?", values: [where.value, where.value] };
  if (where.field !== "state" || where.value !== "open") return undefined;
  const sql = `number IN (SELECT position / ${blockSize} FROM exchange_own WHERE duration_ms IS NULL)`;
  return { sql, values: [] };
}
