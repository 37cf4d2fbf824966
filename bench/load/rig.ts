import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { runTool } from "../../scripts/run/tool.ts";
import type { Job, JobResult } from "./jobs.ts";
import type { Usage } from "./usage.ts";

/** A server of the benchmark, in a process of its own. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** From the start of the process until it said that it listens. */
  readonly startMs: number;
  usage(): Promise<Usage>;
  /** The same after a full garbage collection. */
  collectedUsage(): Promise<Usage>;
  /** Watches the delays of its event loop from now on. */
  watchLoop(): Promise<Usage>;
}

/** The process that makes the load. */
export interface Generator extends AsyncDisposable {
  run(job: Job): Promise<JobResult>;
}

/** What there is to know about a server besides its command. */
export interface ServerOptions {
  /** Where it will listen, if it does not say so itself. */
  readonly url?: string;
  /** How long it may take to listen. */
  readonly startLimitMs?: number;
}

/** Where everything runs: made before the first server, taken down after the last. */
export interface Rig extends Disposable {
  readonly startServer: (command: readonly string[], options?: ServerOptions) => Promise<Server>;
  readonly startGenerator: () => Generator;
  /** Writes a file that lives as long as the rig, and returns its path. */
  readonly file: (name: string, content: string) => string;
  /** The baseline's command, without its upstream. */
  readonly baseline: readonly string[];
  /** The same of the second pass-through, which the baseline is checked against. */
  readonly secondBaseline: readonly string[];
  /** The gateway's command, without its arguments. */
  readonly gateway: readonly string[];
  /** The same as a clone runs it, from its source. */
  readonly clonedGateway: readonly string[];
}

const root = resolve(import.meta.dirname, "../..");
const compiled = join(root, ".reports/bench");
const usualStartLimitMs = 15_000;

/**
 * Builds what is measured and makes a place for it. The gateway is the built package, and the baseline and the probe
 * are compiled too: type stripping at run time costs 18 MB and would be counted. BENCH_GATEWAY names another gateway.
 */
export async function createRig(): Promise<Rig> {
  const other = process.env["BENCH_GATEWAY"];
  await must(["tsc", "-p", "bench/load/tsconfig.json"]);
  if (other === undefined) await must(["node", "scripts/build.ts"]);
  const folder = mkdtempSync(join(tmpdir(), "headgate-bench-"));
  let logs = 0;
  return {
    baseline: [process.execPath, join(compiled, "baseline.js")],
    secondBaseline: [process.execPath, join(compiled, "second-baseline.js")],
    gateway: other?.split(" ") ?? [process.execPath, join(root, "dist/cli/main.js")],
    clonedGateway: [process.execPath, join(root, "bin/headgate.mjs")],
    startServer: async (command, options = {}) => {
      logs += 1;
      return startServer(command, join(folder, `server-${logs}.log`), options);
    },
    startGenerator,
    file: (name, content) => {
      const path = join(folder, name);
      writeFileSync(path, content);
      return path;
    },
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The command of one of the benchmark's own processes. */
export function ownProcess(name: "upstream" | "stdio-upstream" | "bare-streams" | "side-by-side"): readonly string[] {
  return [process.execPath, fileURLToPath(new URL(`${name}.ts`, import.meta.url))];
}

async function startServer(
  [file = "", ...args]: readonly string[],
  logFile: string,
  { url: knownUrl, startLimitMs = usualStartLimitMs }: ServerOptions,
): Promise<Server> {
  // Output goes to a file, as a service's would: reading it here would take time from what is measured.
  const log = openSync(logFile, "w");
  const probe = `--import=${join(compiled, "probe.js")}`;
  const start = performance.now();
  const child = spawn(file, args, {
    env: { ...process.env, NODE_OPTIONS: probe },
    stdio: ["ignore", log, log, "ipc"],
    // A group of its own, so that what it starts ends with it.
    detached: true,
  });
  closeSync(log);
  const failed = failureOf(child, `${file} ${args.join(" ")}`);
  const listening = knownUrl === undefined ? announced(logFile, startLimitMs) : reachable(knownUrl, startLimitMs);
  const url = await Promise.race([failed, listening]).catch((error: unknown) => {
    endGroup(child);
    throw new Error(`${String(error)}\n${readFileSync(logFile, "utf8").slice(-2000)}`);
  });
  const startMs = performance.now() - start;
  const ask = async (question: string): Promise<Usage> => {
    const { promise, resolve: answered } = Promise.withResolvers<Usage>();
    child.once("message", answered);
    child.send(question);
    return Promise.race([promise, failed]);
  };
  return {
    url,
    pid: child.pid ?? 0,
    startMs,
    usage: () => ask("usage"),
    collectedUsage: () => ask("collected usage"),
    watchLoop: () => ask("watch the event loop"),
    [Symbol.asyncDispose]: async () => {
      endGroup(child);
      await failed.catch(() => {});
    },
  };
}

function startGenerator(): Generator {
  const child = spawn(process.execPath, [fileURLToPath(new URL("generator.ts", import.meta.url))], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
    serialization: "advanced",
  });
  const failed = failureOf(child, "the generator");
  return {
    run: async (job) => {
      const { promise, resolve: answered } = Promise.withResolvers<{ result: JobResult } | { error: string }>();
      child.once("message", answered);
      child.send(job);
      const answer = await Promise.race([promise, failed]);
      if ("error" in answer) throw new Error(`the generator could not ${job.kind}: ${answer.error}`);
      return answer.result;
    },
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await failed.catch(() => {});
    },
  };
}

/** Rejects when the process ends or cannot be started. */
function failureOf(child: ChildProcess, name: string): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  child.once("error", reject);
  child.once("close", (code, signal) => reject(new Error(`${name} ended (${signal ?? code})`)));
  // The caller that waits for the process sees its exit; this kill is expected.
  promise.catch(() => {});
  return promise;
}

function endGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, "SIGKILL");
}

/** Waits until a server says where it listens. */
function announced(logFile: string, limitMs: number): Promise<string> {
  return tried(() => /listening on (http\S+)/u.exec(readFileSync(logFile, "utf8"))?.[1], limitMs);
}

/** Waits until somebody takes connections at a place. */
function reachable(url: string, limitMs: number): Promise<string> {
  const { hostname, port } = new URL(url);
  return tried(async () => {
    const socket = connect({ host: hostname, port: Number(port) });
    try {
      await once(socket, "connect");
      return url;
    } catch {
      // Not ready yet; the caller retries until its time limit.
      return undefined;
    } finally {
      socket.destroy();
    }
  }, limitMs);
}

async function tried(
  attempt: () => string | undefined | Promise<string | undefined>,
  limitMs: number,
): Promise<string> {
  const deadline = performance.now() + limitMs;
  while (performance.now() < deadline) {
    const url = await attempt();
    if (url !== undefined) return url;
    await sleep(2);
  }
  throw new Error(`it did not listen within ${limitMs} ms`);
}

async function must(command: readonly [string, ...string[]]): Promise<void> {
  const { exitCode, output } = await runTool(command, { cwd: root });
  if (exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${exitCode}\n${output}`);
}
