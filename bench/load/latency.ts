import type { BenchRow } from "../row.ts";
import type { Generator, Server } from "./rig.ts";
import { interleave, medianOf, medianOfPairs, quantile } from "./rounds.ts";
import { measureThroughput } from "./throughput.ts";
import type { Contender } from "./throughput.ts";

interface Latency {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

/**
 * What the slower one can do when calls come at their times: in a closed loop it can do more, because the generator
 * then needs hardly anything for itself, and half of that can be all that these cores have for three processes.
 */
async function capacity(generator: Generator, contenders: readonly Contender[]): Promise<number> {
  const slowest = (figures: (name: string) => readonly { readonly perSecond: number }[]): number =>
    Math.min(...contenders.map(({ name }) => medianOf(figures(name), ({ perSecond }) => perSecond)));
  const plan = { era: "legacy", connections: 16, rounds: 9, seconds: 0.3 } as const;
  const most = slowest(await measureThroughput(generator, contenders, plan));
  const achieved = await interleave(contenders, 9, async ({ server }) => {
    const { requests, seconds } = await generator.run({
      kind: "fixed-rate",
      target: { url: server.url, era: "legacy" },
      connections: 32,
      rate: most,
      seconds: 0.3,
    });
    return { perSecond: requests / seconds };
  });
  return slowest(achieved);
}

/** Latency at half of what the slower one can do, the same for both; sessions must have been opened before. */
export async function latencyRows(generator: Generator, baseline: Server, gateway: Server): Promise<BenchRow[]> {
  const contenders = [
    { name: "pass-through", server: baseline },
    { name: "gateway", server: gateway },
  ];
  const rate = Math.round((await capacity(generator, contenders)) / 200) * 100;
  const latencies = await interleave(contenders, 31, async ({ server }): Promise<Latency> => {
    const result = await generator.run({
      kind: "fixed-rate",
      target: { url: server.url, era: "legacy" },
      connections: 32,
      rate,
      seconds: 0.75,
    });
    return {
      p50: quantile(result.latencies, 0.5),
      p95: quantile(result.latencies, 0.95),
      p99: quantile(result.latencies, 0.99),
    };
  });
  const { ours, theirs } = quieterHalf(latencies("gateway"), latencies("pass-through"));
  const note = (figure: (latency: Latency) => number): string => {
    const [our, their] = [medianOf(ours, figure), medianOf(theirs, figure)];
    return `${our.toFixed(2)} ms against ${their.toFixed(2)} ms at ${rate} requests/s`;
  };
  return [
    {
      name: "half load, p50",
      value: medianOfPairs(ours, theirs, (our, their) => our.p50 - their.p50),
      unit: "ms over pass-through",
      threshold: { max: 0.15 },
      note: note(({ p50 }) => p50),
    },
    {
      // One millisecond is also five per cent of a call that takes twenty.
      name: "[SC-075] half load, p95",
      value: medianOfPairs(ours, theirs, (our, their) => our.p95 - their.p95),
      unit: "ms over pass-through",
      threshold: { max: 1 },
      note: note(({ p95 }) => p95),
    },
    {
      name: "half load, p99",
      value: medianOfPairs(ours, theirs, (our, their) => our.p99 / their.p99),
      unit: "× pass-through",
      threshold: { max: 2 },
      note: note(({ p99 }) => p99),
    },
  ];
}

/**
 * The half of the pairs in which calls took least, of both together, so that it favours neither: in the other half it is
 * mostly the neighbours of the machine who are measured.
 */
function quieterHalf(gateway: readonly Latency[], passThrough: readonly Latency[]) {
  const pairs = gateway.flatMap((our, round) => {
    const their = passThrough[round];
    return their === undefined ? [] : [{ our, their }];
  });
  const kept = pairs
    .toSorted((one, other) => one.our.p95 + one.their.p95 - other.our.p95 - other.their.p95)
    .slice(0, Math.ceil(pairs.length / 2));
  return { ours: kept.map(({ our }) => our), theirs: kept.map(({ their }) => their) };
}
