import type { StatsRow, StoreStats } from "../recorder/store-contract.ts";
import { exitCodes } from "./exit-codes.ts";
import { colorsFor, type Colors } from "./paint.ts";
import { openReader } from "./recordings.ts";
import { printableLine } from "./text-layout.ts";
import { formatBytes, formatDate, formatMs } from "./traffic-rows.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";

/** `headgate traffic stats [FILTER]`: how many of what, and how long they took. */
export async function trafficStats({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  const stats = await reader.stats(where);
  io.out(values.json === true ? `${JSON.stringify(stats)}\n` : formatStats(stats, colorsFor(io)));
  return exitCodes.ok.code;
}

/** The figures of a store as a small table, and what is missing in it. */
function formatStats(stats: StoreStats, paint: Colors): string {
  const {
    location: place,
    exchanges,
    frames,
    bytes,
    lost,
    omitted,
    redacted,
    oldest,
    newest,
    unindexed,
  } = stats;
  const span =
    oldest === undefined || newest === undefined ? "" : `, ${formatDate(oldest)} to ${formatDate(newest)}`;
  const missing = [
    lost === 0 ? undefined : paint.red(`${lost} frames were lost`),
    omitted === 0 ? undefined : paint.yellow(`${omitted} bodies were left out`),
    redacted === 0 ? undefined : `${redacted} values were redacted`,
    unindexed === 0 ? undefined : `${unindexed} frames are not in the text index yet`,
  ].filter((part) => part !== undefined);
  const head = `${place}\n${exchanges} exchanges, ${frames} frames, ${formatBytes(bytes)}${span}\n`;
  const notes = missing.length === 0 ? "" : `${missing.join("; ")}\n`;
  return `${head}${notes}${stats.rows.length === 0 ? "" : `\n${rowsTable(stats.rows, paint)}`}`;
}

const statsHeads = [
  "ROUTE",
  "METHOD AND TARGET",
  "COUNT",
  "ERRORS",
  "REFUSED",
  "P50",
  "P95",
  "P99",
  "MAX",
  "BYTES",
] as const;

function rowsTable(rows: readonly StatsRow[], paint: Colors): string {
  const cells = rows.map(
    ({ route, method, target, count, errors, refused, p50Ms, p95Ms, p99Ms, maxMs, bytes }) => [
      printableLine(route),
      printableLine(target === undefined ? method : `${method} ${target}`),
      String(count),
      String(errors),
      String(refused),
      ...[p50Ms, p95Ms, p99Ms, maxMs].map((ms) => (ms === undefined ? "" : formatMs(ms))),
      formatBytes(bytes),
    ],
  );
  const all = [[...statsHeads], ...cells];
  const widths = statsHeads.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const lines = all.map((row) =>
    row
      .map((cell, column) =>
        column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
  const [first = "", ...others] = lines;
  return `${[paint.bold(first), ...others].join("\n")}\n`;
}
