import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { startProcess, type Exit, type ProcessOptions, type RunningProcess } from "../process.ts";
import type { PluginFacts } from "./fake-kong.ts";

/** The plugin server as a process, started from its command as Kong starts it. */
export interface PluginServerProcess extends AsyncDisposable {
  readonly socket: string;
  /** The first entry of what the query command printed. */
  readonly plugin: PluginFacts & Readonly<Record<string, unknown>>;
  readonly pid: () => number;
  /** All that it printed, also before a restart. */
  readonly output: () => string;
  /** Ends it without a warning. */
  kill(): Promise<void>;
  /** Asks it to end, and waits until it has. */
  stop(): Promise<Exit>;
  /** Starts another one on the same socket; the old one, if it still lives, is left alone. */
  start(): Promise<RunningProcess>;
}

/** How it is started. */
export interface PluginServerOptions extends ProcessOptions {
  /** The command; the checkout's own unless given. */
  readonly bin?: string;
  readonly accessOnly?: boolean;
}

const checkout = resolve(import.meta.dirname, "../../../bin/headgate-kong.mjs");
const run = promisify(execFile);

/** Runs the query command and answers all that it printed. */
async function queryPlugin(options: PluginServerOptions = {}): Promise<string> {
  const { bin = checkout, accessOnly = false, env } = options;
  const args = [bin, "--query", ...(accessOnly ? ["--access-only"] : [])];
  const { stdout } = await run(process.execPath, args, { env: { ...process.env, ...env } });
  return stdout;
}

/** Asks the command what it offers, and starts it. */
export async function startPluginServer(options: PluginServerOptions = {}): Promise<PluginServerProcess> {
  const { bin = checkout, accessOnly = false, env } = options;
  const plugin = factsOf(await queryPlugin(options));
  const folder = mkdtempSync(join(tmpdir(), "headgate-kong-"));
  const socket = join(folder, "kong.sock");
  const processes: RunningProcess[] = [];
  const start = async (): Promise<RunningProcess> => {
    const args = ["--socket", socket, ...(accessOnly ? ["--access-only"] : [])];
    const child = await startProcess([process.execPath, bin, ...args], env === undefined ? {} : { env });
    processes.push(child);
    await child.waitForLine(/"msg":"listening"/u);
    return child;
  };
  await start();
  const latest = (): RunningProcess => {
    const child = processes.at(-1);
    if (child === undefined) throw new Error("no plugin server was started");
    return child;
  };
  return {
    socket,
    plugin,
    pid: () => latest().pid,
    output: () => processes.map((child) => child.output()).join("\n"),
    kill: async () => {
      process.kill(latest().pid, "SIGKILL");
      await latest().exited;
    },
    stop: () => latest().stop(),
    start,
    [Symbol.asyncDispose]: async () => {
      await Promise.all(processes.map((child) => child.stop()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Kong reads the first entry of the document, and nothing else. */
function factsOf(printed: string): PluginServerProcess["plugin"] {
  const [first]: unknown[] = [JSON.parse(printed)].flat();
  if (typeof first !== "object" || first === null) throw new Error("the query command told of no plugin");
  const entry = { ...first } as Readonly<Record<string, unknown>>;
  const { Name: name, Phases: phases } = entry;
  if (typeof name !== "string" || !Array.isArray(phases)) throw new Error("the entry has no name or phases");
  return { ...entry, name, phases: phases.map(String) };
}
