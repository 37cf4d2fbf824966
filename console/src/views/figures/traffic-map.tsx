import type { RouteAbout } from "../../../../src/gateway/admin/schemas.ts";
import type { TrafficEdge } from "../../../../src/gateway/admin/wire.ts";
import { Foreign } from "../../parts/foreign.tsx";
import { Loading, Problem } from "../../parts/notices.tsx";
import { whoOf } from "../../parts/exchange-row.tsx";
import { WideContent } from "../../parts/wide-content.tsx";
import { get } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { formatCount, formatMs, shortened, visibleText } from "../../text.ts";
import { edgesOfCallers, edgesToServers, linksOf, type MapLink, serverOf, spread } from "./links.ts";

const [width, rowHeight, nodeHeight, nodeWidth] = [1000, 54, 40, 190];
const maxCallers = 12;
const labelHeight = 14;
/** How far along a line its label stands. */
const labelShare = 0.85;

interface Topology {
  readonly routes: readonly RouteAbout[];
  readonly edges: readonly TrafficEdge[];
}

/** Who talks to which server, counted again when `version` changes: callers on the left, then routes, then the servers behind them. */
export function TrafficMap({
  minutes,
  filter,
  version,
}: {
  readonly minutes: number;
  readonly filter: string | undefined;
  readonly version: string;
}) {
  const loaded = useLoaded(`${minutes} ${filter ?? ""} ${version}`, (signal) =>
    get<Topology>("topology", { minutes, filter }, signal),
  );
  const { value, error } = loaded.value;
  return (
    <section class="panel">
      <header>
        <h2>Map</h2>
        <span class="spacer" />
        <span class="faint">callers, routes, servers; wider means more, red means errors</span>
      </header>
      <Problem error={error} />
      {value === undefined && error === undefined && <Loading what="Drawing the map…" />}
      {value !== undefined && <Drawn topology={value} />}
    </section>
  );
}

function Drawn({ topology: { routes: known, edges } }: { readonly topology: Topology }) {
  const all = [...new Set(edges.map(whoOf))];
  const callers = all.slice(0, maxCallers);
  const shown = edges.filter((edge) => callers.includes(whoOf(edge)));
  const reached = edgesToServers(shown);
  const routes = [...new Set([...shown.map(({ route }) => route), ...known.map(({ name }) => name)])];
  // In the order of their routes, so that few lines cross.
  const servers = routes.flatMap((route) => {
    const own = [...new Set(reached.filter((edge) => edge.route === route).map(serverOf))];
    return own.length === 0 ? [route] : own.toSorted();
  });
  const height = Math.max(callers.length, routes.length, servers.length) * rowHeight;
  const yOf = (name: string, column: readonly string[]): number =>
    (height / column.length) * (column.indexOf(name) + 0.5);
  const middle = (width - nodeWidth) / 2;
  const asked = linksOf(edgesOfCallers(shown), whoOf, ({ route }) => route);
  const sent = linksOf(reached, ({ route }) => route, serverOf);
  const most = Math.max(1, ...asked.map(({ count }) => count), ...sent.map(({ count }) => count));
  const about = (route: string): RouteAbout | undefined => known.find(({ name }) => name === route);
  const lines = (links: readonly MapLink[], [left, right]: readonly (readonly string[])[], x: number) => {
    const ends = links.map(({ from, to }) => [yOf(from, left ?? []), yOf(to, right ?? [])] as const);
    // Lines meet in the column with fewer names, so what they mean stands nearer to the other one.
    const isAtStart = (left ?? []).length > (right ?? []).length;
    const share = isAtStart ? 1 - labelShare : labelShare;
    const labels = spread(
      ends.map(([start, end]) => start + (end - start) * share - 6),
      labelHeight,
    );
    return links.map((link, index) => {
      const [start = 0, end = 0] = ends[index] ?? [];
      return (
        <Link
          key={`${x} ${link.from} ${link.to}`}
          link={link}
          share={link.count / most}
          at={[x + nodeWidth, start, x + middle, end]}
          labelY={labels[index] ?? 0}
          isAtStart={isAtStart}
        />
      );
    });
  };
  const routeHint = (route: string): string => {
    const { policy } = about(route) ?? {};
    return policy === undefined ? "no longer configured" : policy === "none" ? "no policy" : `policy: ${policy}`;
  };
  const serverHint = (server: string): string => {
    const own = about(server.split(": ")[0] ?? server);
    return own === undefined ? "no longer configured" : `${own.upstream}, ${own.health}`;
  };
  return (
    <WideContent label="Map">
      {all.length > callers.length && (
        <p class="body faint">
          The {formatCount(maxCallers)} callers with the most requests, of {formatCount(all.length)}.
        </p>
      )}
      <svg class="map" viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
        {lines(asked, [callers, routes], 0)}
        {lines(sent, [routes, servers], middle)}
        {callers.map((caller) => (
          <Node key={caller} x={0} y={yOf(caller, callers)} title={caller} hint="caller" />
        ))}
        {routes.map((route) => (
          <Node key={route} x={middle} y={yOf(route, routes)} title={route} hint={routeHint(route)} />
        ))}
        {servers.map((server) => {
          const own = about(server.split(": ")[0] ?? server);
          return (
            <Node
              key={server}
              x={width - nodeWidth}
              y={yOf(server, servers)}
              title={server}
              hint={serverHint(server)}
              isDegraded={own?.health.startsWith("failing") === true}
            />
          );
        })}
      </svg>
      <div class="map-links">
        <LinkList title="Callers" links={asked} most={most} hintOf={routeHint} />
        <LinkList title="Servers" links={sent} most={most} hintOf={serverHint} />
      </div>
    </WideContent>
  );
}

