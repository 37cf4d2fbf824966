import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import { statusNames } from "../../parts/badges.tsx";
import { type TimeRange, useBrush } from "../../parts/brush.ts";
import { WideContent } from "../../parts/wide-content.tsx";
import { go, href } from "../../state/route.ts";
import { formatMs, formatTime, shortened, visibleText } from "../../text.ts";
import { ExchangeDetail } from "../exchange/exchange-detail.tsx";
import { type Lanes, lanesOf, type Span } from "./lanes.ts";

const laneHeight = 30;
const nameWidth = 110;
/** Narrower lanes would be too small to read: they scroll. */
const leastWidth = 320;
/** The label of a tick needs so much room. */
const tickWidth = 110;
/** About the width of a letter on a bar. */
const letterWidth = 6;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

/** A session in lanes. Drag to zoom in, 0 to zoom out, + and - to zoom, arrows to go from span to span. */
export function Timeline({ exchanges }: { readonly exchanges: readonly ExchangeRecord[] }) {
  const lanes = useMemo(() => lanesOf(exchanges, Date.now()), [exchanges]);
  const range = useSignal<TimeRange>({ from: lanes.from, to: lanes.to });
  const selected = useSignal<string | undefined>(undefined);
  const { from, to } = range.value;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, leastWidth);
  const scale = (width - nameWidth) / (to - from);
  const xOf = (at: number): number => nameWidth + (at - from) * scale;
  const height = lanes.names.length * laneHeight + 22;
  const chosen = lanes.spans.filter(({ lane, look }) => lane === 0 || look === "question");
  const calls = [...new Map(chosen.map((span) => [span.exchange.id, span])).values()];
  const shown = lanes.spans.filter((span) => span.to >= from && span.from <= to);

  const brush = useBrush({
    timeAt: (share) => from + (share * width - nameWidth) / scale,
    onEnd: (drawn, event) => {
      if ((drawn.to - drawn.from) * scale > 8)
        range.value = { from: Math.max(lanes.from, drawn.from), to: Math.min(lanes.to, drawn.to) };
      else {
        const hit = document.elementFromPoint(event.clientX, event.clientY)?.getAttribute("data-exchange");
        if (hit !== null && hit !== undefined) selected.value = hit;
      }
    },
  });
  const brushed = brush.range.value;
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
      <div class="panel" ref={box}>
        <WideContent label="Lanes">
          <svg
            class="lanes"
            viewBox={`0 0 ${width} ${height}`}
            width={width}
            height={height}
            role="application"
            aria-label={`Timeline of ${calls.length} calls. Arrow keys choose one, Enter opens it.`}
            tabindex={0}
            onKeyDown={onKeyDown}
            {...brush.handlers}
          >
            <LaneGrid lanes={lanes} range={range.value} width={width} height={height} xOf={xOf} />
            {shown.map((span) => (
              <SpanBar
                key={`${span.exchange.id} ${span.lane} ${span.look} ${span.from}`}
                span={span}
                x={Math.max(nameWidth, xOf(span.from))}
                end={Math.min(width, xOf(span.to))}
                isSelected={span.exchange.id === selected.value}
              />
            ))}
            <Flight lanes={lanes} range={range.value} width={width} xOf={xOf} />
            {brushed !== undefined && (
              <rect
                class="brush"
                x={Math.min(xOf(brushed.from), xOf(brushed.to))}
                width={Math.abs(xOf(brushed.to) - xOf(brushed.from))}
                height={height - 20}
              />
            )}
          </svg>
        </WideContent>
      </div>
      {selected.value === undefined ? (
        <p class="faint">
          Choose a bar to see what it was. Drag over a time to zoom in; with the keyboard, arrows choose, + and − zoom,
          0 shows everything.
        </p>
      ) : (
        <div class="panel">
          <ExchangeDetail id={selected.value} />
        </div>
      )}
    </div>
  );
}

/** The width that an element has on the page, and at least this. */
function useWidth(box: RefObject<HTMLElement | null>, least: number): number {
  const width = useSignal(least);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const measure = (): void => {
      width.value = Math.max(least, element.clientWidth);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [box, least]);
  return width.value;
}

/** How many calls were under way at once, as bars of their number. */
function Flight({ lanes: { inFlight, names }, range, width, xOf }: Omit<LaneGridProps, "height">) {
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
  readonly range: TimeRange;
  readonly width: number;
  readonly height: number;
  readonly xOf: (at: number) => number;
}

function LaneGrid({ lanes, range: { from, to }, width, height, xOf }: LaneGridProps) {
  const ticks = Math.max(2, Math.min(8, Math.floor((width - nameWidth) / tickWidth)));
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
            {shortened(visibleText(name), 17)}
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
  const { exchange, lane, look, rounds } = span;
  const state = failures.has(span.state) ? " error" : span.state === "refused" ? " refused" : "";
  const name = visibleText(exchange.target ?? exchange.method);
  const length = Math.max(look === "note" ? 3 : 4, end - x);
  // A call of several rounds has its name on the bar behind them.
  const isNamed = lane === 0 && (look === "whole" || rounds === 1) && length > name.length * letterWidth + 12;
  const said = [
    visibleText(exchange.method),
    visibleText(exchange.target ?? ""),
    look === "input" ? "waiting for input" : look === "whole" ? `${rounds} rounds` : statusNames[span.state],
    formatMs(span.to - span.from),
  ];
  return (
    <>
      <rect
        class={`span ${look}${state}${isSelected ? " selected" : ""}`}
        data-exchange={exchange.id}
        x={x}
        y={lane * laneHeight + (look === "whole" ? 3 : 7)}
        width={length}
        height={laneHeight - (look === "whole" ? 6 : 14)}
        rx="3"
      >
        <title>{said.filter((part) => part !== "").join(" ")}</title>
      </rect>
      {isNamed && (
        <text class={`span-name ${look}`} x={x + length / 2} y={lane * laneHeight + 18.5} text-anchor="middle">
          {name}
        </text>
      )}
    </>
  );
}
