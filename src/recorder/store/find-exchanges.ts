import { bodiesOf, createConditionMatcher, type ExchangeBodies, readsBodies } from "../filter/condition.ts";
import type { ExchangeRecord, FilterCondition, Frame } from "../contract.ts";
import { type ContextReader, createContextReader, type FramePack, unpackFrames } from "../pack.ts";
import { captureStride, type ColumnValue, type SqlDatabase, type SqlRow } from "./sql-database.ts";
import { packSelection, packSource, toExchange, toPack } from "./columns.ts";
import { candidateRanges } from "./candidate-ranges.ts";
import { toSql } from "./condition-sql.ts";

/** An exchange as it was found, with its number in the store. */
export interface FoundExchange {
  readonly position: number;
  readonly exchange: ExchangeRecord;
}

/** How exchanges are looked for. */
export interface FindOptions {
  readonly where?: FilterCondition | undefined;
  /** By time from either end, or by their numbers in the store. */
  readonly order: "newest" | "oldest" | "position";
  /** Behind this one. */
  readonly after?: { readonly at: number; readonly position: number } | undefined;
  /** How many are read at a time. */
  readonly chunk: number;
}

/** The ids of captures by their numbers. */
export interface CaptureIds {
  of(number: number): Promise<string>;
}

/** Remembers the ids of captures, which never change. */
export function createCaptureIds(database: SqlDatabase): CaptureIds {
  const names = new Map<number, string>();
  return {
    of: async (number) => {
      const known = names.get(number);
      if (known !== undefined) return known;
      const [row] = await database.all("SELECT id FROM capture WHERE number = ?", [number]);
      const id = String(row?.["id"] ?? "");
      if (row !== undefined) names.set(number, id);
      return id;
    },
  };
}

const orders = {
  newest: {
    by: "exchange.at DESC, exchange.position DESC",
    behind: "(exchange.at, exchange.position) < (?, ?)",
  },
  oldest: { by: "exchange.at, exchange.position", behind: "(exchange.at, exchange.position) > (?, ?)" },
  position: { by: "exchange.position", behind: "exchange.position > ?" },
} as const;

/** Finds exchanges, as many as are asked for; every chunk is a transaction of its own. */
export async function* findExchanges(
  database: SqlDatabase,
  names: CaptureIds,
  { where, order, after, chunk }: FindOptions,
): AsyncGenerator<FoundExchange, void, undefined> {
  const thorough = where === undefined ? undefined : toSql(where, database.dialect);
  const matches = where === undefined || thorough?.isExact === true ? undefined : createConditionMatcher(where);
  // A text that many have is found sooner among the next ones than by gathering all who have it.
  const glancing = where === undefined ? undefined : toSql(where, database.dialect, true);
  let glances = glancing?.sql === thorough?.sql ? 0 : scannedBeforeIndex;
  const looksInside = where !== undefined && readsBodies(where);
  const readContext = createContextReader();
  const { by, behind } = orders[order];
  let last = after;
  for await (const stretch of candidateRanges(database, where, order, after)) {
    for (;;) {
      const condition = glances > 0 ? glancing : thorough;
      const clauses = [condition?.sql ?? "1 = 1", stretch.sql, ...(last === undefined ? [] : [behind])];
      const place = last === undefined ? [] : order === "position" ? [last.position] : [last.at, last.position];
      const rows: readonly SqlRow[] = await database.all(
        `SELECT exchange.* FROM exchange WHERE ${clauses.join(" AND ")} ORDER BY ${stretch.isSmall ? by.replaceAll("exchange.", "+exchange.") : by} LIMIT ${chunk}`,
        [...(condition?.values ?? []), ...stretch.values, ...place],
      );
      for (const row of rows) {
        const exchange = toExchange({ ...row, capture_id: await names.of(Number(row["capture"])) });
        const position = Number(row["position"]);
        last = { at: exchange.at, position };
        if (matches !== undefined) {
          const bodies = looksInside
            ? bodiesOf(await framesAt(database, position, exchange.capture, readContext))
            : noBodies;
          if (!matches(exchange, () => bodies)) continue;
        }
        yield { position, exchange };
      }
      glances -= rows.length;
      if (rows.length < chunk) break;
    }
  }
}

/** How many exchanges are looked at one by one before the index of texts is asked. */
const scannedBeforeIndex = 2000;

const noBodies: ExchangeBodies = { request: [], answer: [] };

/** The frames of an exchange in their order, as they are stored. */
export async function framesAt(
  database: SqlDatabase,
  owner: number,
  capture: string,
  readContext: ContextReader = createContextReader(),
): Promise<readonly Frame[]> {
  // The first pack has the number of its exchange, so that only the others need an index.
  const rows = await database.all(
    `SELECT ${packSelection} FROM ${packSource} WHERE pack.position = ?
      UNION ALL SELECT ${packSelection} FROM ${packSource} WHERE pack.owner = ? AND pack.owner <> pack.position
      ORDER BY position`,
    [owner, owner],
  );
  return rows.flatMap((row) => unpackFrames(toPack(row), capture, readContext));
}

/** A pack as it is stored, and the number of the exchange that it belongs to. */
export interface StoredPack {
  readonly pack: FramePack;
  readonly owner: ColumnValue;
}

/** Packs behind a number and before another in their order, a chunk at a time. */
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

/** The frames of a capture in their order. */
export async function* framesOfCapture(
  database: SqlDatabase,
  number: number,
  capture: string,
): AsyncGenerator<{ readonly frame: Frame; readonly owner: ColumnValue }, void, undefined> {
  const readContext = createContextReader();
  /** Frames of packs that began before the next one, by number; the packs of a batch reach into each other. */
  let held: { readonly frame: Frame; readonly owner: ColumnValue }[] = [];
  const packs = packsBetween(database, number * captureStride - 1, { end: (number + 1) * captureStride });
  for await (const { pack, owner } of packs) {
    if (held.length >= maxHeldFrames) {
      held.sort((one, other) => one.frame.seq - other.frame.seq);
      const behind = held.findIndex(({ frame }) => frame.seq >= pack.first);
      const ready = behind === -1 ? held.length : behind;
      yield* held.slice(0, ready);
      held = held.slice(ready);
    }
    for (const frame of unpackFrames(pack, capture, readContext)) held.push({ frame, owner });
  }
  yield* held.toSorted((one, other) => one.frame.seq - other.frame.seq);
}

const maxHeldFrames = 500;
