import type { CorrelationStatistics } from "../../../sessions/pending/statistics.ts";
import type { Session } from "../../../sessions/session.ts";
import { metricDefinitions, type MetricDefinition } from "../../../telemetry/metric-names.ts";
import type { Metrics } from "../../../telemetry/metrics.ts";

/** Creates the function that counts a new session of a route, and later its end. */
export function createSessionMeter(route: string, { metrics }: Metrics): (session: Session) => void {
  const open = metrics.sessions.labels({ route });
  const opened = metrics.sessionsOpened.labels({ route });
  return (session) => {
    open.inc();
    opened.inc();
    session.onEnd((_reason, ending) => {
      open.dec();
      metrics.sessionsClosed.labels({ route, reason: ending }).inc();
    });
  };
}

/** The metric name of each counter of a correlator. */
const correlationOutcomes = {
  opened: "opened",
  refused: "refused",
  matched: "matched",
  error: "errors",
  tool_error: "toolErrors",
  input_required: "inputRequired",
  late: "late",
  duplicate: "duplicate",
  orphan: "orphan",
  timed_out: "timedOut",
  cancelled: "cancelled",
  abandoned: "abandoned",
  superseded: "superseded",
  evicted: "evicted",
} as const satisfies Readonly<Record<string, keyof CorrelationStatistics>>;

/** A route with the statistics of its requests. */
interface TrackedRoute {
  readonly name: string;
  readonly statistics: () => CorrelationStatistics;
}

/** Publishes the statistics of all correlators with each scrape. */
export interface CorrelationMeter {
  /** Keeps the counts of a removed route, because counters must not decrease. */
  gone(route: TrackedRoute): void;
}

/** Creates the meter; `routes` is called with each scrape. */
export function meterCorrelation(
  { metrics, onCollect }: Metrics,
  routes: () => Iterable<TrackedRoute>,
): CorrelationMeter {
  const outcomes = Object.entries(correlationOutcomes).map(([outcome, figure]) => ({
    counter: metrics.correlation.labels({ outcome }),
    figure,
    past: 0,
  }));
  onCollect(() => {
    const all = [...routes()].map(({ name, statistics }) => {
      const own = statistics();
      metrics.pending.labels({ route: name }).set(own.pending);
      return own;
    });
    for (const { counter, figure, past } of outcomes) {
      counter.set(all.reduce((sum, own) => sum + own[figure], past));
    }
  });
  return {
    gone: ({ statistics }) => {
      const own = statistics();
      for (const outcome of outcomes) outcome.past += own[outcome.figure];
    },
  };
}

/** Removes all metrics of a removed route, which would otherwise keep their last values forever. */
export function forgetRoute(route: string, { metrics }: Metrics): void {
  const keys = Object.keys(metrics) as (keyof typeof metrics)[];
  for (const key of keys) {
    const { labels }: MetricDefinition = metricDefinitions[key];
    // Only metrics with a route label can be about this route.
    if (labels.includes("route")) metrics[key].remove({ route });
  }
}
