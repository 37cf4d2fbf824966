import { join } from "node:path";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";

import { openSqliteReader } from "../src/recorder/store/sqlite.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput } from "./load/throughput.ts";
import type { BenchRow } from "./row.ts";

const megabyte = 1024 * 1024;
/** By then V8 has given both the same room for what is young; one gets it sooner than the other, and it is 50 MB. */
const settled = Number(process.env["RECORDER_BENCH_SETTLED"] ?? 450_000);

/** What recording costs: the same gateway with it and without, in one run, nothing lost. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-bench-recorder-"));
  const file = join(folder, "traffic.sqlite");
  const seconds = Number(process.env["RECORDER_BENCH_SECONDS"] ?? 1);
  const rounds = Number(process.env["RECORDER_BENCH_ROUNDS"] ?? 15);
  try {
    using rig = await createRig();
    await using upstream = await startUpstream(rig);
    await using generator = rig.startGenerator();
    await using plain = await startGateway(rig, { url: upstream.url }, "warn");
    const recording = await startGateway(rig, { url: upstream.url }, "warn", { record: { file } });
    const contenders = [
      { name: "recording off", server: plain },
      { name: "recording on", server: recording },
    ];
    const plan = { connections: 16, rounds, seconds };
    for (const { server } of contenders) {
      const target = { url: server.url, era: "legacy" } as const;
      await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
    }
    const figures = await measureThroughput(generator, contenders, { ...plan, era: "legacy" });
    for (const { server } of contenders) {
      const target = { url: server.url, era: "legacy" } as const;
      const { connections } = plan;
      await generator.run({ kind: "closed-loop", target, connections, seconds: 120, requests: settled });
    }
    const memory = (await recording.collectedUsage()).rss - (await plain.collectedUsage()).rss;
    // Its end writes what still waits.
    await recording[Symbol.asyncDispose]();
    await using reader = await openSqliteReader(file, { wait: async () => {} });
    const [capture] = await reader.captures();
    return [
      ...contenders.map(({ name }) => ({
        name: `calls, ${name}`,
        value: medianOf(figures(name), ({ perSecond }) => perSecond),
        unit: "requests/s",
        note: `${medianOf(figures(name), ({ cpuMicros }) => cpuMicros).toFixed(1)} µs CPU a request, the writer's thread included`,
      })),
      {
        name: "throughput with recording on",
        value: medianOfPairs(
          figures("recording on"),
          figures("recording off"),
          (on, off) => on.perSecond / off.perSecond,
        ),
        unit: "× recording off",
        threshold: { min: 0.7 },
      },
      {
        name: "frames lost or left without a body",
        value: capture === undefined ? Number.NaN : capture.lost + capture.omitted,
        unit: "frames",
        threshold: { max: 0 },
        note: `of ${capture?.frames ?? 0}`,
      },
      {
        name: "RSS over recording off",
        value: memory / megabyte,
        unit: "MB",
        threshold: { max: 80 },
        note: `both after ${settled.toLocaleString("en")} more calls and a garbage collection`,
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
