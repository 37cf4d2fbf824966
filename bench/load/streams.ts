import { median } from "../measure.ts";
import type { BenchRow } from "../row.ts";
import type { CallEra } from "./calls.ts";
import type { Generator, Server } from "./rig.ts";
import { medianOf, medianOfPairs, quantile } from "./rounds.ts";
import { measureThroughput, shortRounds } from "./throughput.ts";

const [few, many] = [10, 1000];

/** How long the first event of a streamed answer takes through the gateway. */
export async function firstEventRows(generator: Generator, upstream: Server, gateway: Server): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const era of ["legacy", "modern"] as const) {
    const direct = await firstEvents(generator, upstream, era);
    const relayed = await firstEvents(generator, gateway, era);
    rows.push({
      name: `first event of a streamed answer, ${era}`,
      value: median(relayed),
      unit: "ms",
      threshold: { max: 5 },
      note: `p99 ${quantile(relayed, 0.99).toFixed(2)} ms; without the gateway ${median(direct).toFixed(2)} ms`,
    });
  }
  return rows;
}

async function firstEvents(generator: Generator, { url }: Server, era: CallEra): Promise<readonly number[]> {
  const target = { url, era };
  if (era === "legacy") await generator.run({ kind: "hold", target, sessions: 1, streams: false });
  await generator.run({ kind: "first-event", target, calls: 100 });
  return (await generator.run({ kind: "first-event", target, calls: 300 })).latencies;
}

/** What a session with an idle stream costs in resident memory; the gateway must be fresh. Its sessions stay open. */
export async function idleSessionRow(
  generator: Generator,
  gateway: Server,
  { name, maxKilobytes }: { readonly name: string; readonly maxKilobytes: number },
): Promise<BenchRow> {
  const target = { url: gateway.url, era: "legacy" } as const;
  // The first ones bring the code with them, and some traffic grows the heap to its usual size.
  await generator.run({ kind: "hold", target, sessions: few * 2, streams: true });
  await generator.run({ kind: "closed-loop", target, connections: 16, seconds: 20, requests: 30_000 });
  const before = await gateway.collectedUsage();
  await generator.run({ kind: "hold", target, sessions: many, streams: true });
  const after = await gateway.collectedUsage();
  const kilobytesOf = (bytes: number): number => bytes / many / 1024;
  return {
    name,
    value: kilobytesOf(after.rss - before.rss),
    unit: "KB each",
    threshold: { max: maxKilobytes },
    note: `of it on the heap ${kilobytesOf(after.heapUsed - before.heapUsed).toFixed(1)} KB`,
  };
}

/** Throughput when many sessions with streams are open, against few; the crowded gateway has them already. */
export async function crowdRow(generator: Generator, quiet: Server, crowded: Server): Promise<BenchRow> {
  const target = { url: quiet.url, era: "legacy" } as const;
  await generator.run({ kind: "hold", target, sessions: few, streams: true });
  const contenders = [
    { name: "few", server: quiet },
    { name: "many", server: crowded },
  ];
  const plan = { ...shortRounds, rounds: 31, era: "legacy" } as const;
  const figures = await measureThroughput(generator, contenders, plan);
  const perSecond = (name: string): string => medianOf(figures(name), (round) => round.perSecond).toFixed(0);
  return {
    name: `throughput with ${many} open sessions and streams`,
    value: medianOfPairs(figures("many"), figures("few"), (our, their) => our.perSecond / their.perSecond),
    unit: `× that with ${few}`,
    threshold: { min: 0.9 },
    note: `${perSecond("many")} against ${perSecond("few")} requests/s`,
  };
}
