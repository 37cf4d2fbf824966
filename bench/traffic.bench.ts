import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { replayPolicy } from "../src/gateway/evaluation/recording-evaluation.ts";
import { parseConfig } from "../src/config/load.ts";
import type { CaptureRecord, FilterCondition, Frame } from "../src/recorder/contract.ts";
import type { CaptureLine, RecordStore } from "../src/recorder/store/store-contract.ts";
import { parseTrafficFilter } from "../src/recorder/filter/parse.ts";
import { readCaptureFile, writeCaptureFile } from "../src/recorder/store/capture-file.ts";
import { openSqliteStore } from "../src/recorder/store/sqlite.ts";
import { median } from "./measure.ts";
import type { BenchRow } from "./row.ts";

/** Filling a store with a million exchanges takes minutes. */
export const isOnDemand = true;

const exchanges = Number(process.env["TRAFFIC_BENCH_EXCHANGES"] ?? "1000000");
const replayed = Math.min(exchanges, 100_000);
const began = Date.UTC(2026, 10, 1);
const batch = 1000;
const rounds = 5;

const capture: CaptureRecord = {
  id: "bench",
  format: 1,
  writer: "bench",
  startedAt: began,
  frames: 0,
  bytes: 0,
  lost: 0,
  omitted: 0,
  redacted: 0,
  rules: [],
};

/** How long the first page of a search takes over a million exchanges, and a policy over a hundred thousand. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bench-traffic-"));
  try {
    const options = { wait: async () => {} };
    await using store = await openSqliteStore({ file: join(folder, "traffic.sqlite") }, options);
    const started = performance.now();
    await fill(store);
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

async function fill(store: RecordStore): Promise<void> {
  for (let from = 0; from < exchanges; from += batch) {
    const frames: Frame[] = [];
    for (let index = from; index < Math.min(from + batch, exchanges); index++) frames.push(...framesOf(index));
    await store.append({ capture: { ...capture, frames: (from + batch) * 4 }, frames });
  }
}

async function* someLines(): AsyncIterable<CaptureLine> {
  yield { type: "capture", ...capture };
  for (let index = 0; index < replayed; index++) {
    for (const frame of framesOf(index)) yield { type: "frame", ...frame };
  }
  yield { type: "end", capture: capture.id, frames: replayed * 4, exchanges: 0 };
}

/** One call as a gateway writes it: four frames, two of them only repeat another. */
function framesOf(index: number): readonly Frame[] {
  const exchange = `x${index.toString(36)}`;
  const target = `tool_${index % 50}`;
  const mono = index * 800;
  const seq = index * 4;
  const isError = index % 40 === 0;
  const text = index % 100_000 === 5 ? "needle" : "crate";
  const request = JSON.stringify({
    jsonrpc: "2.0",
    id: index,
    method: "tools/call",
    params: { name: target, arguments: { amount: index % 1000, note: `${text} number ${index}` } },
  });
  const answer = JSON.stringify({
    jsonrpc: "2.0",
    id: index,
    result: { content: [{ type: "text", text: `weighed ${index} kg` }], isError },
  });
  const common = {
    capture: capture.id,
    exchange,
    operation: exchange,
    direction: "c2s",
    id: `n:${index}`,
  } as const;
  const named = { method: "tools/call", target } as const;
  const context = {
    route: index % 3 === 0 ? "files" : "harbor",
    principal: `agent-${index % 20}`,
    session: `s${index % 500}`,
    revision: "2025-11-25",
    transport: "http",
  };
  const ends = { at: began + mono + (index % 1000), mono: mono + (index % 1000), bytes: answer.length };
  const outcome = isError ? "tool_error" : "ok";
  return [
    {
      ...common,
      ...named,
      seq: seq + 1,
      at: began + mono,
      mono,
      kind: "request",
      leg: "client",
      passing: "received",
      context,
      bytes: request.length,
      body: request,
    },
    {
      ...common,
      ...named,
      seq: seq + 2,
      at: began + mono,
      mono,
      kind: "request",
      leg: "upstream",
      passing: "sent",
      bytes: request.length,
      same: seq + 1,
    },
    {
      ...common,
      ...ends,
      seq: seq + 3,
      kind: "result",
      leg: "upstream",
      passing: "received",
      body: answer,
      outcome,
    },
    {
      ...common,
      ...ends,
      seq: seq + 4,
      kind: "result",
      leg: "client",
      passing: "sent",
      same: seq + 3,
      outcome,
    },
  ];
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
