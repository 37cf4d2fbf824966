import type { CaptureRecord, ExchangeRecord } from "../contract.ts";
import type { FramePack } from "../pack.ts";
import { captureStride, type SqlRow, type ColumnValue } from "./sql-database.ts";

type Columns = readonly (readonly [keyof ExchangeRecord, string])[];

/** What belongs to one exchange alone, and its column. */
const ownFields = [
  ["at", "at"],
  ["id", "id"],
  ["operation", "operation"],
  ["parent", "parent"],
  ["traceId", "trace_id"],
  ["rpcId", "rpc_id"],
  ["durationMs", "duration_ms"],
  ["upstreamMs", "upstream_ms"],
  ["requestBytes", "request_bytes"],
  ["answerBytes", "answer_bytes"],
] as const satisfies Columns;

/** What stands in an exchange's own row. */
export type OwnFields = Pick<ExchangeRecord, (typeof ownFields)[number][0]>;

/** Who asked, and how: the same for many exchanges, so that it is written once. */
const callerFields = [
  ["route", "route"],
  ["principal", "principal"],
  ["session", "session"],
  ["revision", "revision"],
  ["transport", "transport"],
] as const satisfies Columns;

/** What was asked for and what became of it; as often the same. In the order of `outcomeFields`. */
const outcomeColumns = [
  ["kind", "kind"],
  ["direction", "direction"],
  ["method", "method"],
  ["target", "target"],
  ["state", "state"],
  ["errorCode", "error_code"],
  ["gatewayCode", "gateway_code"],
  ["decision", "decision"],
  ["rule", "rule"],
  ["messages", "messages"],
  ["modified", "modified"],
  ["redacted", "redacted"],
  ["omitted", "omitted"],
] as const satisfies Columns;

/** What is written once for many exchanges, by the name of its table. */
export type DimensionTable = "party" | "subject";

/** The columns of each such table, as members of exchanges are called there. */
export const dimensionColumns: Readonly<Record<DimensionTable, ReadonlyMap<string, string>>> = {
  party: new Map(callerFields),
  subject: new Map(outcomeColumns),
};

const columns: Columns = [...ownFields, ...callerFields, ...outcomeColumns];

/** The column of each member of an exchange but its capture, which is a number there. */
export const columnOf: ReadonlyMap<string, string> = new Map<string, string>([...columns, ["seq", "seq"]]);

/** All columns of an exchange's own row in the order of `pushExchange`. */
export const ownColumns: readonly string[] = ["position", "party", "subject", ...ownFields.map(([, column]) => column)];

/** Adds the values of an exchange's own row. Written out: looking members up by name takes longer than the rest. */
export function pushExchange(
  values: ColumnValue[],
  exchange: OwnFields,
  position: number,
  party: number,
  subject: number,
): void {
  const { id, operation } = exchange;
  values.push(
    position,
    party,
    subject,
    exchange.at,
    id,
    // Most are the only exchange of their operation.
    operation === id ? null : operation,
    exchange.parent ?? null,
    exchange.traceId ?? null,
    exchange.rpcId ?? null,
    exchange.durationMs ?? null,
    exchange.upstreamMs ?? null,
    exchange.requestBytes,
    exchange.answerBytes,
  );
}

/** The exchange of a row that was joined with the id of its capture as `capture_id`. */
export function toExchange(row: SqlRow): ExchangeRecord {
  const members: Record<string, ColumnValue | boolean> = {
    capture: row["capture_id"] ?? "",
    seq: row["seq"] ?? 0,
  };
  for (const [member, column] of columns) {
    const value = row[column];
    if (value !== null && value !== undefined) members[member] = member === "modified" ? value === 1 : value;
  }
  // Written by `pushExchange` and with what is shared, in the order of the same tables of columns.
  return members as unknown as ExchangeRecord;
}

/** All columns of a pack of frames in the order of `pushPack`. */
export const packColumns: readonly string[] = ["position", "owner", "last_seq", "frames", "context", "content"];

/** Adds the values of a pack's columns; the context is left empty where the exchange's party has it. */
export function pushPack(
  values: ColumnValue[],
  { last, count, content }: FramePack,
  position: number,
  owner: number | null,
  context: string,
): void {
  values.push(position, owner, last, count, context, content);
}

/** What a pack is read from: its context may stand with the party of the exchange that begins with it. */
export const packSource = `pack LEFT JOIN exchange_own ON exchange_own.position = pack.position
  LEFT JOIN party ON party.number = exchange_own.party`;

/** The columns to be read from there. */
export const packSelection =
  "pack.position AS position, pack.owner AS owner, pack.last_seq, pack.frames, pack.context, pack.content, party.context AS shared_context";

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
