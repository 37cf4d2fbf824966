import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { postHeaders } from "./load/calls.ts";
import { startGateway } from "./load/gateway.ts";
import { createRig } from "./load/rig.ts";
import type { Server } from "./load/rig.ts";
import { interleave } from "./load/rounds.ts";
import type { BenchRow } from "./row.ts";

const rounds = 9;
const serverFile = fileURLToPath(new URL("cold-start/server.ts", import.meta.url));

const handshake = [
  {
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1.0.0" } },
  },
  { method: "notifications/initialized" },
] as const;
const call = { id: 2, method: "tools/call", params: { name: "echo", arguments: {} } } as const;

/** How long the first call takes whose stdio server has to be started for it: through the gateway, and alone. */
export async function run(): Promise<BenchRow[]> {
  using rig = await createRig();
  const upstream = { command: process.execPath, args: [serverFile] };
  // Each route is cold once.
  const routes = Object.fromEntries(Array.from({ length: rounds }, (_, index) => [`cold-${index}`, { upstream }]));
  await using gateway = await startGateway(rig, upstream, "warn", { upstream: undefined, routes });
  let used = 0;
  const contenders = [
    { name: "alone", first: alone },
    { name: "gateway", first: () => throughGateway(gateway, used++) },
  ];
  const times = await interleave(contenders, rounds, ({ first }) => first());
  // Where others use the machine too, the quickest start is the one that tells what it takes.
  const quickest = (name: string): number => Math.min(...times(name));
  return [
    {
      name: "first call of a stdio server that is not running",
      value: quickest("gateway") / quickest("alone"),
      unit: "× the server alone",
      threshold: { max: 1.2 },
      note: `${quickest("gateway").toFixed(0)} ms against ${quickest("alone").toFixed(0)} ms, the quickest of ${rounds}`,
    },
  ];
}

/** Milliseconds until the answer of a server that this process starts. */
async function alone(): Promise<number> {
  const start = performance.now();
  const child = spawn(process.execPath, [serverFile], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const tell = (message: object): boolean => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  tell(handshake[0]);
  await lines.next();
  tell(handshake[1]);
  tell(call);
  const answer = await lines.next();
  const took = performance.now() - start;
  if (!String(answer.value).includes("hello")) throw new Error(`not an answer: ${String(answer.value)}`);
  child.kill();
  await once(child, "exit");
  return took;
}

/** The same through the gateway, which starts the server of a route for its first client. */
async function throughGateway({ url }: Server, route: number): Promise<number> {
  const start = performance.now();
  const at = new URL(`/cold-${route}/mcp`, url);
  let session: string | undefined;
  let text = "";
  for (const message of [...handshake, call]) {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    const answer = await fetch(at, { method: "POST", headers: postHeaders("legacy", session), body });
    session ??= answer.headers.get("mcp-session-id") ?? undefined;
    text = await answer.text();
  }
  if (!text.includes("hello")) throw new Error(`not an answer: ${text}`);
  return performance.now() - start;
}
