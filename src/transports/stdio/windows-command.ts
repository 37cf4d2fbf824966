import { existsSync } from "node:fs";
import { win32 } from "node:path";

import type { ChildEnvironment } from "./environment.ts";
import type { LaunchCommand } from "./launcher.ts";

/** A command as `spawn` takes it on Windows. */
export interface WindowsCommand extends LaunchCommand {
  /** The arguments are one command line that must not be quoted again. */
  readonly windowsVerbatimArguments: boolean;
}

const defaultExtensions = ".COM;.EXE;.BAT;.CMD";
/** What cmd.exe takes for more than a character, also inside quotes. */
const metaCharacters = /[()\][%!^"`<>&|;, *?]/gu;
/** Scripts of npm, which hand their arguments to cmd.exe a second time. */
const npmScript = /\\node_modules\\\.bin\\[^\\]+\.cmd$/iu;

/**
 * The command that starts a program on Windows. `spawn` finds only `.exe` files there, and refuses scripts such as
 * `npx.cmd`: those go through cmd.exe, with every argument quoted so that none of it is taken for a command.
 */
export function toWindowsCommand(
  command: LaunchCommand,
  cwd: string,
  environment: ChildEnvironment,
  exists: (path: string) => boolean = existsSync,
): WindowsCommand {
  const program = findWindowsProgram(command.file, cwd, environment, exists);
  if (program === undefined || !/\.(?:cmd|bat)$/iu.test(program)) {
    return { file: program ?? command.file, args: command.args, windowsVerbatimArguments: false };
  }
  const rounds = npmScript.test(program) ? 2 : 1;
  const words = [escapeMeta(program), ...command.args.map((argument) => quote(argument, rounds))];
  return {
    file: valueOf(environment, "ComSpec") ?? "cmd.exe",
    args: ["/d", "/s", "/c", `"${words.join(" ")}"`],
    windowsVerbatimArguments: true,
  };
}

/** The file of a program: paths from the working directory, names in PATH, with the extensions of PATHEXT. */
export function findWindowsProgram(
  name: string,
  cwd: string,
  environment: ChildEnvironment,
  exists: (path: string) => boolean = existsSync,
): string | undefined {
  const isPath = /[\\/]/u.test(name) || win32.isAbsolute(name);
  const folders = isPath ? [cwd] : (valueOf(environment, "PATH") ?? "").split(";").filter((folder) => folder !== "");
  const known = (valueOf(environment, "PATHEXT") ?? defaultExtensions).split(";");
  // A name with an extension is tried as it is first. One without never is: npm puts a shell script of that name beside
  // its .cmd, which Windows cannot start.
  const endings = win32.extname(name) === "" ? known : ["", ...known];
  return folders
    .flatMap((folder) => endings.map((ending) => win32.resolve(folder, `${name}${ending.toLowerCase()}`)))
    .find((path) => exists(path));
}

/** A variable, whose name Windows takes in any case. */
function valueOf(environment: ChildEnvironment, name: string): string | undefined {
  return Object.entries(environment).find(([key]) => key.toUpperCase() === name.toUpperCase())?.[1];
}

/** An argument as CommandLineToArgvW takes it apart, then as cmd.exe leaves it alone. */
function quote(argument: string, rounds: number): string {
  // A line feed ends a command line of cmd.exe, and what follows would be lost or run.
  if (/[\r\n\0]/u.test(argument)) {
    throw new Error("an argument of a .cmd script cannot hold a line break; start the program itself");
  }
  const quoted = `"${argument.replaceAll(/(?<slashes>\\*)"/gu, String.raw`$<slashes>$<slashes>\"`).replace(/(?<slashes>\\+)$/u, "$<slashes>$<slashes>")}"`;
  return rounds === 2 ? escapeMeta(escapeMeta(quoted)) : escapeMeta(quoted);
}

function escapeMeta(text: string): string {
  return text.replaceAll(metaCharacters, "^$&");
}
