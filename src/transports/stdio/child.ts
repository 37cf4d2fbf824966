import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";

import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../exchange.ts";
import { stdioLineLimit } from "../../protocol/message.ts";
import type { Channel, ChannelEvents } from "../transport.ts";
import { exitCause, exitText, startError } from "./child-exit.ts";
import type { ChildExit } from "./child-exit.ts";
import { childEnvironment, childMarkerVariable } from "./environment.ts";
import type { ChildEnvironment } from "./environment.ts";
import { createMessageLines } from "./message-lines.ts";
import { createMessageWriter } from "./message-writer.ts";
import { killProcessTree, processTreeOf } from "./process-family.ts";
import type { ProcessTree } from "./process-table.ts";
import { createStderrLines } from "./stderr-lines.ts";
import { keepProcessAlive, settlesWithin } from "./timer.ts";
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
export async function startChild(
  options: ChildOptions,
  events: ChannelEvents,
  deps: ChildDeps,
): Promise<ChildChannel> {
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
  child.stdin.on(
    "error",
    (error) => void begin({ isOurs: false, fate: "closed its input and was stopped", error }),
  );
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
