import { GatewayError } from "../../errors.ts";
import { captureFormat, type ExchangeRecord, type Frame } from "../contract.ts";
import type {
  CaptureLine,
  ExchangePage,
  ExchangeQuery,
  ExportQuery,
  FollowQuery,
  RecordReader,
  StoredDocument,
} from "./store-contract.ts";
import { deriveOperation } from "../derive.ts";
import { blockSize, captureStride, type SqlDatabase, type SqlRow, toPosition } from "./sql-database.ts";
import { type CaptureIds, createCaptureIds, findExchanges, framesAt, framesOfCapture } from "./find-exchanges.ts";
import { toCapture, toExchange } from "./columns.ts";
import { createStats } from "./stats.ts";
import { bodiesOf, createConditionMatcher, readsBodies } from "../filter/condition.ts";

/** What a reader is given besides its database. */
export interface ReaderDeps {
  /** Waits; for following. */
  readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

const maxPageSize = 1000;

/** Reads recordings from a database whose tables have the newest form. */
export function createSqlReader(database: SqlDatabase, options: ReaderDeps): RecordReader {
  const names = createCaptureIds(database);

  async function find(id: string): Promise<{ row: SqlRow; exchange: ExchangeRecord } | undefined> {
    const end = `${id}\uffff`;
    const rows = await database.all(
      `SELECT exchange.* FROM block JOIN exchange
        ON exchange.position >= block.number * ${blockSize} AND exchange.position < (block.number + 1) * ${blockSize}
      WHERE block.first_id < ? AND block.last_id >= ? AND exchange.id >= ? AND exchange.id < ?
      ORDER BY exchange.id LIMIT 2`,
      [end, id, id, end],
    );
    const row = rows.find((one) => one["id"] === id) ?? (rows.length === 1 ? rows[0] : undefined);
    if (row === undefined || id === "") return undefined;
    return { row, exchange: toExchange({ ...row, capture_id: await names.of(Number(row["capture"])) }) };
  }

  async function exchanges(query: ExchangeQuery): Promise<ExchangePage> {
    const { where, order = "newest", cursor } = query;
    const limit = Math.min(Math.max(query.limit ?? 50, 1), maxPageSize);
    const page: ExchangeRecord[] = [];
    let last = cursor === undefined ? undefined : parseCursor(cursor);
    const chunk = Math.min(limit + 1, maxPageSize);
    for await (const { position, exchange } of findExchanges(database, names, {
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
      const all = findExchanges(database, names, { where: captureIs, order: "position", chunk: 500 });
      for await (const { position, exchange } of all) {
        if (own !== undefined && !own.has(position)) continue;
        count++;
        onProgress?.(++done, undefined);
        yield { type: "exchange", ...exchange };
      }
      yield { type: "end", capture: capture.id, frames, exchanges: count };
    }
  }

  /** The numbers of exchanges that fit, by capture. */
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
    for await (const { position, exchange } of findExchanges(database, names, {
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
      `SELECT exchange.* FROM block JOIN exchange
        ON exchange.position >= block.number * ${blockSize} AND exchange.position < (block.number + 1) * ${blockSize}
      WHERE block.number >= ? AND block.number < ? AND block.first_id <= ? AND block.last_id >= ? AND exchange.id = ?
      UNION ALL SELECT exchange.* FROM exchange WHERE exchange.position IN (
        SELECT position FROM exchange_own WHERE operation = ? AND operation IS NOT NULL) AND exchange.capture = ?`,
      [...blocksOf(capture), operation, operation, operation, operation, capture],
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
      return deriveOperation(rows.map((row) => toExchange({ ...row, capture_id: found.exchange.capture })));
    },
    frames: async (capture, exchange) => {
      const [number] = await database.all("SELECT number FROM capture WHERE id = ?", [capture]);
      const rows = number === undefined ? [] : await rowsOfOperation(Number(number["number"]), exchange);
      const row = rows.find((one) => one["id"] === exchange);
      return row === undefined ? [] : fillRepeatedBodies(await framesAt(database, Number(row["position"]), capture));
    },
    follow: createFollow(database, names, options),
    stats: createStats(database, names),
    export: (query = {}) => exported(query),
    document: async (kind, key) => {
      const [row] = await database.all("SELECT value FROM document WHERE kind = ? AND key = ?", [kind, key]);
      return row === undefined ? undefined : JSON.parse(String(row["value"]));
    },
    documents: async (kind) =>
      (await database.all("SELECT * FROM document WHERE kind = ? ORDER BY key", [kind])).map(toDocument),
    close: () => database.close(),
    [Symbol.asyncDispose]: () => database.close(),
  };
}

/** The first block of a capture, and that of the next. */
function blocksOf(capture: number): readonly [number, number] {
  return [(capture * captureStride) / blockSize, ((capture + 1) * captureStride) / blockSize];
}

function fillRepeatedBodies(frames: readonly Frame[]): readonly Frame[] {
  const bodies = new Map(frames.map(({ seq, body }) => [seq, body]));
  return frames.map((frame) => {
    const body = frame.same === undefined ? undefined : bodies.get(frame.same);
    return body === undefined ? frame : { ...frame, body };
  });
}

function toDocument(row: SqlRow): StoredDocument {
  const { kind, key, value, at } = row;
  return { kind: String(kind), key: String(key), value: JSON.parse(String(value)), at: Number(at) };
}

function parseCursor(cursor: string): { readonly at: number; readonly position: number } {
  const match = /^(\d+(?:\.\d+)?)\.(\d+)$/u.exec(cursor);
  if (match === null) throw new GatewayError("invalid_params", "this is no cursor of an earlier page");
  return { at: Number(match[1]), position: Number(match[2]) };
}

/** Makes the following of a store: it looks again and again, and holds nothing open in between. */
function createFollow(database: SqlDatabase, names: CaptureIds, { wait }: ReaderDeps): RecordReader["follow"] {
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
