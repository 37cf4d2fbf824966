import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import { statusNames } from "../../parts/badges.tsx";
import { useBrush } from "../../parts/brush.ts";
import { WideContent } from "../../parts/wide-content.tsx";
import { go, href, note, place } from "../../state/route.ts";
import { formatMs, formatTime, shortened, visibleText } from "../../text.ts";
import type { TimeRange } from "../../time-range.ts";
import { ExchangeDetail } from "../exchange/exchange-detail.tsx";
import { type Lanes, lanesOf, type Span } from "./lanes.ts";
import { useVisibleRange } from "./visible-range.ts";

/** A lane is this high, and higher by the same for each row more, without the space between lanes. */
const rowHeight = 24;
const laneSpace = 6;
const axisHeight = 22;
const nameWidth = 110;
/** Narrower lanes would be too small to read: they scroll. */
const leastWidth = 320;
/** The label of a tick needs so much room. */
const tickWidth = 110;
/** About the width of a letter on a bar. */
const letterWidth = 6;
const failures: ReadonlySet<string> = new Set(["tool_error", "error", "failed", "abandoned"]);

/** A session in lanes. Drag to zoom in, 0 to zoom out, + and - to zoom, arrows to go from span to span, Shift and arrows to move. */
export function Timeline({ exchanges }: { readonly exchanges: readonly ExchangeRecord[] }) {
  const lanes = useMemo(() => lanesOf(exchanges, Date.now()), [exchanges]);
  const sight = useVisibleRange(lanes);
  const selected = useSignal(place.peek().query.get("exchange") ?? undefined);
  const choose = (id: string): void => {
    selected.value = id;
    note({ exchange: id });
  };
  const { visible } = sight;
  const { from, to } = visible;
  const box = useRef<HTMLDivElement>(null);
  const width = useWidth(box, leastWidth);
  const scale = (width - nameWidth) / (to - from);
  const xOf = (at: number): number => nameWidth + (at - from) * scale;
  const tops = topsOf(lanes);
  const height = (tops.at(-1) ?? 0) + axisHeight;
  const calls = useMemo(() => callsOf(lanes), [lanes]);
  const shown = lanes.spans.filter((span) => span.to >= from && span.from <= to);

  const brush = useBrush({
    timeAt: (share) => from + (share * width - nameWidth) / scale,
    onEnd: (drawn, event) => {
      if ((drawn.to - drawn.from) * scale > 8)
        sight.look({ from: Math.max(lanes.from, drawn.from), to: Math.min(lanes.to, drawn.to) });
      else {
        const hit = document.elementFromPoint(event.clientX, event.clientY)?.getAttribute("data-exchange");
        if (hit !== null && hit !== undefined) choose(hit);
      }
    },
  });
  const brushed = brush.range.value;
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "+" || event.key === "=") sight.zoom(0.5);
    if (event.key === "-") sight.zoom(2);
    if (event.key === "0") sight.showAll();
    if (event.key === "Enter" && selected.value !== undefined) go(href("exchange", selected.value));
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    if (event.shiftKey) {
      sight.move(step / 2);
      return;
    }
    const index = calls.findIndex(({ exchange }) => exchange.id === selected.value);
    const next = calls[Math.min(calls.length - 1, Math.max(0, index + step))];
    if (next === undefined) return;
    choose(next.exchange.id);
    // A call that is out of sight is brought into it.
    if (next.to < from || next.from > to) {
      const start = next.from - (to - from) / 10;
      sight.look({ from: start, to: start + (to - from) });
    }
  };
  const onWheel = (event: WheelEvent): void => {
    const byX = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    // Without a key a wheel scrolls the page.
    if (!event.ctrlKey && byX === 0) return;
    event.preventDefault();
    const { left } = box.current?.getBoundingClientRect() ?? { left: 0 };
    if (event.ctrlKey)
      sight.zoom(event.deltaY < 0 ? 0.8 : 1.25, Math.max(from, from + (event.clientX - left - nameWidth) / scale));
    else sight.move(byX / width);
  };

  return (
    <div class="stack">
      <Zoom sight={sight} bounds={lanes} />
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
            onWheel={onWheel}
            {...brush.handlers}
          >
            <LaneGrid lanes={lanes} tops={tops} range={visible} width={width} height={height} xOf={xOf} />
            {shown.map((span) => (
              <SpanBar
                key={`${span.exchange.id} ${span.lane} ${span.look} ${span.from}`}
                span={span}
                y={(tops[span.lane] ?? 0) + span.row * rowHeight}
                x={Math.max(nameWidth, xOf(span.from))}
                end={Math.min(width, xOf(span.to))}
                isSelected={span.exchange.id === selected.value}
              />
            ))}
            <Flight lanes={lanes} tops={tops} range={visible} width={width} xOf={xOf} />
            {brushed !== undefined && (
              <rect
                class="brush"
                x={Math.min(xOf(brushed.from), xOf(brushed.to))}
                width={Math.abs(xOf(brushed.to) - xOf(brushed.from))}
                height={height - axisHeight}
              />
            )}
          </svg>
        </WideContent>
      </div>
      {selected.value === undefined ? (
        <p class="faint">
          Choose a bar to see what it was. Drag over a time to zoom in; with the keyboard, arrows choose, + and − zoom,
          Shift and arrows move, 0 shows everything.
        </p>
      ) : (
        <div class="panel">
          <ExchangeDetail id={selected.value} />
        </div>
      )}
    </div>
  );
}

