import { type ExchangeRecord, isOfGateway } from "../../../recorder/contract.ts";
import { createStatsCounter } from "../../../recorder/store/stats.ts";
import type { Figures } from "../wire.ts";
import { count, newCounter, percentiles } from "./counter.ts";
import { quoted } from "./session-list.ts";

const bucketCount = 60;
const maxSlowest = 10;
const [maxRefusals, maxShownRefusals] = [1000, 20];

/** Counts exchanges of a window. */
export function createFigures({ from, to }: { readonly from: number; readonly to: number }) {
  const step = Math.max(1, (to - from) / bucketCount);
  const total = newCounter();
  const buckets = Array.from({ length: bucketCount }, newCounter);
  const refusals = new Map<string, { readonly by: string; readonly filter: string; count: number }>();
  const targets = createStatsCounter();
  let slowest: ExchangeRecord[] = [];

  /** By the rule of a policy, or by the code of the gateway's own refusal. */
  function countRefusal({ rule, gatewayCode = "unknown" }: ExchangeRecord): void {
    const by = rule ?? gatewayCode;
    const filter = rule === undefined ? `gateway:${quoted(gatewayCode)} !rule:*` : `rule:${quoted(rule)}`;
    const known = refusals.get(filter);
    if (known !== undefined) known.count++;
    else if (refusals.size < maxRefusals) refusals.set(filter, { by, filter, count: 1 });
  }

  return {
    add: (exchange: ExchangeRecord): void => {
      targets.add(exchange);
      const { kind, direction, at, state, durationMs } = exchange;
      if (kind !== "request" || direction !== "c2s" || isOfGateway(exchange)) return;
      count(total, exchange);
      const bucket = buckets[Math.min(bucketCount - 1, Math.floor((at - from) / step))];
      if (bucket !== undefined) count(bucket, exchange);
      if (state === "refused") countRefusal(exchange);
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
      refusals: [...refusals.values()].toSorted((one, other) => other.count - one.count).slice(0, maxShownRefusals),
    }),
  };
}

function slowestOf(exchanges: readonly ExchangeRecord[]): ExchangeRecord[] {
  return exchanges.toSorted((a, b) => (b.durationMs ?? 0) - (a.durationMs ?? 0)).slice(0, maxSlowest);
}
