import { describe, expect, it } from "vitest";

import { createMetrics, watchProcess } from "./metrics.ts";

const clock = { now: () => 0, wall: () => 1_800_000_000_000 };

function valueOf(text: string, name: string): number {
  return Number(new RegExp(`^${name} (\\S+)$`, "mu").exec(text)?.[1]);
}

describe("the metrics of the process", () => {
  it("tell memory, processor time and uptime when they are asked for", () => {
    const metrics = createMetrics();
    using _watch = watchProcess(metrics, clock);
    const text = metrics.text();
    expect(valueOf(text, "process_resident_memory_bytes")).toBeGreaterThan(1_000_000);
    expect(valueOf(text, "nodejs_heap_size_used_bytes")).toBeGreaterThan(1_000_000);
    expect(valueOf(text, "process_cpu_seconds_total")).toBeGreaterThan(0);
    const uptime = valueOf(text, "process_uptime_seconds");
    expect(uptime).toBeGreaterThan(0);
    const started = valueOf(text, "process_start_time_seconds");
    expect(started).toBeLessThan(1_800_000_000);
    expect(started).toBeGreaterThan(1_800_000_000 - uptime - 1);
  });

  it("never tell a negative lag or one that is no number, even before the first sample", () => {
    const metrics = createMetrics();
    using _watch = watchProcess(metrics, clock);
    for (const name of ["mean", "p99", "max"]) {
      expect(valueOf(metrics.text(), `nodejs_eventloop_lag_${name}_seconds`)).toBeGreaterThanOrEqual(0);
    }
  });

  it("are no longer asked for once disposed", () => {
    const metrics = createMetrics();
    watchProcess(metrics, clock)[Symbol.dispose]();
    expect(valueOf(metrics.text(), "process_resident_memory_bytes")).toBe(0);
  });
});
