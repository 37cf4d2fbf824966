import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";

import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../core/exchange.ts";
import { stdioLineLimit } from "../../protocol/message.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { childEnvironment, type ChildEnvironment, childMarkerVariable } from "./environment.ts";
import { createMessageLines, createMessageWriter } from "./framing.ts";
import { killProcessTree, type ProcessTree, processTreeOf } from "./process-tree.ts";
import { settlesWithin } from "../../lib/timeout.ts";
import type { Watchdog } from "./watchdog.ts";

/** The command of a server and the limits of its process. */
export interface ChildOptions {
  readonly command: string;
  readonly args: readonly string[];
  /** Variables that the child gets besides the few that every program needs. */
  readonly env?: ChildEnvironment;
  readonly cwd?: string;
  /** Longest line that is taken for a message; 4 MiB unless given. */
  readonly maxLineBytes?: number;
  /** Bytes that may wait for a child which does not read; 1 MiB unless given. */
  readonly maxQueueBytes?: number;
  /** How long it may take to leave after its input was closed, and again after SIGTERM; 2 s unless given. */
  readonly graceMs?: number;
}

/** What a child needs of the world around it. */
export interface ChildDeps {
  /** The environment of which the allowed variables are handed on. */
  readonly environment: ChildEnvironment;
  /** Makes incarnations; no two may be alike, in this process or a later one. */
  readonly newId: () => string;
  readonly setTimer: SetTimer;
  /** Ends the child should this process be killed. */
  readonly watchdog: Watchdog;
  /** Gets each line that the child writes to its standard error. */
  readonly onStderr?: (line: string, pid: number) => void;
}

/** The channel to a child process. */
export interface ChildChannel extends Channel {
  readonly pid: number;
  readonly command: string;
  /** How it ended, once it has. */
  readonly exit: ChildExit | undefined;
}

/** Why a child comes to its end. */
interface StopCause {
  /** The owner closed the channel; everything else is the child's doing. */
  readonly isOurs: boolean;
  /** What to say of a process that had to be stopped. */
  readonly fate: string;
  readonly error?: Error;
}

const defaultQueueBytes = 1024 * 1024;
const defaultGraceMs = 2000;
const outputClosed: StopCause = { isOurs: false, fate: "closed its output and was stopped" };
/** What an ended process has written is in the pipe; a stranger who holds the other end open must not hold us up. */
const drainMs = 1000;

/**
 * Starts a server as a process group of its own and gives the channel to it, or rejects with a GatewayError that
 * names the command and what to check. `events.closed` is called exactly once, after the last message, when the
 * process and all its descendants have gone, whoever ended them.
 */
