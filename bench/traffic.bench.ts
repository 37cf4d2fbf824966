import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { replayPolicy } from "../src/gateway/evaluation/recording-evaluation.ts";
import { parseConfig } from "../src/config/load.ts";
import type { FilterCondition } from "../src/recorder/contract.ts";
import type { CaptureLine, RecordStore } from "../src/recorder/store/store-contract.ts";
import { parseTrafficFilter } from "../src/recorder/filter/parse.ts";
import { readCaptureFile, writeCaptureFile } from "../src/recorder/store/capture-file.ts";
import { openSqliteStore } from "../src/recorder/store/sqlite.ts";
import { median } from "./measure.ts";
import { began, capture, fillStore, framesOf } from "./recorded/filled-store.ts";
import type { BenchRow } from "./row.ts";

/** Filling a store with a million exchanges takes minutes. */
export const isOnDemand = true;

const exchanges = Number(process.env["TRAFFIC_BENCH_EXCHANGES"] ?? "1000000");
const replayed = Math.min(exchanges, 100_000);
const rounds = 5;

/** How long the first page of a search takes over a million exchanges, and a policy over a hundred thousand. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bench-traffic-"));
  try {
    const options = { wait: async () => {} };
    await using store = await openSqliteStore({ file: join(folder, "traffic.sqlite") }, options);
    const started = performance.now();
    await fillStore(store, exchanges);
    const filled = performance.now() - started;
    while ((await store.index(50_000)) > 0);
    const note = `${exchanges} exchanges, noisy where others use the machine`;
    const rows: BenchRow[] = [
      { name: "filling the store", value: (exchanges / filled) * 1000, unit: "exchanges/s", note },
    ];
    const searches: readonly (readonly [string, string, number])[] = [
      ["first page, everything", "", 100],
      ["first page by tool", "tool:tool_7", 100],
      ["first page by principal and status", "principal:agent-3 status:err", 100],
      ["first page by route, newest days", "route:files since:2026-11-02", 100],
      ["first page by a rare text", "text:needle", 1000],
      ["first page by a common text", "text:crate", 1000],
      ["first page by duration", "dur:>990ms", 1000],
    ];
    for (const [name, filter, max] of searches) {
      rows.push({ name, value: await search(store, filter), unit: "ms", threshold: { max }, note });
    }
    const file = join(folder, "capture.ndjson");
    await writeCaptureFile(file, someLines());
    rows.push({
      name: "policy replay",
      value: await replayTime(file),
      unit: "s",
      threshold: { max: (10 * replayed) / 100_000 },
      note: `${replayed} exchanges from a file, five rules`,
    });
    return rows;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function* someLines(): AsyncIterable<CaptureLine> {
  yield { type: "capture", ...capture };
  for (let index = 0; index < replayed; index++) {
    for (const frame of framesOf(index)) yield { type: "frame", ...frame };
  }
  yield { type: "end", capture: capture.id, frames: replayed * 4, exchanges: 0 };
}

async function search(store: RecordStore, source: string): Promise<number> {
  const filter = parseTrafficFilter(source, { now: began });
  if (!filter.ok) throw new Error(filter.problem.message);
  const where: FilterCondition = filter.condition;
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    await store.exchanges({ where });
    times.push(performance.now() - started);
  }
  return median(times);
}

async function replayTime(file: string): Promise<number> {
  const rules = [
    { id: "no-deletes", deny: 'mcp.tool.startsWith("delete_")' },
    { id: "small", deny: 'mcp.tool == "tool_3" && mcp.arguments.amount > 500' },
    { id: "polite", deny: 'mcp.tool == "tool_4" && mcp.arguments.note.contains("needle")' },
    { id: "rest", allow: "true" },
  ];
  const results = [{ id: "mute", deny: 'mcp.tool == "tool_9"' }];
  const route = { upstream: { demo: true }, policy: { rules, results } } as const;
  const checked = parseConfig({ routes: { files: route, harbor: route } });
  if (!checked.ok) throw new Error(checked.problems.map(({ message }) => message).join());
  const started = performance.now();
  await replayPolicy(readCaptureFile(file), { config: checked.config, route: undefined, callers: new Map() });
  return (performance.now() - started) / 1000;
}
