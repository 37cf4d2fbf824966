import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

import { AgentError } from "./errors.ts";

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
