import { GatewayError } from "../../errors.ts";
import { captureFormat, type ExchangeRecord, type FilterCondition, type Frame } from "../contract.ts";
import { deriveOperation } from "../derive.ts";
import { idSortKey } from "../exchange-id.ts";
import { bodiesOf, createConditionMatcher, readsBodies } from "../filter/condition.ts";
import { blocksOf, findRows, inBlock } from "./block-index.ts";
import { toSql } from "./condition-sql.ts";
import { toCapture, toExchange } from "./schema.ts";
import { createCaptureIds, findExchanges, framesAt, framesOfCapture, type CaptureIds } from "./find-exchanges.ts";
import { captureStride, toPosition, type SqlDatabase, type SqlRow } from "./sql-database.ts";
import { captureTotals, createStatsCounter } from "./stats.ts";
import type {
  CaptureLine,
  ExchangePage,
  ExchangeQuery,
  ExportQuery,
  FollowQuery,
  RecordReader,
} from "./store-contract.ts";

/** What a reader needs besides its database. */
export interface ReaderDeps {
  /** Waits between two looks while following. */
  readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

const maxPageSize = 1000;

/** Makes a reader of a database whose tables exist. */
export function createSqlReader(database: SqlDatabase, deps: ReaderDeps): RecordReader {
  const captures = createCaptureIds(database);

  async function find(id: string): Promise<{ row: SqlRow; exchange: ExchangeRecord } | undefined> {
    const rows = await findRows(database, id);
    const row = rows.find((one) => one["id"] === id) ?? (rows.length === 1 ? rows[0] : undefined);
    if (row === undefined || id === "") return undefined;
    return { row, exchange: toExchange(row, await captures.of(Number(row["capture"]))) };
  }

  async function exchanges(query: ExchangeQuery): Promise<ExchangePage> {
    const { where, order = "newest", cursor } = query;
    const limit = Math.min(Math.max(query.limit ?? 50, 1), maxPageSize);
    const page: ExchangeRecord[] = [];
    let last = cursor === undefined ? undefined : parseCursor(cursor);
    const chunk = Math.min(limit + 1, maxPageSize);
    for await (const { position, exchange } of findExchanges(database, captures, {
      where,
      order,
      after: last,
      chunk,
    })) {
      if (page.length === limit && last !== undefined) return { exchanges: page, next: `${last.at}.${last.position}` };
      page.push(exchange);
      last = { at: exchange.at, position };
    }
    return { exchanges: page };
  }

  async function* exported({ where, wholeOperations = false, onProgress }: ExportQuery): AsyncGenerator<CaptureLine> {
    const chosen = where === undefined ? undefined : await choose(where, wholeOperations);
    let done = 0;
    for (const row of await database.all("SELECT number, id, record FROM capture ORDER BY number")) {
      const number = Number(row["number"]);
      const capture = toCapture(row);
      const own = chosen?.get(number);
      if (chosen !== undefined && own === undefined) continue;
      yield { type: "capture", ...capture };
      let frames = 0;
      for await (const { frame, owner } of framesOfCapture(database, number, capture.id)) {
        if (own !== undefined && owner !== null && !own.has(Number(owner))) continue;
        frames++;
        yield { type: "frame", ...frame };
      }
      let count = 0;
      const captureIs = { type: "is", field: "capture", value: capture.id } as const;
      const all = findExchanges(database, captures, { where: captureIs, order: "position", chunk: 500 });
      for await (const { position, exchange } of all) {
        if (own !== undefined && !own.has(position)) continue;
        count++;
        onProgress?.(++done, undefined);
        yield { type: "exchange", ...exchange };
      }
      yield { type: "end", capture: capture.id, frames, exchanges: count };
    }
  }

  /** The positions of matching exchanges, by capture. */
  async function choose(
    where: NonNullable<ExportQuery["where"]>,
    whole: boolean,
  ): Promise<ReadonlyMap<number, ReadonlySet<number>>> {
    const chosen = new Map<number, Set<number>>();
    const add = (capture: number, position: number): void => {
      const own = chosen.get(capture);
      if (own === undefined) chosen.set(capture, new Set([position]));
      else own.add(position);
    };
    for await (const { position, exchange } of findExchanges(database, captures, {
      where,
      order: "position",
      chunk: 500,
    })) {
      const number = Math.floor(position / captureStride);
      add(number, position);
      if (!whole) continue;
      for (const row of await rowsOfOperation(number, exchange.operation)) add(number, Number(row["position"]));
    }
    return chosen;
  }

  function rowsOfOperation(capture: number, operation: string): Promise<readonly SqlRow[]> {
    return database.all(
      `SELECT exchange.* FROM block JOIN exchange_view AS exchange ON ${inBlock("exchange")}
      WHERE block.number >= ? AND block.number < ? AND block.first_id <= ? AND block.last_id >= ? AND exchange.id = ?
      UNION ALL SELECT exchange.* FROM exchange_view AS exchange WHERE exchange.position IN (
        SELECT position FROM exchange WHERE operation = ? AND operation IS NOT NULL) AND exchange.capture = ?`,
      [...blocksOf(capture), idSortKey(operation), idSortKey(operation), operation, operation, capture],
    );
  }

  return {
    format: captureFormat,
    location: database.location,
    captures: async () => (await database.all("SELECT record FROM capture ORDER BY number")).map(toCapture),
    exchanges,
    exchange: async (id) => (await find(id))?.exchange,
    operation: async (id) => {
      const found = await find(id);
      if (found === undefined) return undefined;
      const rows = await rowsOfOperation(Number(found.row["capture"]), found.exchange.operation);
      return deriveOperation(rows.map((row) => toExchange(row, found.exchange.capture)));
    },
    frames: async (capture, exchange) => {
      const [number] = await database.all("SELECT number FROM capture WHERE id = ?", [capture]);
      const rows = number === undefined ? [] : await rowsOfOperation(Number(number["number"]), exchange);
      const row = rows.find((one) => one["id"] === exchange);
      return row === undefined ? [] : fillRepeatedBodies(await framesAt(database, Number(row["position"]), capture));
    },
    follow: createFollow(database, captures, deps),
    stats: createStats(database, captures),
    export: (query = {}) => exported(query),
    close: () => database.close(),
    [Symbol.asyncDispose]: () => database.close(),
  };
}

/** Frames with every repeated body filled in. */
export function fillRepeatedBodies(frames: readonly Frame[]): readonly Frame[] {
  const bodies = new Map(frames.map(({ seq, body }) => [seq, body]));
  return frames.map((frame) => {
    const body = frame.same === undefined ? undefined : bodies.get(frame.same);
    return body === undefined ? frame : { ...frame, body };
  });
}

function parseCursor(cursor: string): { readonly at: number; readonly position: number } {
  const match = /^(\d+(?:\.\d+)?)\.(\d+)$/u.exec(cursor);
  if (match === null) throw new GatewayError("invalid_params", "not a cursor of an earlier page");
  return { at: Number(match[1]), position: Number(match[2]) };
}

/** Which exchanges of a capture a look is about. */
interface FollowedRange {
  /** Frames after this number, up to the last one. */
  readonly after: number;
  readonly end: number;
  readonly where: FilterCondition | undefined;
  readonly limit: number;
}

/** How many rows are read for each exchange of a look, where SQL lets through what does not match. */
const examinedPerExchange = 8;

/** Follows a store by looking at it again and again; nothing is held open in between. */
function createFollow(database: SqlDatabase, captures: CaptureIds, { wait }: ReaderDeps): RecordReader["follow"] {
  /** The last frame number of each capture. */
  async function lastFrames(): Promise<ReadonlyMap<number, number>> {
    const rows = await database.all("SELECT number, last_seq FROM capture");
    return new Map(rows.map((row) => [Number(row["number"]), Number(row["last_seq"])]));
  }

  /** The newest exchanges with frames in a range that match, oldest first, and how many more there are. */
  async function changedIn(
    capture: number,
    { after, end, where, limit }: FollowedRange,
  ): Promise<{ readonly exchanges: readonly ExchangeRecord[]; readonly omitted: number }> {
    const condition = where === undefined ? undefined : toSql(where, database.dialect, true);
    const matches = where === undefined || condition?.isExact === true ? undefined : createConditionMatcher(where);
    const needsBodies = where !== undefined && readsBodies(where);
    const range = [toPosition(capture, after), toPosition(capture, end)];
    const values = [...range, ...(condition?.values ?? [])];
    // What SQL cannot tell exactly is looked at here, so some more rows are read.
    const examined = matches === undefined ? limit : limit * examinedPerExchange;
    const newest = ` ORDER BY position DESC${Number.isFinite(examined) ? ` LIMIT ${examined}` : ""}`;
    const changed = "FROM pack WHERE position > ? AND position <= ?";
    // Without a condition, the newest packs are those of the newest exchanges, and others need not be read.
    const source = `FROM exchange_view AS exchange WHERE exchange.position IN (
        SELECT owner ${changed}${where === undefined ? newest : ""}) AND ${condition?.sql ?? "1 = 1"}`;
    const rows = await database.all(`SELECT exchange.* ${source}${newest}`, values);
    const id = await captures.of(capture);
    const exchanges: ExchangeRecord[] = [];
    let omitted = 0;
    for (const row of rows) {
      const exchange = toExchange(row, id);
      if (matches !== undefined) {
        const bodies = bodiesOf(needsBodies ? await framesAt(database, toPosition(capture, exchange.seq), id) : []);
        if (!matches(exchange, () => bodies)) continue;
      }
      if (exchanges.length < limit) exchanges.push(exchange);
      else omitted++;
    }
    if (where === undefined ? end - after > examined : rows.length === examined) {
      const count = where === undefined ? `COUNT(DISTINCT owner) AS count ${changed}` : `COUNT(*) AS count ${source}`;
      const [counted] = await database.all(`SELECT ${count}`, values);
      omitted += Number(counted?.["count"] ?? 0) - rows.length;
    }
    return { exchanges: exchanges.toReversed(), omitted };
  }

  async function* follow(query: FollowQuery): AsyncGenerator<ExchangeRecord> {
    const { where, signal, intervalMs = 250, maxExchanges: limit = Number.POSITIVE_INFINITY, onOmitted } = query;
    let seen = await lastFrames();
    while (!signal.aborted) {
      const now = await lastFrames();
      for (const [capture, end] of now) {
        const after = seen.get(capture) ?? -1;
        if (end <= after) continue;
        const { exchanges, omitted } = await changedIn(capture, { after, end, where, limit });
        if (omitted > 0) onOmitted?.(omitted);
        for (const exchange of exchanges) {
          if (signal.aborted) return;
          yield exchange;
        }
      }
      seen = now;
      await wait(intervalMs, signal);
    }
  }

  return follow;
}

function createStats(database: SqlDatabase, captures: CaptureIds): RecordReader["stats"] {
  return async (where) => {
    const records = (await database.all("SELECT record FROM capture ORDER BY number")).map(toCapture);
    const [totals] = await database.all(
      `SELECT (SELECT MIN(at) FROM exchange) AS oldest, (SELECT MAX(at) FROM exchange) AS newest,
        (SELECT COALESCE(SUM(stored), 0) FROM capture) AS frames,
        (SELECT COALESCE(SUM(last_seq - indexed_seq), 0) FROM capture) AS unindexed`,
    );
    const counter = createStatsCounter();
    for await (const { exchange } of findExchanges(database, captures, { where, order: "position", chunk: 1000 }))
      counter.add(exchange);
    const time = (name: "oldest" | "newest") => {
      const value = totals?.[name];
      return value === null || value === undefined ? {} : { [name]: Number(value) };
    };
    return {
      format: captureFormat,
      location: database.location,
      captures: records.length,
      exchanges: counter.count,
      frames: Number(totals?.["frames"] ?? 0),
      bytes: await database.bytes(),
      ...captureTotals(records),
      ...time("oldest"),
      ...time("newest"),
      unindexed: Number(totals?.["unindexed"] ?? 0),
      rows: counter.rows(),
    };
  };
}
