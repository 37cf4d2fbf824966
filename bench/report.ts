import type { BenchRow } from "./row.ts";

/** Prints figures with their bounds, and returns how many miss theirs. */
export function printRows(rows: readonly BenchRow[]): number {
  for (const row of rows) {
    const verdict = row.missing !== undefined ? "none" : misses(row) ? "MISS" : "ok  ";
    console.log(`  ${verdict} ${row.name.padEnd(62)} ${row.missing ?? format(row)}`);
  }
  return rows.filter(misses).length;
}

function misses({ value, threshold, missing }: BenchRow): boolean {
  if (missing !== undefined) return false;
  if (Number.isNaN(value)) return true;
  return value < (threshold?.min ?? Number.NEGATIVE_INFINITY) || value > (threshold?.max ?? Number.POSITIVE_INFINITY);
}

function format({ value, unit, threshold, note }: BenchRow): string {
  const bounds = [
    ...(threshold?.min === undefined ? [] : [`at least ${threshold.min}`]),
    ...(threshold?.max === undefined ? [] : [`at most ${threshold.max}`]),
  ].join(", ");
  const number = Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
  return [`${number} ${unit}`, ...(bounds === "" ? [] : [`(${bounds})`]), ...(note === undefined ? [] : [note])].join(
    "  ",
  );
}
