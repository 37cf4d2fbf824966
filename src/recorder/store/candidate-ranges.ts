import type { FilterCondition } from "../contract.ts";
import { blockSize, type SqlDatabase, type ColumnValue } from "./sql-database.ts";
import { readBlockEntries } from "./block-index.ts";
import type { DimensionTable } from "./columns.ts";
import { toDimensionSql } from "./condition-sql.ts";

/** A part of the exchanges, as SQL over `exchange`. */
export interface CandidateRange {
  readonly sql: string;
  readonly values: readonly ColumnValue[];
  /** Whether it is little enough to be put in order by itself. */
  readonly isSmall: boolean;
}

/** A block, and from where to where its exchanges stand in the order that is asked for. */
interface BlockSpan {
  readonly block: number;
  readonly from: number;
  readonly to: number;
}

type SearchOrder = "newest" | "oldest" | "position";

const everything: CandidateRange = { sql: "1 = 1", values: [], isSmall: false };
const maxBlocks = 64;
const maxListedPositions = 200;

/**
 * The stretches in which something may fit a condition, one behind the other in the order that is asked for. Where the
 * condition names what exchanges share, these are the blocks that have it; otherwise it is one, and that is everything.
 */
export async function* candidateRanges(
  database: SqlDatabase,
  where: FilterCondition | undefined,
  order: SearchOrder,
  after: { readonly at: number; readonly position: number } | undefined,
): AsyncGenerator<CandidateRange, void, undefined> {
  const condition = where === undefined ? undefined : blockCondition(where);
  const parties = where === undefined ? undefined : await dimensionNumbers(database, "party", where);
  const subjects = where === undefined ? undefined : await dimensionNumbers(database, "subject", where);
  if (parties === undefined && subjects === undefined && condition === undefined) {
    yield everything;
    return;
  }
  if (parties?.size === 0 || subjects?.size === 0) return;
  const rows = await database.all(
    `SELECT number, first_at, last_at FROM block WHERE ${condition?.sql ?? "1 = 1"}`,
    condition?.values,
  );
  const begin = after === undefined ? Number.NEGATIVE_INFINITY : sortKeyOf(order, after);
  let left = rows
    .map((row) => spanOf(order, Number(row["number"]), Number(row["first_at"]), Number(row["last_at"])))
    .filter(({ to }) => to >= begin)
    .toSorted((one, other) => one.from - other.from);
  let carried = 0;
  for (let size = 1; left.length > 0; size = Math.max(carried + 1, Math.min(size * 2, maxBlocks))) {
    const taken = left.slice(0, size);
    const rest = left.slice(size);
    // What comes behind the beginning of the rest may stand between what the rest holds.
    const end = rest[0]?.from ?? Number.POSITIVE_INFINITY;
    const ranges = toBlockRanges(taken.map(({ block }) => block));
    const found = await matchingPositions(database, ranges, parties, subjects);
    if (found.size > 0) yield toCandidateRange(order, ranges, found, end);
    const over = taken.filter(({ to }) => to >= end);
    carried = over.length;
    left = [...over, ...rest];
  }
}

/** The numbers of the shared rows that fit; undefined where the condition does not say. */
async function dimensionNumbers(
  database: SqlDatabase,
  table: DimensionTable,
  where: FilterCondition,
): Promise<ReadonlySet<number> | undefined> {
  const shared = toDimensionSql(where, table);
  if (shared === undefined) return undefined;
  const rows = await database.all(`SELECT number FROM ${table} WHERE ${shared.sql}`, shared.values);
  return new Set(rows.map((row) => Number(row["number"])));
}

/** Exchanges of some blocks that have one of these parties and one of these subjects, or had. */
async function matchingPositions(
  database: SqlDatabase,
  ranges: readonly BlockRange[],
  parties: ReadonlySet<number> | undefined,
  subjects: ReadonlySet<number> | undefined,
): Promise<ReadonlySet<number>> {
  const rows = await database.all(
    `SELECT number, members FROM block WHERE ${ranges.map(() => "(number >= ? AND number < ?)").join(" OR ")}`,
    ranges.flat(),
  );
  const found = new Set<number>();
  for (const row of rows) {
    readBlockEntries(Number(row["number"]), row["members"], (position, party, subject) => {
      if (parties?.has(party) !== false && subjects?.has(subject) !== false) found.add(position);
    });
  }
  return found;
}

/** In growing numbers, whichever way it goes. */
function sortKeyOf(order: SearchOrder, { at, position }: { readonly at: number; readonly position: number }): number {
  return order === "newest" ? -at : order === "oldest" ? at : position;
}

function spanOf(order: SearchOrder, block: number, firstAt: number, lastAt: number): BlockSpan {
  if (order === "newest") return { block, from: -lastAt, to: -firstAt };
  if (order === "oldest") return { block, from: firstAt, to: lastAt };
  return { block, from: block * blockSize, to: (block + 1) * blockSize - 1 };
}

/** Blocks from one on, and before another. */
type BlockRange = readonly [number, number];

function toBlockRanges(blocks: readonly number[]): readonly BlockRange[] {
  const ranges: [number, number][] = [];
  for (const block of blocks.toSorted((one, other) => one - other)) {
    const last = ranges.at(-1);
    if (last?.[1] === block) last[1] = block + 1;
    else ranges.push([block, block + 1]);
  }
  return ranges;
}

function toCandidateRange(
  order: SearchOrder,
  ranges: readonly BlockRange[],
  found: ReadonlySet<number>,
  end: number,
): CandidateRange {
  // Many are found sooner by going through all of them.
  const isFew = found.size <= maxListedPositions;
  const sql = isFew
    ? `exchange.position IN (${Array.from(found, () => "?").join(", ")})`
    : `(${ranges.map(() => "(exchange.position >= ? AND exchange.position < ?)").join(" OR ")})`;
  const values = isFew ? [...found] : ranges.flatMap(([from, to]) => [from * blockSize, to * blockSize]);
  if (end === Number.POSITIVE_INFINITY) return { sql, values, isSmall: true };
  const [bound, value] =
    order === "newest"
      ? ["exchange.at > ?", -end]
      : order === "oldest"
        ? ["exchange.at < ?", end]
        : ["exchange.position < ?", end];
  return { sql: `${sql} AND ${bound}`, values: [...values, value], isSmall: true };
}

/** What blocks must have where something of one exchange alone is asked for, as SQL over `block`. */
function blockCondition(
  where: FilterCondition,
): { readonly sql: string; readonly values: readonly ColumnValue[] } | undefined {
  if (where.type === "all") {
    const parts = where.of.map(blockCondition).filter((part) => part !== undefined);
    if (parts.length === 0) return undefined;
    return { sql: parts.map(({ sql }) => sql).join(" AND "), values: parts.flatMap(({ values }) => values) };
  }
  if (where.type !== "is") return undefined;
  if (where.field === "id") return { sql: "first_id <= ? AND last_id >= ?", values: [where.value, where.value] };
  if (where.field !== "state" || where.value !== "open") return undefined;
  const sql = `number IN (SELECT position / ${blockSize} FROM exchange_own WHERE duration_ms IS NULL)`;
  return { sql, values: [] };
}
