// Needed by bench traffic: "first page of a million exchanges, by indexed terms".
import type { FilterCondition } from "../contract.ts";
import type { DimensionTable } from "../exchange-fields.ts";
import { idSortKey } from "../exchange-id.ts";
import { readBlockEntries } from "./block-index.ts";
import { toDimensionSql } from "./condition-sql.ts";
import { blockSize, type ColumnValue, type SqlDatabase } from "./sql-database.ts";

/** A part of the exchanges, as SQL over `exchange`. */
export interface CandidateRange {
  readonly sql: string;
  readonly values: readonly ColumnValue[];
  /** Whether it is small enough to be sorted without an index. */
  readonly isSmall: boolean;
}

/** In which order exchanges are searched. */
export type SearchOrder = "newest" | "oldest" | "position";

/** The place of an exchange in every order. */
export interface SearchPlace {
  readonly at: number;
  readonly position: number;
}

/** A block, and the sort keys of the first and the last place where its exchanges may stand. */
interface BlockSpan {
  readonly block: number;
  readonly from: number;
  readonly to: number;
}

const allExchanges: CandidateRange = { sql: "1 = 1", values: [], isSmall: false };
const maxBlocks = 64;
const maxListedPositions = 200;

/**
 * The ranges in which exchanges may match a condition, one after the other in search order. If the condition names a
 * caller, an outcome, an id or what is open, these are the blocks that have it; otherwise one range of everything.
 */
export async function* candidateRanges(
  database: SqlDatabase,
  where: FilterCondition | undefined,
  order: SearchOrder,
  after: SearchPlace | undefined,
): AsyncGenerator<CandidateRange, void, undefined> {
  const blocks = where === undefined ? undefined : blockCondition(where);
  const callers = where === undefined ? undefined : await dimensionNumbers(database, "caller", where);
  const outcomes = where === undefined ? undefined : await dimensionNumbers(database, "outcome", where);
  if (callers === undefined && outcomes === undefined && blocks === undefined) {
    yield allExchanges;
    return;
  }
  if (callers?.size === 0 || outcomes?.size === 0) return;
  let left = await blockSpans(database, blocks, order, after);
  let carried = 0;
  for (let size = 1; left.length > 0; size = Math.max(carried + 1, Math.min(size * 2, maxBlocks))) {
    const taken = left.slice(0, size);
    const rest = left.slice(size);
    // The times of blocks may overlap: exchanges from here on may stand between those of the rest.
    const end = rest[0]?.from ?? Number.POSITIVE_INFINITY;
    const ranges = toBlockRanges(taken.map(({ block }) => block));
    const positions = await matchingPositions(database, ranges, callers, outcomes);
    if (positions.size > 0) yield toCandidateRange(order, ranges, positions, end);
    // Blocks that reach beyond are looked at again together with the rest.
    const overlapping = taken.filter(({ to }) => to >= end);
    carried = overlapping.length;
    left = [...overlapping, ...rest];
  }
}

/** The numbers of the rows that match; undefined where the condition does not restrict them. */
async function dimensionNumbers(
  database: SqlDatabase,
  table: DimensionTable,
  where: FilterCondition,
): Promise<ReadonlySet<number> | undefined> {
  const condition = toDimensionSql(where, table);
  if (condition === undefined) return undefined;
  const rows = await database.all(`SELECT number FROM ${table} WHERE ${condition.sql}`, condition.values);
  return new Set(rows.map((row) => Number(row["number"])));
}

/** Blocks that may hold something, in search order. */
async function blockSpans(
  database: SqlDatabase,
  blocks: BlockCondition | undefined,
  order: SearchOrder,
  after: SearchPlace | undefined,
): Promise<readonly BlockSpan[]> {
  const rows = await database.all(
    `SELECT number, first_at, last_at FROM block WHERE ${blocks?.sql ?? "1 = 1"}`,
    blocks?.values,
  );
  const begin = after === undefined ? Number.NEGATIVE_INFINITY : sortKeyOf(order, after);
  return rows
    .map((row) => spanOf(order, Number(row["number"]), Number(row["first_at"]), Number(row["last_at"])))
    .filter(({ to }) => to >= begin)
    .toSorted((one, other) => one.from - other.from);
}

/** Positions in some blocks of exchanges that have, or had, one of these callers and one of these outcomes. */
async function matchingPositions(
  database: SqlDatabase,
  ranges: readonly BlockRange[],
  callers: ReadonlySet<number> | undefined,
  outcomes: ReadonlySet<number> | undefined,
): Promise<ReadonlySet<number>> {
  const rows = await database.all(
    `SELECT number, entries FROM block WHERE ${ranges.map(() => "(number >= ? AND number < ?)").join(" OR ")}`,
    ranges.flat(),
  );
  const found = new Set<number>();
  for (const row of rows) {
    readBlockEntries(Number(row["number"]), row["entries"], (position, caller, outcome) => {
      if (callers?.has(caller) !== false && outcomes?.has(outcome) !== false) found.add(position);
    });
  }
  return found;
}

/** A number that rises in search order. */
function sortKeyOf(order: SearchOrder, { at, position }: SearchPlace): number {
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

/** The exchanges at some positions before a sort key; many positions are found sooner by scanning their blocks. */
function toCandidateRange(
  order: SearchOrder,
  ranges: readonly BlockRange[],
  positions: ReadonlySet<number>,
  end: number,
): CandidateRange {
  const isListed = positions.size <= maxListedPositions;
  const sql = isListed
    ? `exchange.position IN (${Array.from(positions, () => "?").join(", ")})`
    : `(${ranges.map(() => "(exchange.position >= ? AND exchange.position < ?)").join(" OR ")})`;
  const values = isListed ? [...positions] : ranges.flatMap(([from, to]) => [from * blockSize, to * blockSize]);
  if (end === Number.POSITIVE_INFINITY) return { sql, values, isSmall: true };
  const [bound, value] =
    order === "newest"
      ? ["exchange.at > ?", -end]
      : order === "oldest"
        ? ["exchange.at < ?", end]
        : ["exchange.position < ?", end];
  return { sql: `${sql} AND ${bound}`, values: [...values, value], isSmall: true };
}

interface BlockCondition {
  readonly sql: string;
  readonly values: readonly ColumnValue[];
}

/** What a condition on an id or on open exchanges says of their blocks, as SQL over `block`. */
function blockCondition(where: FilterCondition): BlockCondition | undefined {
  if (where.type === "all") {
    const parts = where.of.map(blockCondition).filter((part) => part !== undefined);
    if (parts.length === 0) return undefined;
    return { sql: parts.map(({ sql }) => sql).join(" AND "), values: parts.flatMap(({ values }) => values) };
  }
  if (where.type !== "is") return undefined;
  if (where.field === "id") {
    const key = idSortKey(where.value);
    return { sql: "first_id <= ? AND last_id >= ?", values: [key, key] };
  }
  if (where.field !== "state" || where.value !== "open") return undefined;
  const sql = `number IN (SELECT position / ${blockSize} FROM exchange WHERE duration_ms IS NULL)`;
  return { sql, values: [] };
}
