// The process of the watchdog. It holds one end of a pipe to the gateway: however the gateway exits, even by SIGKILL, the
// system closes the pipe, and the watchdog kills the processes that are left.
import { createLineReader } from "../../protocol/line-framing.ts";
import { applyWatchdogLine, killProcessTree, type ProcessTree, removeChildGroup } from "./process-tree.ts";

const graceMs = Number(process.argv[2]);
const trees = new Map<number, ProcessTree>();
const lines = createLineReader({ onLine: (line) => applyWatchdogLine(trees, line.toString("utf8")) });

function setTimer(milliseconds: number, callback: () => void): () => void {
  const timer = setTimeout(callback, milliseconds);
  return () => clearTimeout(timer);
}

async function endAll(): Promise<void> {
  await Promise.all(
    [...trees.values()].map(async (tree) => {
      await killProcessTree(tree, { graceMs, setTimer });
      removeChildGroup(tree.marker);
    }),
  );
  process.exit(0);
}

// A signal to all processes of the gateway must not stop the watchdog first.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.title = "headgate-watchdog";
process.stdin.on("data", (chunk: Buffer) => lines.push(chunk));
process.stdin.on("error", () => {});
process.stdin.on("close", () => void endAll());
