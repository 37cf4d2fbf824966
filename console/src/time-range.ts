/** A stretch of time. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** The same stretch, from its earlier to its later end. */
export function inOrder({ from, to }: TimeRange): TimeRange {
  return { from: Math.min(from, to), to: Math.max(from, to) };
}

/** A stretch of time, cut and moved so that it is inside another. */
export function within({ from, to }: TimeRange, bounds: TimeRange): TimeRange {
  const length = Math.min(to - from, bounds.to - bounds.from);
  const start = Math.min(Math.max(from, bounds.from), bounds.to - length);
  return { from: start, to: start + length };
}
