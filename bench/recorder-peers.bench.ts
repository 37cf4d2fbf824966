import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

import { openSqliteReader } from "../src/recorder/store/sqlite.ts";
import { startGateway, startUpstream } from "./load/gateway.ts";
import { createRig, type Generator, type Rig, type Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { type Contender, measureThroughput, type Throughput } from "./load/throughput.ts";
import { freePort } from "../test/support/free-port.ts";
import { installPeer, type PeerSource } from "./peers/install.ts";
import type { BenchRow } from "./row.ts";

/** It needs the network and says nothing about a change of ours. */
export const isOnDemand = true;

const peer: PeerSource = {
  from: "npm",
  name: "@fiberplane/mcp-gateway",
  version: "0.7.1",
  program: "bin/mcp-gateway.js",
};
const peerName = `${peer.name} ${peer.version}`;
const ratioName = `recording gateway against ${peerName}`;
const plan = { era: "legacy", connections: 16, rounds: 5, seconds: 3 } as const;
const leastRatio = 10;

/** Somebody who records, and how many messages of it are in its store. */
interface RecordingGateway {
  readonly contender: Contender;
  readonly recorded: () => Promise<number>;
}

/**
 * The gateway with recording on beside another gateway that records everything it passes on: the same bare server
 * behind both, the same callers, each with a store of its own on the same disk. What cannot be installed or started
 * is a missed bound with the reason, for nothing was compared.
 */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  const folder = mkdtempSync(join(tmpdir(), "headgate-recorder-peers-"));
  await using servers = new AsyncDisposableStack();
  servers.defer(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const upstream = servers.use(await startUpstream(rig));
  const theirs = await startPeer(rig, folder, upstream.url).catch((error: unknown) => String(error));
  if (typeof theirs === "string") {
    console.error(`  ${peerName} does not run here: ${theirs}`);
    return [{ name: ratioName, value: Number.NaN, unit: "×", note: firstLine(theirs) }];
  }
  servers.use(theirs.contender.server);
  const ours = await startOurs(rig, folder, upstream.url);
  servers.use(ours.contender.server);
  return await compare(servers.use(rig.startGenerator()), ours, theirs);
}

async function compare(generator: Generator, ours: RecordingGateway, theirs: RecordingGateway): Promise<BenchRow[]> {
  const both = [ours, theirs];
  const contenders = both.map(({ contender }) => contender);
  for (const { server } of contenders) {
    const target = { url: server.url, era: plan.era };
    await generator.run({ kind: "hold", target, sessions: plan.connections, streams: false });
  }
  const figures = await measureThroughput(generator, contenders, plan);
  const rows: BenchRow[] = [];
  for (const { contender, recorded } of both) {
    const { rss } = await contender.server.usage();
    await contender.server[Symbol.asyncDispose]();
    rows.push(figureRow(contender.name, figures(contender.name), { rss, recorded: await recorded() }));
  }
  const faster = (our: Throughput, their: Throughput): number => our.perSecond / their.perSecond;
  const cheaper = (our: Throughput, their: Throughput): number => their.cpuMicros / our.cpuMicros;
  const [our, their] = [figures(ours.contender.name), figures(theirs.contender.name)];
  return [
    ...rows,
    {
      name: ratioName,
      value: medianOfPairs(our, their, faster),
      unit: "× its requests/s",
      threshold: { min: leastRatio },
    },
    { name: "processor time of its request", value: medianOfPairs(our, their, cheaper), unit: "× ours" },
  ];
}

function figureRow(
  name: string,
  figures: readonly Throughput[],
  { rss, recorded }: { readonly rss: number; readonly recorded: number },
): BenchRow {
  const cpu = medianOf(figures, ({ cpuMicros }) => cpuMicros).toFixed(0);
  const rates = figures.map(({ perSecond }) => perSecond.toFixed(0)).join(", ");
  return {
    name: `recorded calls, ${name}`,
    value: recorded === 0 ? Number.NaN : medianOf(figures, ({ perSecond }) => perSecond),
    unit: "requests/s",
    note: `${cpu} µs CPU a request, ${(rss / (1 << 20)).toFixed(0)} MB, ${recorded} messages recorded; rounds: ${rates}`,
  };
}

async function startOurs(rig: Rig, folder: string, url: string): Promise<RecordingGateway> {
  const file = join(folder, "traffic.sqlite");
  const server = await startGateway(rig, { url }, "warn", { record: { file } });
  return {
    contender: { name: "headgate", server },
    recorded: async () => {
      await using reader = await openSqliteReader(file, { wait: async () => {} });
      const [capture] = await reader.captures();
      return (capture?.frames ?? 0) - (capture?.lost ?? 0) - (capture?.omitted ?? 0);
    },
  };
}

async function startPeer(rig: Rig, folder: string, url: string): Promise<RecordingGateway> {
  const installed = await installPeer(peer);
  if (!installed.ok) throw new Error(`it cannot be installed: ${installed.reason}`);
  const storage = join(folder, "storage");
  mkdirSync(storage);
  // What it reads at its start; its README names another form, which it does not know.
  writeFileSync(join(storage, "mcp.json"), JSON.stringify({ mcpServers: { bench: { type: "http", url } } }));
  const port = await freePort();
  const args = ["--port", String(port), "--storage-dir", storage];
  const server: Server = await rig.startServer([...installed.command, ...args], {
    url: `http://127.0.0.1:${port}/s/bench/mcp`,
  });
  return {
    contender: { name: peerName, server },
    recorded: () => {
      const logs = new DatabaseSync(join(storage, "logs.db"));
      try {
        return Promise.resolve(Number(logs.prepare("SELECT count(*) AS count FROM logs").get()?.["count"]));
      } finally {
        logs.close();
      }
    },
  };
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? text;
}
