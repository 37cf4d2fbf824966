import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import type { CallEra } from "./load/calls.ts";
import { startBareStreams, startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput, shortRounds } from "./load/throughput.ts";
import type { BenchRow } from "./row.ts";

/** Calls that are parked before anything is measured, and how many more are: what they add is what a call costs. */
const parkedBefore = 1000;
const parkedMore = 2000;
const openSessions = 1000;
const reloads = 5;

/** What it costs to stand between the eras, and to take up another configuration while everybody is there. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  return [
    ...(await bridgedRows(rig, upstream, "legacy", "modern")),
    ...(await bridgedRows(rig, upstream, "modern", "legacy")),
    await parkedRow(rig, upstream),
    await reloadRow(rig, upstream),
  ];
}

async function bridgedRows(rig: Rig, { url }: Server, era: CallEra, other: CallEra): Promise<BenchRow[]> {
  await using generator = rig.startGenerator();
  await using same = await startGateway(rig, { url, era }, "warn");
  await using bridged = await startGateway(rig, { url, era: other }, "warn");
  const contenders = [
    { name: "same era", server: same },
    { name: "bridged", server: bridged },
  ];
  const plan = { ...shortRounds, rounds: 31, era };
  if (era === "legacy") {
    for (const { server } of contenders) {
      const target = { url: server.url, era };
      await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
    }
  }
  const rounds = await measureThroughput(generator, contenders, plan);
  const cpuOf = (name: string): string => `${medianOf(rounds(name), ({ cpuMicros }) => cpuMicros).toFixed(1)} µs`;
  return [
    {
      name: `call of a ${era} client, ${other} server`,
      value: medianOfPairs(rounds("bridged"), rounds("same era"), (our, their) => our.cpuMicros / their.cpuMicros),
      unit: "× the CPU of a call within the era",
      threshold: { max: 1.5 },
      note: `${cpuOf("bridged")} against ${cpuOf("same era")}`,
    },
  ];
}

/**
 * What each further call adds when there are many, so that what the first ones make for all, such as compiled code, is no
 * part of it. Beside it what the same number of answers costs that are open with nothing around them.
 */
async function parkedRow(rig: Rig, { url }: Server): Promise<BenchRow> {
  await using generator = rig.startGenerator();
  const limits = { suspendedCalls: 5000, suspendedCallsPerPrincipal: 5000, pendingPerPrincipal: 5000 };
  await using gateway = await startGateway(rig, { url, era: "legacy" }, "warn", { limits });
  const parked = await costOfMore(gateway, async (calls) => {
    await generator.run({ kind: "park", target: { url: gateway.url, era: "modern" }, calls });
  });
  await using bare = await startBareStreams(rig, url);
  const open = await costOfMore(bare, async (count) => {
    await fetch(bare.url, { method: "POST", body: String(count) });
  });
  return {
    name: "parked call of a modern client at a legacy server over HTTP",
    value: parked.heap,
    unit: "KB of heap each",
    threshold: { max: 10 },
    note: `${parked.resident.toFixed(1)} KB resident; a bare undici pool: ${open.heap.toFixed(1)} KB of heap for the open answer alone`,
  };
}

/** Kilobytes that each of many things takes up, after there are many already. */
async function costOfMore(
  server: Server,
  add: (count: number) => Promise<void>,
): Promise<{ readonly heap: number; readonly resident: number }> {
  await add(parkedBefore);
  const before = await server.collectedUsage();
  await add(parkedMore);
  const after = await server.collectedUsage();
  const each = (bytes: number): number => bytes / 1024 / parkedMore;
  return { heap: each(after.heapUsed - before.heapUsed), resident: each(after.rss - before.rss) };
}

/** Calls at a fixed rate while the configuration changes: the longest wait is what a reload holds everybody up. */
async function reloadRow(rig: Rig, { url }: Server): Promise<BenchRow> {
  await using generator = rig.startGenerator();
  const file = rig.file("reload.json", "");
  const write = (turn: number): void => {
    const limits = { sessions: 5000, sessionsPerPrincipal: 5000, depth: 100 + turn };
    const config = {
      listen: { port: 0 },
      admin: false,
      log: { level: "info" },
      record: false,
      limits,
      upstream: { url },
    };
    writeFileSync(file, JSON.stringify(config));
  };
  write(0);
  await using gateway = await rig.startServer([...rig.gateway, "run", "--config", file]);
  const target = { url: gateway.url, era: "legacy" } as const;
  await generator.run({ kind: "hold", target, sessions: openSessions, streams: true });
  const call = async (seconds: number): Promise<number> => {
    const { latencies } = await generator.run({
      kind: "fixed-rate",
      target,
      connections: 8,
      rate: 200,
      seconds,
    });
    return Math.max(...latencies);
  };
  await call(2);
  const quiet = await call(reloads);
  const busy = call(reloads);
  for (let turn = 1; turn < reloads; turn += 1) {
    await sleep(1000);
    write(turn);
    process.kill(gateway.pid, "SIGHUP");
  }
  return {
    name: `longest wait of a call during reloads with ${openSessions} open sessions and streams`,
    value: await busy,
    unit: "ms",
    threshold: { max: 100 },
    note: `${quiet.toFixed(1)} ms without reloads`,
  };
}
