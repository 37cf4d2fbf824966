import type { TrafficEdge } from "../../../../src/gateway/admin/wire.ts";
import { WideContent } from "../../parts/wide-content.tsx";
import { session } from "../../state/session.ts";
import { formatCount, formatMs } from "../../text.ts";

const [width, rowHeight, nodeHeight, nodeWidth] = [1000, 54, 40, 220];

/** Who talks to which server: callers on the left, routes with their servers on the right. */
export function TrafficMap({ edges }: { readonly edges: readonly TrafficEdge[] }) {
  const state = session.value;
  const known = state.type === "in" ? state.about.routes : [];
  const callers = [...new Set(edges.map(({ principal }) => principal))].slice(0, 12);
  const routes = [...new Set([...edges.map(({ route }) => route), ...known.map(({ name }) => name)])];
  const height = Math.max(callers.length, routes.length) * rowHeight;
  const most = Math.max(1, ...edges.map(({ count }) => count));
  const yOf = (index: number, all: number): number => (height / all) * (index + 0.5);
  return (
    <section class="panel">
      <header>
        <h2>Map</h2>
        <span class="spacer" />
        <span class="faint">callers to servers; wider means more, red means errors</span>
      </header>
      <WideContent label="Map">
        <svg class="map" viewBox={`0 0 ${width} ${height}`} role="img" aria-label="Map of callers and servers">
          {edges.map((edge) => {
            const from = callers.indexOf(edge.principal);
            if (from < 0) return null;
            const [y1, y2] = [yOf(from, callers.length), yOf(routes.indexOf(edge.route), routes.length)];
            const [x1, x2] = [nodeWidth, width - nodeWidth];
            const middle = (x1 + x2) / 2;
            return (
              <g key={`${edge.principal} ${edge.route}`}>
                <path
                  class={`edge${edge.errors > 0 ? " errors" : ""}`}
                  d={`M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`}
                  stroke-width={1 + (edge.count / most) * 7}
                />
                <text class="soft" x={middle} y={(y1 + y2) / 2 - 8} text-anchor="middle">
                  {formatCount(edge.count)} · p95 {formatMs(edge.p95Ms)}
                  {edge.errors > 0 ? ` · ${formatCount(edge.errors)} errors` : ""}
                </text>
              </g>
            );
          })}
          {callers.map((caller, index) => (
            <Node key={caller} x={0} y={yOf(index, callers.length)} title={caller} hint="caller" />
          ))}
          {routes.map((route, index) => {
            const about = known.find(({ name }) => name === route);
            return (
              <Node
                key={route}
                x={width - nodeWidth}
                y={yOf(index, routes.length)}
                title={route}
                hint={about === undefined ? "no longer configured" : `${about.upstream}, ${about.health}`}
                isDegraded={about !== undefined && about.health !== "ok"}
              />
            );
          })}
        </svg>
      </WideContent>
    </section>
  );
}

interface NodeProps {
  readonly x: number;
  readonly y: number;
  readonly title: string;
  readonly hint: string;
  readonly isDegraded?: boolean;
}

function Node({ x, y, title, hint, isDegraded = false }: NodeProps) {
  const shown = title.length > 28 ? `${title.slice(0, 27)}…` : title;
  return (
    <g>
      <rect
        class={`node${isDegraded ? " degraded" : ""}`}
        x={x + 0.5}
        y={y - nodeHeight / 2}
        width={nodeWidth - 1}
        height={nodeHeight}
        rx="6"
      />
      <text x={x + 12} y={y - 3}>
        {shown}
      </text>
      <text class="soft" x={x + 12} y={y + 12}>
        {hint}
      </text>
    </g>
  );
}
