import { monitorEventLoopDelay } from "node:perf_hooks";

import type { Clock } from "../core/exchange.ts";
import type { Metrics } from "./metrics.ts";

const nanosecondsPerSecond = 1e9;
const microsecondsPerSecond = 1e6;
// The histogram includes its own sampling interval.
const resolutionMs = 20;

/** Updates the metrics of this process until disposed: memory, CPU, event loop. */
export function watchProcess(registry: Metrics, clock: Clock): Disposable {
  const { metrics } = registry;
  const delays = monitorEventLoopDelay({ resolution: resolutionMs });
  delays.enable();
  metrics.startTime.labels({}).set(clock.wall() / 1000 - process.uptime());

  const stopCollecting = registry.onCollect(() => {
    const { rss, heapUsed, heapTotal } = process.memoryUsage();
    const { user, system } = process.cpuUsage();
    metrics.uptime.labels({}).set(process.uptime());
    metrics.cpu.labels({}).set((user + system) / microsecondsPerSecond);
    metrics.residentMemory.labels({}).set(rss);
    metrics.heapUsed.labels({}).set(heapUsed);
    metrics.heapTotal.labels({}).set(heapTotal);
    metrics.eventLoopLagMean.labels({}).set(lagSeconds(delays.mean));
    metrics.eventLoopLagP99.labels({}).set(lagSeconds(delays.percentile(99)));
    metrics.eventLoopLagMax.labels({}).set(lagSeconds(delays.max));
    delays.reset();
  });

  return {
    [Symbol.dispose]() {
      stopCollecting();
      delays.disable();
    },
  };
}

function lagSeconds(nanoseconds: number): number {
  // NaN before the first sample.
  if (Number.isNaN(nanoseconds)) return 0;
  return Math.max(0, nanoseconds / nanosecondsPerSecond - resolutionMs / 1000);
}
