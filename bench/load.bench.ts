import { startBaseline, startFullGateway, startGateway, startSecondBaseline, startUpstream } from "./load/gateway.ts";
import { latencyRows } from "./load/latency.ts";
import { compareMemory, megabyte, type Memory, memoryOf } from "./load/memory.ts";
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
  const requests = 200_000;
  const theirs = await memoryOf(generator, baseline, requests);
  return [
    {
      name: "RSS at start, everything on",
      value: idle / megabyte,
      unit: "MB over pass-through",
      threshold: { max: 40 },
    },
    ...compareMemory(theirs, await memoryOf(generator, gateway, requests), { requests, isJudged: false }),
    await fullMemoryRow(generator, theirs, full, requests),
  ];
}

/** With everything on, after as many requests as the baseline had; in between, nothing is collected. */
async function fullMemoryRow(generator: Generator, theirs: Memory, full: Server, requests: number): Promise<BenchRow> {
  const target = { url: full.url, era: "legacy" } as const;
  await generator.run({ kind: "hold", target, sessions: 16, streams: false });
  const limit = { requests, seconds: Number.POSITIVE_INFINITY };
  await generator.run({ kind: "closed-loop", target, connections: 16, ...limit });
  const ours = (await full.usage()).rss / megabyte;
  return {
    name: "RSS after 200,000 requests, everything on",
    value: ours - theirs.atEnd,
    unit: "MB over pass-through",
    threshold: { max: 80 },
    note: `${ours.toFixed(0)} MB against ${theirs.atEnd.toFixed(0)} MB`,
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
