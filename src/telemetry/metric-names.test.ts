import { describe, expect, it } from "vitest";

import { labelMeanings, metricDefinitions, type MetricDefinition } from "./metric-names.ts";

const definitions: readonly MetricDefinition[] = Object.values(metricDefinitions);

describe("the list of metrics", () => {
  it("has each name once, in the form that Prometheus takes", () => {
    const names = definitions.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !/^[a-z][\d_a-z]*$/u.test(name))).toEqual([]);
  });

  it("ends the names of counters, and only theirs, in _total", () => {
    const wrong = definitions.filter(({ name, type }) => name.endsWith("_total") !== (type === "counter"));
    expect(wrong).toEqual([]);
  });

  it("explains every label and has no other", () => {
    const used = new Set(definitions.flatMap(({ labels }) => labels));
    expect([...used].toSorted()).toEqual(Object.keys(labelMeanings).toSorted());
  });

  it("says in one sentence what each metric is", () => {
    expect(definitions.filter(({ help }) => !/^[A-Z0-9].*\.$/u.test(help))).toEqual([]);
  });

  it("has ascending buckets for histograms, and for nothing else", () => {
    for (const { type, buckets } of definitions) {
      expect(buckets !== undefined).toBe(type === "histogram");
      expect(buckets).toEqual(buckets?.toSorted((one, other) => one - other));
    }
  });
});
