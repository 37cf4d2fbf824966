import { type CaptureRecord, type ExchangeRecord, isOfGateway } from "../contract.ts";
import type { StatsRow, StoreStats } from "./store-contract.ts";

/** Counts exchanges by route, method and target. */
export interface StatsCounter {
  add(exchange: ExchangeRecord): void;
  /** How many exchanges were added. */
  readonly count: number;
  /** Requests by route, method and target, the most frequent first. */
  rows(): readonly StatsRow[];
}

interface Group {
  readonly route: string;
  readonly method: string;
  readonly target: string | undefined;
  count: number;
  errors: number;
  refused: number;
  bytes: number;
  readonly durations: number[];
}

const maxRows = 100;
/** Names beyond this many are counted together, so that clients cannot fill the memory by inventing names. */
const maxGroups = 10_000;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

/** Makes an empty counter. */
export function createStatsCounter(): StatsCounter {
  const groups = new Map<string, Group>();
  let count = 0;

  function groupOf({ route, method, target: named }: ExchangeRecord): Group {
    // Every task has its own id; together they are one row.
    const target = method.startsWith("tasks/") ? undefined : named;
    const key = JSON.stringify([route, method, target]);
    const isOther = !groups.has(key) && groups.size >= maxGroups;
    const names = isOther ? { route: "", method: "others", target: undefined } : { route, method, target };
    const group = groups.get(isOther ? "" : key) ?? {
      ...names,
      count: 0,
      errors: 0,
      refused: 0,
      bytes: 0,
      durations: [],
    };
    groups.set(isOther ? "" : key, group);
    return group;
  }

  return {
    add: (exchange) => {
      count++;
      const { kind, state, durationMs, requestBytes, answerBytes } = exchange;
      // What clients asked for, each once.
      if (kind !== "request" || isOfGateway(exchange)) return;
      const group = groupOf(exchange);
      group.count++;
      if (failures.has(state)) group.errors++;
      if (state === "refused") group.refused++;
      group.bytes += requestBytes + answerBytes;
      if (durationMs !== undefined) group.durations.push(durationMs);
    },
    get count() {
      return count;
    },
    rows: () =>
      [...groups.values()]
        .toSorted((one, other) => other.count - one.count)
        .slice(0, maxRows)
        .map(toRow),
  };
}

function toRow({ durations, target, ...counts }: Group): StatsRow {
  const sorted = durations.toSorted((one, other) => one - other);
  return {
    ...counts,
    ...(target === undefined ? {} : { target }),
    ...(sorted.length === 0
      ? {}
      : {
          p50Ms: nearestRank(sorted, 0.5),
          p95Ms: nearestRank(sorted, 0.95),
          p99Ms: nearestRank(sorted, 0.99),
          maxMs: nearestRank(sorted, 1),
        }),
  };
}

/** The smallest value that at least this share of the sorted values does not exceed. */
export function nearestRank(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

/** What captures say was lost, left out and redacted in them. */
export function captureTotals(captures: readonly CaptureRecord[]): Pick<StoreStats, "lost" | "omitted" | "redacted"> {
  const sum = (member: "lost" | "omitted" | "redacted"): number =>
    captures.reduce((total, capture) => total + capture[member], 0);
  return { lost: sum("lost"), omitted: sum("omitted"), redacted: sum("redacted") };
}
