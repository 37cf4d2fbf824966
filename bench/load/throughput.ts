import type { BenchRow } from "../row.ts";
import { callBody, callBytes, firstId } from "./calls.ts";
import type { CallEra } from "./calls.ts";
import type { Generator, Server } from "./rig.ts";
import { interleave, medianOf, medianOfPairs } from "./rounds.ts";

/** Somebody who takes calls. */
export interface Contender {
  readonly name: string;
  readonly server: Server;
  /** What its callers show. */
  readonly authorization?: string;
}

/** What one round of calls cost. */
export interface Throughput {
  readonly perSecond: number;
  /** Processor time of the measured process, helper threads included. */
  readonly cpuMicros: number;
  /** Share of the time that went into garbage collection pauses. */
  readonly gcShare: number;
  readonly longestGcMs: number;
}

/** How the calls are made. */
export interface CallPlan {
  readonly era: CallEra;
  readonly connections: number;
  readonly rounds: number;
  readonly seconds: number;
  /** The length of a legacy call's body. */
  readonly bytes?: number;
}

const warmUpSeconds = 3;

/**
 * Many short rounds: neighbours that take a second of the machine's time for themselves then hit all contenders alike,
 * and the median of many pairs leaves out those that they did not.
 */
export const shortRounds = { connections: 16, rounds: 61, seconds: 0.3 } as const;

/** Calls each contender as fast as it answers, round by round; sessions must have been opened before. */
export async function measureThroughput(
  generator: Generator,
  contenders: readonly Contender[],
  { era, connections, rounds, seconds, bytes }: CallPlan,
): Promise<(name: string) => readonly Throughput[]> {
  const call = async ({ server, authorization }: Contender, lasting = seconds): Promise<Throughput> => {
    const before = await server.usage();
    const result = await generator.run({
      kind: "closed-loop",
      target: { url: server.url, era, authorization, bytes },
      connections,
      seconds: lasting,
    });
    const after = await server.usage();
    return {
      perSecond: result.requests / result.seconds,
      cpuMicros: (after.cpuMicros - before.cpuMicros) / result.requests,
      gcShare: (after.gcMs - before.gcMs) / (result.seconds * 1000),
      longestGcMs: after.longestGcMs,
    };
  };
  // What runs for the first time is compiled.
  for (const contender of contenders) await call(contender, warmUpSeconds);
  return interleave(contenders, rounds, (contender) => call(contender));
}

/** Requests per second against the baseline's: with logs at warn, with a line per exchange, and of the modern era. */
export async function throughputRows(
  generator: Generator,
  baseline: Server,
  gateways: { readonly warn: Server; readonly info: Server },
): Promise<BenchRow[]> {
  const contenders = [
    { name: "pass-through", server: baseline },
    { name: "gateway", server: gateways.warn },
    { name: "gateway with a log line each", server: gateways.info },
  ];
  const plan = shortRounds;
  for (const { server } of contenders) {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  const legacy = await measureThroughput(generator, contenders, { ...plan, era: "legacy" });
  const modern = await measureThroughput(generator, contenders.slice(0, 2), {
    ...plan,
    rounds: 31,
    era: "modern",
  });
  const ratio = (of: typeof legacy, name: string): number =>
    medianOfPairs(of(name), of("pass-through"), (our, their) => our.perSecond / their.perSecond);
  const modernBytes = callBody("modern", firstId, "echo").length;
  return [
    ...contenders.map(({ name }) => figureRow(`${callBytes} B call, ${name}`, legacy(name))),
    ...contenders
      .slice(0, 2)
      .map(({ name }) => figureRow(`${modernBytes} B call of the modern era, ${name}`, modern(name))),
    {
      // A call is two messages: the request and its answer, each parsed, tracked and passed on.
      name: "[SC-075] messages",
      value: 2 * medianOf(legacy("gateway"), ({ perSecond }) => perSecond),
      unit: "a second",
      threshold: { min: 10_000 },
    },
    {
      name: `${callBytes} B call, logs at warn`,
      value: ratio(legacy, "gateway"),
      unit: "× pass-through",
      threshold: { min: 0.8 },
    },
    {
      name: `${callBytes} B call, one log line each`,
      value: ratio(legacy, "gateway with a log line each"),
      unit: "× pass-through",
      threshold: { min: 0.7 },
    },
    {
      name: `${modernBytes} B call of the modern era, logs at warn`,
      value: ratio(modern, "gateway"),
      unit: "× pass-through",
    },
  ];
}

function figureRow(name: string, figures: readonly Throughput[]): BenchRow {
  const cpu = medianOf(figures, ({ cpuMicros }) => cpuMicros).toFixed(1);
  const gc = (medianOf(figures, ({ gcShare }) => gcShare) * 100).toFixed(1);
  const longest = medianOf(figures, ({ longestGcMs }) => longestGcMs).toFixed(1);
  return {
    name,
    value: medianOf(figures, ({ perSecond }) => perSecond),
    unit: "requests/s",
    note: `${cpu} µs CPU a request, ${gc}% in GC pauses, longest ${longest} ms`,
  };
}
