import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { BigJob, BigResult } from "./big/caller.ts";
import { bigShapes } from "./big/messages.ts";
import { startBaseline, startGateway } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Generator, Rig, Server } from "./load/rig.ts";
import { interleave, medianOf, medianOfPairs, quantile } from "./load/rounds.ts";
import type { BenchRow } from "./row.ts";
import { tenRules } from "./ten-rules.ts";
import { startWorker } from "./worker.ts";
import type { Worker } from "./worker.ts";

type Shape = keyof typeof bigShapes;
type Caller = Worker<BigJob, BigResult>;

/** Somebody who passes big messages on. */
interface Contender {
  readonly name: "gateway" | "pass-through";
  readonly server: Server;
}

interface Flow {
  readonly perSecond: number;
  readonly cpuMsPerMegabyte: number;
}

const rounds = 15;
const warmups = 3;
const seconds = 0.5;

/** Big messages beside the pass-through: bytes a second, memory, and what other calls notice of it. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await rig.startServer(ownProcess("upstream"));
  await using caller = startWorker<BigJob, BigResult>(new URL("big/caller.ts", import.meta.url));
  await using gateway = await startBigGateway(rig, upstream);
  await using ruled = await startBigGateway(rig, upstream, { policy: tenRules });
  await using whole = await startBaseline(rig, upstream.url);
  await using streaming = await rig.startServer([...ownProcess("pass-through"), upstream.url]);
  const rows: BenchRow[] = [];
  for (const shape of ["arguments1", "arguments16", "result1", "result16"] as const)
    rows.push(await flowRow(caller, shape, gateway, whole));
  rows.push(await flowRow(caller, "events", gateway, streaming));
  rows.push(await flowRow(caller, "list", ruled, whole));
  await using generator = rig.startGenerator();
  rows.push(memoryRow(gateway, whole), await otherCallsRow(caller, generator, gateway, whole));
  return rows;
}

async function startBigGateway(rig: Rig, { url }: Server, more: Readonly<Record<string, unknown>> = {}) {
  return startGateway(rig, { url }, "warn", { limits: { bodyBytes: 64 << 20 }, ...more });
}

async function flowRow(caller: Caller, shape: Shape, gateway: Server, passThrough: Server): Promise<BenchRow> {
  const { name } = bigShapes[shape];
  console.error(`  measuring: ${name}`);
  const contenders: Contender[] = [
    { name: "gateway", server: gateway },
    { name: "pass-through", server: passThrough },
  ];
  const flow = async ({ server }: Contender): Promise<Flow> => {
    const before = await server.usage();
    const { megabytes, seconds: took } = await caller.run({ url: server.url, shape, connections: 2, seconds });
    const after = await server.usage();
    return {
      perSecond: megabytes / took,
      cpuMsPerMegabyte: (after.cpuMicros - before.cpuMicros) / 1000 / megabytes,
    };
  };
  // What runs for the first time is compiled.
  for (let round = 0; round < warmups; round += 1) for (const contender of contenders) await flow(contender);
  const flows = await interleave(contenders, rounds, flow);
  const [ours, theirs] = [flows("gateway"), flows("pass-through")];
  const cpu = medianOfPairs(ours, theirs, (our, their) => our.cpuMsPerMegabyte / their.cpuMsPerMegabyte);
  const millis = medianOf(ours, ({ cpuMsPerMegabyte }) => cpuMsPerMegabyte).toFixed(2);
  return {
    name,
    value: medianOfPairs(ours, theirs, (our, their) => our.perSecond / their.perSecond),
    unit: "× the bytes a second of the pass-through",
    threshold: { min: 0.8 },
    note: `${medianOf(ours, ({ perSecond }) => perSecond).toFixed(0)} MB/s, ${millis} ms CPU a MB, ${cpu.toFixed(2)} × its CPU`,
  };
}

/** The most that either needed while the messages above went through, two of 16 MB at a time. */
function memoryRow(gateway: Server, passThrough: Server): BenchRow {
  const [ours, theirs] = [peakMegabytes(gateway), peakMegabytes(passThrough)];
  return {
    name: "most memory with two messages of 16 MB at a time",
    value: ours / theirs,
    unit: "× the pass-through",
    threshold: { max: 1.5 },
    note: `${ours.toFixed(0)} MB against ${theirs.toFixed(0)} MB`,
  };
}

/** How much longer other calls take while a message of 1 MB follows the other, as against none. */
async function otherCallsRow(
  caller: Caller,
  generator: Generator,
  gateway: Server,
  passThrough: Server,
): Promise<BenchRow> {
  console.error("  measuring: other calls meanwhile");
  const contenders: Contender[] = [
    { name: "gateway", server: gateway },
    { name: "pass-through", server: passThrough },
  ];
  for (const { server } of contenders) {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: 4, streams: false });
  }
  const p99Of = async ({ server }: Contender): Promise<number> => {
    const target = { url: server.url, era: "legacy" } as const;
    const calls = { kind: "fixed-rate", target, connections: 8, rate: 200, seconds: 2 } as const;
    return quantile((await generator.run(calls)).latencies, 0.99);
  };
  const latencies = await interleave(contenders, 7, async (contender) => {
    const quiet = await p99Of(contender);
    const big = caller.run({ url: contender.server.url, shape: "result1", connections: 1, seconds: 2.5 });
    const meanwhile = await p99Of(contender);
    await big;
    return { quiet, meanwhile };
  });
  const [ours, theirs] = [latencies("gateway"), latencies("pass-through")];
  const note = (of: typeof ours): string =>
    `${medianOf(of, ({ meanwhile }) => meanwhile).toFixed(1)} ms (${medianOf(of, ({ quiet }) => quiet).toFixed(1)} without)`;
  return {
    name: "p99 of other calls while results of 1 MB follow each other",
    value: medianOfPairs(ours, theirs, (our, their) => our.meanwhile / their.meanwhile),
    unit: "× the pass-through",
    threshold: { max: 2 },
    note: `${note(ours)} against ${note(theirs)}`,
  };
}

/** What the process had in memory at most, and forgets it. */
function peakMegabytes({ pid }: Server): number {
  const kilobytes = /VmHWM:\s+(\d+)/u.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
  return Number(kilobytes) / 1024;
}

function ownProcess(name: "upstream" | "pass-through"): readonly string[] {
  return [process.execPath, fileURLToPath(new URL(`big/${name}.ts`, import.meta.url))];
}
