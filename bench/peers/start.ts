import { readFileSync } from "node:fs";
import { freePort } from "../../test/support/free-port.ts";
import type { Rig, Server } from "../load/rig.ts";
import type { Usage } from "../load/usage.ts";
import type { Peer, Upstreams } from "./catalogue.ts";
import { installPeer } from "./install.ts";

/** A gateway that takes calls. */
export interface RunningGateway {
  readonly server: Server;
  /** Its name for the tool that is called. */
  readonly tool: string;
}

/** Python needs its time, and more of it on a busy machine. */
const startLimitMs = 60_000;
/** Linux counts processor time in hundredths of a second. */
const microsPerTick = 10_000;

/** Installs and starts a gateway; rejects with the reason where that is not possible. */
export async function startPeer(rig: Rig, peer: Peer, upstreams: Upstreams): Promise<RunningGateway> {
  const installed = await installPeer(peer.source);
  if (!installed.ok) throw new Error(`it cannot be installed: ${installed.reason}`);
  const port = await freePort();
  const { args, path, tool } = peer.start(upstreams, port, rig.file);
  const url = `http://127.0.0.1:${port}${path}`;
  const server = await rig.startServer([...installed.command, ...args], { url, startLimitMs });
  const isNode = peer.source.from === "npm";
  return { server: isNode ? server : { ...server, usage: () => Promise.resolve(usageOf(server.pid)) }, tool };
}

/** The name and version of a gateway, as it is called in tables. */
export function peerName({ source, language }: Peer): string {
  return `${source.name.replace(/^github\.com\//u, "")} ${source.version.replace(/^v/u, "")} (${language})`;
}

/** What a process of another language has used, all its threads included. */
function usageOf(pid: number): Usage {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /su, "")
    .split(" ");
  const [user, system] = [Number(fields[11]), Number(fields[12])];
  const kilobytes = /VmRSS:\s+(\d+)/u.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  const unknown = { gcMs: 0, longestGcMs: 0, longestDelayMs: 0, longestTurnMs: 0, heapUsed: 0 };
  return { cpuMicros: (user + system) * microsPerTick, rss: Number(kilobytes) * 1024, ...unknown };
}
