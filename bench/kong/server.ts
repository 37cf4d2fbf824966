// The plugin server as a process of its own, with a decision point inside of it that answers at once. Its parent asks
// for its processor time and its heap.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { systemClock, systemTimer } from "../../src/core/exchange.ts";
import { serve } from "../../src/kong/serve.ts";
import type { PdpClient } from "../../src/policy/pdp/client.ts";
import { createSidebandEngine } from "../../src/policy/sideband/engine.ts";

const [socket = ""] = process.argv.slice(2);

/** Allows everything, and repeats what it was asked. */
const client: PdpClient = {
  post: ({ body }) => Promise.resolve({ status: 200, headers: {}, body }),
  close: () => {},
};

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const server = await serve({
  socket,
  accessOnly: false,
  pid: process.pid,
  clock: systemClock,
  setTimer: systemTimer,
  writeLine: () => {},
  createEngine: (settings, surroundings) => createSidebandEngine(settings, { ...surroundings, client }),
});
const delay = monitorEventLoopDelay({ resolution: 1 });
delay.enable();
process.on("message", (question) => {
  if (question === "heap") collect();
  const longestDelayMs = delay.max / 1e6;
  delay.reset();
  const { user, system } = process.cpuUsage();
  process.send?.({
    cpuMicros: user + system,
    heapBytes: process.memoryUsage().heapUsed,
    longestDelayMs,
    ...server.counts(),
  });
});
process.send?.("ready");
