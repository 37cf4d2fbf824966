import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A started process; leaving the scope that holds it ends it. */
export interface RunningProcess extends AsyncDisposable {
  readonly pid: number;
  readonly stdin: Writable;
  /** Resolves when the process has ended and its streams are read. */
  readonly exited: Promise<Exit>;
  /** Everything it has printed so far, both streams by line. */
  readonly output: () => string;
  /**
   * The first line on either stream, also an earlier one, that fits. Rejects, with what was printed, when the process
   * ends or the time is over before.
   */
  readonly waitForLine: (pattern: RegExp, timeoutMs?: number) => Promise<RegExpExecArray>;
  /** Asks it to end, and makes it end if it has not after a while. */
  readonly stop: () => Promise<Exit>;
}

/** What a process gets besides its arguments. */
export interface ProcessOptions {
  readonly cwd?: string;
  /** Besides the environment of this process; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A file descriptor of this process that the new one gets as its number 3. */
  readonly passed?: number;
}

type LineWatcher = (line: string) => void;

const lineTimeoutMs = 60_000;
const killAfterMs = 15_000;
let startedBefore = 0;

/** Starts a command with pipes on all three standard streams. */
export async function startProcess(
  command: readonly [string, ...string[]],
  { cwd, env, passed }: ProcessOptions = {},
): Promise<RunningProcess> {
  const [file, ...args] = command;
  // What a gateway records by itself must not end up with the user's own recordings, nor with those of other tests.
  const XDG_DATA_HOME = join(tmpdir(), `headgate-data-${process.pid}-${startedBefore++}`);
  const stdio = ["pipe", "pipe", "pipe", ...(passed === undefined ? [] : [passed])] as const;
  const options = { cwd, env: { ...process.env, XDG_DATA_HOME, ...env }, stdio: [...stdio] };
  // The first three are pipes, whatever follows.
  const child = spawn(file, args, options) as ChildProcessWithoutNullStreams;
  const started = Promise.withResolvers<void>();
  child.once("spawn", started.resolve);
  child.once("error", started.reject);
  const exit = Promise.withResolvers<Exit>();
  child.once("close", (code, signal) => {
    rmSync(XDG_DATA_HOME, { recursive: true, force: true });
    exit.resolve({ code, signal });
  });
  // A process that ends while we write to it is no reason for this one to end.
  child.stdin.on("error", () => {});

  const lines: string[] = [];
  const watchers = new Set<LineWatcher>();
  for (const stream of [child.stdout, child.stderr]) {
    eachLine(stream, (line) => {
      lines.push(line);
      for (const watcher of watchers) watcher(line);
    });
  }
  await started.promise;
  const { pid } = child;
  if (pid === undefined) throw new Error(`${file} has no process id`);

  const stop = async (): Promise<Exit> => {
    child.stdin.end();
    child.kill("SIGTERM");
    const deadline = setTimeout(() => {
      child.kill("SIGKILL");
      // What it started may still hold them open.
      child.stdout.destroy();
      child.stderr.destroy();
    }, killAfterMs);
    try {
      return await exit.promise;
    } finally {
      clearTimeout(deadline);
    }
  };

  return {
    pid,
    stdin: child.stdin,
    exited: exit.promise,
    output: () => lines.join("\n"),
    waitForLine: async (pattern, timeoutMs = lineTimeoutMs) => {
      const found = Promise.withResolvers<RegExpExecArray>();
      const watcher: LineWatcher = (line) => {
        const match = pattern.exec(line);
        if (match !== null) found.resolve(match);
      };
      const giveUp = (why: string): void =>
        found.reject(new Error(`${file} ${why} without a line like ${String(pattern)}:\n${lines.join("\n")}`));
      const deadline = setTimeout(() => giveUp(`ran for ${timeoutMs} ms`), timeoutMs);
      void exit.promise.then(({ code, signal }) => giveUp(`ended (${signal ?? code})`));
      watchers.add(watcher);
      for (const line of lines) watcher(line);
      try {
        return await found.promise;
      } finally {
        clearTimeout(deadline);
        watchers.delete(watcher);
      }
    },
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop();
    },
  };
}

function eachLine(stream: Readable, handle: LineWatcher): void {
  createInterface({ input: stream, crlfDelay: Infinity }).on("line", handle);
}
