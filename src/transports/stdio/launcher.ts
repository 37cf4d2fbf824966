import { execFile } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

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
      const code = error instanceof Error && "code" in error ? error.code : undefined;
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
