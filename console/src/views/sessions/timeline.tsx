import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";

import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import { statusNames } from "../../parts/badges.tsx";
import { WideContent } from "../../parts/wide-content.tsx";
import { go, href } from "../../state/route.ts";
import { formatMs, formatTime } from "../../text.ts";
import { ExchangeDetail } from "../exchange/exchange-detail.tsx";
import { type Lanes, lanesOf, type Span } from "./lanes.ts";

const laneHeight = 30;
const nameWidth = 110;
const width = 1200;
const ticks = 6;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

interface Range {
  readonly from: number;
  readonly to: number;
}

/** A session in lanes. Drag to zoom in, 0 to zoom out, + and - to zoom, arrows to go from span to span. */
export function Timeline({ exchanges }: { readonly exchanges: readonly ExchangeRecord[] }) {
  const lanes = useMemo(() => lanesOf(exchanges, Date.now()), [exchanges]);
  const range = useSignal<Range>({ from: lanes.from, to: lanes.to });
  const brush = useSignal<Range | undefined>(undefined);
  const selected = useSignal<string | undefined>(undefined);
  const { from, to } = range.value;
  const scale = (width - nameWidth) / (to - from);
  const xOf = (at: number): number => nameWidth + (at - from) * scale;
  const height = lanes.names.length * laneHeight + 22;
  const calls = lanes.spans.filter(({ lane, look }) => lane === 0 || look === "question");
  const shown = lanes.spans.filter((span) => span.to >= from && span.from <= to);

  const timeAt = (event: PointerEvent): number => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return from + (((event.clientX - box.left) / box.width) * width - nameWidth) / scale;
  };
  const zoom = (factor: number): void => {
    const middle = (from + to) / 2;
    const half = Math.max(0.05, ((to - from) / 2) * factor);
    range.value = { from: Math.max(lanes.from, middle - half), to: Math.min(lanes.to, middle + half) };
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "+" || event.key === "=") zoom(0.5);
    if (event.key === "-") zoom(2);
    if (event.key === "0") range.value = { from: lanes.from, to: lanes.to };
    if (event.key === "Enter" && selected.value !== undefined) go(href("exchange", selected.value));
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const index = calls.findIndex(({ exchange }) => exchange.id === selected.value);
    selected.value = calls[Math.min(calls.length - 1, Math.max(0, index + step))]?.exchange.id;
  };

  return (
    <div class="stack">
      <div class="row-flex">
        <button type="button" class="button" onClick={() => zoom(0.5)}>
          Zoom in
        </button>
        <button type="button" class="button" onClick={() => zoom(2)}>
          Zoom out
        </button>
        <button type="button" class="button bare" onClick={() => (range.value = { from: lanes.from, to: lanes.to })}>
          Everything
        </button>
        <span class="faint">
          {formatTime(from, true)} to {formatTime(to, true)}, {formatMs(to - from)}
        </span>
      </div>
      <div class="panel">
        <WideContent label="Lanes">
          <svg
            class="lanes"
            viewBox={`0 0 ${width} ${height}`}
            role="application"
            aria-label={`Timeline of ${calls.length} calls. Arrow keys choose one, Enter opens it.`}
            tabIndex={0}
            onKeyDown={onKeyDown}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              brush.value = { from: timeAt(event), to: timeAt(event) };
            }}
            onPointerMove={(event) => {
              if (brush.value !== undefined) brush.value = { ...brush.value, to: timeAt(event) };
            }}
            onPointerUp={(event) => {
              const drawn = brush.value;
              brush.value = undefined;
              if (drawn === undefined) return;
              const [start, end] = [Math.min(drawn.from, drawn.to), Math.max(drawn.from, drawn.to)];
              if ((end - start) * scale > 8)
                range.value = { from: Math.max(lanes.from, start), to: Math.min(lanes.to, end) };
              else {
                const hit = document.elementFromPoint(event.clientX, event.clientY)?.getAttribute("data-exchange");
                if (hit !== null && hit !== undefined) selected.value = hit;
              }
            }}
          >
            <LaneGrid lanes={lanes} range={range.value} height={height} xOf={xOf} />
            {shown.map((span) => (
              <SpanBar
                key={`${span.exchange.id} ${span.lane}`}
                span={span}
                x={Math.max(nameWidth, xOf(span.from))}
                end={Math.min(width, xOf(span.to))}
                isSelected={span.exchange.id === selected.value}
              />
            ))}
            <Flight lanes={lanes} range={range.value} xOf={xOf} />
            {brush.value !== undefined && (
              <rect
                class="brush"
                x={Math.min(xOf(brush.value.from), xOf(brush.value.to))}
                width={Math.abs(xOf(brush.value.to) - xOf(brush.value.from))}
                height={height - 20}
              />
            )}
          </svg>
        </WideContent>
      </div>
      {selected.value === undefined ? (
        <p class="faint">Choose a span to see what it was.</p>
      ) : (
        <div class="panel">
          <ExchangeDetail id={selected.value} />
        </div>
      )}
    </div>
  );
}

