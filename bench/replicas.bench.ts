import { Agent, request } from "node:http";
import { cpus } from "node:os";

import { systemTimer } from "../src/lib/clock.ts";
import { sleep } from "../src/lib/timeout.ts";
import { openSession, toolCall } from "../test/support/legacy-session.ts";
import { postHeaders } from "../test/support/raw-http.ts";
import { startRedis } from "../test/support/redis.ts";
import { replicaConfig } from "../test/support/replica-config.ts";
import { startFullGateway, startGateway, startUpstream, type Upstream } from "./load/gateway.ts";
import { createRig, ownProcess, type Rig } from "./load/rig.ts";
import { interleave, medianOf, medianOfPairs, quantile } from "./load/rounds.ts";
import { measureThroughput, shortRounds } from "./load/throughput.ts";
import type { BenchRow } from "./row.ts";
import { foundMicros } from "./sessions.bench.ts";

/** What a call costs more at a gateway of several, with an id that is sealed, and where it is handed to another gateway. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  const { rows, fullMicros } = await replicaRows(rig);
  return [...rows, ...(await forwardedRows(rig, fullMicros))];
}

async function startPair(rig: Rig, state: { readonly redis: { readonly url: string } }, upstream: Upstream) {
  const more = { ...replicaConfig(state, {}) };
  await using stack = new AsyncDisposableStack();
  const one = stack.use(await startGateway(rig, upstream, "warn", more));
  const two = stack.use(await startGateway(rig, upstream, "warn", more));
  const opened = stack.move();
  return { one, two, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

async function replicaRows(rig: Rig): Promise<{ readonly rows: readonly BenchRow[]; readonly fullMicros: number }> {
  await using redis = await startRedis();
  await using upstream = await startUpstream(rig);
  await using generator = rig.startGenerator();
  const server = { url: upstream.url, era: "legacy" } as const;
  await using single = await startGateway(rig, server, "warn");
  await using full = await startFullGateway(rig, server);
  await using pair = await startPair(rig, redis.state, server);
  const contenders = [
    { name: "single", server: single },
    { name: "replica", server: pair.one },
    { name: "full", server: full },
  ];
  const plan = { ...shortRounds, rounds: 31, era: "legacy" } as const;
  for (const { server: contender } of contenders) {
    const target = { url: contender.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  const rounds = await measureThroughput(generator, contenders, plan);
  const micros = (name: string): number => medianOf(rounds(name), ({ cpuMicros }) => cpuMicros);
  const lookup = await foundMicros();
  const rows: readonly BenchRow[] = [
    {
      name: "call of an HTTP server at one of two gateways",
      value: medianOfPairs(
        rounds("single"),
        rounds("replica"),
        (alone, replica) => alone.cpuMicros / replica.cpuMicros,
      ),
      unit: "× the calls of a gateway alone, for the same CPU",
      threshold: { min: 0.95 },
      note: `${micros("replica").toFixed(1)} against ${micros("single").toFixed(1)} µs CPU a call`,
    },
    {
      name: "calls of one gateway with everything on",
      value: medianOf(rounds("full"), ({ perSecond }) => perSecond),
      unit: "a second",
      note: `${micros("full").toFixed(1)} µs CPU a call: a log line, ten rules, recording; generator and server on the same cores`,
    },
    {
      name: "sealed session ids",
      value: lookup / micros("single"),
      unit: "× the CPU of a call",
      threshold: { max: 0.02 },
      note: `${lookup.toFixed(2)} µs to find a session by its sealed id`,
    },
  ];
  return { rows, fullMicros: micros("full") };
}

const callsEach = 200;
/** Of the time of all cores, while one call at a time is made. */
const leastIdlePart = 0.1;

/** What the cores of the machine have done so far, in milliseconds. */
function processorTimes(): { readonly idle: number; readonly all: number } {
  const times = cpus().map(({ times: spent }) => spent);
  const all = times.reduce((sum, spent) => sum + Object.values(spent).reduce((one, part) => one + part, 0), 0);
  return { idle: times.reduce((sum, { idle }) => sum + idle, 0), all };
}

/** What calls of a round took. */
interface Round {
  readonly p50Ms: number;
  /** Processor time of both gateways, for one call. */
  readonly cpuMs: number;
}

