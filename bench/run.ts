// Runs the benchmarks and fails where a figure misses its threshold: npm run bench, npm run bench -- parse sse. With --save
// the figures are kept in bench/figures/ for the pages that show them.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { saveFigures } from "./figures.ts";
import { printRows } from "./report.ts";
import type { BenchRow } from "./row.ts";

interface Bench {
  readonly run: () => Promise<BenchRow[]>;
  /** Only runs when it is named. */
  readonly isOnDemand?: boolean;
}

const suffix = ".bench.ts";
const all = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith(suffix))
  .map((file) => file.slice(0, -suffix.length));
const isSaved = process.argv.includes("--save");
const wanted = process.argv.slice(2).filter((word) => word !== "--save");
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) {
  console.error(`bench: no benchmark is called ${unknown.join(", ")}; there are ${all.join(", ")}`);
  process.exit(2);
}

let missed = 0;
for (const name of wanted.length > 0 ? wanted : all) {
  // The file names come from this folder, and each exports `run`.
  const bench = (await import(join(import.meta.dirname, `${name}${suffix}`))) as Bench;
  if (bench.isOnDemand === true && wanted.length === 0) continue;
  console.log(name);
  const rows = await bench.run();
  missed += printRows(rows);
  if (isSaved) saveFigures(name, rows);
}
console.log(missed === 0 ? "all thresholds kept" : `${missed} thresholds missed`);
process.exitCode = missed === 0 ? 0 : 1;
