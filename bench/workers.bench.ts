import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

import { startGateway, startSideBySide, startUpstream } from "./load/gateway.ts";
import type { Job } from "./load/jobs.ts";
import { createRig } from "./load/rig.ts";
import type { Generator } from "./load/rig.ts";
import { interleave, medianOf, medianOfPairs } from "./load/rounds.ts";
import type { BenchRow } from "./row.ts";

/** Two workers, the upstream and the generator, each with a core of its own, and one for the rest. */
const coresWanted = 5;

/** Many, which the kernel divides by chance. */
const connections = 64;
const seconds = 0.7;
const rounds = 21;
/** Of each process, until the compiler has settled. */
const warmUpRequests = 20_000;
/** Calls a second for each process, which leave time to all of them where two cores are shared. */
const rate = 3500;

/** Processes that take calls. */
interface Contender {
  readonly name: string;
  readonly pid: number;
  /** Where their connections go, the same number to each. */
  readonly urls: readonly string[];
  /** How many there are. */
  readonly processes: number;
  /** Calls a second; as fast as answers come if undefined. */
  readonly rate?: number;
}

/** What the calls of a round cost all processes together, and how many there were. */
interface Round {
  readonly cpuMicros: number;
  readonly perSecond: number;
}

/**
 * What two workers do beside one process, and beside two gateways that share nothing: the calls of both, and what a call costs all
 * processes together. The bounds are for equal load of each process: one with half the calls handles fewer in a turn of its event
 * loop, and two take the processor away from each other where there are too few.
 */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  await using generator = rig.startGenerator();
  const server = { url: upstream.url };
  await using one = await startGateway(rig, server, "warn");
  await using two = await startGateway(rig, server, "warn", { workers: 2 });
  await using apart = await startSideBySide(rig, server);
  const ofOne = { name: "one", pid: one.pid, urls: [one.url], processes: 1 };
  const ofTwo = { name: "two", pid: two.pid, urls: [two.url], processes: 2 };
  const busy = [ofOne, ofTwo, { name: "apart", pid: apart.pid, urls: apart.url.split(","), processes: 2 }];
  const paced = [
    { ...ofOne, rate },
    { ...ofTwo, rate: 2 * rate },
  ];
  for (const url of busy.flatMap(({ urls }) => urls))
    await generator.run({ kind: "hold", target: { url, era: "legacy" }, sessions: connections, streams: false });
  // What runs for the first time is compiled.
  for (const contender of busy) await measure(generator, contender, warmUpRequests * contender.processes);
  const full = await interleave(busy, rounds, (contender) => measure(generator, contender));
  const even = await interleave(paced, rounds, (contender) => measure(generator, contender));
  const shown = (of: typeof full, names: readonly string[]): string =>
    names.map((name) => `${medianOf(of(name), ({ cpuMicros }) => cpuMicros).toFixed(1)} µs`).join(" against ");
  const cpu = (of: typeof full, other: string): number =>
    medianOfPairs(of("two"), of(other), (our, their) => our.cpuMicros / their.cpuMicros);
  const cores = availableParallelism();
  const hasCores = cores >= coresWanted;
  return [
    {
      name: "CPU of a call with two workers, at the load of one each",
      value: cpu(even, "one"),
      unit: "× one process",
      threshold: { max: 1.05 },
      note: `${shown(even, ["two", "one"])}, ${rate} calls a second for each process`,
    },
    {
      name: "CPU of a call with two workers, at full load",
      value: cpu(full, "apart"),
      unit: "× two gateways that share nothing",
      threshold: { max: 1.1 },
      note: shown(full, ["two", "apart"]),
    },
    {
      name: "the same beside one process with all the calls",
      value: cpu(full, "one"),
      unit: "× one process",
      note: `${shown(full, ["two", "one"])}; above 1 where processes share cores`,
    },
    {
      name: "calls a second with two workers",
      value: medianOfPairs(full("two"), full("one"), (our, their) => our.perSecond / their.perSecond),
      unit: "× one process",
      ...(hasCores ? { threshold: { min: 1.7 } } : {}),
      note: hasCores
        ? `${cores} cores`
        : `${cores} cores, shared with the generator: no threshold below ${coresWanted}`,
    },
  ];
}

async function measure(generator: Generator, { pid, urls, rate: paced }: Contender, requests?: number): Promise<Round> {
  const before = groupCpuMicros(pid);
  const jobs = urls.map((url): Job => {
    const common = { target: { url, era: "legacy" }, connections: connections / urls.length, seconds } as const;
    if (paced !== undefined) return { kind: "fixed-rate", ...common, rate: paced };
    if (requests !== undefined)
      return { kind: "closed-loop", ...common, seconds: 60, requests: requests / urls.length };
    return { kind: "closed-loop", ...common };
  });
  const result = await generator.run({ kind: "together", jobs });
  return {
    cpuMicros: (groupCpuMicros(pid) - before) / result.requests,
    perSecond: result.requests / result.seconds,
  };
}

/**
 * The processor time of a process and its children, as the kernel counts it. The metrics page of the gateway has the sum, too, but
 * what it costs to ask all processes for it would be measured as a part of the calls.
 */
function groupCpuMicros(pid: number): number {
  return [pid, ...childrenOf(pid)].reduce((sum, process) => sum + cpuOf(process), 0);
}

function childrenOf(pid: number): readonly number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return text === "" ? [] : text.split(" ").map(Number);
}

/** Microseconds of user and system time (`proc_pid_stat(5)`, fields 14 and 15, in hundredths of a second). */
function cpuOf(pid: number): number {
  const [, rest = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const fields = rest.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}
