import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createMetrics, createRegistry, boundedLabel } from "./metrics.ts";

function sample() {
  return createRegistry({
    calls: { name: "calls_total", type: "counter", help: "Calls.", labels: ["route", "outcome"] },
    open: { name: "open", type: "gauge", help: "Open now.", labels: [] },
    seconds: {
      name: "seconds",
      type: "histogram",
      help: "How long.",
      labels: ["route"],
      buckets: [0.1, 1],
    },
  });
}

describe("the registry of metrics", () => {
  it("writes HELP, TYPE and one line per combination of labels", () => {
    const { metrics, text } = sample();
    metrics.calls.labels({ route: "files", outcome: "ok" }).inc();
    metrics.calls.labels({ route: "files", outcome: "ok" }).inc(2);
    metrics.calls.labels({ route: "mail", outcome: "error" }).inc();
    expect(text()).toBe(`# HELP calls_total Calls.
# TYPE calls_total counter
calls_total{route="files",outcome="ok"} 3
calls_total{route="mail",outcome="error"} 1
# HELP open Open now.
# TYPE open gauge
open 0
# HELP seconds How long.
# TYPE seconds histogram
`);
  });

  it("gives the same child for the same labels, so that callers can keep it", () => {
    const { calls } = sample().metrics;
    expect(calls.labels({ route: "a", outcome: "b" })).toBe(calls.labels({ outcome: "b", route: "a" }));
    expect(calls.labels({ route: "a", outcome: "b" })).not.toBe(calls.labels({ route: "b", outcome: "a" }));
  });

  it("lets gauges go up and down", () => {
    const { metrics, text } = sample();
    const open = metrics.open.labels({});
    open.set(5);
    open.inc();
    open.dec(2);
    expect(text()).toContain("open 4\n");
  });

  it("sorts values into cumulative buckets, bounds included", () => {
    const { metrics, text } = sample();
    const seconds = metrics.seconds.labels({ route: "files" });
    for (const value of [0.05, 0.1, 0.5, 7]) seconds.observe(value);
    expect(text()).toContain(
      [
        'seconds_bucket{route="files",le="0.1"} 2',
        'seconds_bucket{route="files",le="1"} 3',
        'seconds_bucket{route="files",le="+Inf"} 4',
        'seconds_sum{route="files"} 7.65',
        'seconds_count{route="files"} 4',
      ].join("\n"),
    );
  });

  it("counts every observed value in exactly one bucket", () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 10, noNaN: true })), (values) => {
        const { metrics, text } = sample();
        const seconds = metrics.seconds.labels({ route: "r" });
        for (const value of values) seconds.observe(value);
        const bucket = (bound: string): number => Number(text().split(`le="${bound}"} `)[1]?.split("\n")[0]);
        expect(bucket("0.1")).toBe(values.filter((value) => value <= 0.1).length);
        expect(bucket("1")).toBe(values.filter((value) => value <= 1).length);
        expect(bucket("+Inf")).toBe(values.length);
      }),
    );
  });

  it("escapes label values and help texts", () => {
    const { metrics, text } = createRegistry({
      odd: { name: "odd", type: "gauge", help: "a\\b\nc", labels: ["name"] },
    });
    metrics.odd.labels({ name: 'quote " slash \\ line\n' }).set(1);
    expect(text()).toBe(
      String.raw`# HELP odd a\\b\nc
# TYPE odd gauge
odd{name="quote \" slash \\ line\n"} 1
`,
    );
  });

  it("writes the infinities and not-a-number as the format names them", () => {
    const { metrics, text } = sample();
    const open = metrics.open.labels({});
    for (const [value, name] of [
      [Number.POSITIVE_INFINITY, "+Inf"],
      [Number.NEGATIVE_INFINITY, "-Inf"],
      [Number.NaN, "NaN"],
    ] as const) {
      open.set(value);
      expect(text()).toContain(`open ${name}\n`);
    }
  });

  it("asks collectors before each text until they are taken off", () => {
    const registry = sample();
    let asked = 0;
    const stop = registry.onCollect(() => registry.metrics.open.labels({}).set(++asked));
    expect(registry.text()).toContain("open 1\n");
    expect(registry.text()).toContain("open 2\n");
    stop();
    expect(registry.text()).toContain("open 2\n");
  });

  it("forgets the children of a route that is gone", () => {
    const { metrics, text } = sample();
    metrics.calls.labels({ route: "old", outcome: "ok" }).inc();
    metrics.calls.labels({ route: "old", outcome: "error" }).inc();
    metrics.calls.labels({ route: "new", outcome: "ok" }).inc();
    metrics.calls.remove({ route: "old" });
    expect(text()).not.toContain("old");
    expect(text()).toContain('calls_total{route="new",outcome="ok"} 1');
  });

  it("has every metric of the gateway", () => {
    const { metrics, text } = createMetrics();
    metrics.exchanges.labels({ route: "files", method: "tools/call", era: "modern", outcome: "result" }).inc();
    expect(text()).toContain(
      'headgate_exchanges_total{route="files",method="tools/call",era="modern",outcome="result"} 1',
    );
    expect(text()).toContain("headgate_event_store_bytes 0");
  });
});

describe("names for labels", () => {
  it("are the known ones, and `other` for names that a peer invents", () => {
    const known = new Set(["tools/call"]);
    expect(boundedLabel("tools/call", known)).toBe("tools/call");
    expect(boundedLabel("made/up", known)).toBe("other");
    expect(boundedLabel("__proto__", known)).toBe("other");
  });
});

describe("the text of OpenMetrics", () => {
  const trace = { traceId: "a".repeat(32), spanId: "b".repeat(16), isSampled: true };

  it("[SC-072] has the last trace of each bucket that somebody keeps, as an example", () => {
    const { metrics, text } = sample();
    const seconds = metrics.seconds.labels({ route: "files" });
    seconds.observe(0.05, { ...trace, traceId: "c".repeat(32) });
    seconds.observe(0.07, trace);
    seconds.observe(0.5, { ...trace, isSampled: false });
    seconds.observe(3);
    metrics.calls.labels({ route: "files", outcome: "ok" }).inc();
    expect(text("openmetrics")).toBe(`# HELP calls Calls.
# TYPE calls counter
calls_total{route="files",outcome="ok"} 1
# HELP open Open now.
# TYPE open gauge
open 0
# HELP seconds How long.
# TYPE seconds histogram
seconds_bucket{route="files",le="0.1"} 2 # {trace_id="${trace.traceId}",span_id="${trace.spanId}"} 0.07
seconds_bucket{route="files",le="1"} 3
seconds_bucket{route="files",le="+Inf"} 4
seconds_sum{route="files"} 3.62
seconds_count{route="files"} 4
# EOF
`);
    expect(text()).not.toContain("trace_id");
  });

  it("has a name for every metric of the gateway that the format allows", () => {
    const families = createMetrics()
      .text("openmetrics")
      .matchAll(/^# TYPE (\S+) (\S+)$/gmu);
    for (const [, name = ""] of families) expect(name).not.toMatch(/_(?:total|bucket|sum|count)$/u);
  });
});
