import type { ExchangeRecord } from "../contract.ts";
import type { StatsRow } from "../store-contract.ts";

const maxRows = 100;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

/** Requests by route, method and target, the most frequent first. */
export function statsRows(exchanges: readonly ExchangeRecord[]): readonly StatsRow[] {
  const requests = exchanges.filter(({ kind }) => kind === "request");
  const groups = Map.groupBy(requests, ({ route, method, target = "" }) =>
    JSON.stringify([route, method, target]),
  );
  return [...groups.values()]
    .map(rowOf)
    .toSorted((a, b) => b.count - a.count)
    .slice(0, maxRows);
}

function rowOf(group: readonly ExchangeRecord[]): StatsRow {
  const durations = group.flatMap(({ durationMs }) => durationMs ?? []).toSorted((a, b) => a - b);
  const [first] = group;
  const count = (states: (state: string) => boolean): number =>
    group.filter(({ state }) => states(state)).length;
  const times =
    durations.length === 0
      ? {}
      : {
          p50Ms: nearestRank(durations, 0.5),
          p95Ms: nearestRank(durations, 0.95),
          p99Ms: nearestRank(durations, 0.99),
          maxMs: durations.at(-1) ?? 0,
        };
  return {
    route: first?.route ?? "",
    method: first?.method ?? "",
    ...(first?.target === undefined ? {} : { target: first.target }),
    count: group.length,
    errors: count((state) => failures.has(state)),
    refused: count((state) => state === "refused"),
    ...times,
    bytes: group.reduce((sum, { requestBytes, answerBytes }) => sum + requestBytes + answerBytes, 0),
  };
}

/** The smallest value that at least this share of the sorted values does not exceed. */
export function nearestRank(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
}
