import type { CaptureRecord, ExchangeRecord, Frame } from "../contract.ts";
import { captureStride, type SqlRow, type SqlValue } from "./database.ts";

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

/** All columns of an exchange in the order of `exchangeValues`. */
export const exchangeColumns: readonly string[] = [
  "position",
  "capture",
  "seq",
  ...columns.map(([, column]) => column),
];

/** An exchange as values of its columns. */
export function exchangeValues(exchange: ExchangeRecord, capture: number): SqlValue[] {
  const { seq } = exchange;
  const values: SqlValue[] = [capture * captureStride + seq, capture, seq];
  for (const [member] of columns) {
    const value = exchange[member];
    values.push(value === undefined ? null : typeof value === "boolean" ? Number(value) : value);
  }
  return values;
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
  // Written by `exchangeValues` of the same table of columns.
  return members as unknown as ExchangeRecord;
}

/** What of a frame stands beside its body. */
export function headOf(frame: Frame): string {
  // Written out, because taking a copy without three members costs more than all the rest; undefined ones are left out.
  const head: Record<Exclude<keyof Frame, "capture" | "seq" | "body">, unknown> = {
    at: frame.at,
    mono: frame.mono,
    kind: frame.kind,
    leg: frame.leg,
    passing: frame.passing,
    direction: frame.direction,
    exchange: frame.exchange,
    operation: frame.operation,
    context: frame.context,
    id: frame.id,
    method: frame.method,
    target: frame.target,
    bytes: frame.bytes,
    same: frame.same,
    omitted: frame.omitted,
    redacted: frame.redacted,
    outcome: frame.outcome,
    errorCode: frame.errorCode,
    gatewayCode: frame.gatewayCode,
    decision: frame.decision,
    lost: frame.lost,
  };
  return JSON.stringify(head);
}

/** The frame of a row. */
export function toFrame(row: SqlRow, capture: string): Frame {
  const head = JSON.parse(String(row["head"])) as Omit<Frame, "capture" | "seq" | "body">;
  const body = row["body"];
  const seq = Number(row["position"]) % captureStride;
  return { capture, seq, ...head, ...(typeof body === "string" ? { body } : {}) };
}

/** The capture of a row. */
export function toCapture(row: SqlRow): CaptureRecord {
  return JSON.parse(String(row["record"])) as CaptureRecord;
}
