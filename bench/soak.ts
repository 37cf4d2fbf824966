// A million requests through one process, a million over every pair of transports, a million that are recorded, and two
// gateways that are restarted and killed under load: npm run soak. Fails where memory grows beyond its bounds, or something is left behind.
//   npm run soak [-- memory|pairs|recording|replicas …] [--exchanges N]
import { parseArgs } from "node:util";
import { startBaseline, startGateway, startUpstream } from "./load/gateway.ts";
import { memoryRows } from "./load/memory.ts";
import type { MemoryPlan } from "./load/memory.ts";
import { createRig } from "./load/rig.ts";
import type { Rig } from "./load/rig.ts";
import { printRows } from "./report.ts";
import type { BenchRow } from "./row.ts";
import { pairRows } from "./soak/pairs.ts";
import { recordingRows } from "./soak/recording.ts";
import { replicaRows } from "./soak/replicas.ts";

const parts: Readonly<Record<string, (rig: Rig, plan: MemoryPlan) => Promise<BenchRow[]>>> = {
  memory,
  pairs: pairRows,
  recording: recordingRows,
  replicas: replicaRows,
};

const { values, positionals: wanted } = parseArgs({
  options: { exchanges: { type: "string", default: "1000000" } },
  allowPositionals: true,
});
const exchanges = Number(values.exchanges);
const unknown = wanted.find((name) => !(name in parts));
if (unknown !== undefined || !(exchanges >= 1000)) {
  console.error(
    unknown === undefined
      ? `soak: ${values.exchanges} exchanges are not enough to say anything`
      : `soak: there is no part ${unknown}; there are ${Object.keys(parts).join(", ")}`,
  );
  process.exit(2);
}
/** Before that, resident memory also grows because V8 has not settled yet. */
const judgedFrom = 400_000;
const plan: MemoryPlan = { requests: exchanges, isJudged: exchanges >= judgedFrom };
const begun = performance.now();
using rig = await createRig();
let missed = 0;
for (const [name, part] of Object.entries(parts)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(name);
  const started = performance.now();
  missed += printRows(await part(rig, plan));
  console.log(`  ${name} took ${minutesSince(started)} minutes`);
}
const outcome = missed === 0 ? "all thresholds kept" : `${missed} thresholds missed`;
console.log(`${outcome}, after ${minutesSince(begun)} minutes`);
process.exitCode = missed === 0 ? 0 : 1;

function minutesSince(start: number): string {
  return ((performance.now() - start) / 60_000).toFixed(1);
}

async function memory(on: Rig, memoryPlan: MemoryPlan): Promise<BenchRow[]> {
  await using upstream = await startUpstream(on);
  await using generator = on.startGenerator();
  await using baseline = await startBaseline(on, upstream.url);
  await using gateway = await startGateway(on, { url: upstream.url }, "warn");
  return await memoryRows(generator, baseline, gateway, memoryPlan);
}
