import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

import { GatewayError } from "../../errors.ts";
import { keepProcessAlive, type SetTimer } from "../../lib/clock.ts";
import { thrownCode } from "../../lib/thrown-message.ts";
import { spawnProcess } from "../../lib/spawn-process.ts";
import { settlesWithin } from "../../lib/timeout.ts";
import { stdioLineLimit } from "../../protocol/message.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { childEnvironment, type ChildEnvironment, childMarkerVariable } from "./environment.ts";
import { createMessageLines, createMessageWriter } from "./framing.ts";
import { behindLauncher, findDeathSignal, goDescriptor, requireProgram, toWindowsCommand } from "./launcher.ts";
import {
  createChildGroup,
  killProcessTree,
  type ProcessTree,
  processTreeOf,
  removeChildGroup,
} from "./process-tree.ts";
import type { Watchdog } from "./watchdog.ts";

const isWindows = process.platform === "win32";

/** The command of a server, and its limits. */
export interface ChildOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Variables in addition to the few that every program needs. */
  readonly env?: ChildEnvironment;
  readonly cwd?: string;
  /** Longest message; 4 MiB by default. */
  readonly maxLineBytes?: number;
  /** Bytes queued for a child that does not read; 1 MiB by default. */
  readonly maxQueueBytes?: number;
  /** How long it may take to exit after its input is closed, and again after SIGTERM; 2 s by default. */
  readonly graceMs?: number;
}

export interface ChildDeps {
  /** The environment that allowed variables are inherited from. */
  readonly environment: ChildEnvironment;
  /** Creates incarnations; unique in this process and all later ones. */
  readonly newId: () => string;
  readonly setTimer: SetTimer;
  /** Kills the child if this process is killed. */
  readonly watchdog: Watchdog;
  readonly onStderr?: (line: string, pid: number) => void;
  /** Called once if it has written nothing after this long. */
  readonly slowStart?: { readonly afterMs: number; readonly report: (pid: number) => void };
}

/** The channel to a child process. */
export interface ChildChannel extends Channel {
  readonly pid: number;
  readonly command: string;
  /** How it exited; undefined while it runs. */
  readonly exit: ChildExit | undefined;
}

/** Why a child is stopped. */
interface StopCause {
  /** The owner closed the channel. */
  readonly isOurs: boolean;
  /** The end of the sentence "the server process …". */
  readonly text: string;
  readonly error?: Error;
}

const defaultQueueBytes = 1024 * 1024;
const defaultGraceMs = 2000;
const outputClosed: StopCause = { isOurs: false, text: "closed its output and was stopped" };
/** How long to read what an exited process has left in its pipes; a descendant may hold the other end open. */
const drainMs = 3000;

/**
 * Starts a server in its own process group and returns the channel to it, or rejects with a GatewayError. `events.closed`
 * is called exactly once, after the last message, when the process and all its descendants have exited.
 */
