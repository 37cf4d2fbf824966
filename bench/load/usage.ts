/** What a process has used since it started. */
export interface Usage {
  readonly cpuMicros: number;
  /** Time in garbage collection pauses. */
  readonly gcMs: number;
  /** The longest pause since this was last asked. */
  readonly longestGcMs: number;
  /** How late the event loop was at most since this was last asked; 0 unless it is watched. */
  readonly longestDelayMs: number;
  /** The same in processor time of its thread: on a busy machine the other one tells what others did, too. */
  readonly longestTurnMs: number;
  readonly rss: number;
  readonly heapUsed: number;
}
