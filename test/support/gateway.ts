import { resolve } from "node:path";

import { startProcess, type ProcessOptions, type RunningProcess } from "./process.ts";

/** A gateway that runs as its users run it: the command in a process of its own. */
export interface RunningGateway extends AsyncDisposable {
  /** Where it listens, without a path. */
  readonly origin: string;
  /** The endpoint of its only route. */
  readonly url: string;
  readonly process: RunningProcess;
}

const bin = resolve(import.meta.dirname, "../../bin/headgate.mjs");

/** Starts the command with these arguments and waits until it listens; `--port 0` is the caller's to say. */
export async function startGateway(args: readonly string[], options: ProcessOptions = {}): Promise<RunningGateway> {
  const child = await startProcess([process.execPath, bin, ...args], options);
  try {
    const [, origin = ""] = await child.waitForLine(/listening on (https?:\/\/[^\s/"]+)/u);
    return {
      origin,
      url: `${origin}/mcp`,
      process: child,
      [Symbol.asyncDispose]: child[Symbol.asyncDispose],
    };
  } catch (error) {
    await child.stop();
    throw error;
  }
}
