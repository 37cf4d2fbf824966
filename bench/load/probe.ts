// Loaded before a measured process starts: reports its resource usage to its parent on request.
import { monitorEventLoopDelay, PerformanceObserver } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Usage } from "./usage.ts";

let gcMs = 0;
let longestGcMs = 0;
let longestTurnMs = 0;
const delayResolutionMs = 1;
/** Only where it is asked for: its timer would be measured too. */
let delays: ReturnType<typeof monitorEventLoopDelay> | undefined;

if (process.send !== undefined) {
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
      gcMs += duration;
      longestGcMs = Math.max(longestGcMs, duration);
    }
  }).observe({ entryTypes: ["gc"] });
  process.on("message", (question) => {
    if (question === "usage") process.send?.(usage());
    if (question === "watch the event loop") {
      watchLoop();
      process.send?.(usage());
    }
    if (question === "collected usage") {
      collectGarbage();
      process.send?.(usage());
    }
  });
  // Its parent is gone and will not end it.
  process.on("disconnect", () => process.exit());
  // Being watched is no reason to stay.
  process.channel?.unref();
}

function usage(): Usage {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  const longestDelayMs = delays === undefined ? 0 : Math.max(0, delays.max / 1e6 - delayResolutionMs);
  const taken = { cpuMicros: user + system, gcMs, longestGcMs, longestDelayMs, longestTurnMs, rss, heapUsed };
  longestGcMs = 0;
  longestTurnMs = 0;
  delays?.reset();
  return taken;
}

/** Measures how late the loop is, and what its thread computes between two looks at the timers. */
function watchLoop(): void {
  delays = monitorEventLoopDelay({ resolution: delayResolutionMs });
  delays.enable();
  const computed = (): number => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  let last = computed();
  setInterval(() => {
    const now = computed();
    longestTurnMs = Math.max(longestTurnMs, now - last);
    last = now;
  }, delayResolutionMs).unref();
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
}
