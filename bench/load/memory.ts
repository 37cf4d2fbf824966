import type { BenchRow } from "../row.ts";
import type { Generator, Server } from "./rig.ts";

/**
 * How much is called, and whether that is enough to judge by: V8 doubles its young generation (27 MB, then 54 MB) at a
 * moment of its own within the first hundred thousands of requests, in either process.
 */
export interface MemoryPlan {
  readonly requests: number;
  readonly isJudged: boolean;
}

/** Resident memory of a process in MB. */
export interface Memory {
  readonly atStart: number;
  /** As it is found: nothing was collected for it. */
  readonly atEnd: number;
  /** What the second half of the requests added that no garbage collection takes away. */
  readonly growth: number;
}

export const megabyte = 1 << 20;

/** Resident memory after many requests, against the baseline's after as many; both must be fresh. */
export async function memoryRows(
  generator: Generator,
  baseline: Server,
  gateway: Server,
  plan: MemoryPlan,
): Promise<BenchRow[]> {
  const theirs = await memoryOf(generator, baseline, plan.requests);
  return compareMemory(theirs, await memoryOf(generator, gateway, plan.requests), plan);
}

/** Resident memory of a gateway after many requests, and what their second half added, against the baseline's. */
export function compareMemory(theirs: Memory, ours: Memory, { requests, isJudged }: MemoryPlan): BenchRow[] {
  const inWords = ({ atStart, atEnd }: Memory): string => `${atEnd.toFixed(0)} MB (${atStart.toFixed(0)} at start)`;
  const count = requests.toLocaleString("en");
  return [
    {
      name: `RSS after ${count} requests`,
      value: ours.atEnd - theirs.atEnd,
      unit: "MB over pass-through",
      ...(isJudged ? { threshold: { max: 80 } } : {}),
      note: `${inWords(ours)} against ${inWords(theirs)}`,
    },
    {
      name: `RSS added by the second half of ${count} requests`,
      value: ours.growth,
      unit: "MB",
      ...(isJudged ? { threshold: { max: 5 } } : {}),
      note: `pass-through: ${theirs.growth.toFixed(1)} MB; both after a garbage collection`,
    },
  ];
}

/** Resident memory of a fresh process before and after many requests. */
export async function memoryOf(generator: Generator, server: Server, requests: number): Promise<Memory> {
  const target = { url: server.url, era: "legacy" } as const;
  const atStart = (await server.usage()).rss;
  await generator.run({ kind: "hold", target, sessions: 16, streams: false });
  const callHalf = async (): Promise<void> => {
    const limit = { requests: requests / 2, seconds: Number.POSITIVE_INFINITY };
    await generator.run({ kind: "closed-loop", target, connections: 16, ...limit });
  };
  await callHalf();
  const half = (await server.collectedUsage()).rss;
  await callHalf();
  const atEnd = (await server.usage()).rss;
  const whole = (await server.collectedUsage()).rss;
  return { atStart: atStart / megabyte, atEnd: atEnd / megabyte, growth: (whole - half) / megabyte };
}
