import { existsSync } from "node:fs";
import { dirname } from "node:path";

import type { Config } from "../config/config.ts";
import { formatProblem } from "../config/issues.ts";
import { loadConfig } from "../config/load.ts";
import { GatewayError } from "../errors.ts";
import { nodeHttp } from "../lib/lazy-modules.ts";
import { type OptionTable, type OptionValues, parseCommandLine } from "./command-line.ts";
import { type CommandName, commands, exitCodes } from "./commands.ts";
import { usageError } from "./help.ts";
import type { CliIo } from "./io.ts";

/** Commands whose words are at most a file or a URL, so that others are probably a program to start. */
const startsPrograms: ReadonlySet<string> = new Set(["run", "stdio", "doctor", "tools"]);

/** Thrown when the arguments of a command are invalid; the message says what is wrong. */
export class UsageError extends Error {}

/** Thrown when a file that a command reads is invalid; the message has one line for each problem. */
export class InputFileError extends Error {}

/** The arguments of a command after parsing. */
export interface CommandArguments<Options extends OptionTable> {
  readonly values: OptionValues<Options>;
  readonly positionals: readonly string[];
  /** What follows `--`: another program with its arguments. */
  readonly program: readonly string[] | undefined;
}

/**
 * Makes a command of its handler: parses the arguments by the command table, and turns invalid arguments, configurations
 * and recordings into one message on standard error and exit code 2.
 */
export function defineCommand<Name extends CommandName, Io extends Pick<CliIo, "err">>(
  name: Name,
  handle: (args: CommandArguments<(typeof commands)[Name]["options"]>, io: Io) => Promise<number>,
): (args: readonly string[], io: Io) => Promise<number> {
  return async (args, io) => {
    try {
      const parsed = parseCommandLine<(typeof commands)[Name]["options"]>(commands[name].options, args);
      const takesProgram = commands[name].usage.some((usage) => usage.includes("-- COMMAND"));
      if (!parsed.ok) {
        // These take no positional arguments, so it is probably an option of the program to start.
        const isProgram = startsPrograms.has(name) && parsed.words.some((word) => !/^https?:/iu.test(word));
        throw new UsageError(isProgram ? `${parsed.problem}; put \`--\` before a command to start` : parsed.problem);
      }
      if (parsed.program !== undefined && !takesProgram) throw new UsageError("this command takes nothing after `--`");
      return await handle(parsed, io);
    } catch (error) {
      if (error instanceof UsageError) io.err(usageError(name, error.message));
      else if (error instanceof InputFileError) io.err(`${error.message}\n`);
      else {
        const fileProblem = describeFileError(error);
        if (fileProblem !== undefined) {
          io.err(`headgate ${name}: ${fileProblem}\n`);
          return exitCodes.usage.code;
        }
        if (!(error instanceof GatewayError)) throw error;
        io.err(`headgate ${name}: ${error.message}\n`);
        if (error.code !== "config_invalid" && error.code !== "store_failed") return exitCodes.failed.code;
      }
      return exitCodes.usage.code;
    }
  };
}

const fileErrors: Readonly<Record<string, string>> = {
  EACCES: "permission denied",
  EISDIR: "it is a folder",
  ENOENT: "no such file or folder",
  ENOSPC: "no space left on the device",
  ENOTDIR: "a part of the path is not a folder",
  EPERM: "not permitted",
  EROFS: "the file system is read-only",
};

/** Which file could not be read or written, and why; undefined for other errors. */
function describeFileError(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { path, code } = error as NodeJS.ErrnoException;
  const reason = code !== undefined && Object.hasOwn(fileErrors, code) ? fileErrors[code] : undefined;
  if (path === undefined || reason === undefined) return undefined;
  const folder = dirname(path);
  return code === "ENOENT" && !existsSync(folder) ? `there is no folder ${folder}` : `cannot open ${path}: ${reason}`;
}

/** Loads a configuration file for a command; throws if it is invalid. */
export async function loadConfigFile(
  file: string,
  { env, readFile }: Pick<CliIo, "env" | "readFile">,
  onWarning: (text: string) => void = () => {},
): Promise<Config> {
  const loaded = await loadConfig({ file, env, readFile });
  if (loaded.ok) {
    for (const warning of loaded.warnings) onWarning(formatProblem(warning, file));
    return loaded.config;
  }
  throw new InputFileError(loaded.problems.map((problem) => formatProblem(problem, file)).join("\n"));
}

/** Parses the value of an option that takes an HTTP header. */
export function parseHeader(option: string, line: string): readonly [name: string, value: string] {
  const colon = line.indexOf(":");
  const [name, value] = [line.slice(0, Math.max(colon, 0)).trim(), line.slice(colon + 1).trim()];
  try {
    // Both throw for invalid values (RFC 9110, sections 5.1 and 5.5).
    nodeHttp.validateHeaderName(name);
    nodeHttp.validateHeaderValue(name, value);
    return [name.toLowerCase(), value];
  } catch {
    // The value may be a secret, so it is not repeated.
    throw new UsageError(`${option} takes NAME:VALUE, the name and value of an HTTP header`);
  }
}

/** Parses the value of an option that takes a port; 0 is any free one. */
export function parsePort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/u.test(text) ? Number(text) : Number.NaN;
  if (!(port <= 65_535)) throw new UsageError(`\`${text}\` is not a port: a number from 0 to 65535`);
  return port;
}

/** The names under which a configuration is found without being named. */
const configNames = ["headgate.yaml", "headgate.yml", "headgate.json"];

/** The configuration in the current folder, if there is one. */
export function configInFolder(): string | undefined {
  return configNames.find((name) => existsSync(name));
}

/** The one configuration file that a command line names, as its argument or with `--config`. */
export function namedConfig(positionals: readonly string[], option: string | undefined): string | undefined {
  const named = option === undefined ? positionals : [option, ...positionals];
  if (named.length > 1) throw new UsageError("expected one FILE");
  return named[0];
}
