import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Pool } from "undici";

import { openSession, percentile, type BenchSession } from "./kit/session.ts";
import { createRig, type Rig, type Server } from "./load/rig.ts";
import type { BenchRow } from "./row.ts";

const command = [process.execPath, fileURLToPath(new URL("kit/server.ts", import.meta.url))];
const megabyte = 1_048_576;
const list = { pageSize: 10 };
/** As long as the document's load test; KIT_BENCH_SECONDS shortens a trial run. */
const steadySeconds = Number(process.env["KIT_BENCH_SECONDS"] ?? 60);

/** A server made with the kit under load on loopback: streams, calls, lists, memory. Takes some minutes. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  return [
    ...(await withServer(rig, "document's load", hundredSessions)),
    ...(await withServer(rig, "thousand sessions", thousandSessions)),
    ...(await withServer(rig, "thousand at once", thousandAtOnce)),
    ...(await withServer(rig, "cycles", cycles)),
  ];
}

type Measure = (server: Server, pool: Pool) => Promise<BenchRow[]>;

async function withServer(rig: Rig, what: string, measure: Measure): Promise<BenchRow[]> {
  console.error(`  measuring: ${what}`);
  await using server = await rig.startServer(command);
  const pool = new Pool(new URL(server.url).origin, { connections: 64 });
  try {
    // The first request compiles what all others use.
    const warm = await openSession(server.url, pool);
    for (let round = 0; round < 200; round += 1) await warm.call("tools/list");
    warm.close();
    return await measure(server, pool);
  } finally {
    await pool.destroy();
  }
}

async function hundredSessions(server: Server, pool: Pool): Promise<BenchRow[]> {
  const before = await server.collectedUsage();
  const sessions = await openAtRate(server, pool, 100, 100);
  const { acks, errors } = await callSteadily(sessions, steadySeconds);
  const listed = await Promise.all(sessions.map(async ({ call }) => call("tools/list")));
  const after = await server.usage();
  closeAll(sessions);
  return [
    row(
      "[KO-124] 100 sessions, a call a second each: errors",
      errors,
      "",
      0,
      `${steadySeconds} s, ${acks.length} calls`,
    ),
    row("[KO-125] 100 sessions: time to first event, p95", p(sessions, 0.95), "ms", 100),
    row("[KO-125] 100 sessions, a call a second each: ack p95", percentile(acks, 0.95), "ms", 100),
    row("[KO-127] 100 sessions list 60 tools at once: ack p95", percentile(listed, 0.95), "ms", 250),
    row("100 sessions list 60 tools at once: ack p99", percentile(listed, 0.99), "ms", 150),
    row("[KO-126] memory a connection over 100 that listed", (after.rss - before.rss) / 100 / megabyte, "MB", 5),
  ];
}

async function thousandSessions(server: Server, pool: Pool): Promise<BenchRow[]> {
  const before = await server.collectedUsage();
  const sessions = await openAtRate(server, pool, 1000, 200);
  for (const { call } of sessions) await call("tools/list");
  const after = await server.usage();
  const { acks, errors } = await callSteadily(sessions, Math.min(10, steadySeconds));
  closeAll(sessions);
  return [
    row("[KO-124] 1,000 sessions open, each calling once a second: errors", errors, "", 0),
    row("1,000 sessions arriving at 200 a second: time to first event p99", p(sessions, 0.99), "ms", 100),
    row("1,000 sessions, a call a second each: ack p99", percentile(acks, 0.99), "ms", 100),
    row("memory a connection over 1,000 that listed", (after.rss - before.rss) / 1000 / megabyte, "MB", 0.5),
  ];
}

async function thousandAtOnce(server: Server, pool: Pool): Promise<BenchRow[]> {
  const sessions = await Promise.all(Array.from({ length: 1000 }, async () => openSession(server.url, pool)));
  closeAll(sessions);
  return [row("1,000 sessions at once: time to first event p99", p(sessions, 0.99), "ms", 1000)];
}

async function cycles(server: Server, pool: Pool): Promise<BenchRow[]> {
  const round = async (): Promise<void> => {
    const sessions = await Promise.all(Array.from({ length: 50 }, async () => openSession(server.url, pool)));
    await Promise.all(sessions.map(async ({ call }) => call("ping")));
    closeAll(sessions);
  };
  for (let warmup = 0; warmup < 20; warmup += 1) await round();
  await sleep(500);
  const before = await server.collectedUsage();
  for (let done = 0; done < 10_000; done += 50) await round();
  // Sockets that were closed, and what hangs on them, take some seconds to go.
  await sleep(5000);
  const after = await server.collectedUsage();
  return [row("[KO-081] heap growth over 10,000 connections", (after.heapUsed - before.heapUsed) / megabyte, "MB", 10)];
}

async function openAtRate(server: Server, pool: Pool, count: number, perSecond: number): Promise<BenchSession[]> {
  const start = performance.now();
  const opening: Promise<BenchSession>[] = [];
  for (let index = 0; index < count; index += 1) {
    await sleepUntil(start + (index * 1000) / perSecond);
    opening.push(openSession(server.url, pool));
  }
  return Promise.all(opening);
}

/** Every session calls once a second, spread evenly over it. */
async function callSteadily(
  sessions: readonly BenchSession[],
  seconds: number,
): Promise<{ readonly acks: readonly number[]; readonly errors: number }> {
  const acks: number[] = [];
  let errors = 0;
  const start = performance.now();
  const calls: Promise<void>[] = [];
  for (let index = 0; index < sessions.length * seconds; index += 1) {
    await sleepUntil(start + (index * 1000) / sessions.length);
    const session = sessions[index % sessions.length];
    const called = session?.call("tools/call", { name: "Entity0_List", arguments: list });
    if (called === undefined) continue;
    calls.push(
      called.then(
        (ackMs) => void acks.push(ackMs),
        () => {
          errors += 1;
        },
      ),
    );
  }
  await Promise.all(calls);
  return { acks, errors };
}

async function sleepUntil(due: number): Promise<void> {
  const left = due - performance.now();
  if (left > 0) await sleep(left);
}

function closeAll(sessions: readonly BenchSession[]): void {
  for (const { close } of sessions) close();
}

function p(sessions: readonly BenchSession[], share: number): number {
  return percentile(
    sessions.map(({ firstEventMs }) => firstEventMs),
    share,
  );
}

function row(name: string, value: number, unit: string, max: number, note?: string): BenchRow {
  return { name, value, unit, threshold: { max }, ...(note === undefined ? {} : { note }) };
}
