import { describe, expect, it } from "vitest";

import { metricDefinitions, type MetricDefinition } from "../../../telemetry/metric-names.ts";
import { createMetrics } from "../../../telemetry/metrics.ts";
import { forgetRoute } from "./route-metrics.ts";

describe("forgetRoute", () => {
  it("takes every figure of the route away, those of its policy included, and no other", () => {
    const registry = createMetrics();
    const keys = Object.keys(metricDefinitions) as (keyof typeof metricDefinitions)[];
    for (const route of ["gone", "stays"]) {
      for (const key of keys) {
        const { labels }: MetricDefinition = metricDefinitions[key];
        const values = Object.fromEntries(labels.map((label) => [label, label === "route" ? route : "x"]));
        if (labels.includes("route"))
          (registry.metrics[key] as { labels(given: Readonly<Record<string, string>>): unknown }).labels(values);
      }
    }
    expect(registry.text()).toContain('ping_authorize_sideband_total{route="gone"');
    forgetRoute("gone", registry);
    expect(registry.text()).not.toContain('route="gone"');
    expect(registry.text()).toContain('headgate_policy_decisions_total{route="stays"');
  });
});