/** The buttons that choose which part is in sight, for those who do not know the keys. */
function Zoom({
  sight: { visible, isZoomed, zoom, move, showAll },
  bounds,
}: {
  readonly sight: ReturnType<typeof useVisibleRange>;
  readonly bounds: TimeRange;
}) {
  const { from, to } = visible;
  return (
    <div class="row-flex">
      <button type="button" class="button" aria-keyshortcuts="+" onClick={() => zoom(0.5)}>
        Zoom in
      </button>
      <button type="button" class="button" aria-keyshortcuts="-" disabled={!isZoomed} onClick={() => zoom(2)}>
        Zoom out
      </button>
      {isZoomed && (
        <>
          <button type="button" class="button" disabled={from <= bounds.from} onClick={() => move(-0.5)}>
            ← Earlier
          </button>
          <button type="button" class="button" disabled={to >= bounds.to} onClick={() => move(0.5)}>
            Later →
          </button>
          <button type="button" class="button bare" aria-keyshortcuts="0" onClick={showAll}>
            Everything
          </button>
        </>
      )}
      <span class="faint">
        {formatTime(from, true)} to {formatTime(to, true)}, {formatMs(to - from)}
      </span>
    </div>
  );
}

/** What can be chosen: each call once, and the questions of servers. */
function callsOf({ spans }: Lanes): readonly Span[] {
  const calls = new Map<string, Span>();
  for (const span of spans)
    if ((span.lane === 0 || span.look === "question") && !calls.has(span.exchange.id))
      calls.set(span.exchange.id, span);
  return [...calls.values()];
}

/** Where each lane begins, and where the last one ends. */
function topsOf({ rows }: Lanes): readonly number[] {
  const tops = [0];
  for (const count of rows) tops.push((tops.at(-1) ?? 0) + laneSpace + count * rowHeight);
  return tops;
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
function Flight({ lanes: { inFlight }, tops, range, width, xOf }: Omit<LaneGridProps, "height">) {
  const most = inFlight.reduce((largest, { count }) => Math.max(largest, count), 1);
  const bottom = (tops.at(-1) ?? 0) - laneSpace / 2;
  return (
    <>
      {inFlight
        .filter(({ from, to }) => to >= range.from && from <= range.to)
        .map(({ from, to, count }) => {
          const [start, end] = [Math.max(nameWidth, xOf(from)), Math.min(width, xOf(to))];
          const tall = (count / most) * rowHeight;
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
  readonly tops: readonly number[];
  readonly range: TimeRange;
  readonly width: number;
  readonly height: number;
  readonly xOf: (at: number) => number;
}

function LaneGrid({ lanes, tops, range: { from, to }, width, height, xOf }: LaneGridProps) {
  const ticks = Math.max(2, Math.min(8, Math.floor((width - nameWidth) / tickWidth)));
  return (
    <>
      {lanes.names.map((name, index) => (
        <g key={name}>
          <rect
            class={`lane${index % 2 === 1 ? " odd" : ""}`}
            y={tops[index]}
            width={width}
            height={(tops[index + 1] ?? 0) - (tops[index] ?? 0)}
          />
          <text x="8" y={(tops[index] ?? 0) + 19}>
            {shortened(visibleText(name), 17)}
          </text>
        </g>
      ))}
      {Array.from({ length: ticks + 1 }, (_, index) => {
        const at = from + ((to - from) * index) / ticks;
        return (
          <g key={index}>
            <line class="tick" x1={xOf(at)} x2={xOf(at)} y1="0" y2={height - axisHeight + 2} />
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
  y,
  x,
  end,
  isSelected,
}: {
  readonly span: Span;
  /** Where the row of the span begins. */
  readonly y: number;
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
        y={y + (look === "whole" ? 4 : 7)}
        width={length}
        height={look === "whole" ? 22 : 16}
        rx="3"
      >
        <title>{said.filter((part) => part !== "").join(" ")}</title>
      </rect>
      {isNamed && (
        <text class={`span-name ${look}`} x={x + length / 2} y={y + 18.5} text-anchor="middle">
          {name}
        </text>
      )}
    </>
  );
}
