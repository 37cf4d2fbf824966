import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

import type { SetTimer } from "../core/exchange.ts";
import { createLineReader } from "../protocol/line-framing.ts";
import { endsWithin } from "./deadline.ts";
import { AgentError } from "./errors.ts";

/** What the process of the CLI is made of. */
export interface CliProcessOptions {
  readonly command: CliCommand;
  readonly cwd: string | undefined;
  readonly environment: CliEnvironment;
  readonly maxLineBytes: number;
  /** How long a process that was asked to end may take. */
  readonly closeTimeoutMs: number;
  readonly setTimer: SetTimer;
  readonly onLine: (line: string) => void;
  readonly onStderr: ((text: string) => void) | undefined;
  /** Called once, when the process has ended, could not be started, or wrote a line that is too long. */
  readonly onEnd: (error: AgentError) => void;
}

/** A running CLI. */
export interface CliProcess {
  /** Writes one line; resolves when the pipe has taken it. */
  write(line: string): Promise<void>;
  /** Closes its input and waits until it ends; with `force`, and when it takes too long, it is made to end. */
  close(force: boolean): Promise<void>;
}

const stderrLinesKept = 20;
/** For output that is still on its way when the process ends; a child of its own may hold the pipe open for ever. */
const drainMs = 500;

/** Starts the CLI with pipes to talk to it. */
export function startCliProcess(options: CliProcessOptions): CliProcess {
  const { command, cwd, environment, setTimer, closeTimeoutMs } = options;
  const { promise: ended, resolve: setEnded } = Promise.withResolvers<void>();
  const stderr = keepLastLines(options.onStderr);
  let reported = false;

  const child = spawn(command.file, [...command.args], {
    cwd,
    env: { ...environment },
    stdio: "pipe",
    windowsHide: true,
  });
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
  child.stdout.on("data", (chunk: Buffer) => {
    lines.push(chunk);
  });
  child.stderr.on("data", stderr.push);
  // A process that ends while we write to it is told of by its exit.
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
    const stopTimer = setTimer(drainMs, finish);
    child.once("close", finish);
  });

  function end(error: AgentError): void {
    if (reported) return;
    reported = true;
    options.onEnd(error);
  }

  return {
    async write(line) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      child.stdin.write(`${line}\n`, (error) => {
        if (error)
          reject(new AgentError("cli_exited", `the CLI takes no more input: ${error.message}`, { cause: error }));
        else resolve();
      });
      await promise;
    },
    async close(force) {
      child.stdin.end();
      if (!force && (await endsWithin(ended, closeTimeoutMs, setTimer))) return;
      child.kill("SIGTERM");
      if (await endsWithin(ended, closeTimeoutMs, setTimer)) return;
      child.kill("SIGKILL");
      await ended;
    },
  };
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
  return new AgentError("cli_exited", `the Claude CLI ended ${how}; ${said}`, {
    details: { exitCode: code, signal, stderr },
  });
}

function cliNotStarted({ file }: CliCommand, error: Error): AgentError {
  return new AgentError("cli_not_started", `the Claude CLI at ${file} could not be started: ${error.message}`, {
    details: { file },
    cause: error,
  });
}

function lineTooLong(limit: number): AgentError {
  return new AgentError(
    "line_too_long",
    `the Claude CLI wrote a line of more than ${limit} bytes; raise maxLineBytes if it is right to`,
    { details: { limit } },
  );
}

/** The variable that names the CLI where it is not on the path. */
const cliPathVariable = "HEADGATE_CLAUDE_CLI";

/** Variables of a process. */
export type CliEnvironment = Readonly<Record<string, string | undefined>>;

/** How to start a program. */
export interface CliCommand {
  readonly file: string;
  readonly args: readonly string[];
}

/**
 * Finds the Claude CLI: at the path given, at the path in HEADGATE_CLAUDE_CLI, or as `claude` on the path. Throws an
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
    `the Claude CLI was not found (looked at: ${looked}). Install Claude Code, or name its executable in the option cliPath or in ${cliPathVariable}`,
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

/** A script runs on this very Node. */
function toCommand(path: string): CliCommand {
  return isScript(path) ? { file: process.execPath, args: [path] } : { file: path, args: [] };
}

function isScript(path: string): boolean {
  return /\.[cm]?[jt]s$/u.test(path);
}
