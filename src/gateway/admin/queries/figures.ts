import type { ExchangeRecord } from "../../../recorder/contract.ts";
import { createStatsCounter } from "../../../recorder/store/stats.ts";
import type { Figures } from "../wire.ts";
import { count, newCounter, percentiles } from "./counter.ts";

const bucketCount = 60;
const maxSlowest = 10;
const maxRules = 20;

/** Counts exchanges of a window. */
export function createFigures({ from, to }: { readonly from: number; readonly to: number }) {
  const step = Math.max(1, (to - from) / bucketCount);
  const total = newCounter();
  const buckets = Array.from({ length: bucketCount }, newCounter);
  const rules = new Map<string, number>();
  const targets = createStatsCounter();
  let slowest: ExchangeRecord[] = [];

  return {
    add: (exchange: ExchangeRecord): void => {
      targets.add(exchange);
      const { kind, direction, at, state, rule, durationMs } = exchange;
      if (kind !== "request" || direction !== "c2s") return;
      count(total, exchange);
      const bucket = buckets[Math.min(bucketCount - 1, Math.floor((at - from) / step))];
      if (bucket !== undefined) count(bucket, exchange);
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
      slowest: slowestOf(slowest),
      refusals: [...rules]
        .map(([rule, refused]) => ({ rule, count: refused }))
        .toSorted((one, other) => other.count - one.count)
        .slice(0, maxRules),
    }),
  };
}

function slowestOf(exchanges: readonly ExchangeRecord[]): ExchangeRecord[] {
  return exchanges.toSorted((a, b) => (b.durationMs ?? 0) - (a.durationMs ?? 0)).slice(0, maxSlowest);
}
