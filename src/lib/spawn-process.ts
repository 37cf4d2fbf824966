import { type ChildProcess, spawn, type SpawnOptions } from "node:child_process";

/**
 * Starts a process as `spawn` of Node does, and throws if this process has no file descriptors left for it. Node then
 * returns a process without streams, whose error event comes before anybody who failed to use them could listen, and ends
 * this process.
 */
export function spawnProcess(file: string, args: readonly string[], options: SpawnOptions): ChildProcess {
  const child = spawn(file, args, options);
  // Its type does not say that it may be absent.
  const stdio = child.stdio as ChildProcess["stdio"] | undefined;
  if (stdio !== undefined) return child;
  child.on("error", () => {});
  throw Object.assign(new Error(`spawn ${file} EMFILE`), { code: "EMFILE" });
}
