import type { CaptureRecord, ExchangeRecord } from "../contract.ts";
import type { FramePack } from "../pack.ts";
import { captureStride, positionOf, type SqlRow, type SqlValue } from "./database.ts";

/** Members of an exchange and the columns they stand in, in the order of the columns. */
const columns = [
  ["id", "id"],
  ["operation", "operation"],
  ["parent", "parent"],
  ["at", "at"],
  ["kind", "kind"],
  ["direction", "direction"],
  ["route", "route"],
  ["principal", "principal"],
  ["session", "session"],
  ["revision", "revision"],
  ["transport", "transport"],
  ["traceId", "trace_id"],
  ["rpcId", "rpc_id"],
  ["method", "method"],
  ["target", "target"],
  ["state", "state"],
  ["errorCode", "error_code"],
  ["gatewayCode", "gateway_code"],
  ["decision", "decision"],
  ["rule", "rule"],
  ["durationMs", "duration_ms"],
  ["upstreamMs", "upstream_ms"],
  ["requestBytes", "request_bytes"],
  ["answerBytes", "answer_bytes"],
  ["messages", "messages"],
  ["modified", "modified"],
  ["redacted", "redacted"],
  ["omitted", "omitted"],
] as const satisfies readonly (readonly [keyof ExchangeRecord, string])[];

/** The column of each member of an exchange but its capture, which is a number there. */
export const columnOf: ReadonlyMap<string, string> = new Map([...columns, ["seq", "seq"]]);

/** All columns of an exchange in the order of `pushExchange`. */
export const exchangeColumns: readonly string[] = [
  "position",
  "capture",
  "seq",
  ...columns.map(([, column]) => column),
];

/** Adds the values of an exchange's columns. Written out: looking members up by name takes longer than the rest. */
export function pushExchange(values: SqlValue[], exchange: ExchangeRecord, capture: number): void {
  values.push(
    positionOf(capture, exchange.seq),
    capture,
    exchange.seq,
    exchange.id,
    exchange.operation,
    exchange.parent ?? null,
    exchange.at,
    exchange.kind,
    exchange.direction,
    exchange.route,
    exchange.principal,
    exchange.session ?? null,
    exchange.revision,
    exchange.transport,
    exchange.traceId ?? null,
    exchange.rpcId ?? null,
    exchange.method,
    exchange.target ?? null,
    exchange.state,
    exchange.errorCode ?? null,
    exchange.gatewayCode ?? null,
    exchange.decision ?? null,
    exchange.rule ?? null,
    exchange.durationMs ?? null,
    exchange.upstreamMs ?? null,
    exchange.requestBytes,
    exchange.answerBytes,
    exchange.messages,
    exchange.modified ? 1 : 0,
    exchange.redacted,
    exchange.omitted,
  );
}

/** The exchange of a row that was joined with the id of its capture as `capture_id`. */
export function toExchange(row: SqlRow): ExchangeRecord {
  const members: Record<string, SqlValue | boolean> = {
    capture: row["capture_id"] ?? "",
    seq: row["seq"] ?? 0,
  };
  for (const [member, column] of columns) {
    const value = row[column];
    if (value !== null && value !== undefined) members[member] = member === "modified" ? value === 1 : value;
  }
  // Written by `pushExchange` in the order of the same table of columns.
  return members as unknown as ExchangeRecord;
}

/** All columns of a pack of frames in the order of `pushPack`. */
export const packColumns: readonly string[] = [
  "position",
  "owner",
  "last_seq",
  "frames",
  "context",
  "head",
  "body",
];

/** Adds the values of a pack's columns. */
export function pushPack(
  values: SqlValue[],
  { first, last, count, context, head, body }: FramePack,
  capture: number,
  owner: number | null,
): void {
  values.push(positionOf(capture, first), owner, last, count, context, head, body);
}

/** The pack of a row. */
export function toPack(row: SqlRow): FramePack {
  return {
    first: Number(row["position"]) % captureStride,
    last: Number(row["last_seq"]),
    count: Number(row["frames"]),
    context: String(row["context"]),
    head: String(row["head"]),
    body: String(row["body"]),
  };
}

/** The capture of a row. */
export function toCapture(row: SqlRow): CaptureRecord {
  return JSON.parse(String(row["record"])) as CaptureRecord;
}
