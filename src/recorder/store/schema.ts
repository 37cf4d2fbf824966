import { GatewayError } from "../../errors.ts";
import type { CaptureRecord, ExchangeRecord } from "../contract.ts";
import {
  type ExchangeField,
  exchangeFields,
  type ExchangeTable,
  fieldsIn,
  type OwnFields,
  type StoredField,
} from "../exchange-fields.ts";
import type { FramePack } from "../pack.ts";
import { captureStride, type ColumnValue, type SqlDatabase, type SqlRow } from "./sql-database.ts";

/** The columns of an exchange's own row, in the order of `exchangeFields` and `pushExchange`. */
export const ownColumns: readonly string[] = [
  "position",
  "caller",
  "outcome",
  ...fieldsIn("exchange").map((field) => exchangeFields[field].column),
];

/** What an exchange's own row is made of. */
export type OwnRow = { readonly [Field in keyof OwnFields]?: OwnFields[Field] | undefined };

/** Adds the values of an exchange's own row. Spelled out, because looking them up by name takes longer than the rest. */
export function pushExchange(
  values: ColumnValue[],
  exchange: OwnRow,
  position: number,
  caller: number,
  outcome: number,
): void {
  const { at, id, operation, parent, traceId, rpcId, durationMs, upstreamMs, requestBytes, answerBytes } = exchange;
  values.push(
    position,
    caller,
    outcome,
    at ?? 0,
    id ?? "",
    operation === id ? null : (operation ?? null),
    parent ?? null,
    traceId ?? null,
    rpcId ?? null,
    durationMs ?? null,
    upstreamMs ?? null,
    requestBytes ?? 0,
    answerBytes ?? 0,
  );
}

/** The value of a field as a column holds it. */
export function toColumn(value: string | number | boolean | undefined): ColumnValue {
  return typeof value === "boolean" ? Number(value) : (value ?? null);
}

/** The column of `exchange_view` that holds a field. */
export function columnOf(field: StoredField | "seq"): string {
  return `exchange.${field === "seq" ? field : exchangeFields[field].column}`;
}

const readFields: readonly (readonly [string, ExchangeField])[] = Object.entries(exchangeFields);

/** The exchange of a row of `exchange_view`. */
export function toExchange(row: SqlRow, capture: string): ExchangeRecord {
  const members: Record<string, ColumnValue | boolean> = { capture, seq: row["seq"] ?? 0 };
  for (const [field, { column, type }] of readFields) {
    const value = row[column];
    if (value !== null && value !== undefined) members[field] = type === "boolean" ? value === 1 : value;
  }
  // Written from an exchange, by the same table of fields.
  return members as unknown as ExchangeRecord;
}

/** The columns of a pack, in the order of `pushPack`. */
export const packColumns: readonly string[] = ["position", "owner", "last_seq", "frames", "context", "content"];

/** Adds the values of a pack's row; the context is empty where the row of the caller has it. */
export function pushPack(
  values: ColumnValue[],
  { last, count, content }: FramePack,
  position: number,
  owner: number | null,
  context: string,
): void {
  values.push(position, owner, last, count, context, content);
}

/** The tables a pack is read from: the caller of the exchange that begins with it may have its context. */
export const packSource = `pack LEFT JOIN exchange ON exchange.position = pack.position
  LEFT JOIN caller ON caller.number = exchange.caller`;

/** The columns to read from them. */
export const packSelection =
  "pack.position AS position, pack.owner AS owner, pack.last_seq, pack.frames, pack.context, pack.content, caller.context AS shared_context";

/** The pack of a row. */
export function toPack(row: SqlRow): FramePack {
  const { content } = row;
  return {
    first: Number(row["position"]) % captureStride,
    last: Number(row["last_seq"]),
    count: Number(row["frames"]),
    context: textOf(row["context"]) || textOf(row["shared_context"]),
    content: content instanceof Uint8Array ? content : new Uint8Array(),
  };
}

function textOf(value: ColumnValue | undefined): string {
  return typeof value === "string" ? value : "";
}

/** The capture of a row. */
export function toCapture(row: SqlRow): CaptureRecord {
  return JSON.parse(String(row["record"])) as CaptureRecord;
}

/** The format of stores. Raise it whenever a table changes: stores of another format are refused, not converted. */
export const storeFormat = 8;

/** Any number that nothing else uses for an advisory lock. */
const schemaLock = 7_413_228_541;

interface Types {
  readonly integer: string;
  readonly real: string;
  readonly bytes: string;
  /** Text that is ordered as JavaScript orders it, by code units. */
  readonly id: string;
  readonly serial: string;
}

const typesOf: Readonly<Record<SqlDatabase["dialect"], Types>> = {
  sqlite: {
    integer: "INTEGER",
    real: "REAL",
    bytes: "BLOB",
    id: "TEXT",
    serial: "INTEGER PRIMARY KEY",
  },
  postgres: {
    integer: "BIGINT",
    real: "DOUBLE PRECISION",
    bytes: "BYTEA",
    id: 'TEXT COLLATE "C"',
    serial: "BIGSERIAL PRIMARY KEY",
  },
};

/**
 * Every exchange costs what is written for it, so little is: a row for its frames, and a row with what it shares with
 * no other. The only index that holds all exchanges is the one by time; `block` replaces the others.
 */
