import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import { note, place } from "../../state/route.ts";
import { type TimeRange, within } from "../../time-range.ts";

const leastMs = 0.1;

/** What the address names; undefined if none of that is within the bounds. */
function namedRange(bounds: TimeRange): TimeRange | undefined {
  const { query } = place.peek();
  const [from, to] = [Number(query.get("from") ?? Number.NaN), Number(query.get("to") ?? Number.NaN)];
  const isInBounds = to - from >= leastMs && to > bounds.from && from < bounds.to;
  return isInBounds ? within({ from, to }, bounds) : undefined;
}

/**
 * What is in sight of a longer stretch of time: all of it, with what is still to come, until somebody zooms in. The
 * address names it.
 */
export function useVisibleRange(bounds: TimeRange) {
  const named = useMemo(() => namedRange(bounds), []);
  const chosen = useSignal(named);
  const { from, to } = chosen.value ?? bounds;
  const choose = (next: TimeRange | undefined): void => {
    chosen.value = next;
    // Times are milliseconds with fractions; a microsecond is far less than can be seen.
    note({ from: next?.from.toFixed(3), to: next?.to.toFixed(3) });
  };
  const look = (next: TimeRange): void =>
    choose(next.to - next.from < bounds.to - bounds.from ? within(next, bounds) : undefined);
  return {
    visible: { from, to },
    isZoomed: chosen.value !== undefined,
    look,
    /** Shows so many times as long; what is around a time stays where it is. */
    zoom: (factor: number, around = (from + to) / 2): void => {
      const share = Math.max(leastMs, (to - from) * factor) / (to - from);
      look({ from: around - (around - from) * share, to: around + (to - around) * share });
    },
    /** Moves by a share of what is in sight. */
    move: (share: number): void => look({ from: from + (to - from) * share, to: to + (to - from) * share }),
    showAll: (): void => choose(undefined),
  };
}
