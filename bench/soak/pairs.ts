import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";

import { parseConfig } from "../../src/config/load.ts";
import { createGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { createEverythingServer } from "../../test/fixtures/everything/server.ts";
import { startFixture, stdioFixture } from "../../test/support/fixture.ts";
import { heapInUse } from "../../test/support/heap.ts";
import type { CallEra } from "../load/calls.ts";
import type { MemoryPlan } from "../load/memory.ts";
import type { Rig } from "../load/rig.ts";
import type { BenchRow } from "../row.ts";
import { callOnLanes, type LeanClient } from "./call.ts";
import { createEchoServer } from "./echo-server.ts";
import { connectSse, connectStdio, connectStreamable } from "./lean-clients.ts";
import { type Rest, restOf, runVariable } from "./rest.ts";
import { visit, type Visit } from "./visit.ts";

/** A way in which clients come, a route to a server, and how fast calls went between the two. */
interface Pair {
  readonly name: string;
  readonly via: Visit["via"];
  readonly era: CallEra;
  readonly route: string;
  /** Where a server of the official SDK is on the same transport. */
  readonly sdkRoute: string;
  calls: number;
  seconds: number;
}

/** What a run has done so far. */
interface Run {
  readonly gateway: Gateway;
  readonly origin: string;
  readonly pairs: readonly Pair[];
  /** Clients that stay from the beginning to the end, one of each pair. */
  readonly kept: ReadonlyMap<Pair, LeanClient>;
  exchanges: number;
}

const ways: readonly Pick<Pair, "via" | "era">[] = [
  { via: "streamable", era: "legacy" },
  { via: "streamable", era: "modern" },
  { via: "http+sse", era: "legacy" },
  { via: "stdio", era: "legacy" },
  { via: "stdio", era: "modern" },
];
/** Routes to the echo, and to a server of the official SDK on the same transport. */
const servers = {
  streamable: "sdk-streamable",
  "streamable-modern": "sdk-streamable-modern",
  "http-sse": "sdk-http-sse",
  stdio: "sdk-stdio",
  "in-process": "sdk-in-process",
} as const;

const megabyte = 1 << 20;
/** Calls of one pair between one client's coming and its going. */
const callsOfVisit = 400;
const leastWarmup = 10_000;

/**
 * Exchanges over every pair of transports, through one gateway: heap, handles and child processes must be back to
 * where they were, although sessions, connections and processes have come and gone with every round. The bulk are
 * calls of lean clients, half of them by clients that stay for the whole run; beside them clients of the official SDK
 * do everything else. Every answer is checked.
 */
export async function pairRows(rig: Rig, { requests: exchanges }: MemoryPlan): Promise<BenchRow[]> {
  const id = randomUUID();
  await using stack = new AsyncDisposableStack();
  const config = await configFor(rig, stack, id);
  const atStart = await restOf(id);
  const gateway = createGateway(config, { environment: process.env });
  stack.defer(() => gateway.close());
  const { url: origin } = await gateway.listen();
  const pairs = ways.flatMap((way) =>
    Object.entries(servers).map(([route, sdkRoute]) => ({
      ...way,
      route,
      sdkRoute,
      name: `${way.via}, ${way.era}, to ${route}`,
      calls: 0,
      seconds: 0,
    })),
  );
  await using clients = new AsyncDisposableStack();
  const kept = new Map<Pair, LeanClient>();
  for (const pair of pairs) kept.set(pair, clients.use(await connect(gateway, origin, pair)));
  const run: Run = { gateway, origin, pairs, kept, exchanges: 0 };

  // What is made once stays: compiled code, connections that are kept, processes that wait for their next use.
  await callUntil(run, Math.max(exchanges / 20, leastWarmup));
  const before = await restOf(id);
  run.exchanges = 0;
  for (const pair of pairs) Object.assign(pair, { calls: 0, seconds: 0 });
  const started = performance.now();
  await callUntil(run, exchanges / 2);
  const half = await restOf(id, before);
  await callUntil(run, exchanges);
  const seconds = (performance.now() - started) / 1000;
  const after = await restOf(id, before);
  await clients.disposeAsync();
  await gateway.close();
  const atEnd = await restOf(id, atStart);
  for (const { name, calls, seconds: taken } of pairs)
    console.log(`  ${name}: ${calls.toLocaleString("en")} calls, ${(calls / taken).toFixed(0)} a second`);
  return rowsOf(run, seconds, { atStart, before, half, after, atEnd });
}

function rowsOf(
  { exchanges, pairs }: Run,
  seconds: number,
  rests: Readonly<Record<"atStart" | "before" | "half" | "after" | "atEnd", Rest>>,
): BenchRow[] {
  const { atStart, before, half, after, atEnd } = rests;
  const minutesOfMillion = (seconds / exchanges) * (1_000_000 / 60);
  const mb = ({ heap }: Rest): string => (heap / megabyte).toFixed(1);
  return [
    {
      name: `${exchanges.toLocaleString("en")} exchanges over ${pairs.length} pairs of transports, all answered`,
      value: exchanges / seconds,
      unit: "a second",
      note: `${(seconds / 60).toFixed(1)} minutes; a million takes ${minutesOfMillion.toFixed(0)}`,
    },
    {
      name: "[SC-090] heap added by them",
      value: (after.heap - before.heap) / megabyte,
      unit: "MB",
      threshold: { max: 5 },
      note: `${mb(before)} MB before, ${mb(half)} at half, ${mb(after)} after`,
    },
    {
      name: "heap added by their second half",
      value: (after.heap - half.heap) / megabyte,
      unit: "MB",
      threshold: { max: 2.5 },
    },
    {
      name: "handles added by them",
      value: after.handles - before.handles,
      unit: "",
      threshold: { max: 4 },
      note: `${before.handles} before; after: ${after.kinds}`,
    },
    {
      name: "child processes added by them",
      value: after.children - before.children,
      unit: "",
      threshold: { max: 0 },
      note: `${before.children} before`,
    },
    {
      name: "handles left by the gateway",
      value: atEnd.handles - atStart.handles,
      unit: "",
      threshold: { max: 0 },
      note: `${atStart.handles} before it; now: ${atEnd.kinds}`,
    },
    {
      name: "child processes left by the gateway",
      value: atEnd.children,
      unit: "",
      threshold: { max: 0 },
    },
  ];
}

/** Rounds over all pairs until so many exchanges have been made. */
async function callUntil(run: Run, exchanges: number): Promise<void> {
  const tell = Math.max(exchanges / 10, 20_000);
  let told = run.exchanges;
  const started = performance.now();
  const first = run.exchanges;
  while (run.exchanges < exchanges) {
    const left = exchanges - run.exchanges;
    const calls = Math.min(callsOfVisit, Math.max(Math.ceil(left / run.pairs.length), 20));
    for (const pair of run.pairs) run.exchanges += await callPair(run, pair, calls);
    if (run.exchanges - told < tell) continue;
    told = run.exchanges;
    const perSecond = (told - first) / ((performance.now() - started) / 1000);
    const heap = ((await heapInUse()) / megabyte).toFixed(1);
    console.error(`  ${told.toLocaleString("en")} exchanges, ${perSecond.toFixed(0)} a second, heap ${heap} MB`);
  }
}

/** Half of the calls by the client that stays, half by one that comes for them, while one of the SDK visits. */
async function callPair({ gateway, origin, kept }: Run, pair: Pair, calls: number): Promise<number> {
  const { via, era, sdkRoute } = pair;
  const staying = kept.get(pair);
  if (staying === undefined) throw new Error(`no client stays at ${pair.name}`);
  const work = async (): Promise<void> => {
    const started = performance.now();
    await using coming = await connect(gateway, origin, pair);
    await Promise.all([callOnLanes(staying, calls / 2), callOnLanes(coming, calls / 2)]);
    pair.calls += calls;
    pair.seconds += (performance.now() - started) / 1000;
  };
  const named = (error: unknown): never => {
    throw new Error(pair.name, { cause: error });
  };
  const [, requests] = await Promise.all([
    work().catch(named),
    visit({ via, era, gateway, origin, route: sdkRoute }).catch(named),
  ]);
  return calls + requests;
}

function connect(gateway: Gateway, origin: string, { via, era, route }: Pair): Promise<LeanClient> {
  switch (via) {
    case "streamable":
      return connectStreamable(`${origin}/${route}/mcp`, era);
    case "http+sse":
      return connectSse(`${origin}/${route}/sse`);
    case "stdio":
      return connectStdio(gateway, route, era);
  }
}

async function configFor(rig: Rig, stack: AsyncDisposableStack, run: string) {
  const program = (name: string): string => fileURLToPath(new URL(`${name}.ts`, import.meta.url));
  const echo = stack.use(await rig.startServer([process.execPath, program("http-server")]));
  const legacy = stack.use(await startFixture({ era: "legacy" }));
  const modern = stack.use(await startFixture({ era: "modern" }));
  const [command, ...args] = stdioFixture({ era: "legacy" });
  const env = { [runVariable]: run };
  const checked = parseConfig({
    listen: { port: 0 },
    admin: false,
    log: { level: "silent" },
    shutdown: { grace: 1000 },
    routes: {
      streamable: { upstream: { url: echo.url } },
      "streamable-modern": { upstream: { url: echo.url, era: "modern" } },
      "http-sse": { upstream: { url: new URL("/sse", echo.url).href, transport: "sse" } },
      stdio: { upstream: { command: process.execPath, args: [program("stdio-server")], env } },
      "in-process": { upstream: { server: createEchoServer } },
      "sdk-streamable": { upstream: { url: legacy.url } },
      "sdk-streamable-modern": { upstream: { url: modern.url, era: "modern" } },
      "sdk-http-sse": { upstream: { url: legacy.sseUrl ?? "", transport: "sse" } },
      "sdk-stdio": { upstream: { command, args, env } },
      "sdk-in-process": { upstream: { server: () => createEverythingServer() } },
    },
  });
  if (!checked.ok) throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}
