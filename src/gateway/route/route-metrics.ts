import type { CorrelationStatistics } from "../../sessions/pending/statistics.ts";
import type { Session } from "../../sessions/session.ts";
import { metricDefinitions, type MetricDefinition } from "../../telemetry/metric-names.ts";
import type { Metrics } from "../../telemetry/metrics.ts";

/** Makes the function that counts a new session of a route now, and its end when it comes. */
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

/** What of a correlator's figures is a sum over time, under the names that metrics have for it. */
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

/** A route whose requests are tracked. */
interface TrackedRoute {
  readonly name: string;
  readonly statistics: () => CorrelationStatistics;
}

/** Shows what the correlators of all routes have seen, asked for with each scrape. */
export interface CorrelationMeter {
  /** Keeps what a route has seen that is no more: sums over time never go back. */
  gone(route: TrackedRoute): void;
}

/** Makes the meter; it asks for the routes as they are at that time. */
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

/** Forgets every figure of a route that is no more, so that none of them stands still for ever. */
export function forgetRoute(route: string, { metrics }: Metrics): void {
  const keys = Object.keys(metrics) as (keyof typeof metrics)[];
  for (const key of keys) {
    const { labels }: MetricDefinition = metricDefinitions[key];
    // Only what is told apart by route can be about this one.
    if (labels.includes("route")) metrics[key].remove({ route });
  }
}
