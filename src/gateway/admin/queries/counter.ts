import type { ExchangeRecord } from "../../../recorder/contract.ts";
import { nearestRank } from "../../../recorder/store/stats.ts";

const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

/** Requests, and how they went. */
export interface Counter {
  count: number;
  errors: number;
  refused: number;
  readonly durations: number[];
}

/** An empty counter. */
export function newCounter(): Counter {
  return { count: 0, errors: 0, refused: 0, durations: [] };
}

/** Counts a request. */
export function count(counter: Counter, { state, durationMs }: ExchangeRecord): void {
  counter.count++;
  if (failures.has(state)) counter.errors++;
  if (state === "refused") counter.refused++;
  if (durationMs !== undefined) counter.durations.push(durationMs);
}

/** The latencies of what was counted. */
export function percentiles({ durations }: Pick<Counter, "durations">): {
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  readonly p99Ms?: number;
} {
  if (durations.length === 0) return {};
  const sorted = durations.toSorted((one, other) => one - other);
  return { p50Ms: nearestRank(sorted, 0.5), p95Ms: nearestRank(sorted, 0.95), p99Ms: nearestRank(sorted, 0.99) };
}
