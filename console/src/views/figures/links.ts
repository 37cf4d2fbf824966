import type { TrafficEdge } from "../../../../src/gateway/admin/wire.ts";

/** Traffic between two nodes of the map. */
export interface MapLink {
  readonly from: string;
  readonly to: string;
  readonly count: number;
  readonly errors: number;
  /** The largest of those that were added up. */
  readonly p95Ms?: number;
}

/** Adds up edges between the nodes that each is from and to. */
export function linksOf(
  edges: readonly TrafficEdge[],
  from: (edge: TrafficEdge) => string,
  to: (edge: TrafficEdge) => string,
): readonly MapLink[] {
  const groups = Map.groupBy(edges, (edge) => JSON.stringify([from(edge), to(edge)]));
  return [...groups.values()].flatMap((group) => {
    const [first] = group;
    if (first === undefined) return [];
    const latencies = group.flatMap(({ p95Ms }) => (p95Ms === undefined ? [] : [p95Ms]));
    return [
      {
        from: from(first),
        to: to(first),
        count: group.reduce((sum, { count }) => sum + count, 0),
        errors: group.reduce((sum, { errors }) => sum + errors, 0),
        ...(latencies.length === 0 ? {} : { p95Ms: Math.max(...latencies) }),
      },
    ];
  });
}

/** The server that an edge leads to: one of several behind a route, or the one that the route has. */
export function serverOf({ route, upstream }: Pick<TrafficEdge, "route" | "upstream">): string {
  return upstream === undefined ? route : `${route}: ${upstream}`;
}

/** What clients asked for, without what the gateway asked servers itself to answer them. */
export function edgesOfCallers(edges: readonly TrafficEdge[]): readonly TrafficEdge[] {
  return edges.filter(({ byGateway }) => byGateway !== true);
}

/**
 * What reached servers: nothing that was refused, and of routes with several servers only what one of them got. The
 * gateway itself answers the rest from what it asked them.
 */
export function edgesToServers(edges: readonly TrafficEdge[]): readonly TrafficEdge[] {
  const several = new Set(edges.flatMap(({ route, upstream }) => (upstream === undefined ? [] : [route])));
  return edges
    .filter(({ route, upstream }) => upstream !== undefined || !several.has(route))
    .map((edge) => ({ ...edge, count: edge.count - edge.refused }))
    .filter(({ count }) => count > 0);
}

/** Moves heights apart that are closer than `gap`, as little as it takes going down; their order stays. */
export function spread(heights: readonly number[], gap: number): readonly number[] {
  const order = heights.map((_, index) => index).toSorted((one, other) => (heights[one] ?? 0) - (heights[other] ?? 0));
  const moved = [...heights];
  let least = Number.NEGATIVE_INFINITY;
  for (const index of order) {
    moved[index] = Math.max(heights[index] ?? 0, least);
    least = (moved[index] ?? 0) + gap;
  }
  return moved;
}
