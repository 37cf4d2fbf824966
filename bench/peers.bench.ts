import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGateway } from "./load/gateway.ts";
import { createRig, ownProcess } from "./load/rig.ts";
import type { Rig, Server } from "./load/rig.ts";
import { medianOf, medianOfPairs } from "./load/rounds.ts";
import { measureThroughput } from "./load/throughput.ts";
import type { Contender, Throughput } from "./load/throughput.ts";
import { freePort, installPeer } from "./peers/package.ts";
import type { PeerPackage } from "./peers/package.ts";
import type { BenchRow } from "./row.ts";

/** It needs the network and says nothing about a change of ours. */
export const isOnDemand = true;

/** Another gateway that puts a stdio server on Streamable HTTP. */
interface Peer extends PeerPackage {
  readonly args: (port: number) => readonly string[];
}

const upstream = ownProcess("stdio-upstream");

const peers: readonly Peer[] = [
  {
    name: "supergateway",
    version: "4.0.0",
    program: "dist/index.js",
    args: (port) => [
      "--stdio",
      upstream.map((word) => `'${word}'`).join(" "),
      "--outputTransport",
      "streamableHttp",
      "--stateful",
      "--port",
      String(port),
      "--logLevel",
      "none",
    ],
  },
  {
    name: "mcp-proxy",
    version: "6.7.19",
    program: "dist/bin/mcp-proxy.mjs",
    args: (port) => ["--host", "127.0.0.1", "--port", String(port), "--", ...upstream],
  },
];

/**
 * The gateway beside others that do the same: one stdio server behind `/mcp`, one legacy session, 16 calls at a time.
 * What cannot be installed is left out, with a note.
 */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  const folder = mkdtempSync(join(tmpdir(), "headgate-peers-"));
  await using servers = new AsyncDisposableStack();
  servers.defer(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const generator = servers.use(rig.startGenerator());
  const [command = "", ...args] = upstream;
  const ours = servers.use(await startGateway(rig, { command, args }, "warn"));
  const contenders: Contender[] = [{ name: "headgate", server: ours }];
  for (const peer of peers) {
    const server = await startPeer(rig, folder, peer);
    if (server !== undefined) contenders.push({ name: peer.name, server: servers.use(server) });
  }
  for (const { server } of contenders) {
    const target = { url: server.url, era: "legacy" } as const;
    await generator.run({ kind: "hold", target, sessions: 1, streams: false });
  }
  const plan = { era: "legacy", connections: 16, rounds: 5, seconds: 3 } as const;
  const figures = await measureThroughput(generator, contenders, plan);
  const rows: BenchRow[] = [];
  for (const { name, server } of contenders) {
    rows.push(await figureRow(name, server, figures(name)));
    if (name === "headgate") continue;
    const faster = (our: Throughput, their: Throughput): number => our.perSecond / their.perSecond;
    rows.push({
      name: `headgate against ${name}`,
      value: medianOfPairs(figures("headgate"), figures(name), faster),
      unit: `× ${name}`,
    });
  }
  return rows;
}

async function figureRow(name: string, server: Server, figures: readonly Throughput[]): Promise<BenchRow> {
  const { rss } = await server.usage();
  const cpu = medianOf(figures, ({ cpuMicros }) => cpuMicros).toFixed(0);
  return {
    name: `stdio server on HTTP, ${name}`,
    value: medianOf(figures, ({ perSecond }) => perSecond),
    unit: "requests/s",
    note: `${cpu} µs CPU a request, ${(rss / (1 << 20)).toFixed(0)} MB`,
  };
}

async function startPeer(rig: Rig, folder: string, peer: Peer): Promise<Server | undefined> {
  const installed = await installPeer(folder, peer);
  if (!installed.ok) {
    console.error(`  left out: ${peer.name} ${peer.version} could not be installed\n${installed.reason}`);
    return undefined;
  }
  const port = await freePort();
  return rig.startServer([process.execPath, installed.file, ...peer.args(port)], {
    url: `http://127.0.0.1:${port}/mcp`,
  });
}
