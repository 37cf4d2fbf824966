import { join } from "node:path";
import type { ClientsJob, ClientsResult } from "./cells/clients.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import { interleave, medianOf, medianOfPairs, quantile } from "./load/rounds.ts";
import type { BenchRow } from "./row.ts";
import { tenRules } from "./ten-rules.ts";
import { startWorker } from "./worker.ts";

/**
 * What joshrotenberg/mcp-proxy 0.4.1 (Rust) publishes of itself as shares of direct calls, by sessions; the same nine
 * cells, on another machine and with other clients.
 */
const published = { minimal: { 1: 0.54, 8: 0.52, 32: 0.4 }, loaded: { 1: 0.52, 8: 0.52, 32: 0.36 } } as const;

const sessionCounts = [1, 8, 32] as const;
const rounds = 5;
/** 2,000 in each cell. */
const callsPerRound = 400;

/** Calls of the official SDK's clients: to the server itself, through a bare gateway, and through one with everything on. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  const { url } = upstream;
  await using minimal = await startGateway(rig, { url }, "warn");
  const file = join(rig.file("cells", ""), "..", "cells.sqlite");
  await using loaded = await startGateway(rig, { url }, "info", { policy: tenRules, record: { file } });
  await using clients = startWorker<ClientsJob, ClientsResult>(new URL("cells/clients.ts", import.meta.url));
  const contenders = [
    { name: "direct", server: upstream },
    { name: "minimal", server: minimal },
    { name: "loaded", server: loaded },
  ] as const;
  const rows: BenchRow[] = [];
  for (const sessions of sessionCounts) {
    console.error(`  measuring: ${sessions} sessions`);
    const call = async ({ server }: (typeof contenders)[number]) => {
      const result = await clients.run({ url: server.url, sessions, calls: callsPerRound });
      return {
        perSecond: result.perSecond,
        p50: quantile(result.latencies, 0.5),
        p99: quantile(result.latencies, 0.99),
      };
    };
    for (const contender of contenders) await call(contender);
    const figuresOf = await interleave(contenders, rounds, call);
    for (const { name } of contenders) {
      const of = figuresOf(name);
      const share = medianOfPairs(of, figuresOf("direct"), (our, their) => our.perSecond / their.perSecond);
      const figures = {
        sessions,
        "requests/s": medianOf(of, ({ perSecond }) => perSecond),
        "p50 ms": medianOf(of, ({ p50 }) => p50),
        "p99 ms": medianOf(of, ({ p99 }) => p99),
        "× direct": share,
      };
      rows.push({
        name: `${name}, ${sessions} session${sessions === 1 ? "" : "s"}`,
        value: share,
        unit: "× direct",
        ...(name === "direct" ? {} : { threshold: { min: published[name][sessions] } }),
        note: `${figures["requests/s"].toFixed(0)} requests/s, p50 ${figures["p50 ms"].toFixed(2)} ms, p99 ${figures["p99 ms"].toFixed(2)} ms`,
        figures,
      });
    }
  }
  return rows;
}
