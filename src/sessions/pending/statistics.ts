import { methodLabels } from "./method-rules.ts";
import type { ResponseMatch, FinalState } from "./states.ts";

/** What has happened so far, and what is open now (SC-060). */
export interface CorrelationStatistics {
  readonly opened: number;
  /** Requests turned away at a bound or while draining. */
  readonly refused: number;
  /** Answers that found their request. */
  readonly matched: number;
  readonly errors: number;
  readonly toolErrors: number;
  readonly inputRequired: number;
  readonly late: number;
  readonly duplicate: number;
  readonly orphan: number;
  readonly timedOut: number;
  readonly cancelled: number;
  readonly abandoned: number;
  readonly superseded: number;
  readonly evicted: number;
  readonly pending: number;
  /**
   * Time from request to outcome, per known method; all other methods are `other`. All rounds of a multi round-trip
   * request count once.
   */
  readonly latency: Readonly<Record<string, Histogram>>;
}

/** A latency histogram. */
export interface Histogram {
  readonly count: number;
  readonly sumMs: number;
  /** How many took at most as long as the bound of the same place in {@link latencyBoundsMs}; the last one is the rest. */
  readonly buckets: readonly number[];
}

/** Upper bounds of the buckets, those of the OpenTelemetry conventions for MCP durations. */
export const latencyBoundsMs: readonly number[] = [
  10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000,
];

const bucketCount = latencyBoundsMs.length + 1;

/** Counts what the correlator does. */
export class CorrelationCounters {
  opened = 0;
  refused = 0;
  matched = 0;
  readonly #ended: Record<FinalState, number> = {
    ok: 0,
    tool_error: 0,
    error: 0,
    input_required: 0,
    cancelled: 0,
    timed_out: 0,
    abandoned: 0,
    superseded: 0,
    evicted: 0,
    orphan: 0,
  };
  readonly #strays = { late: 0, duplicate: 0 };
  readonly #latency = new LatencyTable();

  ended(state: FinalState): void {
    this.#ended[state]++;
  }

  stray(outcome: Exclude<ResponseMatch, "match">): void {
    if (outcome === "orphan") this.#ended.orphan++;
    else this.#strays[outcome]++;
  }

  /** An operation, of one round or more, has its outcome. */
  operated(row: number, elapsedMs: number): void {
    this.#latency.add(row, elapsedMs);
  }

  snapshot(pending: number): CorrelationStatistics {
    const ended = this.#ended;
    return {
      opened: this.opened,
      refused: this.refused,
      matched: this.matched,
      errors: ended.error,
      toolErrors: ended.tool_error,
      inputRequired: ended.input_required,
      late: this.#strays.late,
      duplicate: this.#strays.duplicate,
      orphan: ended.orphan,
      timedOut: ended.timed_out,
      cancelled: ended.cancelled,
      abandoned: ended.abandoned,
      superseded: ended.superseded,
      evicted: ended.evicted,
      pending,
      latency: this.#latency.snapshot(),
    };
  }
}

/** One histogram per method label, in two flat arrays. */
class LatencyTable {
  readonly #counts = new Float64Array(methodLabels.length * bucketCount);
  readonly #sums = new Float64Array(methodLabels.length);

  add(row: number, elapsedMs: number): void {
    let bucket = 0;
    while (bucket < latencyBoundsMs.length && elapsedMs > (latencyBoundsMs[bucket] ?? 0)) bucket++;
    const at = row * bucketCount + bucket;
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
    this.#sums[row] = (this.#sums[row] ?? 0) + elapsedMs;
  }

  /** Only methods that were seen. */
  snapshot(): Record<string, Histogram> {
    const rows = methodLabels.flatMap((label, row) => {
      const buckets = [...this.#counts.subarray(row * bucketCount, (row + 1) * bucketCount)];
      const count = buckets.reduce((sum, some) => sum + some, 0);
      return count === 0 ? [] : [[label, { count, sumMs: this.#sums[row] ?? 0, buckets }] as const];
    });
    return Object.fromEntries(rows);
  }
}
