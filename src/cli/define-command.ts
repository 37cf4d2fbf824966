import type { Config } from "../config/config.ts";
import { loadConfig } from "../config/load.ts";
import { formatProblem } from "../config/issues.ts";
import { GatewayError } from "../errors.ts";
import { parseCommandLine, type OptionTable, type OptionValues } from "./command-line.ts";
import { commands, exitCodes, type CommandName } from "./commands.ts";
import { usageError } from "./help.ts";
import type { CliIo } from "./io.ts";

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
      if (!parsed.ok) throw new UsageError(parsed.problem);
      return await handle(parsed, io);
    } catch (error) {
      if (error instanceof UsageError) io.err(usageError(name, error.message));
      else if (error instanceof InputFileError) io.err(`${error.message}\n`);
      else {
        if (!(error instanceof GatewayError)) throw error;
        io.err(`headgate ${name}: ${error.message}\n`);
        if (error.code !== "config_invalid" && error.code !== "store_failed") return exitCodes.failed.code;
      }
      return exitCodes.usage.code;
    }
  };
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

/** Refuses a program behind `--`, for commands that start none. */
export function refuseProgram(program: readonly string[] | undefined): void {
  if (program !== undefined) throw new UsageError("this command takes nothing after `--`");
}
