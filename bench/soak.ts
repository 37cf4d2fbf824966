// A million requests through one process, and a million over every pair of transports: npm run soak. Fails where
// memory grows beyond its bounds, or something is left behind.
//   npm run soak [-- memory|pairs]
import { startBaseline, startGateway, startUpstream } from "./load/gateway.ts";
import { memoryRows } from "./load/memory.ts";
import { createRig } from "./load/rig.ts";
import type { Rig } from "./load/rig.ts";
import { printRows } from "./report.ts";
import type { BenchRow } from "./row.ts";
import { pairRows } from "./soak/pairs.ts";

const exchanges = 1_000_000;
const parts: Readonly<Record<string, (rig: Rig) => Promise<BenchRow[]>>> = {
  memory,
  pairs: (rig) => pairRows(rig, exchanges),
};

const wanted = process.argv.slice(2);
const unknown = wanted.find((name) => !(name in parts));
if (unknown !== undefined) {
  console.error(`soak: there is no part ${unknown}; there are ${Object.keys(parts).join(", ")}`);
  process.exit(2);
}
using rig = await createRig();
let missed = 0;
for (const [name, part] of Object.entries(parts)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(name);
  missed += printRows(await part(rig));
}
process.exitCode = missed === 0 ? 0 : 1;

async function memory(on: Rig): Promise<BenchRow[]> {
  await using upstream = await startUpstream(on);
  await using generator = on.startGenerator();
  await using baseline = await startBaseline(on, upstream.url);
  await using gateway = await startGateway(on, { url: upstream.url }, "warn");
  return await memoryRows(generator, baseline, gateway, { requests: exchanges, isJudged: true });
}
