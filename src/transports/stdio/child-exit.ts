import { existsSync } from "node:fs";

import { GatewayError } from "../../errors.ts";

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
export function startError(command: string, cwd: string | undefined, cause: unknown): GatewayError {
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
