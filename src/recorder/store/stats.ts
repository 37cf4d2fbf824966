import { captureFormat, type ExchangeRecord, type FilterCondition } from "../contract.ts";
import type { RecordReader, StatsRow, StoreStats } from "./store-contract.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { type CaptureIds, findExchanges } from "./find-exchanges.ts";
import { toCapture } from "./columns.ts";

/** What is counted for one route, method and target. */
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

const mostRows = 100;
/** Names beyond this many are counted together, so that a flood of them cannot fill the memory. */
const maxGroups = 10_000;

/** Makes the figures of a store. */
export function createStats(database: SqlDatabase, names: CaptureIds): RecordReader["stats"] {
  async function rowsOf(where: FilterCondition | undefined): Promise<{ rows: readonly StatsRow[]; count: number }> {
    const groups = new Map<string, Group>();
    let count = 0;
    for await (const { exchange } of findExchanges(database, names, {
      where,
      order: "position",
      chunk: 1000,
    })) {
      count++;
      const { route, method, target, kind, state, durationMs, requestBytes, answerBytes } = exchange;
      if (kind !== "request") continue;
      const key = JSON.stringify([route, method, target]);
      const isOther = !groups.has(key) && groups.size >= maxGroups;
      const group = groups.get(isOther ? "" : key) ?? {
        ...(isOther ? { route: "", method: "others", target: undefined } : { route, method, target }),
        count: 0,
        errors: 0,
        refused: 0,
        bytes: 0,
        durations: [],
      };
      groups.set(isOther ? "" : key, group);
      group.count++;
      if (state === "error" || state === "tool_error" || state === "failed" || state === "abandoned") group.errors++;
      if (state === "refused") group.refused++;
      group.bytes += requestBytes + answerBytes;
      if (durationMs !== undefined) group.durations.push(durationMs);
    }
    const most = [...groups.values()].toSorted((one, other) => other.count - one.count).slice(0, mostRows);
    return { rows: most.map(toRow), count };
  }

  return async (where): Promise<StoreStats> => {
    const captures = (await database.all("SELECT record FROM capture ORDER BY number")).map(toCapture);
    const [ends] = await database.all(
      "SELECT (SELECT MIN(at) FROM exchange_own) AS oldest, (SELECT MAX(at) FROM exchange_own) AS newest, (SELECT COALESCE(SUM(stored), 0) FROM capture) AS frames, (SELECT COALESCE(SUM(last_seq - indexed_seq), 0) FROM capture) AS unindexed",
    );
    const { rows, count } = await rowsOf(where);
    const sum = (member: "lost" | "omitted" | "redacted"): number =>
      captures.reduce((total, capture) => total + capture[member], 0);
    const time = (name: string) => {
      const value = ends?.[name];
      return value === null || value === undefined ? {} : { [name]: Number(value) };
    };
    return {
      format: captureFormat,
      location: database.location,
      captures: captures.length,
      exchanges: count,
      frames: Number(ends?.["frames"] ?? 0),
      bytes: await database.bytes(),
      lost: sum("lost"),
      omitted: sum("omitted"),
      redacted: sum("redacted"),
      ...time("oldest"),
      ...time("newest"),
      unindexed: Number(ends?.["unindexed"] ?? 0),
      rows,
    };
  };
}

function toRow({ route, method, target, count, errors, refused, bytes, durations }: Group): StatsRow {
  const ordered = Float64Array.from(durations).toSorted();
  const rank = (share: number) => ordered[Math.max(Math.ceil(share * ordered.length) - 1, 0)] ?? 0;
  return {
    route,
    method,
    ...(target === undefined ? {} : { target }),
    count,
    errors,
    refused,
    ...(ordered.length === 0 ? {} : { p50Ms: rank(0.5), p95Ms: rank(0.95), p99Ms: rank(0.99), maxMs: rank(1) }),
    bytes,
  };
}

const maxRows = 100;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

/** Requests by route, method and target, the most frequent first. */
export function statsRows(exchanges: readonly ExchangeRecord[]): readonly StatsRow[] {
  const requests = exchanges.filter(({ kind }) => kind === "request");
  const groups = Map.groupBy(requests, ({ route, method, target = "" }) => JSON.stringify([route, method, target]));
  return [...groups.values()]
    .map(rowOf)
    .toSorted((a, b) => b.count - a.count)
    .slice(0, maxRows);
}

function rowOf(group: readonly ExchangeRecord[]): StatsRow {
  const durations = group.flatMap(({ durationMs }) => durationMs ?? []).toSorted((a, b) => a - b);
  const [first] = group;
  const count = (states: (state: string) => boolean): number => group.filter(({ state }) => states(state)).length;
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
