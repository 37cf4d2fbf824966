// A million requests through one process: npm run soak. Fails where memory grows beyond its bounds.
import { startBaseline, startGateway, startUpstream } from "./load/gateway.ts";
import { memoryRows } from "./load/memory.ts";
import { createRig } from "./load/rig.ts";
import { printRows } from "./report.ts";

using rig = await createRig();
await using upstream = await startUpstream(rig);
await using generator = rig.startGenerator();
await using baseline = await startBaseline(rig, upstream.url);
await using gateway = await startGateway(rig, { url: upstream.url }, "warn");
const rows = await memoryRows(generator, baseline, gateway, { requests: 1_000_000, isJudged: true });
process.exitCode = printRows(rows) === 0 ? 0 : 1;
