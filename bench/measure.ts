import { PerformanceObserver } from "node:perf_hooks";
import { setImmediate } from "node:timers/promises";

/** One of several ways to do the same work. */
export interface Contender {
  readonly name: string;
  /** Does one round of the work; all contenders of a measurement do the same amount. */
  readonly run: () => void | Promise<void>;
}

/** What the rounds of one contender cost, in the order of the rounds. */
export interface Cost {
  readonly wallMs: readonly number[];
  /** Processor time of the whole process, helper threads included. */
  readonly cpuMicros: readonly number[];
  /** Time in garbage collection pauses. */
  readonly gcMs: readonly number[];
}

/**
 * Runs the contenders in turn, round by round, so that a busy moment of the machine hits all of them, and returns the
 * cost of each by its name. Rounds before the first measured one let the compiler settle.
 */
export async function measure(
  contenders: readonly Contender[],
  options: { readonly rounds?: number; readonly warmups?: number } = {},
): Promise<ReadonlyMap<string, Cost>> {
  const { rounds = 5, warmups = 3 } = options;
  const pauses = watchPauses();
  const costs = new Map(
    contenders.map(({ name }) => [name, { wallMs: [] as number[], cpuMicros: [] as number[], gcMs: [] as number[] }]),
  );
  for (let round = -warmups; round < rounds; round += 1) {
    // Every other round backwards: nobody always runs on the heap that the same rival left behind.
    for (const contender of round % 2 === 0 ? contenders : contenders.toReversed()) {
      await pauses.take();
      const cpu = process.cpuUsage();
      const start = performance.now();
      await contender.run();
      const wall = performance.now() - start;
      const { user, system } = process.cpuUsage(cpu);
      const gc = await pauses.take();
      if (round < 0) continue;
      const cost = costs.get(contender.name);
      cost?.wallMs.push(wall);
      cost?.cpuMicros.push(user + system);
      cost?.gcMs.push(gc);
    }
  }
  pauses.stop();
  return costs;
}

/** The middle value; the mean of the middle two where there are two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? Number.NaN) + (sorted[Math.floor(middle)] ?? Number.NaN)) / 2;
}

/**
 * How many times faster `ours` was than `theirs`: the median of the rounds, each compared with its neighbour. It goes by
 * processor time, for wall time also tells what else the machine had to do.
 */
export function speedup(ours: Cost | undefined, theirs: Cost | undefined): number {
  const their = theirs?.cpuMicros ?? [];
  return median((ours?.cpuMicros ?? []).map((cpu, round) => (their[round] ?? Number.NaN) / cpu));
}

/** Sums up garbage collection pauses between one `take` and the next. */
function watchPauses() {
  let total = 0;
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) total += entry.duration;
  });
  observer.observe({ entryTypes: ["gc"] });
  return {
    async take(): Promise<number> {
      // Node reports a pause in the turn after it, and to the observer one turn later.
      await setImmediate();
      await setImmediate();
      const taken = total;
      total = 0;
      return taken;
    },
    stop: () => {
      observer.disconnect();
    },
  };
}
