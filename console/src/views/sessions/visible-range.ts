import { useSignal } from "@preact/signals";

import { type TimeRange, within } from "../../time-range.ts";

const leastMs = 0.1;

/** What is in sight of a longer stretch of time: all of it, with what is still to come, until somebody zooms in. */
export function useVisibleRange(bounds: TimeRange) {
  const chosen = useSignal<TimeRange | undefined>(undefined);
  const { from, to } = chosen.value ?? bounds;
  const look = (next: TimeRange): void => {
    chosen.value = next.to - next.from < bounds.to - bounds.from ? within(next, bounds) : undefined;
  };
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
    showAll: (): void => {
      chosen.value = undefined;
    },
  };
}
