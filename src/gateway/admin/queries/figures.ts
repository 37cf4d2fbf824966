import type { ExchangeRecord } from "../../../recorder/contract.ts";
import { createStatsCounter, nearestRank } from "../../../recorder/store/stats.ts";
import type { Figures } from "../wire.ts";

const bucketCount = 60;
const maxEdges = 200;
const maxSlowest = 10;
const maxRules = 20;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

interface Counter {
  count: number;
  errors: number;
  refused: number;
  readonly durations: number[];
}

/** Counts exchanges of a window. */
export function createFigures({ from, to }: { readonly from: number; readonly to: number }) {
  const step = Math.max(1, (to - from) / bucketCount);
  const total = newCounter();
  const buckets = Array.from({ length: bucketCount }, newCounter);
  const edges = new Map<string, Counter & { readonly principal: string; readonly route: string }>();
  const rules = new Map<string, number>();
  const targets = createStatsCounter();
  let slowest: ExchangeRecord[] = [];

  return {
    add: (exchange: ExchangeRecord): void => {
      targets.add(exchange);
      const { kind, direction, at, principal, route, state, rule, durationMs } = exchange;
      if (kind !== "request" || direction !== "c2s") return;
      count(total, exchange);
      const bucket = buckets[Math.min(bucketCount - 1, Math.floor((at - from) / step))];
      if (bucket !== undefined) count(bucket, exchange);
      const key = JSON.stringify([principal, route]);
      let edge = edges.get(key);
      if (edge === undefined && edges.size < maxEdges) edges.set(key, (edge = { ...newCounter(), principal, route }));
      if (edge !== undefined) count(edge, exchange);
      if (state === "refused") {
        const name = rule ?? exchange.gatewayCode ?? "limit";
        if (rules.has(name) || rules.size < 1000) rules.set(name, (rules.get(name) ?? 0) + 1);
      }
      if (durationMs === undefined) return;
      slowest.push(exchange);
      if (slowest.length >= maxSlowest * 20) slowest = slowestOf(slowest);
    },
    finish: (complete: boolean): Figures => ({
      from,
      to,
      complete,
      requests: total.count,
      errors: total.errors,
      refused: total.refused,
      ...percentiles(total),
      buckets: buckets.map((own, index) => {
        const { p95Ms } = percentiles(own);
        const { count: requests, errors, refused } = own;
        return { at: from + index * step, count: requests, errors, refused, ...(p95Ms === undefined ? {} : { p95Ms }) };
      }),
      targets: targets.rows(),
      edges: [...edges.values()]
        .toSorted((one, other) => other.count - one.count)
        .map(({ durations, ...counts }) => ({ ...counts, ...percentiles({ durations }) })),
      slowest: slowestOf(slowest),
      refusals: [...rules]
        .map(([rule, refused]) => ({ rule, count: refused }))
        .toSorted((one, other) => other.count - one.count)
        .slice(0, maxRules),
    }),
  };
}

function newCounter(): Counter {
  return { count: 0, errors: 0, refused: 0, durations: [] };
}

function count(counter: Counter, { state, durationMs }: ExchangeRecord): void {
  counter.count++;
  if (failures.has(state)) counter.errors++;
  if (state === "refused") counter.refused++;
  if (durationMs !== undefined) counter.durations.push(durationMs);
}

function percentiles({ durations }: Pick<Counter, "durations">): {
  readonly p50Ms?: number;
  readonly p95Ms?: number;
  readonly p99Ms?: number;
} {
  if (durations.length === 0) return {};
  const sorted = durations.toSorted((one, other) => one - other);
  return { p50Ms: nearestRank(sorted, 0.5), p95Ms: nearestRank(sorted, 0.95), p99Ms: nearestRank(sorted, 0.99) };
}

function slowestOf(exchanges: readonly ExchangeRecord[]): ExchangeRecord[] {
  return exchanges.toSorted((a, b) => (b.durationMs ?? 0) - (a.durationMs ?? 0)).slice(0, maxSlowest);
}
