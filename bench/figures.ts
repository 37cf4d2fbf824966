import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import type { BenchRow } from "./row.ts";

/** The rows of one run of a benchmark, and what they were measured on. */
export interface SavedFigures {
  readonly date: string;
  readonly node: string;
  readonly cores: number;
  /** How many processes wanted a core at the end of the run: well above `cores`, others worked here too. */
  readonly load: number;
  readonly rows: readonly SavedRow[];
}

/** A row whose figure may be missing: JSON has no NaN. */
export type SavedRow = Omit<BenchRow, "value" | "figures"> & {
  readonly value: number | null;
  readonly figures?: Readonly<Record<string, number | null>>;
};

const folder = join(import.meta.dirname, "figures");

/** Keeps the rows of a benchmark for the pages that show them. */
export function saveFigures(bench: string, rows: readonly BenchRow[]): void {
  const saved = {
    date: new Date().toISOString().slice(0, 10),
    node: process.versions.node,
    cores: availableParallelism(),
    load: Math.round(loadavg()[0] ?? 0),
    rows,
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, `${bench}.json`), `${JSON.stringify(saved, rounded, 2)}\n`);
}

/** Reads what was last kept of a benchmark; undefined if nothing was. */
export function readFigures(bench: string): SavedFigures | undefined {
  const file = join(folder, `${bench}.json`);
  // Written by the function above, and only by it.
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as SavedFigures) : undefined;
}

/** Four digits are more than a figure is good for. */
function rounded(_key: string, value: unknown): unknown {
  return typeof value === "number" ? Number(value.toPrecision(4)) : value;
}
