import type { FigureBucket } from "../../../../src/gateway/admin/wire.ts";
import { runsOf } from "./runs.ts";
import { formatCount, formatDay, formatMs, formatSpan, formatTime } from "../../text.ts";

const [width, height] = [1000, 120];
const ticks = 4;
const dayMs = 86_400_000;

/** Requests over time as bars, and the 95th percentile of their latency as a line. */
export function Chart({ buckets }: { readonly buckets: readonly FigureBucket[] }) {
  const step = width / Math.max(1, buckets.length);
  const most = Math.max(1, ...buckets.map(({ count }) => count));
  const slowest = Math.max(1, ...buckets.map(({ p95Ms = 0 }) => p95Ms));
  const lines = runsOf(buckets.map(({ p95Ms }) => p95Ms)).map(({ from, values }) =>
    // One value alone is as wide as its bar.
    (values.length === 1 ? [...values, ...values] : values).map((value, index) => {
      const x = values.length === 1 ? from + index : from + index + 0.5;
      return `${x * step},${height - (value / slowest) * (height - 8)}`;
    }),
  );
  const first = buckets[0]?.at ?? 0;
  const stepMs = (buckets[1]?.at ?? first + 1) - first;
  return (
    <figure class="panel">
      <header>
        <h2>Requests</h2>
        <span class="spacer" />
        <span class="row-flex faint">
          <i class="swatch bar-ok" /> ok
          <i class="swatch bar-refused" /> refused
          <i class="swatch bar-error" /> errors
          <i class="swatch line" /> p95, up to {formatMs(slowest)}
        </span>
      </header>
      <div class="body chart-body">
        <span class="faint" aria-hidden="true">
          {formatCount(most)} in {formatSpan(stepMs)}
        </span>
        <svg
          class="chart"
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`Requests over time, at most ${formatCount(most)} in ${formatSpan(stepMs)}`}
        >
          {[8, 8 + (height - 8) / 2, height - 0.5].map((y) => (
            <line key={y} class="grid" x1="0" x2={width} y1={y} y2={y} />
          ))}
          {buckets.map(({ at, count, errors, refused }, index) => {
            let y = height;
            return (
              [
                ["bar-error", errors],
                ["bar-refused", refused],
                ["bar-ok", count - errors - refused],
              ] as const
            ).map(([name, value]) => {
              if (value <= 0) return null;
              const tall = (value / most) * (height - 8);
              y -= tall;
              return (
                <rect key={`${at} ${name}`} class={name} x={index * step + 1} width={step - 2} y={y} height={tall} />
              );
            });
          })}
          {lines.map((points) => (
            <polyline key={points[0]} class="line" points={points.join(" ")} />
          ))}
        </svg>
        <div class="axis faint" aria-hidden="true">
          {Array.from({ length: ticks }, (_, index) => {
            const at = first + (buckets.length * stepMs * index) / ticks;
            return (
              <span key={index}>{stepMs * buckets.length > dayMs ? formatDay(at) : formatTime(at).slice(0, 5)}</span>
            );
          })}
          <span>now</span>
        </div>
      </div>
    </figure>
  );
}
