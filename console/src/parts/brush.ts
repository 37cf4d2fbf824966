import { useSignal } from "@preact/signals";

import { inOrder, type TimeRange } from "../time-range.ts";

/** What a chart that can be brushed is given. */
export interface BrushOptions {
  /** The time at a place between the left (0) and the right (1) edge. */
  readonly timeAt: (share: number) => number;
  /** Called with what was brushed, in order of time, and with the event that ended it. */
  readonly onEnd: (range: TimeRange, event: PointerEvent) => void;
}

/** A stretch of time that is chosen by dragging over a chart; `range` is what is chosen so far. */
export function useBrush({ timeAt, onEnd }: BrushOptions) {
  const range = useSignal<TimeRange | undefined>(undefined);
  const timeOf = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return timeAt((event.clientX - box.left) / box.width);
  };
  return {
    range,
    handlers: {
      onPointerDown: (event: PointerEvent): void => {
        if (event.button !== 0) return;
        (event.currentTarget as Element).setPointerCapture(event.pointerId);
        const at = timeOf(event);
        range.value = { from: at, to: at };
      },
      onPointerMove: (event: PointerEvent): void => {
        // What the keyboard has chosen is not dragged.
        if (range.value !== undefined && event.buttons !== 0) range.value = { ...range.value, to: timeOf(event) };
      },
      onPointerUp: (event: PointerEvent): void => {
        const drawn = range.value;
        range.value = undefined;
        if (drawn !== undefined) onEnd(inOrder(drawn), event);
      },
      // A finger that scrolls the page chooses nothing.
      onPointerCancel: (): void => {
        range.value = undefined;
      },
    },
  };
}
