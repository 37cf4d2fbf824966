import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { heapInUse } from "../../test/support/heap.ts";

/** What is left of everything that ran. */
export interface Rest {
  readonly heap: number;
  readonly handles: number;
  /** How many of each kind. */
  readonly kinds: string;
  readonly children: number;
}

/** The variable that children of a run have in their environment. */
export const runVariable = "HEADGATE_SOAK_RUN";

const quietLimitMs = 10_000;
const betweenLooksMs = 250;
const leastLooks = 4;

/**
 * Looks when what has gone is gone, for closed connections and ended processes take their time: when no more is left
 * than `expected`, or where nothing is expected, when nothing changes any more.
 */
export async function restOf(run: string, expected?: Rest): Promise<Rest> {
  const deadline = performance.now() + quietLimitMs;
  let last = await look(run);
  let { heap } = last;
  for (let looks = 1; performance.now() < deadline; looks += 1) {
    const isGone = expected !== undefined && last.handles <= expected.handles && last.children <= expected.children;
    if (isGone && looks >= leastLooks) break;
    await sleep(betweenLooksMs);
    const next = await look(run);
    const isStill = next.handles === last.handles && next.children === last.children;
    last = next;
    // What is collected late is not in use: the least that was seen counts.
    heap = Math.min(heap, next.heap);
    if (expected === undefined && isStill && looks >= leastLooks) break;
  }
  return { ...last, heap };
}

async function look(run: string): Promise<Rest> {
  const heap = await heapInUse();
  const active = process.getActiveResourcesInfo().filter((kind) => kind !== "Immediate");
  return { heap, handles: active.length, kinds: inWords(active), children: childrenOf(run) };
}

function inWords(kinds: readonly string[]): string {
  const counts = Object.entries(Object.groupBy(kinds, (kind) => kind));
  return counts.map(([kind, all = []]) => `${all.length} ${kind}`).join(", ");
}

/** How many processes a run has left; also those whose parents are gone. */
function childrenOf(run: string): number {
  return readdirSync("/proc").filter((entry) => {
    try {
      return /^\d+$/u.test(entry) && readFileSync(`/proc/${entry}/environ`, "utf8").includes(`${runVariable}=${run}`);
    } catch {
      // It ended while we looked, or is another user's.
      return false;
    }
  }).length;
}
