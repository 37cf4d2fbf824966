import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { z } from "zod";

import { createServer, startAgent, tool, type Agent } from "../src/agent-kit/index.ts";
import type { CallsJob, CallsReport } from "./agent-kit/job.ts";
import { median } from "./measure.ts";
import type { BenchRow } from "./row.ts";

const caller = join(import.meta.dirname, "agent-kit/caller.ts");
const rounds = 5;

/** In-process calls as the CLI sees them: from its call over pipe, channel, bridge, SDK and handler to its answer. */
export async function run(): Promise<BenchRow[]> {
  const { agent, open } = await startBench();
  await ask(agent, { calls: 3000, inFlight: 10, background: 0 });
  const serial: CallsReport[] = [];
  const parallel: CallsReport[] = [];
  const direct: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    serial.push(await ask(agent, { calls: 2000, inFlight: 1, background: 0 }));
    direct.push(await directCalls(2000));
    parallel.push(await ask(agent, { calls: 10_000, inFlight: 50, background: 0 }));
  }
  const crowded: CallsReport[] = [];
  for (let round = 0; round < rounds; round += 1) {
    // Those that wait are begun once and stay.
    crowded.push(await ask(agent, { calls: 2000, inFlight: 1, background: round === 0 ? 99 : 0 }));
  }
  open();
  await agent.close();
  const starts = await startOverheads();
  const note = `median of ${rounds} rounds`;
  return [
    { name: "one call at a time, p50", value: median(serial.map(({ p50 }) => p50)), unit: "ms", note },
    {
      name: "one call at a time, p99",
      value: median(serial.map(({ p99 }) => p99)),
      unit: "ms",
      threshold: { max: 1 },
      note,
    },
    {
      name: "one call at a time, p50 against the SDK's own memory transport",
      value: median(serial.map(({ p50 }, index) => p50 / (direct[index] ?? Number.NaN))),
      unit: "×",
      note: "which crosses no process and encodes nothing",
    },
    {
      name: "50 calls in flight",
      value: median(parallel.map(({ perSecond }) => perSecond)),
      unit: "calls/s",
      threshold: { min: 5000 },
      note,
    },
    {
      name: "one call at a time beside 99 that wait, p99",
      value: median(crowded.map(({ p99 }) => p99)),
      unit: "ms",
      threshold: { max: 1 },
    },
    {
      name: "start until initialized, processor time over the bare process",
      value: median(starts.map(({ cpuMs }) => cpuMs)),
      unit: "ms",
      threshold: { max: 20 },
      note: "of this process; wall time also tells what else the machine had to do",
    },
    {
      name: "start until initialized, wall time over the bare process",
      value: median(starts.map(({ wallMs }) => wallMs)),
      unit: "ms",
      note,
    },
  ];
}

async function startBench(): Promise<{ readonly agent: Agent; readonly open: () => void }> {
  const gate = Promise.withResolvers<void>();
  const wait = tool("wait", "Waits", z.object({}), async () => gate.promise);
  const agent = await startAgent({
    cliPath: caller,
    mcpServers: {
      calc: { type: "sdk", name: "calc", instance: createServer("calc", "1", { tools: [add(), wait] }) },
    },
  });
  return { agent, open: gate.resolve };
}

function add() {
  return tool("add", "Adds", z.object({ a: z.number(), b: z.number() }), ({ a, b }) => ({ result: a + b }));
}

async function ask(agent: Agent, job: CallsJob): Promise<CallsReport> {
  const result = await agent.ask(JSON.stringify(job));
  if (!result.ok) throw new Error(`the caller failed: ${result.errors.join("; ")}`);
  return JSON.parse(result.text) as CallsReport;
}

/** The median time of a call within one process, in milliseconds. */
async function directCalls(calls: number): Promise<number> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const server = createServer("calc", "1", { tools: [add()] });
  const client = new Client({ name: "bench", version: "1" });
  await server.connect(theirs);
  await client.connect(ours);
  const times: number[] = [];
  for (let index = 0; index < calls; index += 1) {
    const from = performance.now();
    await client.callTool({ name: "add", arguments: { a: 15, b: 27 } });
    times.push(performance.now() - from);
  }
  await client.close();
  return median(times);
}

interface StartCost {
  readonly wallMs: number;
  /** Of this process alone; what the caller needs for itself is the same either way. */
  readonly cpuMs: number;
}

/** What it costs until the caller has answered `initialize` if the kit starts it, over what it costs by hand. */
async function startOverheads(): Promise<readonly StartCost[]> {
  const overheads: StartCost[] = [];
  // The first round also loads what the others have.
  for (let round = -1; round < rounds; round += 1) {
    const own = await costOf(async () => {
      const { agent } = await startBench();
      return async () => agent.close();
    });
    const bare = await costOf(startByHand);
    if (round >= 0) overheads.push({ wallMs: own.wallMs - bare.wallMs, cpuMs: own.cpuMs - bare.cpuMs });
  }
  return overheads;
}

/** The cost of a start; how to end what it started comes with it and is not counted. */
async function costOf(start: () => Promise<() => Promise<unknown>>): Promise<StartCost> {
  const cpu = process.cpuUsage();
  const from = performance.now();
  const stop = await start();
  const wallMs = performance.now() - from;
  const { user, system } = process.cpuUsage(cpu);
  await stop();
  return { wallMs, cpuMs: (user + system) / 1000 };
}

async function startByHand(): Promise<() => Promise<unknown>> {
  const child = spawn(process.execPath, [caller], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.write('{"type":"control_request","request_id":"1","request":{"subtype":"initialize"}}\n');
  await once(child.stdout, "data");
  return async () => {
    child.stdin.end();
    await once(child, "exit");
  };
}
