import { startBaseline, startFullGateway, startGateway, startSecondBaseline, startUpstream } from "./load/gateway.ts";
import { latencyRows } from "./load/latency.ts";
import { memoryRows } from "./load/memory.ts";
import { createRig } from "./load/rig.ts";
import type { Generator, Rig, Server } from "./load/rig.ts";
import { crowdRow, firstEventRows, idleSessionRow } from "./load/streams.ts";
import { baselineCheck, throughputRows } from "./load/throughput.ts";
import { median } from "./measure.ts";
import type { BenchRow } from "./row.ts";

/** The whole gateway under load on loopback, beside the least that a proxy can do. Takes some minutes. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  return [
    await startupRow(rig, upstream, "built"),
    await startupRow(rig, upstream, "from a clone"),
    await baselineRow(rig, upstream),
    ...(await underLoad(rig, upstream)),
    ...(await afterManyRequests(rig, upstream)),
    ...(await withSessions(rig, upstream)),
  ];
}

/** How soon each kind of gateway listens, at most. Wanted of the built one: 300. */
const startMs = { built: 400, "from a clone": 600 } as const;

async function startupRow(rig: Rig, upstream: Server, kind: keyof typeof startMs): Promise<BenchRow> {
  progress(`start, ${kind}`);
  const started = kind === "built" ? rig : { ...rig, gateway: rig.clonedGateway };
  const times: number[] = [];
  for (let round = 0; round < 5; round += 1) {
    await using gateway = await startFullGateway(started, { url: upstream.url });
    times.push(gateway.startMs);
  }
  return {
    name: `listens after the start of the process, ${kind}`,
    value: median(times),
    unit: "ms",
    threshold: { max: startMs[kind] },
    note: times.map((time) => time.toFixed(0)).join(", "),
  };
}

async function baselineRow(rig: Rig, upstream: Server): Promise<BenchRow> {
  progress("the pass-through itself");
  await using generator = rig.startGenerator();
  await using baseline = await startBaseline(rig, upstream.url);
  await using second = await startSecondBaseline(rig, upstream.url);
  return await baselineCheck(generator, baseline, second);
}

async function underLoad(rig: Rig, upstream: Server): Promise<BenchRow[]> {
  await using generator = rig.startGenerator();
  await using baseline = await startBaseline(rig, upstream.url);
  await using warn = await startGateway(rig, { url: upstream.url }, "warn");
  await using info = await startGateway(rig, { url: upstream.url }, "info");
  await using full = await startFullGateway(rig, { url: upstream.url });
  progress("throughput");
  const throughput = await throughputRows(generator, baseline, { warn, info, full });
  progress("latency");
  const latency = await latencyRows(generator, baseline, warn);
  progress("first events");
  return [...throughput, ...latency, ...(await firstEventRows(generator, upstream, warn))];
}

async function afterManyRequests(rig: Rig, upstream: Server): Promise<BenchRow[]> {
  progress("memory");
  await using generator = rig.startGenerator();
  await using baseline = await startBaseline(rig, upstream.url);
  await using gateway = await startGateway(rig, { url: upstream.url }, "warn");
  await using full = await startFullGateway(rig, { url: upstream.url });
  const idle = (await full.usage()).rss - (await baseline.usage()).rss;
  return [
    {
      name: "RSS at start, everything on",
      value: idle / (1 << 20),
      unit: "MB over pass-through",
      threshold: { max: 40 },
    },
    ...(await memoryRows(generator, baseline, gateway, { requests: 200_000, isJudged: false })),
    await fullMemoryRow(generator, baseline, full),
  ];
}

/** With everything on, after as many requests as the baseline has had. */
async function fullMemoryRow(generator: Generator, baseline: Server, full: Server): Promise<BenchRow> {
  const theirs = (await baseline.usage()).rss;
  const target = { url: full.url, era: "legacy" } as const;
  await generator.run({ kind: "hold", target, sessions: 16, streams: false });
  const limit = { requests: 200_000, seconds: Number.POSITIVE_INFINITY };
  await generator.run({ kind: "closed-loop", target, connections: 16, ...limit });
  return {
    name: "RSS after 200,000 requests, everything on",
    value: ((await full.usage()).rss - theirs) / (1 << 20),
    unit: "MB over pass-through",
    threshold: { max: 80 },
  };
}

async function withSessions(rig: Rig, upstream: Server): Promise<BenchRow[]> {
  progress("sessions");
  return [await clientLegOnly(rig, upstream), ...(await bothLegs(rig, upstream))];
}

async function clientLegOnly(rig: Rig, upstream: Server): Promise<BenchRow> {
  await using generator: Generator = rig.startGenerator();
  const url = upstream.url.replace("/mcp", "/no-stream");
  await using gateway = await startGateway(rig, { url }, "warn");
  return await idleSessionRow(generator, gateway, {
    name: "idle session with a stream to the client",
    maxKilobytes: 50,
  });
}

async function bothLegs(rig: Rig, upstream: Server): Promise<BenchRow[]> {
  await using generator = rig.startGenerator();
  await using crowded = await startGateway(rig, { url: upstream.url }, "warn");
  await using quiet = await startGateway(rig, { url: upstream.url }, "warn");
  const idle = await idleSessionRow(generator, crowded, {
    name: "idle session with a stream to the client and one from the upstream",
    maxKilobytes: 100,
  });
  return [idle, await crowdRow(generator, quiet, crowded)];
}

function progress(what: string): void {
  console.error(`  measuring: ${what}`);
}
