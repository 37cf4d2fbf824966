import { ordinaryRequest, sendMany, startKongBench } from "./kong/rig.ts";
import { median } from "./measure.ts";
import type { BenchRow } from "./row.ts";

const rounds = 5;
const perRound = 2000;
const connections = 8;

/** The Kong plugin server: what a request costs it, and how many it can judge. */
export async function run(): Promise<BenchRow[]> {
  return [...(await costs()), await accessRate(), await heldUp()];
}

const largeBytes = 60 * 1024 * 1024;

/** How long one large body keeps the server from everything else: whether it announces its length or not. */
async function heldUp(): Promise<BenchRow> {
  await using bench = await startKongBench();
  await sendMany(bench.kong, perRound, connections);
  const body = Buffer.alloc(largeBytes, 0x78);
  const delays: number[] = [];
  const statuses = new Set<number>();
  for (let round = 0; round < rounds; round++) {
    for (const length of [String(largeBytes), undefined]) {
      await bench.state("heap");
      const headers = { "content-length": length === undefined ? [] : [length] };
      const { client } = await bench.kong.send({ method: "POST", body, headers });
      statuses.add(client.status);
      delays.push((await bench.state("cpu")).longestDelayMs);
    }
  }
  return {
    name: "a 60 MB body, longest wait of other requests",
    value: median(delays),
    unit: "ms",
    threshold: { max: 150 },
    note: `answered with ${[...statuses].join(", ")}; with and without a length`,
  };
}

/** Processor time of the server for access and response of a request, reading and writing its socket included. */
async function costs(): Promise<BenchRow[]> {
  await using bench = await startKongBench();
  await sendMany(bench.kong, perRound, connections);
  const micros: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const before = await bench.state("cpu");
    await sendMany(bench.kong, perRound, connections);
    const after = await bench.state("cpu");
    micros.push((after.cpuMicros - before.cpuMicros) / perRound);
  }
  const { calls } = await bench.kong.send(ordinaryRequest);
  const trips = calls("access").length + calls("response").length;
  return [
    {
      name: "access and response of a request, server outside waiting",
      value: median(micros) / 1000,
      unit: "ms",
      threshold: { max: 0.5 },
      note: `${trips} calls of Kong's kit, 1 KB body`,
    },
  ];
}

/** Access phases a second over eight connections, Kong's part done by this process on the other core. */
async function accessRate(): Promise<BenchRow> {
  await using bench = await startKongBench({ skip_response_phase: true });
  await sendMany(bench.kong, perRound, connections);
  const rates: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    await sendMany(bench.kong, perRound, connections);
    rates.push((perRound * 1000) / (performance.now() - started));
  }
  return {
    name: "access phases over eight connections",
    value: median(rates),
    unit: "a second",
    threshold: { min: 2500 },
    note: "with the client of the test on the same two cores",
  };
}
