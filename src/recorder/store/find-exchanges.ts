import type { ExchangeRecord, FilterCondition, Frame } from "../contract.ts";
import { bodiesOf, createConditionMatcher, readsBodies, type ExchangeBodies } from "../filter/condition.ts";
import { unpackFrames, type FramePack } from "../pack.ts";
import { createContextReader, type ContextReader } from "../pack-context.ts";
import { candidateRanges, type SearchOrder, type SearchPlace } from "./candidate-ranges.ts";
import { packSelection, packSource, toExchange, toPack } from "./schema.ts";
import { toSql } from "./condition-sql.ts";
import { captureStride, type ColumnValue, type SqlDatabase, type SqlRow } from "./sql-database.ts";

/** An exchange, and its position in the store. */
export interface FoundExchange {
  readonly position: number;
  readonly exchange: ExchangeRecord;
}

/** Which exchanges to find, in which order. */
export interface FindOptions {
  readonly where?: FilterCondition | undefined;
  readonly order: SearchOrder;
  /** Starts after this place. */
  readonly after?: SearchPlace | undefined;
  /** How many rows each query reads. */
  readonly chunk: number;
}

/** The ids of captures by their numbers. */
export interface CaptureIds {
  of(number: number): Promise<string>;
}

/** Caches the ids of captures, which never change. */
export function createCaptureIds(database: SqlDatabase): CaptureIds {
  const ids = new Map<number, string>();
  return {
    of: async (number) => {
      const known = ids.get(number);
      if (known !== undefined) return known;
      const [row] = await database.all("SELECT id FROM capture WHERE number = ?", [number]);
      const id = String(row?.["id"] ?? "");
      if (row !== undefined) ids.set(number, id);
      return id;
    },
  };
}

const orders = {
  newest: {
    by: "exchange.at DESC, exchange.position DESC",
    after: "(exchange.at, exchange.position) < (?, ?)",
  },
  oldest: { by: "exchange.at, exchange.position", after: "(exchange.at, exchange.position) > (?, ?)" },
  position: { by: "exchange.position", after: "exchange.position > ?" },
} as const;

/** How many exchanges are scanned before the text index is used. */
const scannedBeforeIndex = 2000;

const noBodies: ExchangeBodies = { request: [], answer: [] };

/** Finds exchanges, a chunk per query and transaction. */
export async function* findExchanges(
  database: SqlDatabase,
  captures: CaptureIds,
  { where, order, after, chunk }: FindOptions,
): AsyncGenerator<FoundExchange, void, undefined> {
  const indexed = where === undefined ? undefined : toSql(where, database.dialect);
  const matches = where === undefined || indexed?.isExact === true ? undefined : createConditionMatcher(where);
  // A common text is found sooner by scanning some exchanges than by collecting all matches of the text index.
  const scanned = where === undefined ? undefined : toSql(where, database.dialect, true);
  let leftToScan = scanned?.sql === indexed?.sql ? 0 : scannedBeforeIndex;
  const needsBodies = where !== undefined && readsBodies(where);
  const readContext = createContextReader();
  const { by, after: isAfter } = orders[order];
  let last = after;
  for await (const range of candidateRanges(database, where, order, after)) {
    // The sign keeps SQLite from using the index by time where it has few rows to sort.
    const orderBy = range.isSmall ? by.replaceAll("exchange.", "+exchange.") : by;
    for (;;) {
      const condition = leftToScan > 0 ? scanned : indexed;
      const clauses = [condition?.sql ?? "1 = 1", range.sql, ...(last === undefined ? [] : [isAfter])];
      const place = last === undefined ? [] : order === "position" ? [last.position] : [last.at, last.position];
      const rows: readonly SqlRow[] = await database.all(
        `SELECT exchange.* FROM exchange_view AS exchange WHERE ${clauses.join(" AND ")} ORDER BY ${orderBy} LIMIT ${chunk}`,
        [...(condition?.values ?? []), ...range.values, ...place],
      );
      for (const row of rows) {
        const exchange = toExchange(row, await captures.of(Number(row["capture"])));
        const position = Number(row["position"]);
        last = { at: exchange.at, position };
        if (matches !== undefined) {
          const bodies = needsBodies
            ? bodiesOf(await framesAt(database, position, exchange.capture, readContext))
            : noBodies;
          if (!matches(exchange, () => bodies)) continue;
        }
        yield { position, exchange };
      }
      leftToScan -= rows.length;
      if (rows.length < chunk) break;
    }
  }
}

/** The frames of the exchange at a position, as they are stored. */
export async function framesAt(
  database: SqlDatabase,
  owner: number,
  capture: string,
  readContext: ContextReader = createContextReader(),
): Promise<readonly Frame[]> {
  // The first pack has the position of its exchange, so only later ones need an index.
  const rows = await database.all(
    `SELECT ${packSelection} FROM ${packSource} WHERE pack.position = ?
      UNION ALL SELECT ${packSelection} FROM ${packSource} WHERE pack.owner = ? AND pack.owner <> pack.position
      ORDER BY position`,
    [owner, owner],
  );
  return rows.flatMap((row) => unpackFrames(toPack(row), capture, readContext));
}

/** A pack, and the position of the exchange that it belongs to. */
export interface StoredPack {
  readonly pack: FramePack;
  readonly owner: ColumnValue;
}

/** Packs between two positions, a chunk per query. */
export async function* packsBetween(
  database: SqlDatabase,
  after: number,
  { end, lastFrom = -1 }: { readonly end: number; readonly lastFrom?: number },
): AsyncGenerator<StoredPack, void, undefined> {
  let last = after;
  for (;;) {
    const rows: readonly SqlRow[] = await database.all(
      `SELECT ${packSelection} FROM ${packSource}
        WHERE pack.position > ? AND pack.position < ? AND pack.last_seq >= ? ORDER BY pack.position LIMIT ${packChunk}`,
      [last, end, lastFrom],
    );
    for (const row of rows) {
      last = Number(row["position"]);
      yield { pack: toPack(row), owner: row["owner"] ?? null };
    }
    if (rows.length < packChunk) return;
  }
}

const packChunk = 250;

/** The frames of a capture, by their numbers. */
export async function* framesOfCapture(
  database: SqlDatabase,
  number: number,
  capture: string,
): AsyncGenerator<{ readonly frame: Frame; readonly owner: ColumnValue }, void, undefined> {
  const readContext = createContextReader();
  /** Frames that may have to wait for those of later packs: the packs of a batch overlap. */
  let held: { readonly frame: Frame; readonly owner: ColumnValue }[] = [];
  const packs = packsBetween(database, number * captureStride - 1, { end: (number + 1) * captureStride });
  for await (const { pack, owner } of packs) {
    if (held.length >= maxHeldFrames) {
      held.sort((one, other) => one.frame.seq - other.frame.seq);
      const next = held.findIndex(({ frame }) => frame.seq >= pack.first);
      const ready = next === -1 ? held.length : next;
      yield* held.slice(0, ready);
      held = held.slice(ready);
    }
    for (const frame of unpackFrames(pack, capture, readContext)) held.push({ frame, owner });
  }
  yield* held.toSorted((one, other) => one.frame.seq - other.frame.seq);
}

const maxHeldFrames = 500;
