import type { CaptureRecord, ExchangeRecord } from "../contract.ts";
import { exchangeFields, fieldsIn, type ExchangeField, type OwnFields, type StoredField } from "../exchange-fields.ts";
import type { FramePack } from "../pack.ts";
import { captureStride, type ColumnValue, type SqlRow } from "./sql-database.ts";

const ownFields = fieldsIn("exchange");

/** The columns of an exchange's own row, in the order of `pushExchange`. */
export const ownColumns: readonly string[] = [
  "position",
  "caller",
  "outcome",
  ...ownFields.map((field) => exchangeFields[field].column),
];

/** Adds the values of an exchange's own row. */
export function pushExchange(
  values: ColumnValue[],
  exchange: OwnFields,
  position: number,
  caller: number,
  outcome: number,
): void {
  values.push(position, caller, outcome);
  for (const field of ownFields) {
    const isOwnOperation = field === "operation" && exchange.operation === exchange.id;
    values.push(isOwnOperation ? null : toColumn(exchange[field]));
  }
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
