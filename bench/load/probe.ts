// Loaded before a measured process starts: reports its resource usage to its parent on request.
import { PerformanceObserver } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Usage } from "./usage.ts";

let gcMs = 0;
let longestGcMs = 0;

if (process.send !== undefined) {
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) {
      gcMs += duration;
      longestGcMs = Math.max(longestGcMs, duration);
    }
  }).observe({ entryTypes: ["gc"] });
  process.on("message", (question) => {
    if (question === "usage") process.send?.(usage());
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
  const taken = { cpuMicros: user + system, gcMs, longestGcMs, rss, heapUsed };
  longestGcMs = 0;
  return taken;
}

function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
}
