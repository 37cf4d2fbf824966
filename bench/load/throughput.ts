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
  /** Which tool they call; `echo` unless given. */
  readonly tool?: string;
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

/** By requests, not seconds: on a busy machine a few seconds are not enough for the compiler to settle. */
const warmUpRequests = 20_000;
const longestWarmUpSeconds = 60;

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
  const call = async ({ server, authorization, tool }: Contender, requests?: number): Promise<Throughput> => {
    const before = await server.usage();
    const result = await generator.run({
      kind: "closed-loop",
      target: { url: server.url, era, authorization, bytes, tool },
      connections,
      ...(requests === undefined ? { seconds } : { seconds: longestWarmUpSeconds, requests }),
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
  for (const contender of contenders) await call(contender, warmUpRequests);
  return interleave(contenders, rounds, (contender) => call(contender));
}

/**
 * Requests per second against the baseline's: with logs at warn, with a line per exchange, with everything on that
 * `npm start` turns on and ten rules besides, and of the modern era.
 */
export async function throughputRows(
  generator: Generator,
  baseline: Server,
  gateways: { readonly warn: Server; readonly info: Server; readonly full: Server },
): Promise<BenchRow[]> {
  const contenders = [
    { name: "pass-through", server: baseline },
    { name: "gateway", server: gateways.warn },
    { name: "gateway with a log line each", server: gateways.info },
    { name: "gateway with everything on", server: gateways.full },
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
      name: `${callBytes} B call, everything on`,
      value: ratio(legacy, "gateway with everything on"),
      unit: "× pass-through",
      threshold: { min: 0.5 },
      note: "a log line, ten rules, recording, metrics, labels and diagnostics; wanted: 0.85",
    },
    {
      name: `processor time of a ${callBytes} B call, everything on`,
      value: medianOfPairs(
        legacy("gateway with everything on"),
        legacy("pass-through"),
        (our, their) => our.cpuMicros / their.cpuMicros,
      ),
      unit: "× pass-through",
      threshold: { max: 2.3 },
      note: "the writer's thread included; wanted: 1.3",
    },
    {
      name: `${modernBytes} B call of the modern era, logs at warn`,
      value: ratio(modern, "gateway"),
      unit: "× pass-through",
    },
  ];
}

/** Whether the pass-through is as good as another that was written apart from it: all ratios are to it. */
export async function baselineCheck(generator: Generator, baseline: Server, second: Server): Promise<BenchRow> {
  const contenders = [
    { name: "first", server: baseline },
    { name: "second", server: second },
  ];
  const figures = await measureThroughput(generator, contenders, { ...shortRounds, rounds: 21, era: "modern" });
  const micros = (name: string): string => medianOf(figures(name), ({ cpuMicros }) => cpuMicros).toFixed(1);
  return {
    name: "processor time of the pass-through",
    value: medianOfPairs(figures("first"), figures("second"), (our, their) => our.cpuMicros / their.cpuMicros),
    unit: "× a second one",
    threshold: { max: 1.05 },
    note: `${micros("first")} against ${micros("second")} µs CPU a call`,
  };
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
