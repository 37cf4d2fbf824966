import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { delimiter, join, resolve, win32 } from "node:path";

import { thrownCode } from "../../lib/thrown-message.ts";
import type { ChildEnvironment } from "./environment.ts";

/** A program and its arguments. */
export interface LaunchCommand {
  readonly file: string;
  readonly args: readonly string[];
}

/** The descriptor on which the launcher waits. */
export const goDescriptor = 3;

/**
 * Waits for a line, then becomes the command, with the same pid. If the gateway is killed before it has told the
 * watchdog of the new process, the pipe closes and the command never starts.
 */
const script = `read -r go <&${goDescriptor} || exit 125; exec "$@" ${goDescriptor}<&-`;
/** Moves the launcher into the cgroup whose file is its name. */
const joinGroup = 'if [ -n "$0" ]; then { echo $$ >"$0"; } 2>/dev/null; fi; ';
/** What a shell adds to the environment. */
const shellVariables = ["PWD", "OLDPWD", "SHLVL"];

/**
 * The command that starts a server behind the launcher; undefined where there is none: on Windows, and for variables
 * that a shell would not pass on.
 */
export function behindLauncher(
  command: LaunchCommand,
  environment: ChildEnvironment,
  deathSignal: LaunchCommand | undefined,
  /** Creates the cgroup of the child; the file that takes its pid. */
  createGroup: () => string | undefined,
): LaunchCommand | undefined {
  const isPassedOn = Object.keys(environment).every((name) => /^[A-Za-z_]\w*$/u.test(name));
  if (process.platform === "win32" || !isPassedOn || command.file.startsWith("-")) return undefined;
  const prefix = deathSignal === undefined ? [] : [deathSignal.file, ...deathSignal.args];
  const added = shellVariables.filter((name) => environment[name] === undefined);
  const cleanUp = added.length === 0 ? "" : `unset ${added.join(" ")}; `;
  return {
    file: "/bin/sh",
    args: ["-c", cleanUp + joinGroup + script, createGroup() ?? "", ...prefix, command.file, ...command.args],
  };
}

/** Throws what `spawn` would if the command does not exist or may not be run, which a launcher cannot tell. */
export function requireProgram(file: string, cwd: string | undefined, environment: ChildEnvironment): void {
  const base = cwd ?? process.cwd();
  // A wrong working directory is for spawn to report.
  if (statSync(base, { throwIfNoEntry: false })?.isDirectory() !== true) return;
  const folders = (environment["PATH"] ?? "/usr/local/bin:/bin:/usr/bin").split(delimiter);
  const paths = file.includes("/") ? [resolve(base, file)] : folders.map((folder) => join(resolve(base, folder), file));
  let fault: unknown = Object.assign(new Error(`spawn ${file} ENOENT`), { code: "ENOENT" });
  for (const path of paths) {
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return;
      fault = Object.assign(new Error(`spawn ${file} EACCES`), { code: "EACCES" });
    } catch (error) {
      const code = thrownCode(error);
      if (code === "EACCES" || (code === "ENOTDIR" && file.includes("/"))) fault = error;
    }
  }
  throw fault;
}

const deathSignalArgs = ["--pdeathsig", "KILL"];
let probe: Promise<LaunchCommand | undefined> | undefined;

/**
 * The prefix that lets Linux kill a child when the gateway dies (PR_SET_PDEATHSIG), also if the watchdog dies with it;
 * undefined where util-linux has no `setpriv` that can. Found out once.
 */
export async function findDeathSignal(): Promise<LaunchCommand | undefined> {
  probe ??= process.platform === "linux" ? probeDeathSignal("/usr/bin/setpriv") : Promise.resolve(undefined);
  return probe;
}

async function probeDeathSignal(file: string): Promise<LaunchCommand | undefined> {
  const { promise, resolve: found } = Promise.withResolvers<boolean>();
  // BusyBox and old versions have a setpriv without the option.
  execFile(file, [...deathSignalArgs, file, "--version"], { timeout: 5000 }, (error) => found(error === null));
  return (await promise) ? { file, args: deathSignalArgs } : undefined;
}

/** A command as `spawn` takes it on Windows. */
interface WindowsCommand extends LaunchCommand {
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