/** A session lives in a process of the first gateway; half of the calls reach the second, which hands them over. */
async function forwardedRows(rig: Rig, fullMicros: number): Promise<readonly BenchRow[]> {
  await using redis = await startRedis();
  const [command = "", ...args] = ownProcess("stdio-upstream");
  await using pair = await startPair(rig, redis.state, { command, args });
  const session = await openSession(pair.one.url);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const call = (url: string): Promise<number> => timedCall(url, session.headers, agent);
  // The second learns within a second where the first is.
  while (Number.isNaN(await call(pair.two.url).catch(() => Number.NaN))) await sleep(100, systemTimer);
  const cpuMicros = async (): Promise<number> =>
    (await pair.one.usage()).cpuMicros + (await pair.two.usage()).cpuMicros;
  const measure = async ({ url }: { readonly url: string }): Promise<Round> => {
    const times: number[] = [];
    const before = await cpuMicros();
    for (let count = 0; count < callsEach; count++) times.push(await call(url));
    return { p50Ms: quantile(times, 0.5), cpuMs: ((await cpuMicros()) - before) / callsEach / 1000 };
  };
  const contenders = [
    { name: "local", url: pair.one.url },
    { name: "forwarded", url: pair.two.url },
  ];
  for (const contender of contenders) for (let round = 0; round < 10; round++) await measure(contender);
  const before = processorTimes();
  const rounds = await interleave(contenders, 31, measure);
  const after = processorTimes();
  agent.destroy();
  const busy = await fullLoad(rig, pair);
  const micros = (of: string): number => medianOf(busy(of), (value) => value);
  const extra = medianOfPairs(busy("forwarded"), busy("local"), (our, their) => our - their);
  const texts = (of: (round: Round) => number): string =>
    ["forwarded", "local"].map((name) => medianOf(rounds(name), of).toFixed(2)).join(" against ");
  const name = "call that is handed to another gateway";
  const p50 = `${texts(({ p50Ms }) => p50Ms)} ms`;
  // Processes take turns for each call, so that cores are idle: where others want them, too, that is what would be measured.
  const idlePart = (after.idle - before.idle) / (after.all - before.all);
  const isBusy = idlePart < leastIdlePart;
  return [
    {
      name: `${name}, processor time of both`,
      value: medianOfPairs(rounds("forwarded"), rounds("local"), (our, their) => our.cpuMs / their.cpuMs),
      unit: "× a local one",
      threshold: { max: 5 },
      note: `${texts(({ cpuMs }) => cpuMs)} ms, one call at a time`,
    },
    {
      name: `${name}, processor time over a local one at full load`,
      value: extra / fullMicros,
      unit: "× a call with everything on",
      note: `${micros("forwarded").toFixed(0)} against ${micros("local").toFixed(0)} µs of both gateways, ${connections} calls at a time`,
    },
    {
      name: `${name}, p50`,
      value: isBusy
        ? Number.NaN
        : medianOfPairs(rounds("forwarded"), rounds("local"), (our, their) => our.p50Ms - their.p50Ms),
      unit: "ms over a local one",
      threshold: { max: 0.6 },
      ...(isBusy
        ? { missing: `the machine is busy, its cores were idle for ${(idlePart * 100).toFixed(0)} %; it took ${p50}` }
        : { note: p50 }),
    },
  ];
}

const connections = 16;

/** The processor time of both gateways for a call of a session at the first, by where it was sent. */
async function fullLoad(rig: Rig, { one, two }: Awaited<ReturnType<typeof startPair>>) {
  await using generator = rig.startGenerator();
  const targetAt = (url: string) => ({ url, era: "legacy" }) as const;
  await generator.run({ kind: "hold", target: targetAt(one.url), sessions: 1, streams: false });
  const cpuMicros = async (): Promise<number> => (await one.usage()).cpuMicros + (await two.usage()).cpuMicros;
  const measure = async ({ url }: { readonly url: string }, requests = 2000): Promise<number> => {
    const before = await cpuMicros();
    const target = targetAt(url);
    await generator.run({ kind: "closed-loop", target, sessionsOf: one.url, connections, seconds: 60, requests });
    return ((await cpuMicros()) - before) / requests;
  };
  const contenders = [
    { name: "local", url: one.url },
    { name: "forwarded", url: two.url },
  ];
  for (const contender of contenders) await measure(contender, 20_000);
  return await interleave(contenders, 15, (contender) => measure(contender));
}

async function timedCall(url: string, headers: Readonly<Record<string, string>>, agent: Agent): Promise<number> {
  const body = JSON.stringify(toolCall(1, "echo"));
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const start = performance.now();
  const sent = request(url, { method: "POST", headers: { ...postHeaders, ...headers }, agent }, (answer) => {
    answer.resume().on("end", () => {
      if (answer.statusCode === 200) resolve(performance.now() - start);
      else reject(new Error(`answered ${answer.statusCode}`));
    });
  });
  sent.on("error", reject).end(body);
  return promise;
}
