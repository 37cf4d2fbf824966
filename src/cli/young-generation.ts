// Needed by bench load: "RSS after 200,000 requests, everything on".
import { PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** How much memory new objects take, in bytes. */
export interface YoungGeneration {
  /** Both halves together. */
  readonly size: number;
  /** What survived the last collection, and what was allocated since. */
  readonly used: number;
}

/** V8 starts with 2 MB and doubles it; growth up to this size is unconditional. */
const freeSize = 16_777_216;
/** Collections that leave more than this share of both halves cost noticeable time. */
const crowdedShare = 1 / 8;
/** After this many of them in a row, more room pays off. The start of the process alone causes a few. */
const crowdedCollections = 3;

/**
 * Makes a function that says after each collection whether the young generation may grow. V8 itself counts everything that
 * ever survived a collection, so that it goes up to 128 MB in any process that runs for long.
 */
export function createGrowthRule(): (young: YoungGeneration) => boolean {
  let crowded = 0;
  return ({ size, used }) => {
    crowded = used > size * crowdedShare ? crowded + 1 : 0;
    return size < freeSize || crowded >= crowdedCollections;
  };
}

/** Keeps the young generation small while little survives in it, unless the options of the process choose its size. */
export function limitYoungGeneration(processOptions: readonly string[]): void {
  if (processOptions.some((option) => /semi[-_]space/u.test(option))) return;
  const mayGrow = createGrowthRule();
  let grows = true;
  new PerformanceObserver(() => {
    const may = mayGrow(youngGeneration());
    if (may === grows) return;
    grows = may;
    // V8 reads it whenever it is about to grow, in every thread.
    setFlagsFromString(`--semi-space-growth-factor=${grows ? 2 : 1}`);
  }).observe({ entryTypes: ["gc"] });
}

function youngGeneration(): YoungGeneration {
  const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space");
  return { size: space?.space_size ?? 0, used: space?.space_used_size ?? 0 };
}
