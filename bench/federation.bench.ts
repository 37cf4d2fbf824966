import type { CallEra } from "./load/calls.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput, shortRounds } from "./load/throughput.ts";
import type { BenchRow } from "./row.ts";

const servers = 20;

/** What a call costs more where its server is one of twenty behind the endpoint. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  return [await callRow(rig, upstream, "legacy"), await callRow(rig, upstream, "modern")];
}

async function callRow(rig: Rig, { url }: Server, era: CallEra): Promise<BenchRow> {
  await using generator = rig.startGenerator();
  const server = { url, era };
  // The generator calls tools by their own names.
  const members = Array.from({ length: servers }, (_, index) => [
    `m${index}`,
    index === 0 ? { ...server, prefix: "" } : server,
  ]);
  await using single = await startGateway(rig, server, "warn");
  await using joined = await startGateway(rig, server, "warn", {
    upstream: undefined,
    routes: { all: { upstreams: Object.fromEntries(members) as Readonly<Record<string, unknown>> } },
  });
  const contenders = [
    { name: "single", server: single },
    { name: "joined", server: joined },
  ];
  const plan = { ...shortRounds, rounds: 31, era };
  if (era === "legacy") {
    for (const { server: contender } of contenders) {
      const target = { url: contender.url, era };
      await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
    }
  }
  const rounds = await measureThroughput(generator, contenders, plan);
  const cpuOf = (name: string): string => `${medianOf(rounds(name), ({ cpuMicros }) => cpuMicros).toFixed(1)} µs`;
  return {
    name: `call of a ${era} client, one of ${servers} servers`,
    value: medianOfPairs(rounds("joined"), rounds("single"), (our, their) => our.cpuMicros / their.cpuMicros),
    unit: "× the CPU of a call with one server",
    // A legacy session is a session with each of the servers, and their number shows.
    threshold: { max: era === "legacy" ? 1.5 : 1.05 },
    note: `${cpuOf("joined")} against ${cpuOf("single")}`,
  };
}
