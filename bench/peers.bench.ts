import { setTimeout as sleep } from "node:timers/promises";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig, ownProcess } from "./load/rig.ts";
import type { Generator, Rig, Server } from "./load/rig.ts";
import { interleave, medianOf, medianOfPairs, quantile } from "./load/rounds.ts";
import { measureThroughput } from "./load/throughput.ts";
import { absentPeers, peers } from "./peers/catalogue.ts";
import type { Peer, Upstreams } from "./peers/catalogue.ts";
import { peerName, startPeer } from "./peers/start.ts";
import type { RunningGateway } from "./peers/start.ts";
import type { BenchRow } from "./row.ts";

/** It needs the network and says nothing about a change of ours. */
export const isOnDemand = true;

/** One thing that gateways do. */
interface Task {
  readonly kind: Peer["does"][number];
  readonly name: string;
  readonly upstreams: (server: Server) => Upstreams;
  readonly sessions: number;
  readonly startOurs: (rig: Rig, server: Server) => Promise<RunningGateway>;
}

interface Contender extends RunningGateway {
  readonly name: string;
}

const ours = "headgate";
const [command = "", ...args] = ownProcess("stdio-upstream");
/** Few enough that the slowest of them can answer in time. */
const fixedRate = 40;
const crowd = 200;
const readyLimitMs = 15_000;

const tasks: readonly Task[] = [
  {
    kind: "stdio",
    name: "a stdio server on HTTP",
    upstreams: () => ({ kind: "stdio", command: [command, ...args] }),
    // Some start a process for each session.
    sessions: 1,
    startOurs: async (rig) => ({ server: await startGateway(rig, { command, args }, "warn"), tool: "echo" }),
  },
  {
    kind: "http",
    name: "an HTTP server",
    upstreams: ({ url }) => ({ kind: "http", urls: { one: url } }),
    sessions: 16,
    startOurs: async (rig, { url }) => ({ server: await startGateway(rig, { url }, "warn"), tool: "echo" }),
  },
  {
    kind: "federation",
    name: "several servers at one endpoint",
    upstreams: ({ url }) => ({ kind: "http", urls: serversAt(url) }),
    sessions: 16,
    startOurs: async (rig, { url }) => {
      const members = Object.entries(serversAt(url)).map(([name, at]) => [name, { url: at }]);
      const routes = { all: { upstreams: Object.fromEntries(members) as object } };
      return { server: await startGateway(rig, { url }, "warn", { upstream: undefined, routes }), tool: "one__echo" };
    },
  },
];

/**
 * The gateway beside others that do the same: 16 calls at a time as fast as they are answered, then calls at a fixed
 * rate, then sessions with an open stream. What cannot be had is a row that says why.
 */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  await using upstream = await startUpstream(rig);
  const rows: BenchRow[] = [];
  for (const task of tasks) rows.push(...(await taskRows(rig, upstream, task)));
  return [...rows, ...absentPeers.map(({ name, reason }) => missingRow(name, reason))];
}

async function taskRows(rig: Rig, upstream: Server, task: Task): Promise<BenchRow[]> {
  console.error(`  measuring: ${task.name}`);
  await using servers = new AsyncDisposableStack();
  const generator = servers.use(rig.startGenerator());
  const missing: BenchRow[] = [];
  const contenders: Contender[] = [];
  const join = async (name: string, starting: Promise<RunningGateway>): Promise<void> => {
    try {
      const gateway = await starting;
      servers.use(gateway.server);
      const target = { url: gateway.server.url, era: "legacy" } as const;
      await whenReady(() => generator.run({ kind: "hold", target, sessions: task.sessions, streams: false }));
      contenders.push({ name, ...gateway });
    } catch (error) {
      missing.push(missingRow(`${task.name}, ${name}`, firstLine(error)));
    }
  };
  await join(ours, task.startOurs(rig, upstream));
  for (const peer of peers.filter(({ does }) => does.includes(task.kind)))
    await join(peerName(peer), startPeer(rig, peer, task.upstreams(upstream)));
  const [us, ...others] = contenders;
  if (us === undefined) return missing;
  const rows: BenchRow[] = [];
  // Ours beside one of them at a time: what one of them does must not spoil the figures of the others.
  for (const contender of others) {
    try {
      rows.push(...(await comparedRows(generator, task, us, contender)));
    } catch (error) {
      missing.push(missingRow(`${task.name}, ${contender.name}`, `it failed under load: ${firstLine(error)}`));
    }
  }
  return [...rows, ...missing];
}

/** The row of another gateway, and before it that of ours as it was measured beside it. */
async function comparedRows(generator: Generator, task: Task, us: Contender, other: Contender): Promise<BenchRow[]> {
  const contenders = [us, other];
  const plan = { era: "legacy", connections: 16, rounds: 5, seconds: 2 } as const;
  const throughput = await measureThroughput(generator, contenders, plan);
  const latency = await interleave(contenders, 3, async ({ server, tool }) => {
    const target = { url: server.url, era: "legacy", tool } as const;
    const calls = { kind: "fixed-rate", target, connections: 16, rate: fixedRate, seconds: 2 } as const;
    const { latencies } = await generator.run(calls);
    return { p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
  });
  const faster = medianOfPairs(
    throughput(ours),
    throughput(other.name),
    (our, their) => our.perSecond / their.perSecond,
  );
  const rows: BenchRow[] = [];
  for (const { name, server } of contenders) {
    const figures = {
      "requests/s": medianOf(throughput(name), ({ perSecond }) => perSecond),
      "CPU µs": medianOf(throughput(name), ({ cpuMicros }) => cpuMicros),
      [`p50 ms at ${fixedRate}/s`]: medianOf(latency(name), ({ p50 }) => p50),
      [`p99 ms at ${fixedRate}/s`]: medianOf(latency(name), ({ p99 }) => p99),
      MB: (await server.usage()).rss / (1 << 20),
      ...(task.kind === "http" ? { "KB a session": await sessionKilobytes(generator, server) } : {}),
    };
    rows.push({
      name: `${task.name}, ${name}`,
      value: name === ours ? 1 : faster,
      unit: "× its requests/s is ours",
      note: Object.entries(figures)
        .map(([unit, value]) => `${value.toFixed(value < 10 ? 2 : 0)} ${unit}`)
        .join(", "),
      figures,
    });
  }
  return rows;
}

/** What a session with an open stream costs in resident memory; NaN where there are no streams. */
async function sessionKilobytes(generator: Generator, server: Server): Promise<number> {
  const before = await server.usage();
  try {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: crowd, streams: true });
  } catch {
    return Number.NaN;
  }
  return ((await server.usage()).rss - before.rss) / crowd / 1024;
}

/** Some listen before they have reached their servers, and know no paths until then. */
async function whenReady(hold: () => Promise<unknown>): Promise<void> {
  const deadline = performance.now() + readyLimitMs;
  for (;;) {
    try {
      await hold();
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(500);
    }
  }
}

function serversAt(url: string): Readonly<Record<string, string>> {
  return Object.fromEntries(["one", "two", "three", "four", "five"].map((name) => [name, url]));
}

function missingRow(name: string, reason: string): BenchRow {
  return { name, value: Number.NaN, unit: "", missing: reason };
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n", 1)[0] ?? text;
}
