// Runs the benchmarks and fails where a figure misses its threshold: npm run bench, npm run bench -- parse sse.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { BenchRow } from "./row.ts";

interface Bench {
  readonly run: () => Promise<BenchRow[]>;
}

const suffix = ".bench.ts";
const all = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(suffix))
  .map((file) => file.slice(0, -suffix.length));
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`bench: no benchmark is called ${unknown.join(", ")}; there are ${all.join(", ")}`);
  process.exit(2);
}

let missed = 0;
for (const name of wanted.length > 0 ? wanted : all) {
  // The file names come from this folder, and each exports `run`.
  const bench = (await import(join(import.meta.dirname, `${name}${suffix}`))) as Bench;
  console.log(name);
  for (const row of await bench.run()) {
    const isMissed = misses(row);
    if (isMissed) missed++;
    console.log(`  ${isMissed ? "MISS" : "ok  "} ${row.name.padEnd(62)} ${format(row)}`);
  }
}
console.log(missed === 0 ? "all thresholds kept" : `${missed} thresholds missed`);
process.exitCode = missed === 0 ? 0 : 1;

function misses({ value, threshold }: BenchRow): boolean {
  if (Number.isNaN(value)) return true;
  return (
    value < (threshold?.min ?? Number.NEGATIVE_INFINITY) ||
    value > (threshold?.max ?? Number.POSITIVE_INFINITY)
  );
}

function format({ value, unit, threshold, note }: BenchRow): string {
  const bounds = [
    ...(threshold?.min === undefined ? [] : [`at least ${threshold.min}`]),
    ...(threshold?.max === undefined ? [] : [`at most ${threshold.max}`]),
  ].join(", ");
  const number = Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2);
  return [
    `${number} ${unit}`,
    ...(bounds === "" ? [] : [`(${bounds})`]),
    ...(note === undefined ? [] : [note]),
  ].join("  ");
}
