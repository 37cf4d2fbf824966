import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput } from "./load/throughput.ts";
import type { BenchRow } from "./row.ts";

/** Two workers, the upstream and the generator, each with a core of its own, and one for the rest. */
const coresWanted = 5;

/** What two workers do beside one process: the calls of both, and what a call costs all processes together. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  await using generator = rig.startGenerator();
  await using one = await startWorkers(rig, upstream.url, 1);
  await using two = await startWorkers(rig, upstream.url, 2);
  const contenders = [
    { name: "one", server: one },
    { name: "two", server: two },
  ];
  // Many connections, which the kernel divides by chance.
  const plan = { connections: 64, rounds: 31, seconds: 1, era: "legacy" } as const;
  for (const { server } of contenders) {
    const target = { url: server.url, era: plan.era };
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  const rounds = await measureThroughput(generator, contenders, plan);
  const shown = (name: string): string => `${medianOf(rounds(name), ({ cpuMicros }) => cpuMicros).toFixed(1)} µs`;
  const cores = availableParallelism();
  const hasCores = cores >= coresWanted;
  return [
    {
      name: "CPU of a call with two workers",
      value: medianOfPairs(rounds("two"), rounds("one"), (our, their) => our.cpuMicros / their.cpuMicros),
      unit: "× one process",
      threshold: { max: 1.05 },
      note: `${shown("two")} against ${shown("one")}, all processes of the gateway together`,
    },
    {
      name: "calls a second with two workers",
      value: medianOfPairs(rounds("two"), rounds("one"), (our, their) => our.perSecond / their.perSecond),
      unit: "× one process",
      ...(hasCores ? { threshold: { min: 1.7 } } : {}),
      note: hasCores
        ? `${cores} cores`
        : `${cores} cores, shared with the generator: no threshold below ${coresWanted}`,
    },
  ];
}

/**
 * A gateway whose CPU time is that of all its processes, as the kernel counts it. Its metrics page has the sum, too, but what
 * it costs to ask all processes for it would be measured as a part of the calls.
 */
async function startWorkers(rig: Rig, url: string, workers: number): Promise<Server> {
  const server = await startGateway(rig, { url }, "warn", { workers });
  const cpuMicros = (): number => [server.pid, ...childrenOf(server.pid)].reduce((sum, pid) => sum + cpuOf(pid), 0);
  return { ...server, usage: async () => ({ ...(await server.usage()), cpuMicros: cpuMicros() }) };
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