export async function startChild(options: ChildOptions, events: ChannelEvents, deps: ChildDeps): Promise<ChildChannel> {
  const { command, maxLineBytes = stdioLineLimit, maxQueueBytes = defaultQueueBytes } = options;
  const { graceMs = defaultGraceMs } = options;
  const { setTimer, watchdog } = deps;
  const incarnation = deps.newId();
  // With our pid, because several gateways may count incarnations from one.
  const marker = `${process.pid}.${incarnation}`;
  const { child, tree } = await launch(options, marker, deps);
  const pid = tree.leader;

  const stderr = createStderrLines((line) => deps.onStderr?.(line, pid));
  const lines = createMessageLines(maxLineBytes, events);
  const writer = createMessageWriter(child.stdin, {
    maxQueueBytes,
    reader: "the server process",
    lost: "upstream_unreachable",
  });
  const exited = Promise.withResolvers<void>();
  const drained = Promise.withResolvers<void>();
  let exit: ChildExit | undefined;
  let end: Promise<void> | undefined;

  const { slowStart } = deps;
  const stopWaiting = slowStart && setTimer(slowStart.afterMs, () => slowStart.report(pid));
  child.stdout.once("data", () => stopWaiting?.());
  child.stdout.on("data", (chunk: Buffer) => lines.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
  // Without these listeners a broken pipe would crash this process.
  child.stdin.on("error", (error) => void stop({ isOurs: false, text: "closed its input and was stopped", error }));
  child.stdout.on("error", (error) => void stop({ ...outputClosed, error }));
  child.stderr.on("error", () => {});
  child.stdout.on("end", () => void stop(outputClosed));
  child.on("close", () => drained.resolve());
  child.on("exit", () => {
    exited.resolve();
    void stop({ isOurs: false, text: "exited" });
  });

  function stop(cause: StopCause): Promise<void> {
    end ??= finish(cause);
    return end;
  }

  async function finish(cause: StopCause): Promise<void> {
    stopWaiting?.();
    const release = keepProcessAlive();
    writer.stop(stoppedError(cause));
    child.stdin.end();
    const hasExited = await settlesWithin(exited.promise, graceMs, setTimer);
    await killProcessTree(tree, { graceMs, setTimer });
    await settlesWithin(drained.promise, drainMs, setTimer);
    for (const stream of child.stdio) stream?.destroy();
    child.unref();
    removeChildGroup(marker);
    watchdog.forget(tree);
    lines.end();
    stderr.end();
    exit = {
      code: child.exitCode ?? undefined,
      signal: child.signalCode ?? undefined,
      byItself: hasExited && !cause.isOurs,
      stderr: stderr.tail(),
    };
    release();
    events.closed(closedError(cause, exit));
  }

  return {
    incarnation,
    pid,
    command,
    get exit() {
      return exit;
    },
    send: (message) => writer.send(message),
    close: (reason) => stop({ isOurs: true, text: `was stopped: ${reason}` }),
  };
}

interface Launched {
  readonly child: ChildProcessWithoutNullStreams;
  readonly tree: ProcessTree;
}

async function launch(options: ChildOptions, marker: string, deps: ChildDeps): Promise<Launched> {
  const { command, args, cwd } = options;
  const configured = { ...options.env, [childMarkerVariable]: marker };
  const env = childEnvironment(deps.environment, configured, process.platform);
  try {
    const group = (): string | undefined => createChildGroup(marker);
    if (!isWindows) requireProgram(command, cwd, env);
    const launcher = behindLauncher({ file: command, args }, env, await findDeathSignal(), group);
    const direct = { file: command, args };
    const {
      file,
      args: given,
      ...quoting
    } = launcher ?? (isWindows ? toWindowsCommand(direct, cwd ?? process.cwd(), env) : direct);
    const child = spawnProcess(file, given, {
      ...quoting,
      ...(cwd === undefined ? {} : { cwd }),
      env,
      stdio: ["pipe", "pipe", "pipe", launcher === undefined ? "ignore" : "pipe"],
      // Its own group: signals reach its descendants too, and Ctrl-C on our terminal does not reach it.
      detached: !isWindows,
      windowsHide: true,
      // The first three are pipes.
    }) as ChildProcessWithoutNullStreams;
    const go = child.stdio[goDescriptor];
    // A launcher that was killed meanwhile is an exit like any other.
    go?.on("error", () => {});
    const { pid } = child;
    const tree = pid === undefined ? undefined : processTreeOf(pid, marker);
    const watched = tree === undefined ? undefined : deps.watchdog.watch(tree);
    await once(child, "spawn");
    if (tree === undefined) throw new Error("a started process has no pid");
    await watched;
    if (go instanceof Writable) go.end("\n");
    return { child, tree };
  } catch (error) {
    removeChildGroup(marker);
    throw startError(command, cwd, error);
  }
}

/** The error for messages sent after the stop has begun. */
function stoppedError(cause: StopCause): GatewayError {
  const text = cause.isOurs ? "is being stopped" : "has exited";
  return new GatewayError("upstream_unreachable", `the server process ${text}`, { cause: cause.error });
}

function closedError(cause: StopCause, exit: ChildExit): GatewayError {
  const text = exit.byItself ? `exited with ${exitText(exit)}` : cause.text;
  return new GatewayError("upstream_unreachable", `the server process ${text}`, { cause: exitCause(exit) });
}

/** How a child exited. */
export interface ChildExit {
  readonly code: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
  /** It exited without being stopped by us. */
  readonly byItself: boolean;
  /** The last lines of its stderr: for the log, never for a client. */
  readonly stderr: readonly string[];
}

/** How a child exited: `exit code 1`, `signal SIGSEGV`. */
export function exitText(exit: Pick<ChildExit, "code" | "signal">): string {
  return exit.signal === undefined ? `exit code ${exit.code ?? "unknown"}` : `signal ${exit.signal}`;
}

/** The cause shown in the log: how the child exited and its last stderr lines. */
export function exitCause(exit: ChildExit): Error {
  const output = exit.stderr.length === 0 ? "nothing on stderr" : `last on stderr:\n${exit.stderr.join("\n")}`;
  return new Error(`${exitText(exit)}, ${output}`);
}

/** The error for a child that cannot be started. Only its cause, for the log, has paths of this machine. */
function startError(command: string, cwd: string | undefined, cause: unknown): GatewayError {
  return new GatewayError("upstream_unreachable", "the server process cannot be started; see the log of the gateway", {
    cause: new Error(`cannot start "${command}": ${reasonOf(thrownCode(cause), cwd)}`, { cause }),
  });
}

function reasonOf(code: string | undefined, cwd: string | undefined): string {
  if (cwd !== undefined && (code === "ENOENT" || code === "ENOTDIR") && !existsSync(cwd)) {
    return "its working directory does not exist; check `cwd`";
  }
  switch (code) {
    case "ENOENT":
      return "not found; check the spelling, whether it is installed, and the PATH";
    case "EACCES":
      return "permission denied; check that it is an executable file, and the permissions of its folders";
    case "ENOTDIR":
      return "a part of its path or working directory is not a directory";
    case "EAGAIN":
    case "ENOMEM":
    case "EMFILE":
    case "ENFILE":
      return "the system cannot start another process; check its limits on processes, files and memory";
    case "E2BIG":
      return "its arguments and environment are too long";
    case "ERR_INVALID_ARG_VALUE":
      return "its name, an argument or a variable contains a NUL character";
    default:
      return `the system call failed${code === undefined ? "" : ` (${code})`}`;
  }
}

const maxLineLength = 8 * 1024;
const tailLength = 10;

/** Creates the splitter. A CR ends a line too, for progress bars; a line over 8 KiB is reported in pieces. */
export function createStderrLines(onLine: (line: string) => void) {
  const decoder = new StringDecoder("utf8");
  const recent: string[] = [];
  let unfinished = "";

  function report(line: string): void {
    for (let at = 0; at < line.length; at += maxLineLength) {
      const text = line.slice(at, at + maxLineLength).trimEnd();
      if (text === "") continue;
      recent.push(text);
      if (recent.length > tailLength) recent.shift();
      onLine(text);
    }
  }

  return {
    push(chunk: Buffer): void {
      const lines = (unfinished + decoder.write(chunk)).split(/[\r\n]/u);
      const last = lines.pop() ?? "";
      const rest = last.length % maxLineLength;
      for (const line of [...lines, last.slice(0, last.length - rest)]) report(line);
      unfinished = last.slice(last.length - rest);
    },
    /** Reports an unfinished last line. */
    end(): void {
      report(unfinished + decoder.end());
      unfinished = "";
    },
    /** The last lines, oldest first. */
    tail: (): readonly string[] => [...recent],
  };
}
