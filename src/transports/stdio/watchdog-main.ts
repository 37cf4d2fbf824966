// The watchdog's own process: holds the other end of a pipe to the gateway. However the gateway ends, SIGKILL
// included, the system closes the pipe, and what the gateway had started and not ended is ended here.
import { createLineReader } from "../../protocol/line-framing.ts";
import { applyWatchdogLine, killProcessTree, type ProcessTree } from "./process-tree.ts";

const graceMs = Number(process.argv[2]);
const families = new Map<number, ProcessTree>();
const lines = createLineReader({ onLine: (line) => applyWatchdogLine(families, line.toString("utf8")) });

function setTimer(milliseconds: number, callback: () => void): () => void {
  const timer = setTimeout(callback, milliseconds);
  return () => clearTimeout(timer);
}

async function endAll(): Promise<void> {
  await Promise.all([...families.values()].map((family) => killProcessTree(family, { graceMs, setTimer })));
  process.exit(0);
}

// Whoever stops the gateway by a signal to all its processes must not take the watch away first.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
process.title = "headgate-watchdog";
process.stdin.on("data", (chunk: Buffer) => lines.push(chunk));
process.stdin.on("error", () => {});
process.stdin.on("close", () => void endAll());
