import { describe, expect, it } from "vitest";

import { addSamples, createMetrics, endedSamples } from "./metrics.ts";

/** The metrics of a process that has answered so many calls, the slow ones of them in half a second. */
function processWith(calls: number, slow: number, sessions: number, lag: number) {
  const metrics = createMetrics();
  metrics.metrics.forwarded.labels({ route: "a" }).inc(calls);
  const duration = metrics.metrics.exchangeDuration.labels({ route: "a", method: "tools/call" });
  for (let count = 0; count < slow; count++) duration.observe(0.5);
  metrics.metrics.sessions.labels({ route: "a" }).set(sessions);
  metrics.metrics.eventLoopLagMax.labels({}).set(lag);
  return metrics;
}

const linesOf = (text: string): readonly string[] =>
  text
    .split("\n")
    .filter((line) => /^(?:headgate_(?:forwarded|sessions\{)|nodejs_eventloop_lag_max|\S+_count\{)/u.test(line));

describe("the metrics of several processes", () => {
  const [one, two] = [processWith(3, 1, 5, 0.2), processWith(4, 2, 6, 0.1)];

  it("are sums, but for what says nothing as a sum", () => {
    expect(linesOf(one.text("prometheus", [two.samples()]))).toEqual([
      'headgate_exchange_duration_seconds_count{route="a",method="tools/call"} 3',
      'headgate_sessions{route="a"} 11',
      'headgate_forwarded_requests_total{route="a"} 7',
      "nodejs_eventloop_lag_max_seconds 0.2",
    ]);
  });

  it("keep what a process has counted that ended, and nothing that it had open", () => {
    const ended = addSamples(endedSamples(two.samples()), endedSamples(two.samples()));
    expect(linesOf(one.text("prometheus", [ended]))).toEqual([
      'headgate_exchange_duration_seconds_count{route="a",method="tools/call"} 5',
      'headgate_sessions{route="a"} 5',
      'headgate_forwarded_requests_total{route="a"} 11',
      "nodejs_eventloop_lag_max_seconds 0.2",
    ]);
  });
});
