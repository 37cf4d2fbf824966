import { fileURLToPath } from "node:url";
import { callBody, firstId, postHeaders } from "./load/calls.ts";
import { startGateway } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { medianOf } from "./load/rounds.ts";
import type { BenchRow } from "./row.ts";
import { startCrowd } from "./streams/crowd.ts";
import type { Crowd } from "./streams/crowd.ts";

const wanted = 10_000;
/** Files that the gateway needs for itself: its program, logs, pipes and connections of those who are opening. */
const ownFiles = 500;
const changes = 7;

/**
 * Ten thousand open streams at one gateway: what each costs in memory, and how long the event loop stands still while
 * all of them hear of a change.
 */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  const sessions = Math.min(wanted, openFilesLimit() - ownFiles);
  const shared = { command: process.execPath, args: [upstreamFile], sharing: "shared" };
  return [
    ...(await crowdRows(rig, sessions, { servers: "one server", kilobytes: 30 }, { upstream: shared })),
    // Each session is a session with each of the servers.
    ...(await crowdRows(
      rig,
      sessions,
      { servers: "two servers", kilobytes: 45 },
      {
        upstream: undefined,
        routes: { both: { upstreams: { one: { ...shared, prefix: "" }, other: shared } } },
      },
    )),
  ];
}

const upstreamFile = fileURLToPath(new URL("streams/upstream.ts", import.meta.url));

async function crowdRows(
  rig: Rig,
  sessions: number,
  { servers, kilobytes }: { readonly servers: string; readonly kilobytes: number },
  config: Readonly<Record<string, unknown>>,
): Promise<BenchRow[]> {
  console.error(`  measuring: ${sessions} streams, ${servers}`);
  const limits = { sessions: sessions + 100, sessionsPerPrincipal: sessions + 100 };
  await using gateway = await startGateway(rig, { command: "", args: [] }, "warn", { ...config, limits });
  await using crowd = startCrowd();
  // The first ones bring the code with them.
  const session = await crowd.open(gateway.url, 200);
  await changeOnce(gateway, crowd, session);
  const before = await gateway.collectedUsage();
  await crowd.open(gateway.url, sessions - 200);
  const after = await gateway.collectedUsage();
  await gateway.watchLoop();
  const fanOuts = [];
  for (let round = 0; round < changes; round += 1) fanOuts.push(await changeOnce(gateway, crowd, session));
  const kilobytesOf = (bytes: number): number => bytes / (sessions - 200) / 1024;
  const heap = kilobytesOf(after.heapUsed - before.heapUsed).toFixed(1);
  const short = sessions < wanted ? `; ${wanted} need more open files than this system allows` : "";
  const delay = medianOf(fanOuts, ({ longestDelayMs }) => longestDelayMs).toFixed(0);
  const millis = medianOf(fanOuts, ({ wallMs }) => wallMs).toFixed(0);
  const cpu = medianOf(fanOuts, ({ cpuMs }) => cpuMs).toFixed(0);
  return [
    {
      name: `${sessions} sessions with a stream each, ${servers}`,
      value: kilobytesOf(after.rss - before.rss),
      unit: "KB each",
      threshold: { max: kilobytes },
      note: `of it on the heap ${heap} KB${short}`,
    },
    {
      name: `longest pause while all hear of a change, ${servers}`,
      value: medianOf(fanOuts, ({ longestTurnMs }) => longestTurnMs),
      unit: "ms of CPU",
      threshold: { max: 50 },
      note: `by the clock ${delay} ms; the last one heard of it after ${millis} ms, ${cpu} ms of CPU`,
    },
  ];
}

/** Lets the server's list change, and waits until all have heard of it. */
async function changeOnce(gateway: Server, crowd: Crowd, session: string) {
  const before = await gateway.usage();
  const heard = crowd.heardOfChange();
  const start = performance.timeOrigin + performance.now();
  await listTools(gateway, session);
  const call = await fetch(gateway.url, {
    method: "POST",
    headers: postHeaders("legacy", session),
    body: callBody("legacy", firstId, "change"),
  });
  if (!call.ok) throw new Error(`the change was refused: ${call.status} ${await call.text()}`);
  await call.text();
  const lastAt = await heard;
  const { cpuMicros, longestDelayMs, longestTurnMs } = await gateway.usage();
  return { wallMs: lastAt - start, cpuMs: (cpuMicros - before.cpuMicros) / 1000, longestDelayMs, longestTurnMs };
}

/** A client that has read the list is one that a federation tells of its change. */
async function listTools(gateway: Server, session: string): Promise<void> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const answer = await fetch(gateway.url, { method: "POST", headers: postHeaders("legacy", session), body });
  await answer.text();
}

function openFilesLimit(): number {
  const report = process.report.getReport() as { userLimits?: { open_files?: { hard?: number | string } } };
  const hard = report.userLimits?.open_files?.hard;
  return typeof hard === "number" ? hard : Number.POSITIVE_INFINITY;
}
