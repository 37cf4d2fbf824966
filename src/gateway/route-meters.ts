import type { CorrelationStatistics } from "../sessions/correlation/statistics.ts";
import type { Session } from "../sessions/session.ts";
import type { Metrics } from "../telemetry/metrics.ts";

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

/** Shows what the correlators of all routes have seen, asked for with each scrape. */
export function meterCorrelation(
  { metrics, onCollect }: Metrics,
  routes: readonly { readonly name: string; readonly statistics: () => CorrelationStatistics }[],
): void {
  const pending = routes.map(({ name, statistics }) => ({
    gauge: metrics.pending.labels({ route: name }),
    statistics,
  }));
  const outcomes = Object.entries(correlationOutcomes).map(([outcome, figure]) => ({
    counter: metrics.correlation.labels({ outcome }),
    figure,
  }));
  onCollect(() => {
    const all = pending.map(({ gauge, statistics }) => {
      const own = statistics();
      gauge.set(own.pending);
      return own;
    });
    for (const { counter, figure } of outcomes) {
      counter.set(all.reduce((sum, own) => sum + own[figure], 0));
    }
  });
}
