import type { BenchRow } from "./row.ts";

/** Prints figures with their bounds, and returns how many miss theirs. */
export function printRows(rows: readonly BenchRow[]): number {
  for (const row of rows) {
    console.log(`  ${misses(row) ? "MISS" : "ok  "} ${row.name.padEnd(62)} ${format(row)}`);
  }
  return rows.filter(misses).length;
}

function misses({ value, threshold }: BenchRow): boolean {
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
