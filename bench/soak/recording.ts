import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import type { CaptureRecord } from "../../src/recorder/contract.ts";
import { openSqliteReader } from "../../src/recorder/store/sqlite.ts";
import { startGateway, startUpstream } from "../load/gateway.ts";
import type { MemoryPlan } from "../load/memory.ts";
import type { Generator, Rig, Server } from "../load/rig.ts";
import type { Usage } from "../load/usage.ts";
import type { BenchRow } from "../row.ts";

/** The largest that the files of a store have been. */
interface Sizes {
  file: number;
  log: number;
}

/** What was seen on the way. */
interface Course {
  readonly seconds: number;
  /** After a garbage collection, when a tenth, half and all of the calls had been made. */
  readonly early: Usage;
  readonly half: Usage;
  readonly whole: Usage;
  readonly sizes: Sizes;
}

const megabyte = 1 << 20;
/** Small, so that most of what is recorded has to go again while it is written. */
const retentionBytes = 64 * megabyte;
/** Room for what is written between one look at the size and the next. */
const mostFileBytes = 1.5 * retentionBytes;
const mostLogBytes = 32 * megabyte;
const betweenLooksMs = 200;
const endLimitMs = 30_000;

/**
 * Calls through a gateway that records them and takes the oldest out again: memory, the file and its write-ahead log
 * must stay within their bounds, and nothing may be lost.
 */
export async function recordingRows(rig: Rig, plan: MemoryPlan): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-soak-recording-"));
  const file = join(folder, "traffic.sqlite");
  try {
    await using upstream = await startUpstream(rig);
    await using generator = rig.startGenerator();
    await using gateway = await startGateway(rig, { url: upstream.url }, "warn", {
      record: { file, retention: { maxBytes: retentionBytes } },
    });
    const course = await callAndWatch(generator, gateway, file, plan.requests);
    await end(gateway);
    await using reader = await openSqliteReader(file, { wait: async () => {} });
    const [capture] = await reader.captures();
    return rowsOf(plan, course, capture);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function callAndWatch(generator: Generator, gateway: Server, file: string, exchanges: number): Promise<Course> {
  const target = { url: gateway.url, era: "legacy" } as const;
  const sizes: Sizes = { file: 0, log: 0 };
  const watch = setInterval(() => {
    sizes.file = Math.max(sizes.file, sizeOf(file));
    sizes.log = Math.max(sizes.log, sizeOf(`${file}-wal`));
  }, betweenLooksMs);
  await generator.run({ kind: "hold", target, sessions: 16, streams: false });
  const callTenth = async (): Promise<Usage> => {
    const limit = { requests: exchanges / 10, seconds: Number.POSITIVE_INFINITY };
    const job = { kind: "closed-loop", target, connections: 16, ...limit } as const;
    const { requests, seconds } = await generator.run(job);
    const usage = await gateway.collectedUsage();
    console.error(
      `  ${(requests / seconds).toFixed(0)} calls a second, heap ${inMb(usage.heapUsed)}, RSS ${inMb(usage.rss)}, file ${inMb(sizeOf(file))}`,
    );
    return usage;
  };
  try {
    const started = performance.now();
    const usages: Usage[] = [];
    while (usages.length < 10) usages.push(await callTenth());
    const [early, half, whole] = [usages[0], usages[4], usages[9]];
    if (early === undefined || half === undefined || whole === undefined) throw new Error("not all was called");
    return { seconds: (performance.now() - started) / 1000, early, half, whole, sizes };
  } finally {
    clearInterval(watch);
  }
}

function rowsOf({ requests, isJudged }: MemoryPlan, course: Course, capture: CaptureRecord | undefined): BenchRow[] {
  const { seconds, early, half, whole, sizes } = course;
  const count = requests.toLocaleString("en");
  return [
    {
      name: `${count} recorded calls`,
      value: requests / seconds,
      unit: "a second",
      note: `${(seconds / 60).toFixed(1)} minutes`,
    },
    {
      name: "[SC-090] heap added after their first tenth",
      value: (whole.heapUsed - early.heapUsed) / megabyte,
      unit: "MB",
      threshold: { max: 5 },
      note: `${inMb(early.heapUsed)} then, ${inMb(half.heapUsed)} at half, ${inMb(whole.heapUsed)} at the end`,
    },
    {
      name: "RSS added by their second half",
      value: (whole.rss - half.rss) / megabyte,
      unit: "MB",
      ...(isJudged ? { threshold: { max: 20 } } : {}),
      note: `${inMb(half.rss)} at half, ${inMb(whole.rss)} at the end, the writer's thread included`,
    },
    {
      name: "frames lost or left without a body",
      value: capture?.endedAt === undefined ? Number.NaN : capture.lost + capture.omitted,
      unit: "frames",
      threshold: { max: 0 },
      note: `of ${(capture?.frames ?? 0).toLocaleString("en")}`,
    },
    {
      name: `largest size of the file, with ${inMb(retentionBytes)} to keep`,
      value: sizes.file / megabyte,
      unit: "MB",
      threshold: { max: mostFileBytes / megabyte },
    },
    {
      name: "largest size of its write-ahead log",
      value: sizes.log / megabyte,
      unit: "MB",
      threshold: { max: mostLogBytes / megabyte },
    },
  ];
}

/** Lets it write what still waits, and waits until it has gone. */
async function end({ pid }: Server): Promise<void> {
  const deadline = performance.now() + endLimitMs;
  process.kill(pid, "SIGTERM");
  while (performance.now() < deadline) {
    try {
      process.kill(pid, 0);
    } catch {
      // Nobody has this id any more.
      return;
    }
    await sleep(betweenLooksMs);
  }
  throw new Error(`the gateway did not end within ${endLimitMs} ms`);
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function inMb(bytes: number): string {
  return `${(bytes / megabyte).toFixed(1)} MB`;
}
