import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import type { FigureBucket } from "../../../../src/gateway/admin/wire.ts";
import { useBrush } from "../../parts/brush.ts";
import { inOrder, type TimeRange } from "../../time-range.ts";
import { formatCount, formatTime } from "../../text.ts";

const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

interface Slot {
  readonly at: number;
  readonly count: number;
  readonly errors: number;
  readonly refused: number;
}

/** Adds what came since to the counted minutes. */
export function withNewer(
  buckets: readonly FigureBucket[],
  until: number,
  rows: readonly ExchangeRecord[],
  now: number,
): readonly Slot[] {
  const step = (buckets[1]?.at ?? 1) - (buckets[0]?.at ?? 0);
  if (buckets.length === 0 || step <= 0) return [];
  const shift = Math.max(0, Math.floor((now - until) / step));
  const slots = [
    ...buckets.slice(shift),
    ...Array.from({ length: Math.min(shift, buckets.length) }, (_, index) => ({
      at: (buckets.at(-1)?.at ?? 0) + (index + 1) * step,
      count: 0,
      errors: 0,
      refused: 0,
    })),
  ].map((slot) => ({ ...slot }));
  const from = slots[0]?.at ?? 0;
  for (const { at, kind, direction, state } of rows) {
    if (at < until || kind !== "request" || direction !== "c2s") continue;
    const slot = slots[Math.min(slots.length - 1, Math.floor((at - from) / step))];
    if (slot === undefined) continue;
    slot.count++;
    if (failures.has(state)) slot.errors++;
    if (state === "refused") slot.refused++;
  }
  return slots;
}

/**
 * Bars of the last minutes. Drag over some to look at that time only; with the keyboard, arrows choose, Shift and arrows
 * choose more, and Enter looks.
 */
export function Strip({
  slots,
  isAll,
  onBrush,
}: {
  readonly slots: readonly Slot[];
  /** False if there were more requests than could be counted. */
  readonly isAll: boolean;
  readonly onBrush: (from: number, to: number) => void;
}) {
  const [height, width] = [40, 1000];
  const max = Math.max(1, ...slots.map(({ count }) => count));
  const step = width / Math.max(1, slots.length);
  const total = slots.reduce((sum, { count }) => sum + count, 0);
  const counted = `${isAll ? "" : "at least "}${formatCount(total)} requests`;
  const first = slots[0]?.at ?? 0;
  const slotMs = (slots[1]?.at ?? first + 1) - first;
  const xOf = (at: number): number => ((at - first) / slotMs) * step;
  const apply = ({ from, to }: TimeRange): void => {
    if (to - from > slotMs / 2) onBrush(from, to);
  };
  const { range: brush, handlers } = useBrush({
    timeAt: (share) => first + share * slotMs * slots.length,
    onEnd: apply,
  });
  const shown = brush.value;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && brush.value !== undefined) apply(inOrder(brush.value));
    if (event.key === "Enter" || event.key === "Escape") brush.value = undefined;
    const by = event.key === "ArrowLeft" ? -slotMs : event.key === "ArrowRight" ? slotMs : 0;
    if (by === 0) return;
    event.preventDefault();
    const last = first + slotMs * slots.length;
    const { from, to } = brush.value ?? { from: last, to: last + slotMs };
    const start = Math.max(first, Math.min(last - slotMs, from + by));
    brush.value =
      event.shiftKey && brush.value !== undefined ? { from: start, to } : { from: start, to: start + slotMs };
  };
  return (
    <div class="strip">
      <svg
        viewBox={`0 0 ${width} ${height + 4}`}
        preserveAspectRatio="none"
        role="application"
        tabindex={0}
        aria-label={`${counted} since ${formatTime(first)}. Arrow keys choose a time, Enter shows it.`}
        onKeyDown={onKeyDown}
        {...handlers}
      >
        {slots.map(({ at, count, errors, refused }, index) => {
          const scale = (value: number): number => (value / max) * height;
          const bars = [
            ["bar-error", errors],
            ["bar-refused", refused],
            ["bar-ok", count - errors - refused],
          ] as const;
          let y = height + 4;
          return bars.map(([name, value]) => {
            if (value <= 0) return null;
            y -= scale(value);
            return (
              <rect
                key={`${at} ${name}`}
                class={name}
                x={index * step + 0.5}
                width={step - 1}
                y={y}
                height={scale(value)}
              />
            );
          });
        })}
        {shown !== undefined && (
          <rect
            class="brush"
            x={Math.min(xOf(shown.from), xOf(shown.to))}
            width={Math.abs(xOf(shown.to) - xOf(shown.from))}
            height={height + 4}
          />
        )}
      </svg>
      <div class="strip-axis faint" aria-hidden="true">
        <span>{formatTime(first)}</span>
        <span>{counted}</span>
        <span>now</span>
      </div>
    </div>
  );
}