function statements(dialect: SqlDatabase["dialect"]): readonly string[] {
  const { integer, real, bytes, id, serial } = typesOf[dialect];
  const isSqlite = dialect === "sqlite";
  return [
    `CREATE TABLE capture (
      number ${serial}, id TEXT NOT NULL UNIQUE, record TEXT NOT NULL,
      last_seq ${integer} NOT NULL, indexed_seq ${integer} NOT NULL, stored ${integer} NOT NULL DEFAULT 0)`,
    ...(isSqlite
      ? [
          `CREATE VIRTUAL TABLE frame_words USING fts5(
            words, content='', contentless_delete=1, detail=none, tokenize='unicode61 remove_diacritics 0')`,
        ]
      : [
          "CREATE TABLE frame_words (position BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)",
          "CREATE INDEX frame_words_by_word ON frame_words USING gin (words)",
        ]),
    `CREATE TABLE pack (
      position ${integer} PRIMARY KEY, owner ${integer}, last_seq ${integer} NOT NULL, frames ${integer} NOT NULL,
      context TEXT NOT NULL, content ${bytes} NOT NULL)`,
    // The first pack has the position of its exchange; only later ones are looked up by owner.
    "CREATE INDEX pack_by_owner ON pack (owner) WHERE owner <> position",
    "CREATE INDEX pack_unowned ON pack (position) WHERE owner IS NULL",
    `CREATE TABLE exchange (
      position ${integer} PRIMARY KEY, caller ${integer} NOT NULL, outcome ${integer} NOT NULL,
      ${columnsOf("exchange", dialect)})`,
    `CREATE INDEX exchange_by_time ON exchange (at${isSqlite ? "" : ", position"})`,
    // Only operations of several exchanges are looked up by their own id.
    "CREATE INDEX exchange_by_operation ON exchange (operation) WHERE operation IS NOT NULL",
    "CREATE INDEX exchange_by_duration ON exchange (duration_ms) WHERE duration_ms >= 100",
    "CREATE INDEX exchange_unfinished ON exchange (at) WHERE duration_ms IS NULL",
    `CREATE TABLE caller (number ${serial}, ${columnsOf("caller", dialect)}, context TEXT NOT NULL)`,
    `CREATE TABLE outcome (number ${serial}, ${columnsOf("outcome", dialect)})`,
    `CREATE TABLE block (
      number ${integer} PRIMARY KEY, first_at ${real} NOT NULL, last_at ${real} NOT NULL,
      first_id ${id} NOT NULL, last_id ${id} NOT NULL, entries ${bytes} NOT NULL)`,
    exchangeView(isSqlite),
    "INSERT INTO headgate (name, value) VALUES ('compactions', '0')",
  ];
}

/** The columns of a table that `exchangeFields` lists, as they are declared. */
function columnsOf(table: ExchangeTable, dialect: SqlDatabase["dialect"]): string {
  const types = typesOf[dialect];
  return fieldsIn(table)
    .map((field) => {
      const { column, type, nullable }: ExchangeField = exchangeFields[field];
      const sqlType = type === "text" ? "TEXT" : type === "boolean" ? types.integer : types[type];
      return `${column} ${sqlType}${nullable === true ? "" : " NOT NULL"}`;
    })
    .join(", ");
}

/** Exchanges with everything that they share with others. */
function exchangeView(isSqlite: boolean): string {
  const columns = Object.values(exchangeFields).map(({ table, column }) =>
    column === "operation"
      ? "COALESCE(exchange.operation, exchange.id) AS operation"
      : `${table}.${column} AS ${column}`,
  );
  // SQLite takes tables of a CROSS JOIN in their order: exchanges first.
  const source = isSqlite
    ? `exchange CROSS JOIN caller CROSS JOIN outcome
      WHERE caller.number = exchange.caller AND outcome.number = exchange.outcome`
    : `exchange JOIN caller ON caller.number = exchange.caller
      JOIN outcome ON outcome.number = exchange.outcome`;
  return `CREATE VIEW exchange_view AS SELECT exchange.position AS position,
    exchange.position / ${captureStride} AS capture, exchange.position % ${captureStride} AS seq,
    ${columns.join(", ")} FROM ${source}`;
}

/** Creates the tables in an empty database; refuses those of another format. */
export async function ensureSchema(database: SqlDatabase): Promise<void> {
  await database.transaction(async (inside) => {
    // Two gateways may start at once: the second waits here for the first.
    if (inside.dialect === "postgres") await inside.run(`SELECT pg_advisory_xact_lock(${schemaLock})`);
    await inside.run("CREATE TABLE IF NOT EXISTS headgate (name TEXT PRIMARY KEY, value TEXT NOT NULL)");
    const format = await formatOf(inside);
    if (format !== undefined) {
      checkNumber(format, inside.location);
      return;
    }
    for (const statement of statements(inside.dialect)) await inside.run(statement);
    await inside.run("INSERT INTO headgate (name, value) VALUES ('format', ?)", [String(storeFormat)]);
  });
}

/** Checks that a database holds recordings of this format. */
export async function checkFormat(database: SqlDatabase): Promise<void> {
  let format: number | undefined;
  try {
    format = await formatOf(database);
  } catch (cause) {
    throw new GatewayError("store_failed", `${database.location} holds no recordings`, { cause });
  }
  checkNumber(format ?? 0, database.location);
}

async function formatOf(database: SqlDatabase): Promise<number | undefined> {
  const [row] = await database.all("SELECT value FROM headgate WHERE name = 'format'");
  return row === undefined ? undefined : Number(row["value"]);
}

function checkNumber(format: number, location: string): void {
  if (format === storeFormat) return;
  const advice =
    format > storeFormat
      ? "update headgate to use it"
      : "move it away to record into a new one; the version that wrote it can export it with `headgate traffic export`, and this one can import that file";
  throw new GatewayError(
    "store_failed",
    `${location} has recording format ${format}, and this version needs format ${storeFormat}: ${advice}`,
  );
}
