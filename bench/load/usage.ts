/** What a process has used since it started. */
export interface Usage {
  readonly cpuMicros: number;
  /** Time in garbage collection pauses. */
  readonly gcMs: number;
  /** The longest pause since this was last asked. */
  readonly longestGcMs: number;
  readonly rss: number;
  readonly heapUsed: number;
}
