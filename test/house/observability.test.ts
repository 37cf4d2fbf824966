import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import {
  metricDefinitions,
  sidebandMetricDefinitions,
  type MetricDefinition,
} from "../../src/telemetry/metric-names.ts";

const folder = resolve(import.meta.dirname, "../../examples/observability");
const text = (name: string): string => readFileSync(resolve(folder, name), "utf8");

const known = new Map<string, MetricDefinition>(
  [...Object.values(metricDefinitions), ...Object.values(sidebandMetricDefinitions)].map((one: MetricDefinition) => [
    one.name,
    one,
  ]),
);

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets: readonly { readonly expr: string }[] }[];
}

interface Alerts {
  readonly groups: readonly { readonly rules: readonly { readonly alert: string; readonly expr: string }[] }[];
}

const queries = [
  ...(JSON.parse(text("grafana-dashboard.json")) as Dashboard).panels.flatMap(({ title, targets }) =>
    targets.map(({ expr }) => ({ place: `panel ${title}`, expr })),
  ),
  ...(parse(text("alerts.yaml")) as Alerts).groups.flatMap(({ rules }) =>
    rules.map(({ alert, expr }) => ({ place: `alert ${alert}`, expr })),
  ),
];

/** The metrics of a query, with the labels that it selects. */
function metricsOf(expr: string) {
  return [...expr.matchAll(/\b((?:headgate|process|nodejs|mcp|ping)_\w+)(?:\{([^}]*)\})?/gu)].map(
    ([, name = "", labels = ""]) => ({
      name: known.has(name) ? name : name.replace(/_bucket$/u, ""),
      isBucket: !known.has(name) && name.endsWith("_bucket"),
      labels: [...labels.matchAll(/(\w+)\s*=/gu)].map(([, label = ""]) => label),
    }),
  );
}

describe("the dashboard and the alerts of the example", () => {
  it.each(queries)("$place asks for metrics and labels that exist", ({ expr }) => {
    const metrics = metricsOf(expr);
    expect(metrics.length).toBeGreaterThan(0);
    for (const { name, isBucket, labels } of metrics) {
      const metric = known.get(name);
      expect({ name, isKnown: metric !== undefined }).toEqual({ name, isKnown: true });
      expect(isBucket).toBe(metric?.type === "histogram");
      expect(labels.filter((label) => metric?.labels.includes(label) !== true)).toEqual([]);
      const grouped = [...expr.matchAll(/by \(([^)]*)\)/gu)].flatMap(([, list = ""]) => list.split(/,\s*/u));
      expect(grouped.filter((label) => label !== "le" && metric?.labels.includes(label) !== true)).toEqual([]);
    }
  });
});
