import { captureFormat, type FilterCondition } from "../contract.ts";
import { type RecordReader, type StatsRow, type StoreStats } from "../store-contract.ts";
import type { SqlDatabase } from "./database.ts";
import { findExchanges, type CaptureIds } from "./find.ts";
import { toCapture } from "./rows.ts";

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
  async function rowsOf(
    where: FilterCondition | undefined,
  ): Promise<{ rows: readonly StatsRow[]; count: number }> {
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
      if (state === "error" || state === "tool_error" || state === "failed" || state === "abandoned")
        group.errors++;
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
    ...(ordered.length === 0
      ? {}
      : { p50Ms: rank(0.5), p95Ms: rank(0.95), p99Ms: rank(0.99), maxMs: rank(1) }),
    bytes,
  };
}