export async function startChild(options: ChildOptions, events: ChannelEvents, deps: ChildDeps): Promise<ChildChannel> {
  const { command, maxLineBytes = stdioLineLimit, maxQueueBytes = defaultQueueBytes } = options;
  const { graceMs = defaultGraceMs } = options;
  const { setTimer, watchdog } = deps;
  const incarnation = deps.newId();
  // The number of this process keeps apart the children of gateways that count from one.
  const marker = `${process.pid}.${incarnation}`;
  const { child, family } = await launch(options, marker, deps);
  const pid = family.leader;

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

  child.stdout.on("data", (chunk: Buffer) => lines.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => stderr.push(chunk));
  // Without these listeners a broken pipe would end this process.
  child.stdin.on("error", (error) => void begin({ isOurs: false, fate: "closed its input and was stopped", error }));
  child.stdout.on("error", (error) => void begin({ ...outputClosed, error }));
  child.stderr.on("error", () => {});
  child.stdout.on("end", () => void begin(outputClosed));
  child.on("close", () => drained.resolve());
  child.on("exit", () => {
    exited.resolve();
    void begin({ isOurs: false, fate: "ended" });
  });

  function begin(cause: StopCause): Promise<void> {
    end ??= finish(cause);
    return end;
  }

  async function finish(cause: StopCause): Promise<void> {
    const release = keepProcessAlive();
    writer.stop(stoppedError(cause));
    child.stdin.end();
    const left = await settlesWithin(exited.promise, graceMs, setTimer);
    await killProcessTree(family, { graceMs, setTimer });
    await settlesWithin(drained.promise, drainMs, setTimer);
    for (const stream of child.stdio) stream?.destroy();
    child.unref();
    watchdog.forget(family);
    lines.end();
    stderr.end();
    exit = {
      code: child.exitCode ?? undefined,
      signal: child.signalCode ?? undefined,
      byItself: left && !cause.isOurs,
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
    close: (reason) => begin({ isOurs: true, fate: `was stopped: ${reason}` }),
  };
}

interface Launched {
  readonly child: ChildProcessWithoutNullStreams;
  readonly family: ProcessTree;
}

async function launch(options: ChildOptions, marker: string, deps: ChildDeps): Promise<Launched> {
  const { command, args, cwd } = options;
  const configured = { ...options.env, [childMarkerVariable]: marker };
  try {
    const child = spawn(command, args, {
      ...(cwd === undefined ? {} : { cwd }),
      env: childEnvironment(deps.environment, configured, process.platform),
      stdio: ["pipe", "pipe", "pipe"],
      // Its own group and session: signals reach it with its descendants, and Ctrl-C on our terminal does not.
      detached: process.platform !== "win32",
      windowsHide: true,
    });
    const { pid } = child;
    const family = pid === undefined ? undefined : processTreeOf(pid, marker);
    if (family !== undefined) deps.watchdog.watch(family);
    await once(child, "spawn");
    if (family === undefined) throw new Error("a started process has no number");
    return { child, family };
  } catch (error) {
    throw startError(command, cwd, error);
  }
}

/** What senders hear from the moment the end has begun. */
function stoppedError(cause: StopCause): GatewayError {
  const text = cause.isOurs ? "is being stopped" : "has gone";
  return new GatewayError("upstream_unreachable", `the server process ${text}`, { cause: cause.error });
}

function closedError(cause: StopCause, exit: ChildExit): GatewayError {
  const fate = exit.byItself ? `ended by itself with ${exitText(exit)}` : cause.fate;
  return new GatewayError("upstream_unreachable", `the server process ${fate}`, { cause: exitCause(exit) });
}

/** How a child ended. */
export interface ChildExit {
  readonly code: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
  /** It ended without having been told to. */
  readonly byItself: boolean;
  /** The last lines of its standard error: for the log, never for a peer. */
  readonly stderr: readonly string[];
}

/** Says how a child ended in a few words: `exit code 1`, `signal SIGSEGV`. */
export function exitText(exit: Pick<ChildExit, "code" | "signal">): string {
  return exit.signal === undefined ? `exit code ${exit.code ?? "unknown"}` : `signal ${exit.signal}`;
}

/** The cause that the log shows for an ended child: how it ended and its last words. */
export function exitCause(exit: ChildExit): Error {
  const words = exit.stderr.length === 0 ? "nothing on stderr" : `last on stderr:\n${exit.stderr.join("\n")}`;
  return new Error(`${exitText(exit)}, ${words}`);
}

/**
 * The error for a child that was not to be started. Its cause, which only the log shows, names the command and what to
 * look at: the paths of this machine are no business of a peer.
 */
function startError(command: string, cwd: string | undefined, cause: unknown): GatewayError {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return new GatewayError(
    "upstream_unreachable",
    "the server process cannot be started; the log of the gateway says why",
    { cause: new Error(`cannot start "${command}": ${reasonOf(code, cwd)}`, { cause }) },
  );
}

function reasonOf(code: unknown, cwd: string | undefined): string {
  if (cwd !== undefined && (code === "ENOENT" || code === "ENOTDIR") && !existsSync(cwd)) {
    return "its working directory does not exist; check `cwd`";
  }
  switch (code) {
    case "ENOENT":
      return process.platform === "win32"
        ? 'not found; check the spelling and the PATH, and start .cmd scripts such as npx as "cmd /c npx …"'
        : "not found; check the spelling, whether it is installed, and the PATH";
    case "EACCES":
      return "permission denied; check that it is a file with the right to execute, and the rights on its folders";
    case "ENOTDIR":
      return "a part of its path or its working directory is no directory; check both";
    case "EAGAIN":
    case "ENOMEM":
    case "EMFILE":
    case "ENFILE":
      return "the system has no room for another process; check its limits on processes, files and memory";
    case "E2BIG":
      return "its arguments and environment are too long";
    case "ERR_INVALID_ARG_VALUE":
      return "its name, an argument or a variable holds a NUL character";
    default:
      return `the system refused${typeof code === "string" ? ` (${code})` : ""}`;
  }
}

/** Takes what a child writes to its standard error and gives it on as lines of text. */
export interface StderrLines {
  push(chunk: Buffer): void;
  /** Gives the unfinished last line. */
  end(): void;
  /** The last lines, oldest first. */
  tail(): readonly string[];
}

const maxLineBytes = 8 * 1024;
const tailLength = 10;
const LF = 0x0a;
const CR = 0x0d;

/**
 * Makes a splitter of log text. A lone CR ends a line as well, for progress bars write nothing else; a line over
 * 8 KiB is given in pieces, so that whatever a child writes, little is held.
 */
export function createStderrLines(onLine: (line: string) => void): StderrLines {
  const held = Buffer.alloc(maxLineBytes);
  let used = 0;
  const recent: string[] = [];

  function give(line: Buffer): void {
    const text = line.toString("utf8").trimEnd();
    if (text === "") return;
    recent.push(text);
    if (recent.length > tailLength) recent.shift();
    onLine(text);
  }

  function flush(): void {
    if (used === 0) return;
    const line = held.subarray(0, used);
    used = 0;
    give(line);
  }

  function hold(chunk: Buffer, from: number, to: number): void {
    let at = from;
    while (at < to) {
      const copied = chunk.copy(held, used, at, Math.min(to, at + maxLineBytes - used));
      used += copied;
      at += copied;
      if (used === maxLineBytes) flush();
    }
  }

  return {
    push(chunk) {
      let at = 0;
      for (let i = 0; i < chunk.length; i += 1) {
        if (chunk[i] !== LF && chunk[i] !== CR) continue;
        hold(chunk, at, i);
        flush();
        at = i + 1;
      }
      hold(chunk, at, chunk.length);
    },
    end: flush,
    tail: () => [...recent],
  };
}

/** Keeps this process alive until the returned function is called: the timers handed in may not. */
function keepProcessAlive(): () => void {
  const longest = 2 ** 31 - 1;
  const hold = setInterval(() => {}, longest);
  return () => clearInterval(hold);
}
