import type { Frame } from "../contract.ts";
import { createContextReader, packFrames } from "../pack.ts";
import { createBlockIndexWriter } from "./block-index.ts";
import {
  captureStride,
  type ColumnValue,
  createRowInserter,
  type SqlDatabase,
  type SqlRow,
  toPosition,
} from "./sql-database.ts";
import { ownColumns, packColumns, pushExchange, pushPack, toExchange } from "./columns.ts";
import { createDimensionRows } from "./dimension-rows.ts";

const rowsAtOnce = 2000;

/** Puts the frames of format 1, which had a row each, into packs; frames of an exchange that stand apart stay apart. */
export async function packOldFrames(inside: SqlDatabase): Promise<void> {
  const rows = createRowInserter(inside, "pack", packColumns);
  const stored = new Map<number, number>();
  for await (const old of chunksOf(inside, "frame")) {
    for (const [capture, own] of Map.groupBy(old, captureOf)) {
      stored.set(capture, (stored.get(capture) ?? 0) + own.length);
      const owners = new Map<number, ColumnValue>(own.map((row) => [seqOf(row), row["owner"] ?? null]));
      for (const pack of packFrames(own.map(toFrame))) {
        const owner = owners.get(pack.first) ?? null;
        const position = toPosition(capture, pack.first);
        pushPack(rows.row(), pack, position, owner === null ? null : Number(owner), pack.context);
        if (rows.isFull) await rows.write();
      }
    }
  }
  await rows.write();
  for (const [capture, frames] of stored)
    await inside.run("UPDATE capture SET stored = ? WHERE number = ?", [frames, capture]);
  await moveExchanges(inside);
}

/** Writes the packs of format 2, which were JSON, as they are written now. */
export async function movePacks(inside: SqlDatabase): Promise<void> {
  const rows = createRowInserter(inside, "pack", packColumns);
  const readContext = createContextReader();
  for await (const old of chunksOf(inside, "old_pack")) {
    for (const row of old) {
      const frames = unpackOld(row);
      const context = String(row["context"]);
      const [first, ...others] = frames;
      if (first === undefined) continue;
      const whole = context === "" ? frames : [{ ...first, context: readContext(context) }, ...others];
      const owner = row["owner"] ?? null;
      for (const pack of packFrames(whole)) {
        pushPack(
          rows.row(),
          pack,
          toPosition(captureOf(row), pack.first),
          owner === null ? null : Number(owner),
          context,
        );
        if (rows.isFull) await rows.write();
      }
    }
  }
  await rows.write();
  await moveExchanges(inside);
}

/** Writes the exchanges of formats 1 and 2, which had everything in their rows, as they are written now. */
async function moveExchanges(inside: SqlDatabase): Promise<void> {
  const rows = createRowInserter(inside, "exchange_own", ownColumns);
  const shared = createDimensionRows();
  const notes = createBlockIndexWriter();
  for await (const old of chunksOf(inside, "old_exchange")) {
    for (const row of old) {
      const exchange = toExchange(row);
      const position = Number(row["position"]);
      let party = shared.caller(exchange, "");
      if (party < 0) party = await shared.writeCaller(inside, exchange, "");
      let subject = shared.outcome(exchange);
      if (subject < 0) subject = await shared.writeOutcome(inside, exchange);
      pushExchange(rows.row(), exchange, position, party, subject);
      notes.add(position, party, subject, exchange.at, exchange.id);
      if (rows.isFull) await rows.write();
    }
    await notes.write(inside);
  }
  await rows.write();
}

async function* chunksOf(inside: SqlDatabase, table: string): AsyncGenerator<readonly SqlRow[], void, undefined> {
  for (let last = -1; ;) {
    const rows: readonly SqlRow[] = await inside.all(
      `SELECT * FROM ${table} WHERE position > ? ORDER BY position LIMIT ${rowsAtOnce}`,
      [last],
    );
    if (rows.length > 0) yield rows;
    if (rows.length < rowsAtOnce) return;
    last = Number(rows.at(-1)?.["position"]);
  }
}

function captureOf(row: SqlRow): number {
  return Math.floor(Number(row["position"]) / captureStride);
}

function seqOf(row: SqlRow): number {
  return Number(row["position"]) % captureStride;
}

function toFrame(row: SqlRow): Frame {
  // As format 1 wrote it: everything but the body in one text.
  const head = JSON.parse(String(row["head"])) as Omit<Frame, "capture" | "seq" | "body">;
  const { body } = row;
  return { capture: "", seq: seqOf(row), ...head, ...(typeof body === "string" ? { body } : {}) };
}

/**
 * `[exchange, operation, at, micros, …frames]`: operation is 0 where it is the exchange. Each frame has its number, times,
 * form, bytes and length of the body or -1; then id, method, target and outcome, or the members as they are, or the place
 * of an earlier frame that it repeats.
 */
type OldHead = readonly [string, string | 0, number, number, ...OldFrame[]];
type OldFrame = readonly [number, number, number, number, number, number, unknown, ...unknown[]];

const kinds = ["request", "notification", "result", "error", "decision", "stderr", "gap", "end"] as const;
const outcomes = [undefined, "ok", "tool_error", "input_required", "error"] as const;

function unpackOld(row: SqlRow): readonly Frame[] {
  // As format 2 wrote it.
  const [exchange, shared, at, micros, ...parts] = JSON.parse(String(row["head"])) as OldHead;
  const body = String(row["body"]);
  const frames: Frame[] = [];
  let taken = 0;
  for (const [seq, laterAt, laterMicros, form, bytes, length, more, ...rest] of parts) {
    const text = length < 0 ? undefined : body.slice(taken, (taken += length));
    frames.push({
      capture: "",
      seq: seqOf(row) + seq,
      at: at + laterAt,
      mono: (micros + laterMicros) / 1000,
      kind: kinds[form >> 3] ?? "gap",
      leg: (form & 4) === 0 ? "client" : "upstream",
      passing: (form & 2) === 0 ? "received" : "sent",
      direction: (form & 1) === 0 ? "c2s" : "s2c",
      exchange,
      operation: shared === 0 ? exchange : shared,
      bytes,
      body: text,
      ...oldMembers(more, rest, frames),
    });
  }
  return frames;
}

function oldMembers(more: unknown, rest: readonly unknown[], frames: readonly Frame[]): Partial<Frame> {
  if (typeof more === "number") {
    const { seq, id, method, target, outcome } = frames[more] ?? {};
    return { same: seq, id, method, target, outcome };
  }
  if (typeof more === "object" && more !== null) return more;
  const [id, method, target] = [more, ...rest].map((one) => (typeof one === "string" ? one : undefined));
  return { id, method, target, outcome: outcomes[Number(rest[2] ?? 0)] };
}
