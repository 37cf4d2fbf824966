import type { FigureBucket } from "../../../../src/gateway/admin/wire.ts";
import { formatMs, formatTime } from "../../text.ts";

const [width, height] = [1000, 120];

/** Requests over time as bars, and the 95th percentile of their latency as a line. */
export function Chart({ buckets }: { readonly buckets: readonly FigureBucket[] }) {
  const step = width / Math.max(1, buckets.length);
  const most = Math.max(1, ...buckets.map(({ count }) => count));
  const slowest = Math.max(1, ...buckets.map(({ p95Ms = 0 }) => p95Ms));
  const points = buckets.flatMap(({ p95Ms }, index) =>
    p95Ms === undefined ? [] : [`${(index + 0.5) * step},${height - (p95Ms / slowest) * (height - 8)}`],
  );
  return (
    <figure class="panel">
      <header>
        <h2>Requests</h2>
        <span class="spacer" />
        <span class="faint">
          at most {most} in one part · p95 up to {formatMs(slowest)} (line)
        </span>
      </header>
      <div class="body">
        <svg
          class="chart"
          viewBox={`0 0 ${width} ${height}`}
          preserveAspectRatio="none"
          role="img"
          aria-label="Requests over time"
        >
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
          {points.length > 1 && <polyline class="line" points={points.join(" ")} />}
        </svg>
        <div class="row-flex faint">
          <span>{formatTime(buckets[0]?.at ?? 0)}</span>
          <span class="spacer" />
          <span>now</span>
        </div>
      </div>
    </figure>
  );
}
