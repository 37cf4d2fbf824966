/** Calls for the caller to make. */
export interface CallsJob {
  readonly calls: number;
  /** How many of them at a time. */
  readonly inFlight: number;
  /** Calls that are begun before and do not end. */
  readonly background: number;
}

/** What the caller measured: milliseconds from a call to its answer, as the CLI sees them, and calls a second. */
export interface CallsReport {
  readonly p50: number;
  readonly p99: number;
  readonly perSecond: number;
}
