import type { ChildProcess, ChildProcessWithoutNullStreams, SpawnOptions } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

import { systemTimer } from "../../lib/clock.ts";
import { spawnProcess } from "../../lib/spawn-process.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { settlesWithin } from "../../lib/timeout.ts";
import { createLineReader } from "../../protocol/line-framing.ts";
import { AgentError } from "../errors.ts";

/** How to start the CLI, and what it reports. */
export interface CliProcessOptions {
  readonly command: CliCommand;
  readonly cwd: string | undefined;
  readonly environment: CliEnvironment;
  readonly maxLineBytes: number;
  /** How long the process may take to exit before it is killed. */
  readonly closeTimeoutMs: number;
  readonly onLine: (line: string) => void;
  readonly onStderr: ((text: string) => void) | undefined;
  /** Called once, when the process has exited, could not be started, or wrote a line that is too long. */
  readonly onEnd: (error: AgentError) => void;
}

/** A running CLI. */
export type CliProcess = ReturnType<typeof startCliProcess>;

const stderrLinesKept = 20;
/** How long to read output after the exit: a child of the CLI may hold the pipe open forever. */
const drainMs = 2000;

/** Starts the CLI. */
export function startCliProcess(options: CliProcessOptions) {
  const { command, cwd, environment, closeTimeoutMs } = options;
  const { promise: ended, resolve: setEnded } = Promise.withResolvers<void>();
  const stderr = keepLastLines(options.onStderr);
  let reported = false;

  const child = startProcess(command, { cwd, env: { ...environment }, stdio: "pipe", windowsHide: true });
  const lines = createLineReader({
    maxLineBytes: options.maxLineBytes,
    onLine: (line) => {
      if (!reported) options.onLine(line.toString("utf8"));
    },
    onOverflow: ({ limit }) => {
      end(lineTooLong(limit));
      child.kill("SIGTERM");
    },
  });
  child.stdout.on("data", (chunk: Buffer) => lines.push(chunk));
  child.stderr.on("data", stderr.push);
  // Reported by the exit.
  child.stdin.on("error", () => {});
  child.once("error", (error) => {
    end(cliNotStarted(command, error));
    if (child.pid === undefined) setEnded();
  });
  child.once("exit", (code, signal) => {
    const finish = (): void => {
      stopTimer();
      child.stdout.destroy();
      child.stderr.destroy();
      end(cliExited(code, signal, stderr.text()));
      setEnded();
    };
    const stopTimer = systemTimer(drainMs, finish);
    child.once("close", finish);
  });

  function end(error: AgentError): void {
    if (reported) return;
    reported = true;
    options.onEnd(error);
  }

  return {
    /** Writes one line; resolves when the pipe has accepted it. */
    async write(line: string): Promise<void> {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      child.stdin.write(`${line}\n`, (error) => {
        if (error)
          reject(new AgentError("cli_exited", `the CLI accepts no more input: ${error.message}`, { cause: error }));
        else resolve();
      });
      await promise;
    },
    /** Closes its input and waits for its exit; kills it after the timeout, or immediately with `force`. */
    async close(force: boolean): Promise<void> {
      child.stdin.end();
      if (!force && (await settlesWithin(ended, closeTimeoutMs, systemTimer))) return;
      child.kill("SIGTERM");
      if (await settlesWithin(ended, closeTimeoutMs, systemTimer)) return;
      child.kill("SIGKILL");
      await ended;
    },
  };
}

function startProcess(command: CliCommand, options: SpawnOptions): ChildProcessWithoutNullStreams {
  try {
    // All three streams are pipes.
    return spawnProcess(command.file, command.args, options) as ChildProcessWithoutNullStreams;
  } catch (error) {
    throw cliNotStarted(command, error);
  }
}

function keepLastLines(listener: ((text: string) => void) | undefined) {
  let kept = "";
  return {
    push: (chunk: Buffer): void => {
      const text = chunk.toString("utf8");
      kept = `${kept}${text}`
        .split("\n")
        .slice(-stderrLinesKept - 1)
        .join("\n")
        .slice(-10_000);
      listener?.(text);
    },
    text: (): string => kept.trim(),
  };
}

function cliExited(code: number | null, signal: ChildProcess["signalCode"], stderr: string): AgentError {
  const how = signal === null ? `with code ${code}` : `by signal ${signal}`;
  const said = stderr === "" ? "it printed nothing to standard error" : `its last lines were:\n${stderr}`;
  return new AgentError("cli_exited", `the Claude CLI exited ${how}; ${said}`, {
    details: { exitCode: code, signal, stderr },
  });
}

function cliNotStarted({ file }: CliCommand, error: unknown): AgentError {
  return new AgentError("cli_not_started", `the Claude CLI at ${file} could not be started: ${thrownMessage(error)}`, {
    details: { file },
    cause: error,
  });
}

function lineTooLong(limit: number): AgentError {
  return new AgentError(
    "line_too_long",
    `the Claude CLI wrote a line of more than ${limit} bytes; raise maxLineBytes if that is expected`,
    { details: { limit } },
  );
}

/** Names the CLI where it is not on the path. */
const cliPathVariable = "HEADGATE_CLAUDE_CLI";

/** The environment of a process. */
export type CliEnvironment = Readonly<Record<string, string | undefined>>;

/** A program with its arguments. */
export interface CliCommand {
  readonly file: string;
  readonly args: readonly string[];
}

/**
 * Finds the Claude CLI: at the given path, at the path in HEADGATE_CLAUDE_CLI, or as `claude` on the PATH. Throws an
 * error that lists where it looked.
 */
export function findCli(cliPath: string | undefined, environment: CliEnvironment): CliCommand {
  const named = cliPath ?? environment[cliPathVariable];
  const places = named === undefined ? pathCandidates(environment) : [named];
  const found = places.find(isFile);
  if (found !== undefined) return toCommand(found);
  const looked = places.length > 0 ? places.join(", ") : "nowhere, because PATH is empty";
  throw new AgentError(
    "cli_not_found",
    `the Claude CLI was not found (looked at: ${looked}). Install Claude Code, or set its path in the option cliPath or in ${cliPathVariable}`,
    { details: { looked: places } },
  );
}

function pathCandidates({ PATH: path = "" }: CliEnvironment): string[] {
  const names = process.platform === "win32" ? ["claude.exe", "claude.cmd"] : ["claude"];
  return path
    .split(delimiter)
    .filter((folder) => isAbsolute(folder))
    .flatMap((folder) => names.map((name) => join(folder, name)));
}

function isFile(path: string): boolean {
  try {
    accessSync(path, isScript(path) ? constants.R_OK : constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** A script runs on this Node. */
function toCommand(path: string): CliCommand {
  return isScript(path) ? { file: process.execPath, args: [path] } : { file: path, args: [] };
}

function isScript(path: string): boolean {
  return /\.[cm]?[jt]s$/u.test(path);
}