/** How many calls were under way at once, as bars of their number. */
function Flight({ lanes: { inFlight, names }, range, xOf }: Pick<LaneGridProps, "lanes" | "range" | "xOf">) {
  const most = Math.max(1, ...inFlight.map(({ count }) => count));
  const bottom = names.length * laneHeight - 3;
  return (
    <>
      {inFlight
        .filter(({ from, to }) => to >= range.from && from <= range.to)
        .map(({ from, to, count }) => {
          const [start, end] = [Math.max(nameWidth, xOf(from)), Math.min(width, xOf(to))];
          const tall = (count / most) * (laneHeight - 6);
          return (
            <rect class="flight" key={from} x={start} y={bottom - tall} width={Math.max(1, end - start)} height={tall}>
              <title>{`${count} at once`}</title>
            </rect>
          );
        })}
    </>
  );
}

interface LaneGridProps {
  readonly lanes: Lanes;
  readonly range: Range;
  readonly height: number;
  readonly xOf: (at: number) => number;
}

function LaneGrid({ lanes, range: { from, to }, height, xOf }: LaneGridProps) {
  return (
    <>
      {lanes.names.map((name, index) => (
        <g key={name}>
          <rect
            class={`lane${index % 2 === 1 ? " odd" : ""}`}
            y={index * laneHeight}
            width={width}
            height={laneHeight}
          />
          <text x="8" y={index * laneHeight + 19}>
            {name}
          </text>
        </g>
      ))}
      {Array.from({ length: ticks + 1 }, (_, index) => {
        const at = from + ((to - from) * index) / ticks;
        return (
          <g key={index}>
            <line class="tick" x1={xOf(at)} x2={xOf(at)} y1="0" y2={height - 20} />
            <text x={xOf(at)} y={height - 6} text-anchor={index === ticks ? "end" : "start"}>
              +{formatMs(at - lanes.from)}
            </text>
          </g>
        );
      })}
    </>
  );
}

function SpanBar({
  span,
  x,
  end,
  isSelected,
}: {
  readonly span: Span;
  readonly x: number;
  readonly end: number;
  readonly isSelected: boolean;
}) {
  const { exchange, lane, look } = span;
  const state = failures.has(exchange.state) ? " error" : exchange.state === "refused" ? " refused" : "";
  const looks = { call: "", own: " own", question: " question", note: " own" };
  return (
    <rect
      class={`span${looks[look]}${state}${isSelected ? " selected" : ""}`}
      data-exchange={exchange.id}
      x={x}
      y={lane * laneHeight + 7}
      width={Math.max(look === "note" ? 3 : 4, end - x)}
      height={laneHeight - 14}
      rx="3"
    >
      <title>{`${exchange.method} ${exchange.target ?? ""} ${statusNames[exchange.state]} ${formatMs(span.to - span.from)}`}</title>
    </rect>
  );
}
