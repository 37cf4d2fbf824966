import { sendMany, startKongBench } from "./kong/rig.ts";
import type { BenchRow } from "./row.ts";

const events = 100_000;
const connections = 8;
const megabyte = 1 << 20;

/** The Kong plugin server after many events: what it still holds. Half of them end with an answer, half without. */
export async function run(): Promise<BenchRow[]> {
  await using bench = await startKongBench();
  // An access event and a response event each.
  const half = events / 4;
  await sendMany(bench.kong, half, connections);
  const before = await bench.state("heap");
  await sendMany(bench.kong, half, connections);
  const after = await bench.state("heap");
  return [
    {
      name: `heap added by the second half of ${events.toLocaleString("en")} events`,
      value: (after.heapBytes - before.heapBytes) / megabyte,
      unit: "MB",
      threshold: { max: 1 },
      note: `${(after.heapBytes / megabyte).toFixed(1)} MB in use; the stock server would add 55 MB`,
    },
    { name: "events still held", value: after.events, unit: "events", threshold: { max: 0 } },
  ];
}