interface LinkProps {
  readonly link: MapLink;
  readonly share: number;
  readonly at: readonly [x1: number, y1: number, x2: number, y2: number];
  readonly labelY: number;
  readonly isAtStart: boolean;
}

/** What a line means, in words. */
function saidOf({ count, errors, p95Ms }: MapLink): string {
  const failed = errors > 0 ? ` · ${formatCount(errors)} ${errors === 1 ? "error" : "errors"}` : "";
  return `${formatCount(count)} · p95 ${formatMs(p95Ms)}${failed}`;
}

/** The lines as a list: for screen readers, and for pages too narrow to draw the map. */
function LinkList({
  title,
  links,
  most,
  hintOf,
}: {
  readonly title: string;
  readonly links: readonly MapLink[];
  readonly most: number;
  /** What is known of where a line leads to. */
  readonly hintOf: (name: string) => string;
}) {
  return (
    <section>
      <h3>{title}</h3>
      <ul>
        {links.map((link) => (
          <li key={`${link.from} ${link.to}`}>
            <div class="row-flex">
              <span>
                <Foreign text={link.from} /> <span class="faint">→</span> <Foreign text={link.to} />
              </span>
              <span class={link.errors > 0 ? "bad-text" : "soft"}>{saidOf(link)}</span>
            </div>
            <div class="faint">
              <Foreign text={hintOf(link.to)} />
            </div>
            <svg class="share" viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true">
              <rect class={link.errors > 0 ? "errors" : ""} width={Math.max(1, (link.count / most) * 100)} height="3" />
            </svg>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Link({ link, share, at: [x1, y1, x2, y2], labelY, isAtStart }: LinkProps) {
  const middle = (x1 + x2) / 2;
  return (
    <g>
      <path
        class={`edge${link.errors > 0 ? " errors" : ""}`}
        d={`M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`}
        stroke-width={1 + share * 7}
      />
      <text class="soft" x={isAtStart ? x1 + 8 : x2 - 8} y={labelY} text-anchor={isAtStart ? "start" : "end"}>
        {saidOf(link)}
      </text>
    </g>
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
        {shortened(visibleText(title), 24)}
        <title>{visibleText(title)}</title>
      </text>
      <text class="soft" x={x + 12} y={y + 12}>
        {shortened(visibleText(hint), 30)}
        <title>{visibleText(hint)}</title>
      </text>
    </g>
  );
}
