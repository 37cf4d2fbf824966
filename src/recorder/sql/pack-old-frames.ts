import type { Frame } from "../contract.ts";
import { packFrames } from "../pack.ts";
import { captureStride, type SqlDatabase, type SqlRow, type SqlValue } from "./database.ts";
import { createInserter } from "./insert.ts";
import { packColumns, pushPack } from "./rows.ts";

const framesAtOnce = 2000;

/** Puts the frames of format 1, which had a row each, into packs; frames of an exchange that stand apart stay apart. */
export async function packOldFrames(inside: SqlDatabase): Promise<void> {
  const rows = createInserter(inside, "pack", packColumns);
  const stored = new Map<number, number>();
  let last = -1;
  for (;;) {
    const old: readonly SqlRow[] = await inside.all(
      `SELECT position, owner, head, body FROM frame WHERE position > ? ORDER BY position LIMIT ${framesAtOnce}`,
      [last],
    );
    for (const [capture, own] of byCapture(old)) {
      stored.set(capture, (stored.get(capture) ?? 0) + own.length);
      const owners = new Map<number, SqlValue>(own.map((row) => [seqOf(row), row["owner"] ?? null]));
      for (const pack of packFrames(own.map(toFrame))) {
        const owner = owners.get(pack.first) ?? null;
        pushPack(rows.row(), pack, capture, owner === null ? null : Number(owner));
        if (rows.isFull) await rows.write();
      }
    }
    last = Number(old.at(-1)?.["position"] ?? last);
    if (old.length < framesAtOnce) break;
  }
  await rows.write();
  for (const [capture, frames] of stored)
    await inside.run("UPDATE capture SET stored = ? WHERE number = ?", [frames, capture]);
}

function byCapture(rows: readonly SqlRow[]): ReadonlyMap<number, readonly SqlRow[]> {
  return Map.groupBy(rows, (row) => Math.floor(Number(row["position"]) / captureStride));
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
